// SPDX-License-Identifier: Apache-2.0
#include "store/socket.h"

#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <system_error>
#include <utility>

#include "lockstep/base/awake_clock.h"
#include "lockstep/base/error.h"
#include "lockstep/base/resources.h"
#include "lockstep/store/secret.h"

namespace lockstep::store {
namespace {

// A large frame is encrypted in pieces, so that memory does not hold two copies of it.
constexpr std::size_t kEncryptedAtOnce = 256 << 10;

// Returns false if the deadline passed first.
bool wait_for(int fd, short events, TimePoint deadline) {
  for (;;) {
    const auto left = deadline - AwakeClock::instance().now();
    pollfd entry{fd, events, 0};
    const auto slice = std::chrono::ceil<std::chrono::milliseconds>(awake_slice(left)).count();
    const int ready = ::poll(&entry, 1, static_cast<int>(slice));
    if (ready > 0) return true;
    if (ready < 0 && errno != EINTR) return true;  // the next call on the socket reports the error
    if (left.count() <= 0) return false;
  }
}

std::string words(int error) { return std::generic_category().message(error); }

// On loopback, a connection to a free port in the ephemeral range can connect to itself.
bool is_own_echo(int fd) {
  sockaddr_storage own{};
  sockaddr_storage peer{};
  socklen_t own_size = sizeof own;
  socklen_t peer_size = sizeof peer;
  return ::getsockname(fd, reinterpret_cast<sockaddr*>(&own), &own_size) == 0 &&
         ::getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &peer_size) == 0 && own_size == peer_size &&
         std::memcmp(&own, &peer, own_size) == 0;
}

// Connects to one address. Returns 0 or the error number.
int connect_to(const addrinfo& address, TimePoint deadline, UniqueFd& out) {
  UniqueFd fd(::socket(address.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, address.ai_protocol));
  if (!fd.valid()) {
    const int error = errno;
    if (is_shortage(error)) throw shortage_error("connect to the store", error);  // waiting does not free a descriptor
    return error;
  }
  const int on = 1;
  ::setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  ::setsockopt(fd.get(), SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
  if (::connect(fd.get(), address.ai_addr, address.ai_addrlen) != 0) {
    if (errno != EINPROGRESS) return errno;
    if (!wait_for(fd.get(), POLLOUT, deadline)) return ETIMEDOUT;
    int error = 0;
    socklen_t size = sizeof error;
    ::getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &error, &size);
    if (error != 0) return error;
  }
  if (is_own_echo(fd.get())) return ECONNREFUSED;
  out = std::move(fd);
  return 0;
}

int count_addresses(const addrinfo* addresses) {
  int number = 0;
  for (; addresses != nullptr; addresses = addresses->ai_next) ++number;
  return number;
}

}  // namespace

Result<Socket> Socket::connect(const std::string& host, std::uint16_t port, TimePoint deadline) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (const int problem = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found); problem != 0) {
    const int error = errno;
    if (problem == EAI_SYSTEM && is_shortage(error)) throw shortage_error("look up the store's host", error);
    return Failure{::gai_strerror(problem)};
  }
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(found, &::freeaddrinfo);
  int error = ECONNREFUSED;
  int left = count_addresses(found);
  for (const addrinfo* address = found; address != nullptr; address = address->ai_next, --left) {
    UniqueFd fd;
    const TimePoint now = AwakeClock::instance().now();
    error = connect_to(*address, now + (deadline - now) / left, fd);
    if (error == 0) return Socket(std::move(fd));
  }
  // Waiting does not bring the loopback interface up.
  if (error == ENETUNREACH && is_loopback(host)) {
    throw UsageError(fmt::format("{}:{} cannot be reached: the loopback interface (lo) is down, as in a network "
                                 "namespace where it was never set up",
                                 host, port),
                     "ip link set lo up");
  }
  return Failure{words(error)};
}

Outcome Socket::start_tls(const TlsContext& context, TimePoint deadline) {
  tls_ = std::make_unique<TlsClient>(context);
  for (;;) {
    const auto step = tls_->shake_hands();
    if (const auto sent = send_plain(tls_->records(), deadline); sent != Outcome::kDone) return sent;
    if (step == TlsClient::Step::kDone) return Outcome::kDone;
    if (step == TlsClient::Step::kFailed) return Outcome::kForeign;
    if (AwakeClock::instance().now() >= deadline)
      return Outcome::kLate;  // without this check, endless records could exceed the deadline
    if (const auto got = receive_records(deadline); got != Outcome::kDone) return got;
  }
}

Outcome Socket::send(const std::string& frame, TimePoint deadline) {
  if (!tls_) return send_plain(frame, deadline);
  for (std::string_view rest = frame; !rest.empty(); rest.remove_prefix(std::min(rest.size(), kEncryptedAtOnce))) {
    if (!tls_->write(rest.substr(0, kEncryptedAtOnce))) return Outcome::kGone;
    if (const auto sent = send_plain(tls_->records(), deadline); sent != Outcome::kDone) return sent;
  }
  return Outcome::kDone;
}

Outcome Socket::send_plain(std::string_view bytes, TimePoint deadline) {
  while (!bytes.empty()) {
    const auto count = ::send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (count >= 0) {
      bytes.remove_prefix(static_cast<std::size_t>(count));
    } else if (errno == EAGAIN) {
      if (!wait_for(fd_.get(), POLLOUT, deadline)) return Outcome::kLate;
    } else if (errno != EINTR) {
      return Outcome::kGone;
    }
  }
  return Outcome::kDone;
}

Outcome Socket::receive(std::string& body, TimePoint deadline, std::uint32_t limit) {
  char header[kHeaderBytes];
  if (const auto outcome = receive_bytes(header, sizeof header, deadline); outcome != Outcome::kDone) return outcome;
  const std::uint32_t length = read_length(header);
  if (length == 0 || length > limit) return Outcome::kForeign;
  std::string bytes(length, '\0');
  const auto outcome = receive_bytes(bytes.data(), bytes.size(), deadline);
  if (outcome == Outcome::kDone) body = std::move(bytes);
  return outcome;
}

Outcome Socket::receive_bytes(char* to, std::size_t count, TimePoint deadline) {
  while (count > 0) {
    std::size_t got = 0;
    if (!tls_) {
      if (const auto outcome = receive_plain(to, count, deadline, got); outcome != Outcome::kDone) return outcome;
    } else if (const auto step = tls_->read(to, count, got); step == TlsClient::Step::kFailed) {
      return Outcome::kGone;
    } else if (step == TlsClient::Step::kWantsBytes) {
      if (const auto outcome = receive_records(deadline); outcome != Outcome::kDone) return outcome;
      continue;
    }
    to += got;
    count -= got;
  }
  return Outcome::kDone;
}

Outcome Socket::receive_plain(char* to, std::size_t count, TimePoint deadline, std::size_t& got) {
  for (;;) {
    const auto result = ::recv(fd_.get(), to, count, 0);
    if (result > 0) {
      got = static_cast<std::size_t>(result);
      return Outcome::kDone;
    }
    if (result == 0) return Outcome::kGone;
    if (errno == EAGAIN) {
      if (!wait_for(fd_.get(), POLLIN, deadline)) return Outcome::kLate;
    } else if (errno != EINTR) {
      return Outcome::kGone;
    }
  }
}

Outcome Socket::receive_records(TimePoint deadline) {
  std::array<char, 16'384> bytes;  // NOLINT(cppcoreguidelines-pro-type-member-init): receive_plain() fills it
  std::size_t got = 0;
  const auto outcome = receive_plain(bytes.data(), bytes.size(), deadline, got);
  if (outcome == Outcome::kDone) tls_->arrived({bytes.data(), got});
  return outcome;
}

void Socket::shut_down() const noexcept { ::shutdown(fd_.get(), SHUT_RDWR); }

}  // namespace lockstep::store
