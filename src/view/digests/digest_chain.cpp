// SPDX-License-Identifier: Apache-2.0
#include "lockstep/view/digest_chain.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "view/digests/digest_bytes.h"
#include "view/tensorboard/messages.h"

namespace lockstep::view {

namespace {

constexpr std::uint64_t kMostChainBytes = std::uint64_t{1} << 34U;
constexpr std::size_t kCrcAtBegin = 12;
constexpr std::size_t kCrcAtRecord = 4;

template <class T>
void put(std::string& bytes, std::size_t at, T value) {
  for (std::size_t i = 0; i < sizeof value; ++i) bytes[at + i] = static_cast<char>((value >> (8 * i)) & 0xFFU);
}

template <class T>
T take(std::string_view bytes, std::size_t at) {
  T value = 0;
  for (std::size_t i = 0; i < sizeof value; ++i) value |= T{static_cast<unsigned char>(bytes[at + i])} << (8 * i);
  return value;
}

/// Returns the checksum of `bytes`, with the checksum's own bytes, at `at`, counted as 0.
std::uint32_t checksum(std::string bytes, std::size_t at) {
  put(bytes, at, std::uint32_t{0});
  return crc32c(bytes);
}

std::uint64_t mix(std::uint64_t value) {  // the finalizer of splitmix64
  value = (value ^ (value >> 30U)) * 0xBF58476D1CE4E5B9U;
  value = (value ^ (value >> 27U)) * 0x94D049BB133111EBU;
  return value ^ (value >> 31U);
}

}  // namespace

std::string digest_begin_bytes(const DigestBegin& begin) {
  std::string bytes(kDigestBytes, '\0');
  std::memcpy(bytes.data(), kDigestMagic.data(), kDigestMagic.size());
  put(bytes, 8, kDigestVersion);
  put(bytes, 16, static_cast<std::uint64_t>(begin.step));
  put(bytes, 24, begin.fold);
  put(bytes, kCrcAtBegin, checksum(bytes, kCrcAtBegin));
  return bytes;
}

std::string digest_record_bytes(const DigestRecord& record) {
  std::string bytes(kDigestBytes, '\0');
  put(bytes, 0, static_cast<std::uint32_t>(record.step));
  put(bytes, 8, record.loss);
  put(bytes, 16, record.gradients);
  put(bytes, 24, record.weights);
  put(bytes, kCrcAtRecord, checksum(bytes, kCrcAtRecord));
  return bytes;
}

std::uint64_t fold_digest(std::uint64_t fold, const DigestRecord& record) {
  for (const std::uint64_t part :
       {static_cast<std::uint64_t>(record.step), record.loss, record.gradients, record.weights}) {
    fold = mix((fold ^ part) + 0x9E3779B97F4A7C15U);
  }
  return fold;
}

std::string fold_text(std::uint64_t fold) { return fmt::format("{:016x}", fold); }

std::uint64_t fold_of(std::string_view text) {
  std::uint64_t fold = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), fold, 16);
  return read.ec == std::errc() && read.ptr == text.data() + text.size() ? fold : 0;
}

DigestChain DigestChain::parse(std::string_view bytes, const std::string& name) {
  if (bytes.size() < kDigestBytes || bytes.substr(0, kDigestMagic.size()) != kDigestMagic) {
    throw DataError(name + " is not a digest file");
  }
  const auto version = take<std::uint32_t>(bytes, 8);
  if (version != kDigestVersion) {
    throw DataError(fmt::format("{} has version {}, but this program reads version {}", name, version, kDigestVersion));
  }
  const std::string head(bytes.substr(0, kDigestBytes));
  if (take<std::uint32_t>(head, kCrcAtBegin) != checksum(head, kCrcAtBegin)) {
    throw DataError(name + " is damaged: the checksum of its first 32 bytes does not match");
  }
  DigestChain chain;
  chain.begin_ = {static_cast<std::int64_t>(take<std::uint64_t>(bytes, 16)), take<std::uint64_t>(bytes, 24)};
  chain.read_on(bytes.substr(kDigestBytes));
  return chain;
}

void DigestChain::read_on(std::string_view bytes) {
  std::int64_t last = records_.empty() ? begin_.step : records_.back().step;
  for (std::size_t at = 0; at + kDigestBytes <= bytes.size(); at += kDigestBytes) {
    const std::string one(bytes.substr(at, kDigestBytes));
    const DigestRecord record{take<std::uint32_t>(one, 0), take<std::uint64_t>(one, 8), take<std::uint64_t>(one, 16),
                              take<std::uint64_t>(one, 24)};
    if (take<std::uint32_t>(one, kCrcAtRecord) != checksum(one, kCrcAtRecord) || record.step <= last) break;
    records_.push_back(record);
    last = record.step;
  }
}

DigestChain DigestChain::load(const std::filesystem::path& path) {
  std::error_code ignored;
  const std::filesystem::path file = std::filesystem::is_directory(path, ignored) ? path / kDigestFile : path;
  return parse(FileSystem::system().read(file, kMostChainBytes), file.string());
}

std::size_t DigestChain::whole_bytes() const { return (1 + records_.size()) * kDigestBytes; }

const DigestRecord* DigestChain::at(std::int64_t step) const {
  const auto found = std::lower_bound(records_.begin(), records_.end(), step,
                                      [](const DigestRecord& record, std::int64_t to) { return record.step < to; });
  return found != records_.end() && found->step == step ? &*found : nullptr;
}

std::uint64_t DigestChain::fold_up_to(std::int64_t step) const {
  std::uint64_t fold = begin_.fold;
  for (const DigestRecord& record : records_) {
    if (record.step <= step) fold = fold_digest(fold, record);
  }
  return fold;
}

void DigestChain::cut_after(std::int64_t step) {
  std::erase_if(records_, [step](const DigestRecord& record) { return record.step > step; });
}

std::string differing_parts(const DigestDifference& found) {
  std::vector<std::string> parts;
  if (found.a.loss != found.b.loss) parts.emplace_back("loss");
  if (found.a.gradients != found.b.gradients) parts.emplace_back("gradients");
  if (found.a.weights != found.b.weights) parts.emplace_back("weights");
  return text::join(parts);
}

namespace {

/// Calls `use` with the two records of each common step, in ascending order, until it returns false.
template <class Use>
void each_common(const DigestChain& a, const DigestChain& b, const Use& use) {
  auto other = b.records().begin();
  for (const DigestRecord& record : a.records()) {
    while (other != b.records().end() && other->step < record.step) ++other;
    if (other == b.records().end()) return;
    if (other->step == record.step && !use(record, *other)) return;
  }
}

}  // namespace

std::optional<DigestDifference> first_difference(const DigestChain& a, const DigestChain& b) {
  std::optional<DigestDifference> found;
  each_common(a, b, [&](const DigestRecord& one, const DigestRecord& other) {
    if (one != other) found = DigestDifference{one, other};
    return !found;
  });
  return found;
}

std::int64_t common_steps(const DigestChain& a, const DigestChain& b) {
  std::int64_t steps = 0;
  each_common(a, b, [&](const DigestRecord&, const DigestRecord&) { return ++steps > 0; });
  return steps;
}

}  // namespace lockstep::view
