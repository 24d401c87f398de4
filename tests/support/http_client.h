// SPDX-License-Identifier: Apache-2.0
// Raw HTTP on loopback: a browser's requests, and requests that only an attacker sends.
#pragma once

#include <fmt/format.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <chrono>
#include <cstdlib>
#include <string>
#include <string_view>

#include "lockstep/base/file_system.h"

namespace lockstep::test {

inline UniqueFd connect_to(int port) {
  UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) return {};
  return fd;
}

/// Returns true if all bytes were sent.
inline bool send_all(const UniqueFd& fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(fd.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(sent));
  }
  return true;
}

/// Returns the bytes received until the peer closes the connection, `end` has arrived, or nothing arrives for
/// `patience`.
inline std::string receive(const UniqueFd& fd, std::string_view end = {},
                           std::chrono::milliseconds patience = std::chrono::seconds(20)) {
  std::string text;
  for (char piece[4096];;) {
    pollfd wait{.fd = fd.get(), .events = POLLIN, .revents = 0};
    if (::poll(&wait, 1, static_cast<int>(patience.count())) <= 0) return text;
    const ssize_t got = ::recv(fd.get(), piece, sizeof piece, 0);
    if (got <= 0) return text;
    text.append(piece, static_cast<std::size_t>(got));
    if (!end.empty() && text.find(end) != std::string::npos) return text;
  }
}

struct HttpReply {
  int status = 0;  ///< HTTP status; 0: there was no response
  std::string head;
  std::string body;
};

inline HttpReply parse_reply(const std::string& text) {
  const auto end = text.find("\r\n\r\n");
  if (!text.starts_with("HTTP/1.1 ") || end == std::string::npos) return {};
  return {std::atoi(text.c_str() + 9), text.substr(0, end), text.substr(end + 4)};
}

/// Sends a request. `headers`: each with its line end; a Host header replaces the default one.
inline HttpReply ask(int port, const std::string& method, const std::string& path, const std::string& headers = "") {
  const UniqueFd fd = connect_to(port);
  if (!fd.valid()) return {};
  const std::string host =
      headers.find("Host: ") == std::string::npos ? fmt::format("Host: 127.0.0.1:{}\r\n", port) : "";
  send_all(fd, fmt::format("{} {} HTTP/1.1\r\n{}{}Connection: close\r\n\r\n", method, path, host, headers));
  return parse_reply(receive(fd));
}

}  // namespace lockstep::test
