// SPDX-License-Identifier: Apache-2.0
// Messages: kind and size as 8 bytes each (both hosts have one byte order: Lockstep is built for little-endian alone),
// then the payload. A ping is sent back, data is swallowed, a flush is answered when all before it has been read, a
// pull is answered by data and a flush.
#include "launch/doctor/link_socket.h"

#include <fcntl.h>
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
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

#include "lockstep/base/awake_clock.h"
#include "lockstep/base/error.h"
#include "lockstep/base/whole_number.h"
#include "lockstep/store/store.h"

namespace lockstep::launch {
namespace {

using std::chrono::milliseconds;
using LinkTime = std::chrono::steady_clock::time_point;

constexpr std::size_t kPasswordLetters = 64;
constexpr std::size_t kPlaceDigits = 8;
constexpr std::size_t kGreetingLetters = kPasswordLetters + kPlaceDigits;
constexpr std::size_t kMostGuests = 64;  // who shows nothing goes for the newest
constexpr std::size_t kPingBytes = 64;
constexpr std::size_t kPieceBytes = 256U << 10U;
constexpr int kPings = 200;
constexpr auto kPingTime = milliseconds(300);
constexpr auto kStreamTime = milliseconds(300);
constexpr auto kSilence = std::chrono::seconds(30);
constexpr auto kConnectTime = milliseconds(5000);
constexpr auto kGreetingTime = milliseconds(2000);

enum class Kind : std::uint64_t { kPing = 1, kData = 2, kFlush = 3, kPull = 4 };

struct Head {
  Kind kind;
  std::uint64_t size;
};

LinkTime now() { return std::chrono::steady_clock::now(); }
double link_seconds(LinkTime begin) { return std::chrono::duration<double>(now() - begin).count(); }

[[noreturn]] void fail(const char* what, int error) {
  throw IoError(std::string(what) + ": " + std::generic_category().message(error));
}

void set_limits(int fd, milliseconds silence) {
  const timeval limit{.tv_sec = silence.count() / 1000, .tv_usec = silence.count() % 1000 * 1000};
  const int on = 1;
  ::setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  ::setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
  ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

bool send_all(int fd, const void* data, std::size_t size) {
  const auto* bytes = static_cast<const char*>(data);
  while (size > 0) {
    const ssize_t count = ::send(fd, bytes, size, MSG_NOSIGNAL);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    bytes += count;
    size -= static_cast<std::size_t>(count);
  }
  return true;
}

bool receive_all(int fd, void* data, std::size_t size) {
  auto* bytes = static_cast<char*>(data);
  while (size > 0) {
    const ssize_t count = ::recv(fd, bytes, size, 0);
    if (count < 0 && errno == EINTR) continue;
    if (count == 0) errno = ECONNRESET;
    if (count <= 0) return false;
    bytes += count;
    size -= static_cast<std::size_t>(count);
  }
  return true;
}

std::string greeting_of(const std::string& password, int own) {
  std::string place = std::to_string(own);
  place.insert(0, kPlaceDigits - std::min(kPlaceDigits, place.size()), '0');
  return password + place;
}

using Addresses = std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)>;

Addresses numeric_address(const LinkAddress& to, bool is_passive) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICHOST | (is_passive ? AI_PASSIVE : 0);
  addrinfo* found = nullptr;
  if (::getaddrinfo(to.address.c_str(), std::to_string(to.port).c_str(), &hints, &found) != 0) {
    throw IoError("'" + to.address + "' is no numeric address");
  }
  return {found, ::freeaddrinfo};
}

std::uint16_t bound_port(int fd) {
  sockaddr_storage own{};
  socklen_t size = sizeof own;
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&own), &size) != 0) fail("cannot listen", errno);
  return ntohs(own.ss_family == AF_INET6 ? reinterpret_cast<const sockaddr_in6*>(&own)->sin6_port
                                         : reinterpret_cast<const sockaddr_in*>(&own)->sin_port);
}

void finish_connect(int fd) {
  pollfd entry{fd, POLLOUT, 0};
  if (::poll(&entry, 1, static_cast<int>(kConnectTime.count())) <= 0) fail("cannot connect", ETIMEDOUT);
  int error = 0;
  socklen_t size = sizeof error;
  ::getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size);
  if (error != 0) fail("cannot connect", error);
  ::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) & ~O_NONBLOCK);
}

double median_ping(int fd) {
  struct {
    Head head{Kind::kPing, kPingBytes};
    std::array<char, kPingBytes> payload{};
  } ping;
  // The other side may be busy with another host: the first one only tells that it is there.
  if (!send_all(fd, &ping, sizeof ping) || !receive_all(fd, ping.payload.data(), kPingBytes))
    fail("it broke off", errno);
  std::vector<double> times;
  const LinkTime begin = now();
  while (times.size() < kPings && (times.empty() || now() - begin < kPingTime)) {
    const LinkTime start = now();
    if (!send_all(fd, &ping, sizeof ping) || !receive_all(fd, ping.payload.data(), kPingBytes))
      fail("it broke off", errno);
    times.push_back(link_seconds(start) * 1e6);
  }
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

/// Sends data for kStreamTime, and a flush. Returns the bytes; none where the connection broke off.
std::optional<std::uint64_t> stream(int fd) {
  const std::vector<char> bytes(kPieceBytes);
  const Head data{Kind::kData, kPieceBytes};
  const Head flush{Kind::kFlush, 0};
  std::uint64_t sent = 0;
  const LinkTime begin = now();
  while (now() - begin < kStreamTime) {
    if (!send_all(fd, &data, sizeof data) || !send_all(fd, bytes.data(), bytes.size())) return std::nullopt;
    sent += bytes.size();
  }
  return send_all(fd, &flush, sizeof flush) ? std::optional(sent) : std::nullopt;
}

double rate_there(int fd) {
  const LinkTime begin = now();
  const auto sent = stream(fd);
  char answer = 0;
  if (!sent || !receive_all(fd, &answer, 1)) fail("it broke off", errno);
  return static_cast<double>(*sent) / link_seconds(begin);
}

double rate_back(int fd) {
  std::vector<char> bytes(kPieceBytes);
  Head head{Kind::kPull, 0};
  std::uint64_t received = 0;
  const LinkTime begin = now();
  if (!send_all(fd, &head, sizeof head)) fail("it broke off", errno);
  while (receive_all(fd, &head, sizeof head)) {
    if (head.kind == Kind::kFlush) return static_cast<double>(received) / link_seconds(begin);
    if (head.size > bytes.size() || !receive_all(fd, bytes.data(), head.size)) break;
    received += head.size;
  }
  fail("it broke off", errno);
}

}  // namespace

LinkListener::LinkListener(const std::string& address) : address_{address, 0, make_token()} {
  const Addresses found = numeric_address(address_, true);
  fd_ = UniqueFd(::socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd_.valid() || ::bind(fd_.get(), found->ai_addr, found->ai_addrlen) != 0 || ::listen(fd_.get(), 64) != 0) {
    fail("cannot listen", errno);
  }
  address_.port = bound_port(fd_.get());
}

void LinkListener::take_guests() {
  for (;;) {
    UniqueFd connection(::accept4(fd_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!connection.valid()) return;
    guests_.push_back({std::move(connection), "", AwakeClock::instance().now() + kGreetingTime});
    if (guests_.size() > kMostGuests) guests_.pop_front();
  }
}

bool LinkListener::hear(Guest& guest) {
  std::array<char, kGreetingLetters> letters{};
  const ssize_t count = ::recv(guest.fd.get(), letters.data(), kGreetingLetters - guest.greeting.size(), 0);
  if (count < 0) return (errno == EAGAIN || errno == EINTR) && AwakeClock::instance().now() < guest.end;
  guest.greeting.append(letters.data(), static_cast<std::size_t>(count));
  if (count == 0) return false;
  if (guest.greeting.size() < kGreetingLetters) return AwakeClock::instance().now() < guest.end;
  const std::string_view place = std::string_view(guest.greeting).substr(kPasswordLetters);
  const auto number = parse_whole(place, {});
  if (!guest.greeting.starts_with(address_.password) || !number) return false;
  ::fcntl(guest.fd.get(), F_SETFL, ::fcntl(guest.fd.get(), F_GETFL) & ~O_NONBLOCK);
  waiting_[static_cast<int>(*number)] = std::move(guest.fd);
  return false;
}

void LinkListener::listen_until(TimePoint end) {
  std::vector<pollfd> entries{{fd_.get(), POLLIN, 0}};
  for (const Guest& guest : guests_) {
    entries.push_back({guest.fd.get(), POLLIN, 0});
    end = std::min(end, guest.end);
  }
  const auto left = std::chrono::ceil<milliseconds>(end - AwakeClock::instance().now()).count();
  (void)::poll(entries.data(), entries.size(), static_cast<int>(std::max<std::int64_t>(left, 0)));
}

UniqueFd LinkListener::accept_from(int from, milliseconds patience) {
  const TimePoint end = AwakeClock::instance().now() + patience;
  for (;;) {
    take_guests();
    std::erase_if(guests_, [this](Guest& guest) { return !hear(guest); });
    if (const auto found = waiting_.find(from); found != waiting_.end()) {
      UniqueFd connection = std::move(found->second);
      waiting_.erase(found);
      return connection;
    }
    if (AwakeClock::instance().now() >= end) return UniqueFd();
    listen_until(end);
  }
}

UniqueFd connect_link(const LinkAddress& to, int own) {
  const Addresses found = numeric_address(to, false);
  UniqueFd fd(::socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.valid()) fail("cannot connect", errno);
  if (::connect(fd.get(), found->ai_addr, found->ai_addrlen) != 0 && errno != EINPROGRESS)
    fail("cannot connect", errno);
  finish_connect(fd.get());
  set_limits(fd.get(), kSilence);
  const std::string greeting = greeting_of(to.password, own);
  if (!send_all(fd.get(), greeting.data(), greeting.size())) fail("it broke off", errno);
  return fd;
}

LinkFigures measure_link(int fd) {
  LinkFigures figures{.round_trip_us = median_ping(fd)};
  figures.bytes_per_s = std::min(rate_there(fd), rate_back(fd));
  return figures;
}

void serve_link(int fd) noexcept {
  set_limits(fd, kSilence);
  std::vector<char> bytes(kPieceBytes);
  Head head{};
  while (receive_all(fd, &head, sizeof head)) {
    if (head.size > bytes.size() || !receive_all(fd, bytes.data(), head.size)) return;
    if (head.kind == Kind::kPing && !send_all(fd, bytes.data(), head.size)) return;
    if (head.kind == Kind::kFlush && !send_all(fd, "!", 1)) return;
    if (head.kind == Kind::kPull && !stream(fd)) return;
  }
}

}  // namespace lockstep::launch
