// SPDX-License-Identifier: Apache-2.0
#include "dashboard/digest_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "lockstep/base/error.h"
#include "lockstep/base/file_below.h"

namespace lockstep::dashboard {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kRecord = 32;
constexpr std::size_t kMostOfChain = 512 << 20;  // bytes; 16 million steps

std::string read_at(const UniqueFd& file, std::size_t at, std::size_t size) {
  std::string bytes(size, '\0');
  const ssize_t got = ::pread(file.get(), bytes.data(), size, static_cast<off_t>(at));
  bytes.resize(static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
  return bytes;
}

}  // namespace

void DigestFile::update() {
  const UniqueFd file = open_below(folder_, view::kDigestFile);
  struct stat status {};
  if (!file.valid() || ::fstat(file.get(), &status) != 0) return chain_.reset();
  const auto size = static_cast<std::size_t>(status.st_size);
  const std::size_t known = chain_ ? chain_->whole_bytes() : 0;
  const bool grows = chain_ && size >= known && read_at(file, known - kRecord, kRecord) == last_;
  const std::size_t from = grows ? known : 0;
  const std::string bytes = read_at(file, from, std::min(size - from, kMostOfChain));
  try {
    if (grows) {
      chain_->read_on(bytes);
    } else {
      chain_ = view::DigestChain::parse(bytes, view::kDigestFile);
    }
    last_ = read_at(file, chain_->whole_bytes() - kRecord, kRecord);
  } catch (const DataError&) {  // not a file of digests
    chain_.reset();
  }
}

Json DigestFile::state() const {
  if (!chain_) return nullptr;
  const auto& records = chain_->records();
  return {{"steps", records.size()},
          {"first", records.empty() ? Json() : Json(records.front().step)},
          {"last", records.empty() ? Json() : Json(records.back().step)}};
}

Json compare_chains(const view::DigestChain& a, const view::DigestChain& b) {
  const auto found = view::first_difference(a, b);
  return {{"equal", !found},
          {"steps", view::common_steps(a, b)},
          {"step", found ? Json(found->a.step) : Json()},
          {"differs", found ? Json(view::differing_parts(*found)) : Json()}};
}

}  // namespace lockstep::dashboard
