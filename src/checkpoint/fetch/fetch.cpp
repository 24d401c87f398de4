// SPDX-License-Identifier: Apache-2.0
#include "lockstep/checkpoint/fetch.h"

#include <fmt/format.h>

#include <algorithm>
#include <system_error>
#include <thread>
#include <utility>

#include "checkpoint/fetch/cache_files.h"
#include "checkpoint/fetch/fetch_transfer.h"
#include "checkpoint/fetch/fetch_url.h"
#include "checkpoint/fetch/partial_file.h"
#include "checkpoint/formats/sha256.h"
#include "lockstep/base/clock.h"
#include "lockstep/base/env.h"
#include "lockstep/base/error.h"
#include "lockstep/base/file_system.h"
#include "lockstep/base/log.h"
#include "lockstep/base/text.h"

namespace lockstep {

using namespace checkpoint;  // NOLINT(google-build-using-namespace): this file is of that namespace
namespace fs = std::filesystem;

namespace {

constexpr const char* kMinSpeed = "LOCKSTEP_FETCH_MIN_SPEED";
constexpr std::int64_t kDefaultMinSpeed = 1000;  // a modem's speed; below it, weights would take days
constexpr auto kLockLook = std::chrono::milliseconds(100);

[[noreturn]] void give_up_waiting(const fs::path& lock, Seconds waited) {
  throw TimeoutError(
      fmt::format("another process holds {} and has fetched nothing for {}", lock.string(),
                  text::duration(waited.count())),
      "kill that process (fuser shows it); if it survives SIGKILL, it is waiting for a disk or a device (see dmesg)");
}

/// The lock held by the fetching process. The kernel releases it when that process ends, even if it is killed.
class FetchLock {
 public:
  FetchLock(const fs::path& path, const fs::path& part, const FetchOptions& options) {
    const fs::path lock = path.string() + ".lock";
    file_ = open_cache_file(lock, 0, "make it writable, or set XDG_CACHE_HOME to another folder");
    std::uintmax_t seen = 0;
    TimePoint last = SystemClock::instance().now();
    while (try_lock_file(file_.get(), lock) == FileLock::kBusy) {
      std::error_code missing;
      const std::uintmax_t size = fs::file_size(part, missing);
      const std::uintmax_t bytes = missing ? 0 : size;
      const TimePoint now = SystemClock::instance().now();
      if (std::exchange(seen, bytes) != bytes) last = now;
      if (now - last >= options.lock_limit) give_up_waiting(lock, now - last);
      if (options.progress) options.progress({.bytes = bytes});
      std::this_thread::sleep_for(std::min<std::chrono::milliseconds>(kLockLook, options.lock_limit));
    }
  }

 private:
  UniqueFd file_;
};

bool is_prefix_of(std::string_view prefix, std::string_view word) {
  if (word.size() < prefix.size()) return false;
  for (std::size_t i = 0; i < prefix.size(); ++i) {
    if (std::tolower(static_cast<unsigned char>(word[i])) != prefix[i]) return false;
  }
  return true;
}

/// Returns true if the attempt stalled or was slow, so that retrying could take forever.
bool has_stalled(const TransferEnd& end) { return end.kind != TransferEnd::Kind::kBroken; }

[[noreturn]] void give_up(const FetchUrl& url, const TransferEnd& end, int tries, std::uint64_t bytes) {
  const char* word = tries == 1 ? "try" : "tries in a row";
  const std::string outcome = has_stalled(end) ? fmt::format("{} {} ended like this", tries, word)
                                               : fmt::format("{} {} brought no more data", tries, word);
  const std::string message = fmt::format("cannot fetch {}: {}; {}", url.text, end.cause, outcome);
  const std::string rest =
      bytes > 0 ? fmt::format("; then try again: the download resumes after {}", text::bytes(bytes)) : "";
  const bool is_slow = end.kind == TransferEnd::Kind::kSlow;
  const std::string hint =
      is_slow ? fmt::format("set {}=BYTES to change the limit in bytes per second (0: none){}", kMinSpeed, rest)
              : "check the network and the address" + rest;
  if (has_stalled(end)) throw TimeoutError(message, hint);
  throw IoError(message, hint);
}

void transfer_all(const FetchUrl& url, const FetchOptions& options, PartialFile& part) {
  std::uint64_t most = part.size();
  int failed = 0;
  int stalled = 0;
  while (true) {
    const TransferEnd end = transfer(url, options, part);
    if (end.kind == TransferEnd::Kind::kWhole) return;
    // A server without range support may break off at the same point every time, so only new bytes count as progress.
    failed = part.size() > most ? 1 : failed + 1;
    most = std::max(most, part.size());
    stalled = has_stalled(end) ? stalled + 1 : 0;
    if (stalled >= options.stalled_tries) give_up(url, end, stalled, part.size());
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
  throw DataError(fmt::format("{} does not have the expected content\n  SHA-256 expected  {}\n  SHA-256 here      {}",
                              url.text, url.sha256, found),
                  "the file was removed: check the address, and check the hash with the publisher");
}

/// Returns true if the content is in the cache. Checks its hash on every use, not only after the transfer.
bool is_cached(const FetchUrl& url, const fs::path& path) {
  if (!has_cache_file(path)) return false;
  return url.sha256.empty() || sha256_of(path) == url.sha256;
}

/// Adds min_speed from the environment if the caller has not set it. Throws: UsageError if it is not a number of bytes.
FetchOptions with_speed(FetchOptions options) {
  if (options.min_speed) return options;
  const std::int64_t speed = env::get_int(kMinSpeed).value_or(kDefaultMinSpeed);
  if (speed < 0)
    throw UsageError(fmt::format("{} is {}", kMinSpeed, speed), "set the limit in bytes per second, or 0 for no limit");
  options.min_speed = static_cast<std::uint64_t>(speed);
  return options;
}

}  // namespace

bool is_url(std::string_view word) { return is_prefix_of("http://", word) || is_prefix_of("https://", word); }

fs::path fetch_cache() {
  if (const auto folder = env::get("XDG_CACHE_HOME")) return fs::path(*folder) / "lockstep";
  if (const auto home = env::get("HOME")) return fs::path(*home) / ".cache" / "lockstep";
  throw UsageError("there is no folder for fetched files: XDG_CACHE_HOME and HOME are not set",
                   "set XDG_CACHE_HOME to a folder on a disk with free space");
}

fs::path fetch(const std::string& url, const FetchOptions& given) {
  const FetchOptions options = with_speed(given);
  const FetchUrl parsed = parse_fetch_url(url, options.sha256);
  const fs::path cache = options.cache.empty() ? fetch_cache() : options.cache;
  const fs::path path = cached_path(cache, parsed);
  make_cache_folders(cache, path.parent_path());
  if (is_cached(parsed, path)) return path;
  const FetchLock lock(path, path.string() + ".part", options);
  if (is_cached(parsed, path)) return path;  // another process has fetched it while this one waited
  if (has_cache_file(path)) {
    log::warn("{} has changed since it was fetched (its SHA-256 differs): fetching it again", path.string());
    FileSystem::system().remove(path);
  }
  PartialFile part(path);
  transfer_all(parsed, options, part);
  check_hash(parsed, part);
  part.finish();
  return path;
}

}  // namespace lockstep
