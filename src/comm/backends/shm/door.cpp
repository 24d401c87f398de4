// SPDX-License-Identifier: Apache-2.0
#include "comm/backends/shm/door.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <iterator>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/base/log.h"
#include "lockstep/base/resources.h"
#include "lockstep/store/store.h"

namespace lockstep::comm {
namespace {

// The time limit for a rank's first message, which it sends as soon as it is connected.
constexpr auto kSilence = std::chrono::seconds(5);
// The maximum number of connections without a first message: more than the number of ranks that connect at the same
// moment. Another connection displaces the oldest one.
constexpr std::size_t kMostGuests = 64;
constexpr int kBacklog = 256;

ResourceError bind_error() {
  const int error = errno;
  if (is_shortage(error)) return shortage_error("open the ranks' socket", error);
  return ResourceError(fmt::format("bind of the ranks' socket failed: {}", std::strerror(error)));
}

// Compares in constant time.
bool is_nonce(const char* said, const std::string& nonce) {
  unsigned difference = nonce.size() == kNonceLetters ? 0 : 1;
  for (std::size_t i = 0; i < std::min(nonce.size(), kNonceLetters); ++i) {
    difference |= static_cast<unsigned char>(said[i]) ^ static_cast<unsigned char>(nonce[i]);
  }
  return difference == 0;
}

}  // namespace

sockaddr_un abstract_address(const std::string& name, socklen_t& size) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (name.empty() || name.size() + 1 > sizeof(address.sun_path)) {
    throw ResourceError(fmt::format("the name of the ranks' socket has {} bytes", name.size()));
  }
  std::memcpy(address.sun_path + 1, name.data(), name.size());
  size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  return address;
}

void check_same_user(int socket) {
  ucred peer{};
  socklen_t size = sizeof(peer);
  if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) {
    throw ResourceError(fmt::format("SO_PEERCRED of the ranks' socket failed: {}", std::strerror(errno)));
  }
  if (peer.uid != geteuid()) {
    throw ResourceError(
        fmt::format("the process at the other end runs as user {}, this one as {}", peer.uid, geteuid()));
  }
}

Door::Door(std::string nonce, int world) : nonce_(std::move(nonce)), name_("lockstep-" + make_token().substr(0, 32)) {
  socklen_t size = 0;
  const sockaddr_un address = abstract_address(name_, size);
  listener_.reset(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!listener_.valid() || bind(listener_.get(), reinterpret_cast<const sockaddr*>(&address), size) != 0 ||
      listen(listener_.get(), std::max(world, kBacklog)) != 0) {
    throw bind_error();
  }
}

void Door::look(std::chrono::milliseconds limit, const Enter& enter) {
  std::vector<pollfd> entries = {{listener_.get(), POLLIN, 0}};
  for (const Guest& guest : guests_) entries.push_back({guest.socket.get(), POLLIN, 0});
  (void)poll(entries.data(), entries.size(), static_cast<int>(limit.count()));
  const TimePoint now = SystemClock::instance().now();
  accept_all(now, enter);
  for (auto guest = guests_.begin(); guest != guests_.end();) hear(guest++, enter);
  drop_late(now);
  if (const auto count = refused_.due(now)) {
    log::warn("{} more connections to the ranks' socket were refused", *count);
  }
}

// Accepts all waiting connections, so that strangers in the queue do not delay a rank behind them.
void Door::accept_all(TimePoint now, const Enter& enter) {
  for (int i = 0; i < kBacklog; ++i) {
    UniqueFd socket(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket.valid()) {
      const bool is_short = errno == EMFILE || errno == ENFILE;
      if (is_short && !guests_.empty()) turn_away(guests_.begin(), "no file descriptor is left");
      return;
    }
    try {
      check_same_user(socket.get());
    } catch (const ResourceError& problem) {
      warn(problem.message());
      continue;
    }
    guests_.push_back({.socket = std::move(socket), .since = now, .hello = {}, .heard = 0});
    hear(std::prev(guests_.end()), enter);  // a rank's message has usually arrived by now
    if (guests_.size() > kMostGuests) turn_away(guests_.begin(), "too many connections send nothing");
  }
}

void Door::drop_late(TimePoint now) {
  while (!guests_.empty() && now - guests_.front().since > kSilence) turn_away(guests_.begin(), "it sends nothing");
}

void Door::hear(Guests::iterator guest, const Enter& enter) {
  char* const to = reinterpret_cast<char*>(&guest->hello) + guest->heard;
  const ssize_t got = recv(guest->socket.get(), to, sizeof(Hello) - guest->heard, 0);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (got <= 0) return turn_away(guest, "it closed the connection without sending anything");
  guest->heard += static_cast<std::size_t>(got);
  if (guest->heard < sizeof(Hello)) return;
  if (!is_nonce(guest->hello.nonce, nonce_)) return turn_away(guest, "it does not know the job's secret");
  try {
    const int flags = fcntl(guest->socket.get(), F_GETFL);
    fcntl(guest->socket.get(), F_SETFL, flags & ~O_NONBLOCK);
    enter(guest->hello.rank, std::move(guest->socket));
    guests_.erase(guest);
  } catch (const ResourceError& problem) {
    turn_away(guest, problem.message());
  }
}

void Door::turn_away(Guests::iterator guest, const std::string& why) {
  guests_.erase(guest);
  warn(why);
}

void Door::warn(const std::string& why) {
  const auto count = refused_.add(SystemClock::instance().now());
  if (!count) return;
  if (*count == 1) return log::warn("a connection to the ranks' socket was refused: {}", why);
  log::warn("{} connections to the ranks' socket were refused; the last: {}", *count, why);
}

}  // namespace lockstep::comm
