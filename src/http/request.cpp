// SPDX-License-Identifier: Apache-2.0
#include "http/request.h"

#include <microhttpd.h>
#include <strings.h>

#include <string_view>
#include <type_traits>

namespace lockstep::http {
namespace {

struct Headers {
  Request& request;
  int hosts = 0;
  int origins = 0;
  int tokens = 0;
};

bool is_name(std::string_view key, std::string_view name) {
  return key.size() == name.size() && ::strncasecmp(key.data(), name.data(), name.size()) == 0;
}

void add_header(Headers& headers, std::string_view name, std::string_view words) {
  if (is_name(name, "host") && ++headers.hosts == 1) headers.request.host = words;
  if (is_name(name, "origin") && ++headers.origins == 1) headers.request.origin = words;
  if (is_name(name, "authorization") && ++headers.tokens == 1) headers.request.token = bearer_token(words);
}

/// Calls `use` with each name and value. libmicrohttpd itself accepts only a C callback.
template <class Use>
void each_value(MHD_Connection* connection, MHD_ValueKind kind, Use&& use) {
  const auto call = [](void* to, MHD_ValueKind, const char* name, std::size_t size, const char* value,
                       std::size_t value_size) {
    (*static_cast<std::remove_reference_t<Use>*>(to))(
        std::string_view(name, size), value == nullptr ? std::string_view() : std::string_view(value, value_size));
    return MHD_YES;
  };
  MHD_get_connection_values_n(connection, kind, call, &use);
}

}  // namespace

std::optional<Request> read_request(MHD_Connection* connection, const std::string& path, const std::string& method) {
  Request request{.method = method == "HEAD" ? "GET" : method, .path = path};
  Headers headers{request};
  each_value(connection, MHD_HEADER_KIND,
             [&](std::string_view name, std::string_view words) { add_header(headers, name, words); });
  each_value(connection, MHD_GET_ARGUMENT_KIND, [&](std::string_view name, std::string_view words) {
    request.values.try_emplace(std::string(name), words);
  });
  if (headers.hosts > 1 || headers.origins > 1 || headers.tokens > 1) return std::nullopt;
  return request;
}

bool has_body(MHD_Connection* connection) {
  if (MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "Transfer-Encoding") != nullptr) return true;
  const char* length = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "Content-Length");
  return length != nullptr && std::string_view(length) != "0";
}

std::string Request::value(const std::string& name) const {
  const auto found = values.find(name);
  return found == values.end() ? "" : found->second;
}

std::string_view bearer_token(std::string_view header) {
  constexpr std::string_view kScheme = "bearer ";
  if (header.size() < kScheme.size() || !is_name(header.substr(0, kScheme.size()), kScheme)) return {};
  header.remove_prefix(kScheme.size());
  while (header.starts_with(' ')) header.remove_prefix(1);
  while (header.ends_with(' ')) header.remove_suffix(1);
  return header;
}

}  // namespace lockstep::http
