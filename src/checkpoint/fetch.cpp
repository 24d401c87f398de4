// SPDX-License-Identifier: Apache-2.0
#include "lockstep/checkpoint/fetch.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <cerrno>
#include <system_error>
#include <thread>

#include "checkpoint/fetch_transfer.h"
#include "checkpoint/fetch_url.h"
#include "checkpoint/partial_file.h"
#include "checkpoint/sha256.h"
#include "lockstep/base/env.h"
#include "lockstep/base/error.h"
#include "lockstep/base/file_lock.h"
#include "lockstep/base/file_system.h"
#include "lockstep/base/text.h"

namespace lockstep {

using namespace checkpoint;  // NOLINT(google-build-using-namespace): this file is of that namespace
namespace fs = std::filesystem;

namespace {

constexpr auto kLockLook = std::chrono::milliseconds(100);

/// Held by the process that fetches; the kernel takes it back however that one ends.
class FetchLock {
 public:
  FetchLock(const fs::path& path, const fs::path& part, const FetchOptions& options) {
    const fs::path lock = path.string() + ".lock";
    file_ = UniqueFd(::open(lock.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
    if (!file_.valid()) fail(lock);
    while (try_lock_file(file_.get(), lock) == FileLock::kBusy) {
      std::error_code missing;
      const std::uintmax_t bytes = fs::file_size(part, missing);
      if (options.progress) options.progress({.bytes = missing ? 0 : bytes});
      std::this_thread::sleep_for(kLockLook);
    }
  }

 private:
  [[noreturn]] static void fail(const fs::path& path) {
    throw IoError(fmt::format("cannot lock {}: {}", path.string(), std::generic_category().message(errno)),
                  "make it writable, or set XDG_CACHE_HOME to another folder");
  }

  UniqueFd file_;
};

bool is_prefix_of(std::string_view prefix, std::string_view word) {
  if (word.size() < prefix.size()) return false;
  for (std::size_t i = 0; i < prefix.size(); ++i) {
    if (std::tolower(static_cast<unsigned char>(word[i])) != prefix[i]) return false;
  }
  return true;
}

[[noreturn]] void give_up(const FetchUrl& url, const TransferEnd& end, int tries, std::uint64_t bytes) {
  const std::string message = fmt::format("cannot fetch {}: {}; {} {} brought nothing more", url.text, end.cause, tries,
                                          tries == 1 ? "try" : "tries in a row");
  const std::string rest = bytes > 0 ? fmt::format("; then again, and it goes on after {}", text::bytes(bytes)) : "";
  const std::string hint = "check the network and the address" + rest;
  if (end.kind == TransferEnd::Kind::kSilent) throw TimeoutError(message, hint);
  throw IoError(message, hint);
}

void transfer_all(const FetchUrl& url, const FetchOptions& options, PartialFile& part) {
  std::uint64_t most = part.size();
  for (int failed = 1;; ++failed) {
    const TransferEnd end = transfer(url, options, part);
    if (end.kind == TransferEnd::Kind::kWhole) return;
    // A server without ranges may break off at the same place for ever: only what was never there counts.
    if (part.size() > most) failed = 1;
    most = std::max(most, part.size());
    if (failed >= options.tries) give_up(url, end, failed, part.size());
    std::this_thread::sleep_for(failed * failed * options.first_wait);
  }
}

std::string sha256_of(const fs::path& path) {
  constexpr std::uint64_t kPiece = std::uint64_t{1} << 20;
  const auto file = FileSystem::system().open(path);
  Sha256 hash;
  std::string piece;
  for (std::uint64_t begin = 0; begin < file->size(); begin += kPiece) {
    piece.resize(std::min(kPiece, file->size() - begin));
    file->read(begin, piece.data(), piece.size());
    hash.update(piece);
  }
  return hash.hex();
}

void check_hash(const FetchUrl& url, PartialFile& part) {
  if (url.sha256.empty()) return;
  const std::string found = sha256_of(part.part_path());
  if (found == url.sha256) return;
  part.remove();
  throw DataError(fmt::format("{} has another content than asked for\n  SHA-256 wanted  {}\n  SHA-256 here    {}",
                              url.text, url.sha256, found),
                  "the file was removed: check the address and the hash with whoever publishes it");
}

}  // namespace

bool is_url(std::string_view word) { return is_prefix_of("http://", word) || is_prefix_of("https://", word); }

fs::path fetch_cache() {
  if (const auto folder = env::get("XDG_CACHE_HOME")) return fs::path(*folder) / "lockstep";
  if (const auto home = env::get("HOME")) return fs::path(*home) / ".cache" / "lockstep";
  throw UsageError("there is no folder for fetched files: XDG_CACHE_HOME and HOME are not set",
                   "set XDG_CACHE_HOME to a folder on a disk with room");
}

fs::path fetch(const std::string& url, const FetchOptions& options) {
  const FetchUrl parsed = parse_fetch_url(url, options.sha256);
  const fs::path path = cached_path(options.cache.empty() ? fetch_cache() : options.cache, parsed);
  if (FileSystem::system().exists(path)) return path;
  FileSystem::system().make_folder(path.parent_path());
  const FetchLock lock(path, path.string() + ".part", options);
  if (FileSystem::system().exists(path)) return path;  // another process has fetched it meanwhile
  PartialFile part(path);
  transfer_all(parsed, options, part);
  check_hash(parsed, part);
  part.finish();
  return path;
}

}  // namespace lockstep
