// SPDX-License-Identifier: Apache-2.0
// Collectives between the ranks of one host, in shared memory. docs/design/shm.md has the protocol and its proof.
#pragma once

#include <memory>
#include <thread>

#include "comm/backends/shm/barrier.h"
#include "comm/backends/shm/connect.h"
#include "comm/core/backend.h"
#include "comm/core/tree_reduce.h"

namespace lockstep::comm {

/// A thread that marks the group as failed, and wakes all ranks, when a peer's socket closes. Ends at destruction.
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

/// A division of `numel` elements into slices of whole cache lines; each rank combines one slice for all ranks.
struct Slicing {
  std::int64_t numel = 0;
  std::size_t item_bytes = 0;
  int world = 1;
};
[[nodiscard]] ElementRange slice_of(const Slicing& slicing, int rank);

class ShmBackend final : public Backend {
 public:
  ShmBackend(ShmConnection connection, const World& world);
  std::string name() const override { return "shm"; }
  std::unique_ptr<Runner> open_channel(int peer, bool sending) override;
  at::Tensor allocate_bucket(std::int64_t numel, c10::ScalarType dtype) override;
  void check(const Collective& under_way) override;
  void abort(const std::string& reason) noexcept override;
  void leave() noexcept override;

  // These functions are for a backend that uses the segment for one step of a collective.
  void meet(const Collective& collective) override;
  void move(const Collective& collective) override;
  void note_finished(std::uint64_t sequence) noexcept override;
  [[nodiscard]] Segment& segment() noexcept { return *segment_; }
  [[nodiscard]] const World& world() const noexcept { return world_; }
  [[nodiscard]] Barrier& barrier() noexcept { return barrier_; }
  /// Returns the ranks' rows of `chunk` as leaves: in place, or copied to staging (then all ranks meet).
  [[nodiscard]] std::vector<TreeLeaf> leaves_of_chunk(const Collective& collective, const std::vector<Piece>& pieces,
                                                      ElementRange chunk);
  void announce(const Collective& collective, std::size_t bytes);
  [[nodiscard]] Announcement& announcement(int rank, const Collective& collective);
  [[nodiscard]] bool all_in_place(const Collective& collective);

 private:
  void reduce(const Collective& collective) override;
  void copy_rows(const Collective& collective, ElementRange chunk, std::byte* staging) const;
  [[nodiscard]] std::vector<TreeLeaf> staged_leaves(const std::vector<Piece>& pieces, std::uint64_t parity,
                                                    std::size_t row_bytes, std::size_t at);

  void reduce_in_one_pass(const Collective& collective, const std::vector<Piece>& pieces);
  void reduce_in_place(const Collective& collective, const std::vector<Piece>& pieces);
  void reduce_through_staging(const Collective& collective, const std::vector<Piece>& pieces);
  void share_slices(const Collective& collective, ElementRange chunk, std::uint64_t parity);
  void move_in_place(const Collective& collective);
  void move_through_staging(const Collective& collective);

  std::shared_ptr<Segment> segment_;
  World world_;
  Barrier barrier_;
  std::uint64_t staging_uses_ = 0;   ///< number of uses so far; its parity selects the half to use
  std::vector<Piece> plain_pieces_;  ///< pieces of a reduction without replicas
  DeathWatch watch_;
};

}  // namespace lockstep::comm
