// SPDX-License-Identifier: Apache-2.0
// Fetches files by URL into the user's cache, each only once. A file appears there only once it is complete and
// verified.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#pragma GCC visibility push(default)

namespace lockstep {

/// The progress of a fetch.
struct FetchProgress {
  std::uint64_t bytes = 0;                            ///< bytes fetched so far, including earlier attempts
  std::optional<std::uint64_t> total = std::nullopt;  ///< total bytes, if the server sends it
};

/// The settings of fetch().
struct FetchOptions {
  /// The folder of fetched files; empty means fetch_cache().
  std::filesystem::path cache = {};
  /// The SHA-256 of the content as 64 hexadecimal digits; empty means the digits after "#sha256=" in the URL, if any.
  std::string sha256 = {};
  std::uint64_t max_bytes = std::uint64_t{1} << 40;  ///< larger content is rejected
  /// The maximum number of consecutive attempts without a new byte. The wait after attempt n is n^2 * first_wait.
  int tries = 5;
  /// The wait after the first attempt.
  std::chrono::milliseconds first_wait{1000};
  /// The time limit for connecting.
  std::chrono::milliseconds connect_limit{20'000};
  /// An attempt fails after this time without a byte; this is checked once a second.
  std::chrono::milliseconds stall_limit{30'000};
  /// The minimum speed over `speed_window`, in bytes per second; a slower attempt also fails. Empty:
  /// LOCKSTEP_FETCH_MIN_SPEED, else 1000; 0: no limit.
  std::optional<std::uint64_t> min_speed = std::nullopt;
  /// The time over which min_speed is measured.
  std::chrono::milliseconds speed_window{30'000};
  /// The maximum number of consecutive attempts that stall or are slower than min_speed, even if they deliver new
  /// bytes.
  int stalled_tries = 2;
  /// How long to wait, without a new byte, for another process that is fetching the same file; that process may be
  /// hung.
  std::chrono::milliseconds lock_limit{300'000};
  /// The maximum number of redirects.
  int max_redirects = 10;
  /// Called at least once a second on the calling thread, even while another process is fetching the same file. An
  /// exception from it ends the fetch; the next fetch of the file resumes after the bytes already received.
  std::function<void(const FetchProgress&)> progress = {};
};

/// Returns true if `word` begins with "http://" or "https://", in upper or lower case.
[[nodiscard]] bool is_url(std::string_view word);

/// Returns $XDG_CACHE_HOME/lockstep, else ~/.cache/lockstep. Throws: UsageError if neither variable is set.
[[nodiscard]] std::filesystem::path fetch_cache();

/// Fetches a URL and returns the path of its content in the cache. The folder is named after a hash of the URL and the
/// sha256, the file after the last part of the URL's path.
///
/// Every call compares an existing file with the sha256, and fetches it again only if it differs. Without a sha256,
/// remove the file to fetch it again. The cache must belong to the user. A broken transfer is retried. It resumes from
/// the same point (its bytes are in `<name>.part`) if the server still has the same content; so does a later call. If
/// several processes want the same file, it is fetched once. A redirect from https to http is rejected. In a job of
/// several ranks, let one rank on each host call fetch(). Messages omit the URL's user, password and query.
///
/// Blocks: until the whole file is on disk. Thread-safe: yes.
/// Throws: DataError for a URL with any other scheme, a permanent HTTP error (404), more than max_bytes, or a wrong
/// hash (the file is then removed); UsageError for an invalid sha256 and a cache that others may write to; IoError for
/// network and disk errors; TimeoutError for a silent or slow server.
/// Example: const auto path = fetch("https://example.org/a.pth#sha256=9f86d0...");
[[nodiscard]] std::filesystem::path fetch(const std::string& url, const FetchOptions& options = {});

}  // namespace lockstep

#pragma GCC visibility pop
