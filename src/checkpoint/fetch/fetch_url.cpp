// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/fetch/fetch_url.h"

#include <curl/curl.h>
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <memory>
#include <optional>
#include <string_view>

#include "checkpoint/formats/sha256.h"
#include "lockstep/base/error.h"

namespace lockstep::checkpoint {
namespace {

constexpr std::size_t kLongestName = 100;

struct FreeUrl {
  void operator()(CURLU* url) const noexcept { curl_url_cleanup(url); }
};
using ParsedUrl = std::unique_ptr<CURLU, FreeUrl>;

std::string lower_case(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

/// Returns a part of the URL; "" if the URL has no such part.
std::string url_part(const ParsedUrl& url, CURLUPart part, unsigned flags = 0) {
  char* text = nullptr;
  if (curl_url_get(url.get(), part, &text, flags) != CURLUE_OK) return "";
  const std::string copy(text);
  curl_free(text);
  return copy;
}

void clear_part(const ParsedUrl& url, CURLUPart part) { curl_url_set(url.get(), part, nullptr, 0); }

std::string checked_sha256(const std::string& text) {
  const std::string hash = lower_case(text);
  const bool is_hex = std::all_of(hash.begin(), hash.end(), [](unsigned char c) { return std::isxdigit(c) != 0; });
  if (hash.empty() || (hash.size() == 64 && is_hex)) return hash;
  throw UsageError(fmt::format("'{}' is not a SHA-256", text),
                   "a SHA-256 has 64 hexadecimal digits: sha256sum FILE prints it");
}

std::string wanted_sha256(const std::string& fragment, const std::string& given) {
  constexpr std::string_view kKey = "sha256=";
  const std::string option = checked_sha256(given);
  if (!fragment.starts_with(kKey)) return option;
  const std::string in_url = checked_sha256(fragment.substr(kKey.size()));
  if (in_url.empty()) throw UsageError("there is no SHA-256 after '#sha256='", "sha256sum FILE prints it");
  if (option.empty() || option == in_url) return in_url;
  throw UsageError(fmt::format("the URL has SHA-256 {}, but the option has {}", in_url, option),
                   "use only one of them");
}

std::string name_of(const std::string& path) {
  std::string name = path.substr(path.rfind('/') + 1);
  for (char& c : name) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0 && c != '.' && c != '-') c = '_';
  }
  if (name.size() > kLongestName)
    name = name.substr(name.size() - kLongestName);  // keeps the end of the name, which has the extension
  if (name.empty()) return "content";
  if (name.front() == '.') name.front() = '_';
  return name;
}

}  // namespace

FetchUrl parse_fetch_url(const std::string& url, const std::string& sha256) {
  const ParsedUrl parsed(curl_url());
  if (!parsed) throw ResourceError("not enough memory to parse a URL");
  const CURLUcode code = curl_url_set(parsed.get(), CURLUPART_URL, url.c_str(), CURLU_NON_SUPPORT_SCHEME);
  const std::string scheme = url_part(parsed, CURLUPART_SCHEME);
  if (code != CURLUE_OK || (scheme != "http" && scheme != "https")) {
    throw DataError(code == CURLUE_OK ? fmt::format("files cannot be fetched over {}", scheme)
                                      : fmt::format("this is not a URL: {}", curl_url_strerror(code)),
                    "pass an http:// or https:// URL, or download the file by hand and pass its path");
  }
  FetchUrl read{.sha256 = wanted_sha256(url_part(parsed, CURLUPART_FRAGMENT), sha256),
                .name = name_of(url_part(parsed, CURLUPART_PATH, CURLU_URLDECODE))};
  clear_part(parsed, CURLUPART_FRAGMENT);
  read.address = url_part(parsed, CURLUPART_URL);
  for (const CURLUPart part : {CURLUPART_USER, CURLUPART_PASSWORD, CURLUPART_OPTIONS, CURLUPART_QUERY}) {
    clear_part(parsed, part);
  }
  read.text = url_part(parsed, CURLUPART_URL);
  return read;
}

std::filesystem::path cached_path(const std::filesystem::path& cache, const FetchUrl& url) {
  Sha256 key;
  key.update(url.address + "\n" + url.sha256);
  return cache / key.hex().substr(0, 32) / url.name;
}

}  // namespace lockstep::checkpoint
