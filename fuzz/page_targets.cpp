// SPDX-License-Identifier: Apache-2.0
#include "targets.h"

#include <array>
#include <atomic>
#include <cerrno>
#include <string>

#include "dashboard/access.h"
#include "dashboard/api_path.h"
#include "lockstep/http/server.h"
#include "tests/support/http_client.h"

namespace lockstep::fuzz {
namespace {

constexpr std::string_view kToken = "right";

void use_path(std::string_view path) {
  if (const auto found = dashboard::parse_run_path(path)) {
    require(found->run >= 0 && found->run < 1'000'000 && path.ends_with(found->resource));
  }
  if (dashboard::is_asset_path(path)) require(path.find('/', 8) == std::string_view::npos && path.size() > 8);
}

bool is_named(const std::string& host, const std::string& origin) {
  return dashboard::is_allowed_host(host, "gpu-a") && dashboard::is_own_origin(origin, host);
}

http::Response answer(const http::Request& request) {
  use_path(request.path);
  require(request.method != "HEAD" && request.value("no such name").empty());
  if (!is_named(request.host, request.origin)) return {.status = 403};
  return {.body = request.path + request.value("name")};
}

http::Server& server() {
  static http::Server server({.is_known =
                                  [](const http::Request& request) {
                                    return is_named(request.host, request.origin) &&
                                           dashboard::is_equal(request.token, kToken);
                                  },
                              .answer = &answer});
  return server;
}

// libFuzzer sets an alarm, which may interrupt connect().
UniqueFd connect_to(int port) {
  for (;;) {
    UniqueFd connection = test::connect_to(port);
    if (connection.valid() || errno != EINTR) return connection;
  }
}

}  // namespace

void http_request(std::string_view bytes) {
  const UniqueFd connection = connect_to(server().port());
  require(connection.valid());
  (void)test::send_all(connection, bytes.substr(0, bytes.size() / 2));
  (void)test::send_all(connection, bytes.substr(bytes.size() / 2));
  ::shutdown(connection.get(), SHUT_WR);
  const std::string reply = test::receive(connection);
  require(reply.empty() || reply.starts_with("HTTP/1."));
}

void page_words(std::string_view bytes) {
  std::array<std::string, 4> lines;
  for (std::string& line : lines) {
    const auto end = std::min(bytes.find('\n'), bytes.size());
    line = bytes.substr(0, end);
    bytes.remove_prefix(std::min(end + 1, bytes.size()));
  }
  const auto& [host, origin, authorization, path] = lines;
  if (is_named(host, origin)) {
    require(!host.empty() && host.find('/') == std::string::npos && host.find('@') == std::string::npos);
    require(origin.empty() || origin == "http://" + host);
  }
  const std::string_view token = http::bearer_token(authorization);
  require(dashboard::is_equal(token, kToken) == (token == kToken));
  use_path(path);
}

}  // namespace lockstep::fuzz
