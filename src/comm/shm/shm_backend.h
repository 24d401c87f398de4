// SPDX-License-Identifier: Apache-2.0
// Collectives between the ranks of one host, in shared memory. Protocol and its proof: docs/design/shm.md.
#pragma once

#include <memory>
#include <thread>

#include "comm/backend.h"
#include "comm/shm/barrier.h"
#include "comm/shm/connect.h"
#include "comm/tree_reduce.h"

namespace lockstep::comm {

/// Marks the group failed when a socket of a peer ends, and wakes everybody. Its destructor ends the thread at once.
class DeathWatch {
 public:
  explicit DeathWatch(ShmConnection connection);
  ~DeathWatch();
  DeathWatch(const DeathWatch&) = delete;
  DeathWatch& operator=(const DeathWatch&) = delete;

 private:
  void watch() noexcept;

  ShmConnection connection_;
  UniqueFd stop_;
  std::thread thread_;
};

class ShmBackend final : public Backend {
 public:
  ShmBackend(ShmConnection connection, World world);
  std::string name() const override { return "shm"; }
  void run(const Collective& collective) override;
  at::Tensor allocate_bucket(std::int64_t numel, c10::ScalarType dtype) override;
  void abort(const std::string& reason) noexcept override;
  void leave() noexcept override;

 private:
  struct Range {
    std::int64_t begin = 0;
    std::int64_t end = 0;
  };
  [[nodiscard]] Range slice(std::int64_t numel, std::size_t item_bytes, int rank) const;
  void announce(const Collective& collective);
  void meet_and_compare(const Collective& collective);
  [[nodiscard]] bool all_in_place(const Collective& collective);
  void all_reduce(const Collective& collective);
  [[nodiscard]] Reduction reduction(const Collective& collective) const;
  void reduce_in_one_pass(const Collective& collective, const std::vector<Piece>& pieces);
  void reduce_in_place(const Collective& collective, const std::vector<Piece>& pieces);
  void reduce_through_staging(const Collective& collective, const std::vector<Piece>& pieces);
  void broadcast(const Collective& collective);
  void all_gather(const Collective& collective);
  [[nodiscard]] Announcement& announcement(int rank, const Collective& collective);

  std::shared_ptr<Segment> segment_;
  World world_;
  Barrier barrier_;
  std::uint64_t staging_uses_ = 0;  ///< its parity says which half of the staging areas is next
  DeathWatch watch_;
};

}  // namespace lockstep::comm
