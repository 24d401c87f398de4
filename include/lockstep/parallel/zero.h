// SPDX-License-Identifier: Apache-2.0
// ZeroRedundancyOptimizer: an optimizer whose state is sharded across the ranks (ZeRO stage 1). Design:
// docs/design/zero.md.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "lockstep/comm/process_group.h"
#include "lockstep/optim/adamw.h"
#include "lockstep/optim/optimizer.h"
#include "lockstep/parallel/distributed_data_parallel.h"

#pragma GCC visibility push(default)

namespace lockstep {

/// The options of a ZeroRedundancyOptimizer.
struct ZeroOptions {
  /// Leaves on each rank of the model, a DistributedDataParallel, only the average of the rank's own part of the
  /// gradients, so that a step sends a third less. The rest of grad() is undefined, so clip only with
  /// optimizer.grad_norm().
  bool shard_gradients = false;
};

/// Keeps on each rank only the optimizer's state for its part of the parameters, about 1 / world size of it. The rank
/// updates that part, and all ranks gather the parts. The parameters are bit for bit equal to those of the optimizer
/// without ZeRO.
///
/// 1. Construction moves the parameters into flat memory, and each tensor becomes a view of it. The tensors stay the
///    same objects, but data pointers taken before are stale.
/// 2. After backward every rank has all gradients from DistributedDataParallel, or with shard_gradients its part of
///    them; step() uses its part.
/// 3. A checkpoint does not depend on the number of ranks. Call consolidate_state_dict() on every rank, then
///    state_dict() on rank 0: it returns the state that the optimizer would have without ZeRO. load_state_dict() loads
///    that state with or without ZeRO, on any number of ranks.
///
/// Collective: step(), consolidate_state_dict(), grad_norm(): every rank, in the same order.
/// Lifetime:   a ProcessGroup outlives it; of a Job it keeps a copy.
/// Throws:     UsageError for a parameter whose memory was replaced after construction or that is not dense, and for an
///             optimizer that is not elementwise().
/// Source:     Rajbhandari et al., ZeRO: Memory Optimizations Toward Training Trillion Parameter Models, 2020.
/// Example:    lockstep::ZeroRedundancyOptimizer optimizer{model, job, lockstep::AdamWOptions{.lr = 6e-4}};
class ZeroRedundancyOptimizer final : public Optimizer {
 public:
  /// Creates the optimizer of this rank from its parts of the parameters. A part is one-dimensional, has the
  /// parameter's name, and is empty if the parameter belongs to another rank.
  using Make = std::function<std::unique_ptr<Optimizer>(NamedTensors parts)>;

  /// Wraps an AdamW over `model`; arguments are as in AdamW's own constructor.
  template <class Model>
  requires(!std::is_same_v<std::remove_cvref_t<Model>, NamedTensors>)
      ZeroRedundancyOptimizer(Model& model, ProcessGroup& group, const AdamWOptions& options = {},
                              const ZeroOptions& zero = {})
      : ZeroRedundancyOptimizer(model, group, options, zero, nullptr) {}
  template <class Model, parallel::HasGroup Job>
  ZeroRedundancyOptimizer(Model& model, Job& job, const AdamWOptions& options = {}, const ZeroOptions& zero = {})
      : ZeroRedundancyOptimizer(model, static_cast<ProcessGroup&>(job.group()), options, zero,
                                parallel::owner_of(job)) {}

  /// Wraps any other optimizer. `reducer` is the shared_reducer() of a DistributedDataParallel whose gradients are to
  /// be sharded; null if none. The optimizer keeps `owner`, which keeps the group alive.
  ZeroRedundancyOptimizer(NamedTensors parameters, ProcessGroup& group, const Make& make,
                          std::shared_ptr<parallel::Reducer> reducer = nullptr, parallel::GroupOwner owner = nullptr);
  ~ZeroRedundancyOptimizer() override;
  ZeroRedundancyOptimizer(ZeroRedundancyOptimizer&&) noexcept;
  ZeroRedundancyOptimizer& operator=(ZeroRedundancyOptimizer&&) noexcept;

  /// Updates this rank's part and gathers the other ranks' parts. Blocks: yes.
  void step(double grad_scale = 1.0) override;
  void set_lr(double lr) override;
  [[nodiscard]] double lr() const override;
  [[nodiscard]] std::int64_t steps() const override;
  [[nodiscard]] const NamedTensors& parameters() const override;

  [[nodiscard]] double grad_norm() override;

  /// From now on, computes digests of this rank's part. `begins` is not used: the optimizer knows its parts.
  void digest_updates(const std::vector<std::int64_t>& begins = {}) override;
  [[nodiscard]] std::optional<UpdateDigest> update_digest() const override;

  /// Gathers the whole state in the host memory of rank 0 and keeps it there until the next step().
  /// Blocks: yes.
  void consolidate_state_dict() override;
  /// Returns the consolidated state, whose tensors are on the CPU.
  /// Throws: UsageError on ranks other than 0, and if consolidate_state_dict() was not called since the last step.
  [[nodiscard]] StateDict state_dict() const override;
  /// Returns this rank's part of the state for checkpoints that all ranks write; does not require
  /// consolidate_state_dict(). The arguments must be the group's rank and world size.
  [[nodiscard]] StatePart state_part(int rank, int world_size) const override;
  /// Takes this rank's part of a whole state. Collective: no; load the same on every rank.
  /// Throws: DataError whenever the optimizer without ZeRO would; in that case nothing is loaded.
  void load_state_dict(const StateDict& state) override;

  /// Returns this rank's optimizer, which holds the state of its part.
  [[nodiscard]] const Optimizer& local() const;

 private:
  template <class Model>
  ZeroRedundancyOptimizer(Model& model, ProcessGroup& group, const AdamWOptions& options, const ZeroOptions& zero,
                          parallel::GroupOwner owner)
      : ZeroRedundancyOptimizer(
            named_parameters_of(model), group,
            [&](NamedTensors parts) { return std::make_unique<AdamW>(std::move(parts), options); },
            zero.shard_gradients ? reducer_of(model) : nullptr, std::move(owner)) {}

  template <class Model>
  static std::shared_ptr<parallel::Reducer> reducer_of(Model& model) {
    if constexpr (requires { model.shared_reducer(); }) {
      return model.shared_reducer();
    } else {
      throw_no_reducer();
    }
  }
  [[noreturn]] static void throw_no_reducer();

  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep

#pragma GCC visibility pop
