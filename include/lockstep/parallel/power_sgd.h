// SPDX-License-Identifier: Apache-2.0
// PowerSGD: gradients are sent as products of two thin matrices.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "lockstep/parallel/communication_hook.h"
#include "lockstep/tensor/state_dict.h"

#pragma GCC visibility push(default)

namespace lockstep {

/// The options of PowerSgd. The defaults are those of PyTorch's PowerSGDState.
struct PowerSgdOptions {
  std::int64_t rank = 1;           ///< rank of the approximation: a lower rank is cheaper and less accurate
  std::int64_t start_iter = 1000;  ///< number of synced backwards that are reduced in full before compression begins
  /// A gradient of n x m is compressed if (n + m) * rank * min_compression_rate < n * m.
  double min_compression_rate = 2;
  bool use_error_feedback = true;        ///< adds the compression error to the replica's next gradient
  bool warm_start = true;                ///< begins each step with the last step's Q instead of a random one
  double orthogonalization_epsilon = 0;  ///< term added to column norms; without it, zero columns stay zero
  std::uint64_t seed = 0;                ///< seed of the random Q
  /// Returns the current scale of the loss, the same on every rank: [&] { return scaler.get_scale(); }. The compression
  /// error is stored unscaled, so that it stays valid when the scale changes. Null: the loss is not scaled.
  std::function<double()> loss_scale = nullptr;
};

/// The state of the PowerSGD hook. It is kept per parameter and per replica, by name; it depends neither on buckets nor
/// on the number of ranks, and may be loaded at any iteration. A gradient is treated as a matrix whose rows are its
/// first dimension, or its slowest dimension in memory if that is not the first.
///
/// A bucket whose sum is not finite (an overflow, whose step GradScaler skips) does not change the state of its
/// parameters. Every rank sees the same sum, so all ranks keep their state.
///
/// Cost: for each compressed parameter three matrix products with `rank` columns, and with error feedback a copy of its
///          gradient for each replica of this rank. Two rounds of all_reduce, of (n + m) * rank elements in total.
/// Source:  Vogels et al., PowerSGD, 2019, as in PyTorch's powerSGD_hook. Columns are orthogonalized by Gram-Schmidt,
///          independent of the rank.
/// Example: auto power_sgd = std::make_shared<lockstep::PowerSgd>(lockstep::PowerSgdOptions{.rank = 2});
///          lockstep::DistributedDataParallel model{Net(), job, {.hook = lockstep::hooks::power_sgd(power_sgd)}};
class PowerSgd : public Stateful {
 public:
  /// Throws: UsageError for an option out of range.
  explicit PowerSgd(const PowerSgdOptions& options = {});

  /// Compresses and reduces one bucket; the hook of power_sgd() calls it.
  [[nodiscard]] HookStage run(GradBucket& bucket);

  /// Returns the number of backwards so far.
  [[nodiscard]] std::int64_t iterations() const noexcept { return iterations_; }

  /// Returns "iterations", "q.<parameter>" and "error.<replica>.<parameter>" for the replicas of this rank. Collective:
  /// no.
  [[nodiscard]] StateDict state_dict() const override;
  /// Returns the state with the errors of all replicas, on every rank. Save this if the run may resume on a different
  /// number of ranks.
  /// Collective: yes.  Blocks: yes.
  [[nodiscard]] StateDict gather_state_dict(ProcessGroup& group) const;
  /// Loads the entries, which may be on any device: the next step moves them to the gradients' device. Entries of other
  /// ranks' replicas may be present; they are kept. A non-finite entry is skipped with a warning: it would make every
  /// later gradient non-finite. A Q of another rank than options.rank is replaced by a random one.
  /// Throws: DataError naming an entry that is missing, or of the wrong kind; in that case nothing is loaded.
  void load_state_dict(const StateDict& state) override;

 private:
  struct Step;
  using ErrorKey = std::pair<int, std::string>;  ///< replica, parameter

  [[nodiscard]] bool is_compressed(const tensor::FlatSlot& slot) const;
  [[nodiscard]] at::Tensor first_q(const std::string& name, std::int64_t rows, const at::Tensor& like) const;
  [[nodiscard]] at::Tensor begin_q(const std::string& name, const at::Tensor& matrix);
  void orthogonalize(const at::Tensor& matrix) const;
  void prepare(Step& step);
  [[nodiscard]] HookStage start_p(const std::shared_ptr<Step>& step);
  [[nodiscard]] HookStage start_q(const std::shared_ptr<Step>& step);
  void finish(Step& step);
  void keep_state(const Step& step, std::size_t i, const at::Tensor& q, const at::Tensor& approximation);

  PowerSgdOptions options_;
  std::int64_t iterations_ = 0;
  ReplicaSpan block_;  ///< the replicas of this rank, once the hook has run
  std::map<std::string, at::Tensor> q_;
  std::map<ErrorKey, at::Tensor> errors_;
};

namespace hooks {

/// Creates the hook. `state` may be shared with the code that saves it.
[[nodiscard]] CommunicationHook power_sgd(std::shared_ptr<PowerSgd> state);
/// Returns the hook with a new PowerSgd, for programs that do not save its state.
[[nodiscard]] CommunicationHook power_sgd(const PowerSgdOptions& options = {});

}  // namespace hooks
}  // namespace lockstep

#pragma GCC visibility pop
