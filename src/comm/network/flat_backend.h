// SPDX-License-Identifier: Apache-2.0
// All collectives over a network, in which every rank may send to every other rank: for ranks without shared memory.
#pragma once

#include <memory>
#include <vector>

#include "comm/network/exchange_reduce.h"
#include "comm/network/transport.h"

namespace lockstep::comm {

class FlatBackend final : public Backend {
 public:
  explicit FlatBackend(std::shared_ptr<Network> network);
  std::string name() const override { return network_->name(); }
  std::unique_ptr<Runner> open_channel(int peer, bool sending) override;
  at::Tensor allocate_bucket(std::int64_t numel, c10::ScalarType dtype) override;
  void abort(const std::string& reason) noexcept override;
  void leave() noexcept override {}

  /// Moves the data; the ranks have already compared their calls.
  void move_compared(const Collective& collective);

  void meet(const Collective& collective) override;
  void reduce(const Collective& collective) override;
  void move(const Collective& collective) override;

 private:
  void reduce_at_once(const Collective& collective);
  [[nodiscard]] ExchangeReduce plan_reduction(const Collective& collective) const;

  const std::shared_ptr<Network> network_;
  const std::shared_ptr<Transport> transport_;
  std::vector<int> all_;
  std::vector<std::byte> scratch_;
};

}  // namespace lockstep::comm
