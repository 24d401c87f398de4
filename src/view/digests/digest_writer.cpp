// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>

#include "lockstep/base/error.h"
#include "lockstep/base/log.h"
#include "lockstep/base/resources.h"
#include "lockstep/base/text.h"
#include "lockstep/view/digest_chain.h"
#include "view/digests/digest_bytes.h"

namespace lockstep::view {
namespace {

[[noreturn]] void fail(const std::filesystem::path& path, int code) {
  throw IoError(fmt::format("cannot write {}: {}", path.string(), error_words(code)), write_remedy(code));
}

UniqueFd open_chain(const std::filesystem::path& path, int flags) {
  UniqueFd file = try_open_regular_file(path, flags | O_WRONLY | O_APPEND | O_CREAT);
  if (!file.valid()) fail(path, errno);
  return file;
}

/// Appends all of `bytes`, or leaves the file as it was.
void append(const UniqueFd& file, const std::filesystem::path& path, std::string_view bytes) {
  ssize_t written = -1;
  do {
    written = ::write(file.get(), bytes.data(), bytes.size());
  } while (written < 0 && errno == EINTR);
  if (written == static_cast<ssize_t>(bytes.size())) return;
  const int code = written < 0 ? errno : ENOSPC;
  if (written > 0) (void)!::ftruncate(file.get(), ::lseek(file.get(), 0, SEEK_END) - written);
  fail(path, code);
}

/// Returns the chain up to `begin`; none, with the reason in `why`, if the chain does not contain it.
std::optional<DigestChain> chain_to(const std::filesystem::path& path, const DigestBegin& begin, std::string& why) {
  try {
    DigestChain chain = DigestChain::load(path);
    chain.cut_after(begin.step);
    if (chain.begin().step <= begin.step && chain.fold_up_to(begin.step) == begin.fold) return chain;
    why = fmt::format("{} does not match the checkpoint of step {}", path.string(), text::thousands(begin.step));
  } catch (const DataError& error) {
    why = error.message();
  }
  return std::nullopt;
}

}  // namespace

DigestWriter::DigestWriter(const std::filesystem::path& folder, const DigestBegin& begin)
    : path_(folder / kDigestFile) {
  if (begin.step == 0 || !FileSystem::system().exists(path_)) {
    begin_anew(begin);
    return;
  }
  std::string why;
  const auto chain = chain_to(path_, begin, why);
  if (!chain) {
    log::warn("{}: the file is now {}, and a new one begins after the checkpoint's step", why, kOldDigestFile);
    FileSystem::system().rename(path_, folder / kOldDigestFile);
    begin_anew(begin);
    return;
  }
  file_ = open_chain(path_, 0);
  if (::ftruncate(file_.get(), static_cast<off_t>(chain->whole_bytes())) != 0) fail(path_, errno);
}

void DigestWriter::begin_anew(const DigestBegin& begin) {
  file_ = open_chain(path_, O_TRUNC);
  append(file_, path_, digest_begin_bytes(begin));
}

void DigestWriter::add(const DigestRecord& record) { append(file_, path_, digest_record_bytes(record)); }

}  // namespace lockstep::view
