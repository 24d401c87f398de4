// SPDX-License-Identifier: Apache-2.0
#include "wire/sockets.h"

#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>

#include "lockstep/base/error.h"
#include "lockstep/base/resources.h"

namespace lockstep::wire {
namespace {

constexpr int kBacklog = 1024;

using Found = std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)>;

Found numeric(const std::string& address, std::uint16_t port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  (void)::getaddrinfo(address.c_str(), std::to_string(port).c_str(), &hints, &found);
  return {found, &::freeaddrinfo};
}

UniqueFd new_socket(int family) { return UniqueFd(::socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)); }

Endpoint endpoint_of(const sockaddr_storage& address, socklen_t size) {
  char host[NI_MAXHOST] = "";
  char port[NI_MAXSERV] = "";
  if (::getnameinfo(reinterpret_cast<const sockaddr*>(&address), size, host, sizeof host, port, sizeof port,
                    NI_NUMERICHOST | NI_NUMERICSERV) != 0) {
    return {};
  }
  return {host, static_cast<std::uint16_t>(std::stoi(port))};
}

std::string text_of(const Endpoint& end) { return fmt::format("{} {}", end.address, end.port); }

void set(int fd, int level, int option, int value) { (void)::setsockopt(fd, level, option, &value, sizeof value); }

}  // namespace

UniqueFd listen_at(const std::string& address) {
  const Found at = numeric(address, 0);
  if (!at) throw IoError(fmt::format("{} is not a valid listen address", address));
  UniqueFd fd = new_socket(at->ai_family);
  if (!fd.valid() || ::bind(fd.get(), at->ai_addr, at->ai_addrlen) != 0 || ::listen(fd.get(), kBacklog) != 0) {
    throw_cannot(fmt::format("listen on {} for the other ranks", address), errno);
  }
  return fd;
}

Endpoint own_end(int fd) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  return ::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) == 0 ? endpoint_of(address, size) : Endpoint{};
}

Endpoint other_end(int fd) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  return ::getpeername(fd, reinterpret_cast<sockaddr*>(&address), &size) == 0 ? endpoint_of(address, size) : Endpoint{};
}

Route route_of(int fd, End end) {
  const std::string own = text_of(own_end(fd));
  const std::string other = text_of(other_end(fd));
  return end == End::kCaller ? Route{own, other} : Route{other, own};
}

UniqueFd begin_to_connect(const Endpoint& to) {
  const Found at = numeric(to.address, to.port);
  if (!at) {
    errno = EADDRNOTAVAIL;
    return {};
  }
  UniqueFd fd = new_socket(at->ai_family);
  if (fd.valid() && ::connect(fd.get(), at->ai_addr, at->ai_addrlen) != 0 && errno != EINPROGRESS) fd.reset();
  return fd;
}

int connect_problem(int fd) {
  int problem = 0;
  socklen_t size = sizeof problem;
  return ::getsockopt(fd, SOL_SOCKET, SO_ERROR, &problem, &size) == 0 ? problem : errno;
}

void tune(int fd, std::chrono::milliseconds timeout) {
  constexpr int kProbes = 6;
  const auto seconds = std::max<int>(3, static_cast<int>(std::min<std::int64_t>(timeout.count() / 1000, 30'000)));
  set(fd, IPPROTO_TCP, TCP_NODELAY, 1);
  set(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
  set(fd, IPPROTO_TCP, TCP_KEEPIDLE, std::max(1, seconds / 3));
  set(fd, IPPROTO_TCP, TCP_KEEPINTVL, std::max(1, seconds * 2 / 3 / kProbes));
  set(fd, IPPROTO_TCP, TCP_KEEPCNT, kProbes);
}

Wakeup::Wakeup() : fd_(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
  if (!fd_.valid()) throw_cannot("create a descriptor that wakes a thread", errno);
}

void Wakeup::wake() noexcept {
  const std::uint64_t one = 1;
  (void)!::write(fd_.get(), &one, sizeof one);
}

void Wakeup::clear() noexcept {
  std::uint64_t count = 0;
  (void)!::read(fd_.get(), &count, sizeof count);
}

}  // namespace lockstep::wire
