// SPDX-License-Identifier: Apache-2.0
// Splits a URL into the address of its content and its name in the cache.
#pragma once

#include <filesystem>
#include <string>

namespace lockstep::checkpoint {

struct FetchUrl {
  std::string address;  ///< the URL for the transfer, without the part after '#'
  std::string text;     ///< the URL for display, without user, password and query
  std::string sha256;   ///< 64 lower-case digits, or ""
  std::string name;     ///< name of the file in the cache: letters, digits, '.', '-' and '_'

  [[nodiscard]] bool is_secure() const { return address.starts_with("https:"); }
};

/// Parses a URL. `sha256` is the hash that the caller expects, or "". Throws: DataError for an unsupported scheme;
/// UsageError for an invalid sha256, or if `sha256` and the URL's differ.
[[nodiscard]] FetchUrl parse_fetch_url(const std::string& url, const std::string& sha256);

/// Returns the path of the URL's content in the cache.
[[nodiscard]] std::filesystem::path cached_path(const std::filesystem::path& cache, const FetchUrl& url);

}  // namespace lockstep::checkpoint
