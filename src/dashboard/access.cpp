// SPDX-License-Identifier: Apache-2.0
#include "dashboard/access.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <sys/random.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <cstring>

#include "lockstep/base/error.h"

namespace lockstep::dashboard {
namespace {

bool is_digits(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

bool is_address(const std::string& name) {
  std::array<unsigned char, 16> bytes{};
  if (name.find('\0') != std::string::npos) return false;  // inet_pton() would stop there
  return ::inet_pton(AF_INET, name.c_str(), bytes.data()) == 1 ||
         ::inet_pton(AF_INET6, name.c_str(), bytes.data()) == 1;
}

std::string lower(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(), [](unsigned char c) { return std::tolower(c); });
  return out;
}

// "[::1]:80" -> "::1", "localhost:80" -> "localhost"; empty if no port follows.
std::string name_of(std::string_view header) {
  std::string_view rest;
  std::string_view name;
  if (header.starts_with('[')) {
    const auto end = header.find(']');
    if (end == std::string_view::npos) return "";
    name = header.substr(1, end - 1);
    rest = header.substr(end + 1);
  } else {
    name = header.substr(0, header.find(':'));
    rest = header.substr(name.size());
  }
  if (!rest.empty() && (rest[0] != ':' || !is_digits(rest.substr(1)))) return "";
  return lower(name);
}

}  // namespace

std::string new_token() {
  std::array<unsigned char, 32> bytes{};
  if (::getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) {
    throw ResourceError(fmt::format("the system returned no random bytes: {}", std::strerror(errno)), "try again");
  }
  std::string token;
  for (const unsigned char byte : bytes) token += fmt::format("{:02x}", byte);
  return token;
}

bool is_equal(std::string_view a, std::string_view b) noexcept {
  volatile unsigned char differences = a.size() == b.size() ? 0 : 1;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const unsigned char other = b.empty() ? 0 : static_cast<unsigned char>(b[i % b.size()]);
    differences = static_cast<unsigned char>(differences | (static_cast<unsigned char>(a[i]) ^ other));
  }
  return differences == 0;
}

bool is_allowed_host(std::string_view header, std::string_view own_host) {
  const std::string name = name_of(header);
  return name == "localhost" || is_address(name) || (!name.empty() && name == lower(own_host));
}

bool is_own_origin(std::string_view origin, std::string_view host) {
  return origin.empty() || origin == fmt::format("http://{}", host);
}

}  // namespace lockstep::dashboard
