// SPDX-License-Identifier: Apache-2.0
// A mailbox for each pair of a communicator's ranks, in shared memory.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace lockstep::testing::nccl_double {

constexpr int kMostRanks = 16;

/// Bytes to or from a peer. `call` is a number for the call that both must make: a wait for a peer with a different
/// call never ends, as in NCCL's kernels.
struct Transfer {
  bool out = false;
  int peer = 0;
  std::byte* at = nullptr;
  std::size_t left = 0;
  std::uint64_t call = 0;
};

class Boxes {
 public:
  /// Creates the shared memory. Returns its name; empty if there is no space.
  [[nodiscard]] static std::string make();

  explicit Boxes(const std::string& name);
  ~Boxes();
  Boxes(const Boxes&) = delete;
  Boxes& operator=(const Boxes&) = delete;

  [[nodiscard]] bool is_open() const { return shared_ != nullptr; }
  /// Removes the name, after which no other rank can open the memory.
  void remove_name();
  /// Waits until all ranks have called it. Returns false if `aborted` was set before.
  [[nodiscard]] bool meet(int rank, int world, const std::atomic<bool>& aborted);
  /// Performs all transfers at the same time, with transfers to the same peer in the same direction in order. Returns
  /// false if
  /// `aborted` was set before they finished.
  [[nodiscard]] bool exchange(int rank, std::vector<Transfer> transfers, const std::atomic<bool>& aborted);

 private:
  struct Shared;
  [[nodiscard]] bool move(int rank, Transfer& transfer);
  const std::string name_;
  Shared* shared_ = nullptr;
};

}  // namespace lockstep::testing::nccl_double
