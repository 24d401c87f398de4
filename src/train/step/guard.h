// SPDX-License-Identifier: Apache-2.0
// The guard against wrong numbers: every few steps, another rank recomputes a replica, and all ranks compare their
// weights (docs/design/exactness.md).
#pragma once

#include <ATen/core/ivalue.h>  // before any other torch header
#include <ATen/core/Tensor.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/comm/job.h"
#include "lockstep/tensor/named_tensors.h"
#include "train/step/gradient_hook.h"

namespace lockstep::train {

/// Thrown, identically on every rank, after the guard has found a wrong number.
class Miscomputed : public CorruptionError {
 public:
  Miscomputed(std::int64_t proved, const std::string& message, const std::string& hint, int rank = -1)
      : CorruptionError(message, hint, rank), proved_(proved) {}
  /// Returns the last step with equal weights on every rank and no wrong gradient.
  [[nodiscard]] std::int64_t proved() const noexcept { return proved_; }

 private:
  std::int64_t proved_;
};

/// The ranks that take part in a guarded step.
struct GuardRoles {
  int replica = 0;  ///< the replica to recompute
  int carrier = 0;  ///< the rank that runs the replica
  int checker = 0;  ///< the rank that recomputes it, on another host if there is one
  int third = -1;   ///< the rank that breaks the tie if these two differ; -1 if there are only two ranks
};

/// Returns the roles of guarded step number `turn`. Replicas and checkers take turns. `hosts` names the host of each
/// rank.
[[nodiscard]] GuardRoles guard_roles(std::int64_t turn, int replicas, const std::vector<std::string>& hosts);

/// Owned by the training thread, except for functions whose comments say otherwise.
class Guard {
 public:
  /// Recomputes a replica's part of the step, using the recorded results of its collectives. Returns the digest.
  using Recompute = std::function<std::uint64_t(int replica, const std::string& reductions)>;

  /// Returns the tensors other than the weights that must be equal on every rank: the optimizer state and the moving
  /// average.
  using State = std::function<NamedTensors()>;

  /// Watches `parameters` from now on. If the guard cannot run, it logs the reason. Collective: yes.
  Guard(const Job& job, std::int64_t every, int replicas, NamedTensors parameters, State state);
  ~Guard() = default;
  Guard(const Guard&) = delete;
  Guard& operator=(const Guard&) = delete;

  /// Returns the last verified step; none if the guard cannot run.
  [[nodiscard]] std::optional<std::int64_t> proved() const {
    return serves_ && proved_ >= 0 ? std::optional(proved_) : std::nullopt;
  }

  /// Begins a step with `buffers`; returns false if it is not guarded.
  bool begin(std::int64_t step, const NamedTensors& buffers);
  /// Returns the buffers that the guarded step began with.
  [[nodiscard]] const NamedTensors& buffers() const { return buffers_; }
  /// Sets the replica whose turn it is on this rank, because on a GPU, gradients arrive on a thread that does not know
  /// it.
  void enter(int replica) { running_ = replica; }
  /// Returns true for the replica of a guarded step. Thread: the replica's.
  [[nodiscard]] bool watches(int replica) const { return armed_ && roles_.replica == replica; }
  /// Takes a batch's loss row and the results of the replica's collectives so far. Thread: the replica's.
  void add(const at::Tensor& row, const std::string& reductions);
  /// Compares the digests of all ranks, before the weights are updated. Collective: yes. Blocks: yes. Throws:
  /// Miscomputed on every rank, naming the rank and host with the wrong number.
  void finish(const Recompute& recompute);
  /// Compares weights and state across all ranks after step `step`, before they are saved. Collective: yes. Blocks:
  /// yes.
  /// Throws: Miscomputed.
  void compare_state(std::int64_t step);

 private:
  void add_gradient(const at::Tensor& gradient, const std::string& name);
  /// Returns `own` of every rank. Throws: Miscomputed if weights or state differ.
  [[nodiscard]] std::vector<std::int64_t> compare(std::uint64_t own);
  [[nodiscard]] bool repeats_itself(const Recompute& recompute, const std::string& reductions);
  void require_equal(const std::vector<std::int64_t>& all, const char* fault);
  void break_tie(const std::vector<std::int64_t>& first, const Recompute& recompute, const std::string& reductions);
  /// `ranks` have wrong numbers; empty if unknown.
  [[noreturn]] void blame(const std::vector<int>& ranks, const std::string& fault) const;
  [[nodiscard]] std::string place(int rank) const;

  Job job_;
  std::int64_t every_;
  int replicas_;
  NamedTensors parameters_;
  State state_;
  std::vector<std::string> hosts_;  ///< host of each rank
  bool serves_ = false;
  int probes_ = 0;  ///< guarded steps left in which this GPU must show that it repeats a step bit for bit
  std::atomic<int> running_{-1};
  bool armed_ = false;
  GuardRoles roles_;
  NamedTensors buffers_;
  std::uint64_t sum_ = 0;
  std::string reductions_;
  std::int64_t step_ = 0;
  std::int64_t proved_ = -1;
  std::vector<GradientHook> hooks_;  ///< they call this object
};

/// Returns the digest of a batch's loss row.
[[nodiscard]] std::uint64_t row_digest(const at::Tensor& row);

}  // namespace lockstep::train
