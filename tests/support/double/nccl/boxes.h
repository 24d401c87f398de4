// SPDX-License-Identifier: Apache-2.0
// What the ranks of a communicator share: a letter box for each pair of them, in shared memory.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace lockstep::testing::nccl_double {

constexpr int kMostRanks = 16;

/// Bytes to or from a peer. `call` is a number for what both must have called: a peer that has called something else
/// is waited for in vain, as by NCCL's kernels.
struct Transfer {
  bool out = false;
  int peer = 0;
  std::byte* at = nullptr;
  std::size_t left = 0;
  std::uint64_t call = 0;
};

class Boxes {
 public:
  /// Makes the memory. Returns its name; empty: there is no room.
  [[nodiscard]] static std::string make();

  explicit Boxes(const std::string& name);
  ~Boxes();
  Boxes(const Boxes&) = delete;
  Boxes& operator=(const Boxes&) = delete;

  [[nodiscard]] bool is_open() const { return shared_ != nullptr; }
  /// No other rank can open it from then on.
  void remove_name();
  /// Waits until all ranks are here. Returns: false where `aborted` was set before.
  [[nodiscard]] bool meet(int rank, int world, const std::atomic<bool>& aborted);
  /// Does all of them at the same time, those with the same peer and direction in order. Returns: false where `aborted`
  /// was set before they had ended.
  [[nodiscard]] bool exchange(int rank, std::vector<Transfer> transfers, const std::atomic<bool>& aborted);

 private:
  struct Shared;
  [[nodiscard]] bool move(int rank, Transfer& transfer);
  const std::string name_;
  Shared* shared_ = nullptr;
};

}  // namespace lockstep::testing::nccl_double
