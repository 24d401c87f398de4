// SPDX-License-Identifier: Apache-2.0
// The backend for several ranks on each of several hosts. Reductions, broadcasts and gathers go through shared memory
// inside a host and through the transport between the hosts' first ranks, so that each byte crosses the network once
// per host, not once per rank. The host's partial sums keep the accumulator's dtype until the last rounding, so results
// have the same bits as on every other backend. all_to_all, scatter, send and receive go directly from rank to rank.
#pragma once

#include <memory>
#include <vector>

#include "comm/backends/shm/shm_backend.h"
#include "comm/network/exchange_reduce.h"
#include "comm/network/flat_backend.h"
#include "comm/network/transport.h"

namespace lockstep::comm {

/// The ranks of each host, in order of the hosts' first ranks.
using HostRanks = std::vector<std::vector<int>>;

/// Groups the ranks by host id.
[[nodiscard]] HostRanks ranks_by_host(const std::vector<std::string>& host_ids);

/// Returns true if the tree over all ranks can be built from one tree per host: every host has consecutive ranks, and
/// some host has several.
[[nodiscard]] bool is_hierarchy(const HostRanks& hosts);

class HierarchicalBackend final : public Backend {
 public:
  /// `host_world` holds this host's ranks, as in connect_shm(). Collective: over all ranks of `network`.
  HierarchicalBackend(ShmConnection connection, const World& host_world, std::shared_ptr<Network> network,
                      HostRanks hosts);
  std::string name() const override { return "shm+" + network_->name(); }
  std::unique_ptr<Runner> open_channel(int peer, bool sending) override;
  at::Tensor allocate_bucket(std::int64_t numel, c10::ScalarType dtype) override {
    return shm_.allocate_bucket(numel, dtype);
  }
  void check(const Collective& under_way) override { shm_.check(under_way); }
  void abort(const std::string& reason) noexcept override;
  void leave() noexcept override { shm_.leave(); }

 protected:
  void meet(const Collective& collective) override;
  void reduce(const Collective& collective) override;
  void move(const Collective& collective) override;
  void note_finished(std::uint64_t sequence) noexcept override { shm_.note_finished(sequence); }

 private:
  /// This host's contribution to a reduction.
  struct HostPart {
    std::vector<Piece> pieces;      ///< the pieces of the host's ranks, by their rank within the host
    std::vector<ReplicaSpan> rows;  ///< the sums that the other hosts need
  };

  /// A piece of memory in this rank's region.
  struct Memory {
    std::byte* start = nullptr;
    std::size_t bytes = 0;
  };

  [[nodiscard]] bool is_leader() const noexcept;
  /// Runs a collective. If a rank of this host dies during it, reports the death to the other hosts.
  template <class Step>
  void watched(Step&& step);
  /// Runs a step that communicates with other hosts; its error becomes the error of all ranks of this host.
  template <class Step>
  void between_hosts(Step&& step);
  void compare_hosts(const Collective& collective);
  [[nodiscard]] HostPart host_part(const Collective& collective, int host) const;
  [[nodiscard]] Memory offer_scratch(std::size_t bytes);
  void meet_with_scratch(const Collective& collective, std::size_t bytes, std::size_t announced);
  void reduce_through_hosts(const Collective& collective);
  void reduce_in_host(const Collective& collective, const HostPart& part);
  void reduce_between_hosts(const Collective& collective);
  void gather_through_hosts(const Collective& collective);
  void exchange_parts(const Collective& collective, const std::vector<std::size_t>& places);
  void move_between_ranks(const Collective& collective);
  void broadcast(const Collective& collective);
  void send_to_hosts(const Collective& collective, bool at_home);

  ShmBackend shm_;  ///< backend of this host's ranks
  std::shared_ptr<Network> network_;
  std::shared_ptr<Transport> between_;  ///< connects the hosts' first ranks; null on other ranks
  std::unique_ptr<FlatBackend> flat_;   ///< null until the first collective that needs it
  const HostRanks hosts_;
  std::vector<int> leaders_;
  int host_ = 0;    ///< index of this rank's host in hosts_
  Memory offered_;  ///< memory that the leader offers; not freed at the end: other ranks may still be reading it
  std::byte* scratch_ = nullptr;  ///< the leader's memory, for this collective
  std::vector<std::byte> received_;
};

}  // namespace lockstep::comm
