// SPDX-License-Identifier: Apache-2.0
// DistributedDataParallel: the wrapper that keeps the copies of a module on all ranks equal while they train. It is a
// thin template over parallel::DdpCore, so that this header includes no torch/nn header.
#pragma once

#include <concepts>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "lockstep/base/fault.h"
#include "lockstep/parallel/communication_hook.h"
#include "lockstep/parallel/group_owner.h"
#include "lockstep/parallel/join.h"
#include "lockstep/parallel/visit_tensors.h"
#include "lockstep/tensor/named_tensors.h"
#include "lockstep/tensor/state_dict.h"

namespace torch::nn {
class Module;
}

#pragma GCC visibility push(default)

namespace lockstep {

class ProcessGroup;

/// The options of DistributedDataParallel. The defaults are PyTorch's, except for gradient_as_bucket_view and exact.
/// docs/guide/ddp.md has examples.
struct DdpOptions {
  // Results
  bool broadcast_buffers = true;  ///< every rank takes rank 0's buffers (batch norm) before each training forward; with
                                  ///< several replicas on a rank only sync_buffers() copies them
  bool init_sync = true;          ///< construction broadcasts rank 0's values; false: the caller has made them equal
  int replicas = 0;               ///< number of replicas of the run, at least the world size; 0: one per rank. See
                                  ///< enter_replica()
  bool exact = true;              ///< true: the same bits on any number of ranks; false: additions in any fast order
  /// The gradient of a parameter that a backward does not reach counts as zero; if false, such a parameter is an error.
  /// A parameter that no rank has reached keeps its grad(). Each forward traverses the autograd graph.
  bool find_unused_parameters = false;
  /// Declares that every step uses the same parameters, each as often as in the first step. In the first step, nothing
  /// is reduced before backward has ended. Recomputed (checkpointed) segments may share a parameter, and some
  /// parameters may be unused.
  bool static_graph = false;
  bool gradient_as_bucket_view = true;  ///< grad() is a view of its bucket; false: a separate tensor, copied in and out
  /// Names of parameters with sparse gradients. The weights of embeddings with sparse(true) need not be named.
  std::vector<std::string> sparse_parameters = {};
  CommunicationHook hook = nullptr;  ///< replaces the plain mean: hooks::bf16_compress(), a lambda, ...
  // Speed
  /// A small first bucket starts the first reduction early. If unset, it is 1 MiB, or bucket_bytes if that is set.
  std::optional<std::int64_t> first_bucket_bytes = {};
  std::optional<std::int64_t> bucket_bytes = {};  ///< size at which a bucket is closed; unset: 25 MiB
  bool grad_norm = false;  ///< reductions also sum the squares of their results, so grad_norm() need not read them
};

namespace parallel {

class Reducer;

/// The part of DistributedDataParallel that does not depend on the module's type.
class DdpCore {
 public:
  /// The module's tensors, at the time of a call.
  struct State {
    NamedTensors parameters;  ///< parameters with their names
    NamedTensors buffers;     ///< buffers with their names
  };
  using Sparse = std::vector<at::Tensor>;  ///< Parameters with sparse gradients.

  /// Compares parameters and buffers across the ranks, and broadcasts rank 0's values. Keeps `owner` as long as it
  /// uses the group.
  /// Collective: yes.  Throws: UsageError naming the parameter or buffer that differs across the ranks.
  DdpCore(State state, const Sparse& sparse, ProcessGroup& group, const DdpOptions& options,
          const GroupOwner& owner = nullptr);
  ~DdpCore();
  DdpCore(DdpCore&&) noexcept;
  DdpCore& operator=(DdpCore&&) noexcept;

  /// Checks that the parameters are still those that were wrapped, and in training broadcasts rank 0's buffers.
  void before_forward(const State& now, bool training);
  /// Records the end of a forward. `outputs` are tensors of its result; `complete` means that the result has no others.
  void after_forward(const std::vector<at::Tensor>& outputs, bool complete);
  void enter_replica(int local, const NamedTensors& buffers);  ///< See DistributedDataParallel.
  void sync_buffers(const NamedTensors& buffers);              ///< See DistributedDataParallel.
  void set_sync(bool sync);          ///< Sets whether later backwards are reduced; false: as in no_sync().
  [[nodiscard]] bool sync() const;   ///< Returns the value of the last set_sync().
  [[nodiscard]] double grad_norm();  ///< See DistributedDataParallel.
  [[nodiscard]] std::vector<std::int64_t> bucket_bytes() const;  ///< See DistributedDataParallel.

  /// The functions of Joinable, and the reducer.
  [[nodiscard]] ProcessGroup& group() const;
  void set_join(std::optional<JoinHandle> handle);  ///< Sets the handle when a Join begins, and resets it when it ends.
  void shadow(int action, const State& now, const JoinStatus& status);  ///< Takes part in a collective with zeros.
  void after_join(const State& now, int source);                        ///< Adopts the model of rank `source`.
  [[nodiscard]] const Reducer& reducer() const { return *reducer_; }    ///< Returns the reducer of the gradients.
  [[nodiscard]] const std::shared_ptr<Reducer>& shared_reducer() const { return reducer_; }  ///< Shares the reducer.

 private:
  /// The properties of a parameter when it was wrapped.
  struct Wrapped {
    std::string name;
    at::Tensor value;
    at::ScalarType dtype;
    std::vector<std::int64_t> sizes;
    std::vector<std::int64_t> strides;
    bool trained;
  };

  void require_unchanged(const NamedTensors& now) const;

  std::shared_ptr<Reducer> reducer_;
  std::vector<Wrapped> wrapped_;
  std::vector<std::vector<at::Tensor>> buffers_of_;  ///< buffers of each local replica, kept while another replica runs
  bool broadcast_buffers_;
};

/// Returns the weights of embeddings with sparse(true) in `module`.
[[nodiscard]] std::vector<at::Tensor> sparse_weights(const torch::nn::Module& module);

/// The same for a module of any type; a module that is not a torch::nn::Module has none.
template <class Net>
std::vector<at::Tensor> sparse_weights_of(const Net& net) {
  if constexpr (std::is_convertible_v<const Net&, const torch::nn::Module&>) return sparse_weights(net);
  return {};
}

/// Returns the shared module behind a user's argument: a ModuleHolder, a shared_ptr, or a module by value (moved in).
template <class Module>
auto share_module(Module&& module) {
  if constexpr (requires { module.ptr(); }) {
    return module.ptr();
  } else if constexpr (requires { module.use_count(); }) {
    return module;
  } else {
    static_assert(!std::is_lvalue_reference_v<Module>, "pass std::move(net), a std::shared_ptr or a ModuleHolder");
    return std::make_shared<std::remove_cvref_t<Module>>(std::forward<Module>(module));
  }
}

/// The type of the module behind an argument of share_module().
template <class Module>
using SharedModule = typename decltype(share_module(std::declval<Module>()))::element_type;

}  // namespace parallel

/// While a NoSync is alive, backwards of the model's forwards accumulate locally; the next synced backward reduces the
/// whole sum. As in PyTorch, the mode during the forward is what counts.
class [[nodiscard]] NoSync {
 public:
  explicit NoSync(parallel::DdpCore& core) : core_(core), before_(core.sync()) { core_.set_sync(false); }
  ~NoSync() { core_.set_sync(before_); }
  NoSync(const NoSync&) = delete;
  NoSync& operator=(const NoSync&) = delete;

 private:
  parallel::DdpCore& core_;
  bool before_;
};

/// Data-parallel training of `Net`, a torch module: gradients are averaged over the ranks while backward runs.
///
/// 1. Construction compares names, shapes and dtypes across the ranks; then every rank takes rank 0's values.
/// 2. forward in training broadcasts rank 0's buffers; evaluation does not communicate and may run on only one rank.
/// 3. After backward, gradients are equal on all ranks; with more than one rank they are views of the buckets, in the
///    parameters' own strides, even if grad() was another tensor before.
/// 4. A backward is reduced if it reaches an output of a forward that ran outside no_sync(). Several forwards before
///    one backward, backward inside backward (recomputed segments) and create_graph are allowed.
///
/// Collective: construction, forward in training mode with gradients on (if there are buffers), and backward: every
///             rank, in the same order.
/// Lifetime:   a ProcessGroup outlives it; of a Job it keeps a copy. The module must keep its parameters: replacing
///             one is an error that names it.
/// Throws: UsageError for parameters or buffers that differ between ranks, for an unused or a replaced parameter, and
///             for a backward through module() instead of the wrapper; backward and forward also throw the group's
///             failure (PeerError, TimeoutError).
/// Example:    lockstep::DistributedDataParallel model{Net(), job};
template <class Net>
class DistributedDataParallel : public Joinable {
 public:
  template <class Module>
  DistributedDataParallel(Module&& module, ProcessGroup& group, const DdpOptions& options = {},
                          const parallel::GroupOwner& owner = nullptr)
      : module_(parallel::share_module(std::forward<Module>(module))),
        core_(state(), parallel::sparse_weights_of(*module_), group, options, owner) {}

  template <class Module, parallel::HasGroup Job>
  DistributedDataParallel(Module&& module, Job& job, const DdpOptions& options = {})
      : DistributedDataParallel(std::forward<Module>(module), static_cast<ProcessGroup&>(job.group()), options,
                                parallel::owner_of(job)) {}

  template <class... Args>
  decltype(auto) operator()(Args&&... args) {
    core_.before_forward(state(), module_->is_training());
    using Output = decltype(module_->forward(std::forward<Args>(args)...));
    if constexpr (std::is_void_v<Output>) {
      run_module(std::forward<Args>(args)...);
      core_.after_forward({}, false);
    } else {
      decltype(auto) output = run_module(std::forward<Args>(args)...);
      std::vector<at::Tensor> tensors;
      const bool complete =
          parallel::visit_tensors(output, [&](const at::Tensor& tensor) { tensors.push_back(tensor); });
      core_.after_forward(tensors, complete);
      return output;
    }
  }
  /// Runs the module's forward; calling backward on the result reduces the gradients. Collective: see the class.
  template <class... Args>
  decltype(auto) forward(Args&&... args) {
    return (*this)(std::forward<Args>(args)...);
  }

  /// Returns the inner module; its parameters are the wrapped ones.
  [[nodiscard]] Net& module() const { return *module_; }
  /// Gives access to the module's members, as a ModuleHolder does: model->fc1->weight. Call forward on the wrapper.
  Net* operator->() const { return module_.get(); }
  [[nodiscard]] const std::shared_ptr<Net>& ptr() const { return module_; }            ///< Returns the wrapped module.
  [[nodiscard]] auto parameters() const { return module_->parameters(); }              ///< Returns its parameters.
  [[nodiscard]] auto named_parameters() const { return module_->named_parameters(); }  ///< Returns parameters by name.
  /// Returns the wrapped module's buffers by name.
  [[nodiscard]] auto named_buffers() const { return module_->named_buffers(); }
  void train(bool on = true) { module_->train(on); }  ///< Puts the wrapped module into training mode, or out of it.
  void eval() { module_->eval(); }                    ///< Puts the wrapped module into evaluation mode.

  /// Returns the state under the inner module's names. Collective: no.
  [[nodiscard]] StateDict state_dict() const { return model_state_dict(*module_); }
  /// Loads the inner module's state.
  /// Collective: no; load the same on every rank. Throws: anything load_model_state_dict() throws.
  void load_state_dict(const StateDict& state) { load_model_state_dict(*module_, state); }

  /// Makes gradients accumulate locally while the result is alive (see NoSync).
  /// Example: { auto local = model.no_sync(); model(a).sum().backward(); }
  [[nodiscard]] NoSync no_sync() { return NoSync(core_); }

  /// Makes this rank's `local`-th replica the active one: its buffers and accumulated gradients replace those of the
  /// previous replica. After a step the reduced gradients belong to all replicas. Replicas run backward in order; drop
  /// the gradients (zero_grad) after each step. A replica starts from the buffers that the rank had before its first
  /// training forward. Call it from ReplicaTeamOptions::on_switch.
  void enter_replica(int local) { core_.enter_replica(local, named_buffers_of(*module_)); }

  /// Copies the buffers of replica 0 to every replica of every rank.
  /// Collective: yes.  Blocks: yes.
  void sync_buffers() { core_.sync_buffers(named_buffers_of(*module_)); }

  /// Returns the norm of the gradients that the last backward produced, bit-identical to lockstep::grad_norm(). With
  /// DdpOptions::grad_norm each rank summed its share of the squares while buckets were reduced. Later changes to the
  /// gradients (unscaling, for example) are then not included: use lockstep::grad_norm(model). Without the option, this
  /// function reads all gradients.
  /// Collective: no; every rank gets the same number.
  /// Throws:     UsageError if each rank has only its part of the gradients (ZeroOptions::shard_gradients).
  /// Example:    optimizer.step(lockstep::clip_factor(model.grad_norm(), 1.0));
  [[nodiscard]] double grad_norm() { return core_.grad_norm(); }

  /// Returns the gradient bytes of each bucket, in the order of reduction: the order of construction until the first
  /// backward has ended, then the order of arrival. It is empty if nothing is reduced.
  [[nodiscard]] std::vector<std::int64_t> bucket_bytes() const { return core_.bucket_bytes(); }

  [[nodiscard]] const parallel::Reducer& reducer() const { return core_.reducer(); }  ///< Returns the reducer.
  /// Returns the reducer, for an optimizer that takes part in the reduction (ZeroOptions::shard_gradients).
  [[nodiscard]] const std::shared_ptr<parallel::Reducer>& shared_reducer() const { return core_.shared_reducer(); }

  [[nodiscard]] ProcessGroup& join_group() override { return core_.group(); }  // Join calls these
  void set_join(std::optional<JoinHandle> handle) override { core_.set_join(handle); }
  void shadow(int action, const JoinStatus& status) override { core_.shadow(action, state(), status); }
  void after_join(int source) override { core_.after_join(state(), source); }

 private:
  /// Runs the module's forward, and marks an exception as coming from there.
  template <class... Args>
  decltype(auto) run_module(Args&&... args) {
    using Output = decltype(module_->forward(std::forward<Args>(args)...));
    const auto forward = [&]() -> Output { return module_->forward(std::forward<Args>(args)...); };
    if constexpr (std::is_reference_v<Output>) {
      return static_cast<Output>(*fault::in_section("forward", [&] { return std::addressof(forward()); }));
    } else {
      return fault::in_section("forward", forward);
    }
  }

  [[nodiscard]] parallel::DdpCore::State state() const {
    return {named_parameters_of(*module_), named_buffers_of(*module_)};
  }

  std::shared_ptr<Net> module_;
  parallel::DdpCore core_;
};

template <class Module, class Group>
DistributedDataParallel(Module&&, Group&) -> DistributedDataParallel<parallel::SharedModule<Module>>;
template <class Module, class Group>
DistributedDataParallel(Module&&, Group&, DdpOptions) -> DistributedDataParallel<parallel::SharedModule<Module>>;

}  // namespace lockstep

#pragma GCC visibility pop
