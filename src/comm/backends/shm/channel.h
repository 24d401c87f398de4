// SPDX-License-Identifier: Apache-2.0
// Messages between two ranks of one host, through a byte ring in the sender's region. Each direction has its own ring.
#pragma once

#include <memory>

#include "comm/backends/shm/health.h"
#include "comm/core/backend.h"

namespace lockstep::comm {

class ShmChannel final : public Runner {
 public:
  /// Opens this rank's end of the ring. Throws: ResourceError if there is no memory for the ring.
  ShmChannel(std::shared_ptr<Segment> segment, const World& world, int peer, bool sending);

  void run(const Collective& message) override;
  void abort(const std::string& reason) noexcept override;
  void leave() noexcept override {}

 private:
  /// Waits until the ring has room (sender) or bytes (receiver). Returns the number of bytes up to the ring's end.
  [[nodiscard]] std::uint32_t wait_for_bytes(const Collective& message);
  [[nodiscard]] std::uint32_t ready_bytes() const noexcept;
  void sleep_until_ready(const Collective& message);
  void write(const std::byte* data, std::size_t bytes, const Collective& message);
  void read(std::byte* data, std::size_t bytes, const Collective& message);
  [[nodiscard]] std::byte* ring() const noexcept;

  std::shared_ptr<Segment> segment_;
  GroupHealth health_;
  const int rank_;
  const int peer_;
  const bool sending_;
  PairSlot& slot_;
};

}  // namespace lockstep::comm
