// SPDX-License-Identifier: Apache-2.0
#include "comm/backends/shm/connect.h"

#include <fmt/format.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <thread>

#include "comm/backends/shm/door.h"
#include "lockstep/base/awake_clock.h"
#include "lockstep/base/error.h"
#include "lockstep/base/resources.h"
#include "lockstep/store/store.h"

namespace lockstep::comm {
namespace {

constexpr auto kDoorLook = std::chrono::milliseconds(50);
constexpr auto kFirstPause = std::chrono::milliseconds(10);
constexpr auto kLongestPause = std::chrono::milliseconds(200);
constexpr const char* kAgreed = "yes";

ResourceError system_error(const char* verb) {
  const int error = errno;
  if (is_shortage(error)) return shortage_error(fmt::format("{} the ranks' socket", verb), error);
  return ResourceError(fmt::format("{} of the ranks' socket failed: {}", verb, std::strerror(error)));
}

// Limits a socket's calls to the interval at which the clock is checked. They also return, with EINTR, after this
// process has been stopped.
void look_at_clock(int socket) {
  const timeval time{0, std::chrono::microseconds(kAwakeLook).count()};
  for (const int option : {SO_RCVTIMEO, SO_SNDTIMEO}) setsockopt(socket, SOL_SOCKET, option, &time, sizeof(time));
}

// Repeats the call until it has succeeded or failed, or `end` has passed.
template <class Call>
auto until(TimePoint end, const Call& call) {
  auto result = call();
  while (result < 0 && (errno == EINTR || errno == EAGAIN) && AwakeClock::instance().now() < end) result = call();
  return result;
}

void send_descriptor(int socket, int fd) {
  char byte = 1;
  iovec data{&byte, 1};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof(control);
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof(int));
  std::memcpy(CMSG_DATA(header), &fd, sizeof(int));
  if (sendmsg(socket, &message, MSG_NOSIGNAL) != 1) throw system_error("sendmsg");
}

/// Returns the descriptor from rank 0; none if rank 0 closed the socket.
UniqueFd receive_descriptor(int socket, TimePoint end) {
  char byte = 0;
  iovec data{&byte, 1};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof(control);
  const ssize_t got = until(end, [&] { return recvmsg(socket, &message, MSG_CMSG_CLOEXEC); });
  if (got == 0 || (got < 0 && errno == ECONNRESET)) return UniqueFd();
  if (got != 1) throw system_error("recvmsg");
  const cmsghdr* header = CMSG_FIRSTHDR(&message);
  if (header == nullptr || header->cmsg_type != SCM_RIGHTS) throw ResourceError("rank 0 did not pass shared memory");
  int fd = -1;
  std::memcpy(&fd, CMSG_DATA(header), sizeof(int));
  return UniqueFd(fd);
}

std::string vote_key(const World& world, int rank) { return fmt::format("{}shm/vote/{}", world.prefix, rank); }

/// Rank 0's side of the handshake.
class Host {
 public:
  Host(const World& world, std::chrono::milliseconds timeout)
      : world_(world),
        end_(AwakeClock::instance().now() + timeout),
        nonce_(make_token().substr(0, kNonceLetters)),
        door_(nonce_, world.size) {}

  ShmConnection serve() {
    ShmConnection connection;
    connection.segment = Segment::create(world_.size);
    world_.store->set(world_.prefix + "shm/address", door_.name() + " " + nonce_);
    TimePoint next_check = AwakeClock::instance().now() + kDoorLook;
    while (static_cast<int>(connection.peers.size()) < world_.size - 1) {
      door_.look(kDoorLook, [&](int rank, UniqueFd socket) { enter(connection, rank, std::move(socket)); });
      if (AwakeClock::instance().now() < next_check) continue;
      check_missing(connection);
      next_check = AwakeClock::instance().now() + kDoorLook;
    }
    return connection;
  }

 private:
  void enter(ShmConnection& connection, int rank, UniqueFd socket) const {
    if (rank < 1 || rank >= world_.size || has(connection, rank)) {
      throw ResourceError(fmt::format("it claims to be rank {}", rank));
    }
    send_descriptor(socket.get(), connection.segment->fd());
    connection.peers.push_back({rank, std::move(socket)});
  }

  static bool has(const ShmConnection& connection, int rank) {
    return std::any_of(connection.peers.begin(), connection.peers.end(), [&](const auto& p) { return p.rank == rank; });
  }

  void check_missing(const ShmConnection& connection) {
    std::vector<LateRank> late;
    for (int rank = 1; rank < world_.size; ++rank) {
      if (has(connection, rank)) continue;
      late.push_back({rank, ""});
      const auto vote = world_.store->try_get(vote_key(world_, rank));
      if (vote) throw ResourceError(*vote);
    }
    if (AwakeClock::instance().now() < end_) return;
    throw TimeoutError("not all ranks of this host connected to the shared memory\n  waiting for   " + names(late),
                       timeout_hint());
  }

  std::string names(const std::vector<LateRank>& late) const {
    std::string text;
    for (const LateRank& rank : late) text += (text.empty() ? "" : ", ") + rank_text(world_, rank.rank);
    return text;
  }

  const World& world_;
  const TimePoint end_;
  const std::string nonce_;
  Door door_;
};

struct DoorAddress {
  std::string name;
  std::string nonce;
};

DoorAddress find_door(const World& world, std::chrono::milliseconds timeout) {
  const std::string answer = world.store->get(world.prefix + "shm/address", timeout);
  const auto space = answer.find(' ');
  if (space == std::string::npos) throw ResourceError(answer);
  DoorAddress door{answer.substr(0, space), answer.substr(space + 1)};
  if (door.nonce.size() != kNonceLetters) throw ResourceError("rank 0's address of the shared memory is torn");
  return door;
}

UniqueFd knock(const World& world, const DoorAddress& door, TimePoint end) {
  socklen_t size = 0;
  const sockaddr_un address = abstract_address(door.name, size);
  UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!socket.valid()) throw system_error("connect");
  look_at_clock(socket.get());
  const auto enter = [&] { return connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), size); };
  if (until(end, enter) != 0) throw system_error("connect");
  check_same_user(socket.get());
  Hello hello;
  hello.rank = world.rank;
  std::memcpy(hello.nonce, door.nonce.data(), kNonceLetters);
  const auto say = [&] { return send(socket.get(), &hello, sizeof(hello), MSG_NOSIGNAL); };
  if (until(end, say) != sizeof(hello) && errno != EPIPE) {
    throw system_error("send");
  }
  return socket;
}

ShmConnection join(const World& world, std::chrono::milliseconds timeout) {
  const TimePoint end = AwakeClock::instance().now() + timeout;
  const DoorAddress door = find_door(world, timeout);
  // Strangers may have displaced this rank before rank 0 read its message; in that case it connects again.
  for (auto pause = kFirstPause;; pause = std::min<std::chrono::milliseconds>(pause * 2, kLongestPause)) {
    UniqueFd socket = knock(world, door, end);
    UniqueFd segment = receive_descriptor(socket.get(), end);
    if (segment.valid()) {
      ShmConnection connection;
      connection.segment = Segment::open(std::move(segment), world.size, world.rank);
      connection.peers.push_back({0, std::move(socket)});
      return connection;
    }
    if (AwakeClock::instance().now() + pause >= end) throw ResourceError("rank 0 closed the ranks' socket");
    std::this_thread::sleep_for(pause);
  }
}

/// Reads the other ranks' votes. Throws: the first objection.
void agree(const World& world, std::chrono::milliseconds timeout) {
  for (int rank = 0; rank < world.size; ++rank) {
    const std::string vote = world.store->get(vote_key(world, rank), timeout);
    if (vote != kAgreed) throw ResourceError(vote);
  }
}

}  // namespace

ShmConnection connect_shm(const World& world, std::chrono::milliseconds timeout) {
  ShmConnection connection;
  std::string vote = kAgreed;
  try {
    connection = world.rank == 0 ? Host(world, timeout).serve() : join(world, timeout);
  } catch (const ResourceError& problem) {
    vote = fmt::format("{}: {}", rank_text(world, world.rank), problem.message());
  }
  world.store->set(vote_key(world, world.rank), vote);
  if (world.rank == 0 && vote != kAgreed) {
    world.store->compare_set(world.prefix + "shm/address", "", "rank 0 does not serve shared memory");
  }
  agree(world, timeout);
  return connection;
}

}  // namespace lockstep::comm
