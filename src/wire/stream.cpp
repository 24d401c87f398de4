// SPDX-License-Identifier: Apache-2.0
#include "wire/stream.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "lockstep/base/resources.h"

namespace lockstep::wire {
namespace {

constexpr std::size_t kMostSegments = 16;

[[noreturn]] void throw_lost(const char* action) {
  throw ConnectionLost(fmt::format("{}: {}", action, error_words(errno)));
}

class PlainStream final : public Stream {
 public:
  explicit PlainStream(int fd) : fd_(fd) {}
  std::size_t write(const std::vector<Segment>& segments) override { return send_some(fd_, segments); }
  std::size_t read(Room first, Room second) override { return receive_some(fd_, first, second); }

 private:
  int fd_;
};

}  // namespace

std::size_t receive_some(int fd, Room first, Room second) {
  std::array<iovec, 2> parts{iovec{first.data, first.bytes}, iovec{second.data, second.bytes}};
  msghdr message{};
  message.msg_iov = first.bytes > 0 ? parts.data() : parts.data() + 1;
  message.msg_iovlen = first.bytes > 0 ? 2 : 1;
  while (true) {
    const ssize_t got = ::recvmsg(fd, &message, MSG_DONTWAIT);
    if (got > 0) return static_cast<std::size_t>(got);
    if (got == 0) throw ConnectionLost("the other end has closed the connection");
    if (errno == EAGAIN || errno == EWOULDBLOCK) return 0;
    if (errno != EINTR) throw_lost("cannot receive");
  }
}

std::size_t send_some(int fd, const std::vector<Segment>& segments) {
  std::array<iovec, kMostSegments> parts{};
  const std::size_t count = std::min(segments.size(), kMostSegments);
  for (std::size_t i = 0; i < count; ++i) {
    parts[i] = {const_cast<std::byte*>(segments[i].data), segments[i].bytes};
  }
  msghdr message{};
  message.msg_iov = parts.data();
  message.msg_iovlen = count;
  while (true) {
    const ssize_t sent = ::sendmsg(fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent >= 0) return static_cast<std::size_t>(sent);
    if (errno == EAGAIN || errno == EWOULDBLOCK) return 0;
    if (errno != EINTR) throw_lost("cannot send");
  }
}

std::unique_ptr<Stream> make_plain_stream(int fd) { return std::make_unique<PlainStream>(fd); }

}  // namespace lockstep::wire
