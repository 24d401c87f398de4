// SPDX-License-Identifier: Apache-2.0
#include "http/listener.h"

#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <memory>

#include "lockstep/base/error.h"
#include "lockstep/store/port_holder.h"

namespace lockstep::http {
namespace {

UniqueFd try_listen(const addrinfo& at) {
  UniqueFd socket(::socket(at.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket.valid()) return {};
  const int yes = 1;
  ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  if (::bind(socket.get(), at.ai_addr, at.ai_addrlen) != 0 || ::listen(socket.get(), SOMAXCONN) != 0) return {};
  return socket;
}

}  // namespace

UniqueFd listen_at(const std::string& host, int port, const std::string& next_step) {
  addrinfo wanted{};
  wanted.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  wanted.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &wanted, &found) != 0) found = nullptr;
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> addresses(found, [](addrinfo* all) {
    if (all != nullptr) ::freeaddrinfo(all);
  });
  for (const addrinfo* at = addresses.get(); at != nullptr; at = at->ai_next) {
    if (UniqueFd socket = try_listen(*at); socket.valid()) return socket;
  }
  const std::string holder = port == 0 ? "" : port_holder(static_cast<std::uint16_t>(port));
  throw UsageError(fmt::format("cannot listen on {}:{}: {} has the port, or this machine does not have the address",
                               host, port, holder.empty() ? "another program" : holder),
                   next_step);
}

int port_of(int socket) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  if (::getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size) != 0) return 0;
  const bool is_ipv6 = address.ss_family == AF_INET6;
  return ntohs(is_ipv6 ? reinterpret_cast<const sockaddr_in6&>(address).sin6_port
                       : reinterpret_cast<const sockaddr_in&>(address).sin_port);
}

}  // namespace lockstep::http
