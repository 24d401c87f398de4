// SPDX-License-Identifier: Apache-2.0
// Replaces the C library's socket calls for production code inside a world. Only IPv4 and numeric addresses are
// supported.
#include <arpa/inet.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

#include "sim/calls.h"

using namespace lockstep::sim;  // NOLINT(google-build-using-namespace): the file is the C library's calls

namespace {

Address read_address(const sockaddr* address) {
  const auto& four = *reinterpret_cast<const sockaddr_in*>(address);
  return {ntohl(four.sin_addr.s_addr), ntohs(four.sin_port)};
}

int write_address(const Address& address, sockaddr* out, socklen_t* size) {
  if (out == nullptr) return 0;
  sockaddr_in four{};
  four.sin_family = address.host == 0 ? AF_UNIX : AF_INET;
  four.sin_port = htons(address.port);
  four.sin_addr.s_addr = htonl(address.host);
  std::memcpy(out, &four, std::min<std::size_t>(*size, sizeof four));
  *size = sizeof four;
  return 0;
}

int add(const std::shared_ptr<Stream>& stream, int flags) {
  stream->is_blocking = (flags & SOCK_NONBLOCK) == 0;
  return files().add(stream);
}

}  // namespace

#pragma GCC visibility push(default)
extern "C" {

int socket(int family, int type, int protocol) noexcept {
  if (!is_inside()) return real<decltype(socket)>("socket")(family, type, protocol);
  if (family != AF_INET) return errno = EAFNOSUPPORT, -1;
  return add(std::make_shared<Stream>(), type);
}

int socketpair(int, int type, int, int* out) noexcept {
  const auto [one, other] = Stream::make_pair();
  out[0] = add(one, type);
  out[1] = add(other, type);
  return 0;
}

int pipe2(int* out, int flags) noexcept {
  return socketpair(AF_UNIX, (flags & O_NONBLOCK) != 0 ? SOCK_NONBLOCK : 0, 0, out);
}

int bind(int fd, const sockaddr* address, socklen_t) noexcept {
  const auto stream = stream_of(fd);
  return stream ? stream->bind(read_address(address)) : -1;
}

int listen(int fd, int) noexcept {
  const auto stream = stream_of(fd);
  return stream ? stream->listen() : -1;
}

int connect(int fd, const sockaddr* address, socklen_t) {
  const auto stream = stream_of(fd);
  if (!stream) return -1;
  kernel()->maybe_yield();
  return stream->connect(read_address(address));
}

int accept4(int fd, sockaddr* address, socklen_t* size, int flags) {
  const auto stream = stream_of(fd);
  if (!stream) return -1;
  for (;;) {
    if (const auto next = stream->accept()) {
      write_address(next->remote, address, size);
      return add(next, flags);
    }
    if (!stream->is_blocking) return errno = EAGAIN, -1;
    stream->wait(kNever);
  }
}

int accept(int fd, sockaddr* address, socklen_t* size) { return accept4(fd, address, size, 0); }

ssize_t recv(int fd, void* to, size_t size, int flags) {
  const auto stream = stream_of(fd);
  if (!stream) return -1;
  const bool may_wait = stream->is_blocking && (flags & MSG_DONTWAIT) == 0;
  return patiently(stream, may_wait, [&] { return stream->read(to, size); });
}

ssize_t send(int fd, const void* from, size_t size, int flags) {
  const auto stream = stream_of(fd);
  if (!stream) return -1;
  const bool may_wait = stream->is_blocking && (flags & MSG_DONTWAIT) == 0;
  return patiently(stream, may_wait, [&] { return stream->write(from, size); });
}

ssize_t recvmsg(int fd, msghdr* message, int flags) {
  ssize_t all = 0;
  for (size_t i = 0; i < message->msg_iovlen; ++i) {
    const iovec& part = message->msg_iov[i];
    const ssize_t count = recv(fd, part.iov_base, part.iov_len, all > 0 ? flags | MSG_DONTWAIT : flags);
    if (count < 0) return all > 0 ? all : -1;
    all += count;
    if (static_cast<size_t>(count) < part.iov_len) break;
  }
  return all;
}

ssize_t sendmsg(int fd, const msghdr* message, int flags) {
  ssize_t all = 0;
  for (size_t i = 0; i < message->msg_iovlen; ++i) {
    const iovec& part = message->msg_iov[i];
    const ssize_t count = send(fd, part.iov_base, part.iov_len, all > 0 ? flags | MSG_DONTWAIT : flags);
    if (count < 0) return all > 0 ? all : -1;
    all += count;
    if (static_cast<size_t>(count) < part.iov_len) break;
  }
  return all;
}

int shutdown(int fd, int how) noexcept {
  const auto stream = stream_of(fd);
  if (!stream) return -1;
  if (how != SHUT_RD) stream->shut_down_sending();
  if (how != SHUT_WR) stream->shut_down_receiving();
  return 0;
}

int getsockopt(int fd, int level, int name, void* out, socklen_t* size) noexcept {
  const auto stream = stream_of(fd);
  if (!stream) return -1;
  const int value = level == SOL_SOCKET && name == SO_ERROR ? stream->take_error() : 0;
  if (*size >= sizeof value) std::memcpy(out, &value, sizeof value);
  return 0;
}

int setsockopt(int fd, int, int, const void*, socklen_t) noexcept { return stream_of(fd) ? 0 : -1; }

int getsockname(int fd, sockaddr* out, socklen_t* size) noexcept {
  const auto stream = stream_of(fd);
  return stream ? write_address(stream->local, out, size) : -1;
}

int getpeername(int fd, sockaddr* out, socklen_t* size) noexcept {
  const auto stream = stream_of(fd);
  return stream ? write_address(stream->remote, out, size) : -1;
}

int getaddrinfo(const char* host, const char* port, const addrinfo* hints, addrinfo** out) {
  if (!is_inside()) return real<decltype(getaddrinfo)>("getaddrinfo")(host, port, hints, out);
  struct Made {
    addrinfo info;
    sockaddr_in address;
  };
  auto* made = static_cast<Made*>(std::calloc(1, sizeof(Made)));
  made->address.sin_family = AF_INET;
  made->address.sin_port = htons(static_cast<std::uint16_t>(port != nullptr ? std::atoi(port) : 0));
  if (host != nullptr && ::inet_pton(AF_INET, host, &made->address.sin_addr) != 1) {
    std::free(made);
    return EAI_NONAME;
  }
  made->info = {.ai_flags = 0,
                .ai_family = AF_INET,
                .ai_socktype = SOCK_STREAM,
                .ai_protocol = IPPROTO_TCP,
                .ai_addrlen = sizeof(sockaddr_in),
                .ai_addr = reinterpret_cast<sockaddr*>(&made->address),
                .ai_canonname = nullptr,
                .ai_next = nullptr};
  *out = &made->info;
  return 0;
}

void freeaddrinfo(addrinfo* found) noexcept {
  if (!is_inside()) return real<void(addrinfo*)>("freeaddrinfo")(found);
  std::free(found);
}

}  // extern "C"
#pragma GCC visibility pop
