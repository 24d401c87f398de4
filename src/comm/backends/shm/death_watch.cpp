// SPDX-License-Identifier: Apache-2.0
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <vector>

#include "comm/backends/shm/shm_backend.h"
#include "lockstep/base/error.h"
#include "lockstep/base/resources.h"

namespace lockstep::comm {

DeathWatch::DeathWatch(ShmConnection connection) : connection_(std::move(connection)), stop_(eventfd(0, EFD_CLOEXEC)) {
  if (!stop_.valid()) throw_cannot("watch over the other ranks", errno);
  thread_ = start_thread("that watches over the other ranks", [this] { watch(); });
}

DeathWatch::~DeathWatch() {
  const std::uint64_t one = 1;
  if (write(stop_.get(), &one, sizeof(one)) < 0) thread_.detach();
  if (thread_.joinable()) thread_.join();
}

void DeathWatch::watch() noexcept {
  std::vector<pollfd> entries = {{stop_.get(), POLLIN, 0}};
  for (const auto& peer : connection_.peers) entries.push_back({peer.socket.get(), POLLIN, 0});
  while (true) {
    if (poll(entries.data(), entries.size(), -1) < 0 && errno != EINTR) return;
    if (entries[0].revents != 0) return;
    for (std::size_t i = 1; i < entries.size(); ++i) {
      if (entries[i].revents == 0) continue;
      char byte = 0;
      if (recv(entries[i].fd, &byte, 1, MSG_DONTWAIT) > 0) continue;
      entries[i].fd = -1;  // poll() skips it from now on
      const int rank = connection_.peers[i - 1].rank;
      if (connection_.segment->slot(rank).left.load(std::memory_order_acquire) != 0) continue;
      connection_.segment->fail(FailureKind::kDied, rank, "");
    }
  }
}

}  // namespace lockstep::comm
