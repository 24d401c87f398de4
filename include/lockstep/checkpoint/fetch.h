// SPDX-License-Identifier: Apache-2.0
// Files by URL: fetched once, into a cache of the user's, whole and checked or not at all.
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

struct FetchProgress {
  std::uint64_t bytes = 0;                            ///< here by now, those of an earlier try included
  std::optional<std::uint64_t> total = std::nullopt;  ///< where the server says it
};

struct FetchOptions {
  /// The folder of fetched files; empty: fetch_cache().
  std::filesystem::path cache = {};
  /// What the content must have, as 64 hexadecimal digits; empty: what stands behind "#sha256=" in the URL, if
  /// anything.
  std::string sha256 = {};
  std::uint64_t max_bytes = std::uint64_t{1} << 40;
  /// Tries in a row that bring not one byte. After the n-th the wait is n^2 * first_wait.
  int tries = 5;
  std::chrono::milliseconds first_wait{1000};
  std::chrono::milliseconds connect_limit{20'000};
  /// As long as this without a byte is a failed try; looked at once a second.
  std::chrono::milliseconds stall_limit{30'000};
  /// Bytes per second over `speed_window`: less is a failed try too. Empty: LOCKSTEP_FETCH_MIN_SPEED, else 1000; 0:
  /// any.
  std::optional<std::uint64_t> min_speed = std::nullopt;
  std::chrono::milliseconds speed_window{30'000};
  /// Tries in a row that end in silence or so slowly, whatever they bring.
  int stalled_tries = 2;
  int max_redirects = 10;
  /// Called at least once a second, from the calling thread, also while another process fetches the same. What it
  /// throws ends the fetch; the next one goes on from there.
  std::function<void(const FetchProgress&)> progress = {};
};

/// Whether `word` is for fetch(): begins with "http://" or "https://" in any case.
[[nodiscard]] bool is_url(std::string_view word);

/// $XDG_CACHE_HOME/lockstep, else ~/.cache/lockstep. Throws: UsageError where neither variable is set.
[[nodiscard]] std::filesystem::path fetch_cache();

/// The path of the URL's content in the cache: <cache>/<hash of URL and sha256>/<last part of the URL's path>. What is
/// there is not fetched again, but compared with the sha256 at every call: with another content it is fetched anew.
/// Without a sha256 remove it to have it fetched. The cache has to be the user's own. A broken transfer is tried again
/// and goes on where it stopped (its bytes are in <name>.part), if the server still has the same content; so does a
/// later call. Several processes that want the same fetch it once. From https no redirect leads to http. A job of
/// several ranks lets one rank of each host call it. Messages leave out the URL's user, password and query. Blocks:
/// until the file is there and on the disk. Thread-safe: yes. Throws: DataError for another kind of URL, an answer that
/// trying again does not change (404), more than max_bytes and a wrong hash (the file is then removed); UsageError for
/// a sha256 that is none and a cache to which others may write; IoError for network and disk; TimeoutError for a server
/// that is silent or slow. Example: const auto path = fetch("https://example.org/a.pth#sha256=9f86d0...");
[[nodiscard]] std::filesystem::path fetch(const std::string& url, const FetchOptions& options = {});

}  // namespace lockstep

#pragma GCC visibility pop
