// SPDX-License-Identifier: Apache-2.0
// Messages of one purpose between some ranks, who meet in the store; private to this folder.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "comm/backends/ucx/ucx_worker.h"
#include "comm/network/network_state.h"

namespace lockstep::comm {

/// What all transports of a group share.
struct UcxShared {
  UcxShared(World world, std::string host) : state(std::move(world)), store_host(std::move(host)) {}

  /// Made at the first call. Throws: ResourceError, UsageError for the interface. Thread-safe: yes.
  [[nodiscard]] std::shared_ptr<UcxContext> context();

  NetworkState state;
  const std::string store_host;

 private:
  std::mutex mutex_;
  std::shared_ptr<UcxContext> context_;
};

/// The first message makes its worker and publishes the address. One thread uses it at a time.
class UcxTransport final : public Transport {
 public:
  /// `label`: the same on all its ranks, and no other's.
  UcxTransport(std::shared_ptr<UcxShared> shared, const std::string& label);

  const World& world() const override { return shared_->state.world; }
  void exchange(const std::vector<Message>& sends, const std::vector<Message>& receives,
                const Collective& collective) override;

 private:
  [[nodiscard]] std::string key(int rank) const;
  void open();
  [[nodiscard]] std::optional<int> run(const std::vector<Message>& sends, const std::vector<Message>& receives,
                                       const Collective& collective, const std::atomic<bool>& stop);
  [[nodiscard]] bool meet(int peer, const Collective& collective, const std::atomic<bool>& stop);

  const std::shared_ptr<UcxShared> shared_;
  const std::string prefix_;
  std::unique_ptr<UcxWorker> worker_;  ///< null before the first message
  bool is_broken_ = false;
};

}  // namespace lockstep::comm
