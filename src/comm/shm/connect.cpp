// SPDX-License-Identifier: Apache-2.0
#include "comm/shm/connect.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "lockstep/base/error.h"
#include "lockstep/base/log.h"

namespace lockstep::comm {
namespace {

using SteadyTime = std::chrono::steady_clock::time_point;
constexpr auto kListenLook = std::chrono::milliseconds(50);
constexpr std::size_t kNonce = 64;
constexpr const char* kAgreed = "yes";

/// The first words of a connecting rank.
struct Hello {
  char nonce[kNonce] = {};
  std::int32_t rank = 0;
};

ResourceError system_error(const char* verb) {
  return ResourceError(fmt::format("{} of the ranks' socket failed: {}", verb, std::strerror(errno)));
}

/// An abstract address: it lives in the network namespace and leaves no file, whenever its owner is killed.
sockaddr_un abstract_address(const std::string& name, socklen_t& size) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path + 1, name.data(), name.size());
  size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  return address;
}

void check_same_user(int socket) {
  ucred peer{};
  socklen_t size = sizeof(peer);
  if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) throw system_error("SO_PEERCRED");
  if (peer.uid != geteuid()) {
    throw ResourceError(
        fmt::format("the process at the other end runs as user {}, this one as {}", peer.uid, geteuid()));
  }
}

bool wait_readable(int socket, std::chrono::milliseconds limit) {
  pollfd entry{socket, POLLIN, 0};
  return poll(&entry, 1, static_cast<int>(limit.count())) > 0;
}

void set_receive_limit(int socket, std::chrono::milliseconds limit) {
  const timeval time{limit.count() / 1000, limit.count() % 1000 * 1000};
  setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &time, sizeof(time));
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

UniqueFd receive_descriptor(int socket) {
  char byte = 0;
  iovec data{&byte, 1};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof(control);
  if (recvmsg(socket, &message, MSG_CMSG_CLOEXEC) != 1) throw system_error("recvmsg");
  const cmsghdr* header = CMSG_FIRSTHDR(&message);
  if (header == nullptr || header->cmsg_type != SCM_RIGHTS) throw ResourceError("rank 0 passed no shared memory");
  int fd = -1;
  std::memcpy(&fd, CMSG_DATA(header), sizeof(int));
  return UniqueFd(fd);
}

std::string vote_key(const World& world, int rank) { return fmt::format("{}shm/vote/{}", world.prefix, rank); }

/// Rank 0's side.
class Host {
 public:
  Host(const World& world, std::chrono::milliseconds timeout)
      : world_(world), end_(std::chrono::steady_clock::now() + timeout), nonce_(make_token().substr(0, kNonce)) {}

  ShmConnection serve() {
    ShmConnection connection;
    connection.segment = Segment::create(world_.size);
    listen_and_publish();
    while (static_cast<int>(connection.peers.size()) < world_.size - 1) {
      if (wait_readable(listener_.get(), kListenLook)) {
        accept_one(connection);
      } else {
        check_missing(connection);
      }
    }
    return connection;
  }

 private:
  void listen_and_publish() {
    const std::string name = "lockstep-" + make_token().substr(0, 32);
    socklen_t size = 0;
    const sockaddr_un address = abstract_address(name, size);
    listener_.reset(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (!listener_.valid() || bind(listener_.get(), reinterpret_cast<const sockaddr*>(&address), size) != 0 ||
        listen(listener_.get(), world_.size) != 0) {
      throw system_error("bind");
    }
    world_.store->set(world_.prefix + "shm/address", name + " " + nonce_);
  }

  // A stranger is turned away without harm to the job: the name of the socket is no secret on the machine.
  void accept_one(ShmConnection& connection) {
    UniqueFd socket(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!socket.valid()) return;
    try {
      check_same_user(socket.get());
      set_receive_limit(socket.get(), std::chrono::seconds(2));
      Hello hello;
      if (recv(socket.get(), &hello, sizeof(hello), MSG_WAITALL) != sizeof(hello)) throw system_error("recv");
      if (std::memcmp(hello.nonce, nonce_.data(), kNonce) != 0)
        throw ResourceError("it does not know the job's secret");
      if (hello.rank < 1 || hello.rank >= world_.size || has(connection, hello.rank)) {
        throw ResourceError(fmt::format("it says that it is rank {}", hello.rank));
      }
      send_descriptor(socket.get(), connection.segment->fd());
      connection.peers.push_back({hello.rank, std::move(socket)});
    } catch (const std::exception& problem) {
      log::warn("a connection to the ranks' socket was refused: {}", problem.what());
    }
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
    if (std::chrono::steady_clock::now() < end_) return;
    throw TimeoutError("the ranks of this host did not all come to the shared memory\n  waiting for   " + names(late));
  }

  std::string names(const std::vector<LateRank>& late) const {
    std::string text;
    for (const LateRank& rank : late) text += (text.empty() ? "" : ", ") + rank_text(world_, rank.rank);
    return text;
  }

  const World& world_;
  const SteadyTime end_;
  const std::string nonce_;
  UniqueFd listener_;
};

ShmConnection join(const World& world, std::chrono::milliseconds timeout) {
  const std::string told = world.store->get(world.prefix + "shm/address", timeout);
  const auto space = told.find(' ');
  if (space == std::string::npos) throw ResourceError(told);
  socklen_t size = 0;
  const sockaddr_un address = abstract_address(told.substr(0, space), size);
  UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!socket.valid() || connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), size) != 0) {
    throw system_error("connect");
  }
  check_same_user(socket.get());
  Hello hello;
  hello.rank = world.rank;
  std::memcpy(hello.nonce, told.data() + space + 1, std::min(kNonce, told.size() - space - 1));
  if (send(socket.get(), &hello, sizeof(hello), MSG_NOSIGNAL) != sizeof(hello)) throw system_error("send");
  set_receive_limit(socket.get(), timeout);
  ShmConnection connection;
  connection.segment = Segment::open(receive_descriptor(socket.get()), world.size, world.rank);
  connection.peers.push_back({0, std::move(socket)});
  return connection;
}

/// The other ranks' votes; throws the first reason against.
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
    world.store->compare_set(world.prefix + "shm/address", "", "rank 0 serves no shared memory");
  }
  agree(world, timeout);
  return connection;
}

}  // namespace lockstep::comm
