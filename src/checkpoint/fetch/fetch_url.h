// SPDX-License-Identifier: Apache-2.0
// The parts of a URL: the source of its content, and its name in the cache.
#pragma once

#include <filesystem>
#include <string>

namespace lockstep::checkpoint {

struct FetchUrl {
  std::string address;  ///< for the transfer: without the part after '#'
  std::string text;     ///< for people: without user, password and query
  std::string sha256;   ///< 64 lower-case digits, or ""
  std::string name;     ///< name of its file: letters, digits, '.', '-' and '_'

  [[nodiscard]] bool is_secure() const { return address.starts_with("https:"); }
};

/// Parses a URL. `sha256` is the hash that the caller expects, or "". Throws: DataError for another kind of URL;
/// UsageError for an invalid sha256, or two that differ.
[[nodiscard]] FetchUrl parse_fetch_url(const std::string& url, const std::string& sha256);

/// Returns the path of its content below the cache.
[[nodiscard]] std::filesystem::path cached_path(const std::filesystem::path& cache, const FetchUrl& url);

}  // namespace lockstep::checkpoint
