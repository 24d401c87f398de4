// SPDX-License-Identifier: Apache-2.0
// DataParallel: one process, with a thread and a copy of the module for each replica. It needs no launcher;
// DistributedDataParallel uses several processes, overlaps communication with backward and scales further.
#pragma once

#include <ATen/core/ivalue.h>  // before any other torch header: otherwise Clang cannot compile libtorch 1.13
#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <functional>
#include <memory>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "lockstep/parallel/distributed_data_parallel.h"
#include "lockstep/tensor/named_tensors.h"
#include "lockstep/tensor/state_dict.h"

namespace torch::nn {
class Module;
}

#pragma GCC visibility push(default)

namespace lockstep {

/// The replicas of a DataParallel and their devices.
struct DataParallelOptions {
  int replicas = 0;  ///< number of replicas; 0: one for each of `devices`, or 1 if there are none
  int threads = 0;   ///< libtorch threads of each replica; 0: the caller's number / replicas, at least 1
  std::vector<c10::Device> devices = {};  ///< one device for each replica; empty: all on the module's device
};

namespace parallel {

/// The part of DataParallel that does not depend on the module's type.
class DataParallelCore {
 public:
  /// Computes the outputs of one replica from its parts of the tensor arguments.
  using Body = std::function<std::vector<at::Tensor>(torch::nn::Module& replica, const std::vector<at::Tensor>& parts)>;

  DataParallelCore(std::shared_ptr<torch::nn::Module> module, const DataParallelOptions& options);
  ~DataParallelCore();
  DataParallelCore(DataParallelCore&&) noexcept;
  DataParallelCore& operator=(DataParallelCore&&) noexcept;

  /// Returns the number of replicas.
  [[nodiscard]] int replicas() const noexcept;
  /// Runs `body` once for each replica on its part of the arguments, and joins the results.
  [[nodiscard]] std::vector<at::Tensor> run(const std::vector<at::Tensor>& arguments, const Body& body);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

/// Converts a forward's result to a list of tensors, and back.
inline std::vector<at::Tensor> to_list(at::Tensor result) { return {std::move(result)}; }
/// Returns the tensors of a forward's result as a list, so that they can be gathered.
inline std::vector<at::Tensor> to_list(std::vector<at::Tensor> result) { return result; }
/// The same for a tuple.
template <class... Tensors>
std::vector<at::Tensor> to_list(std::tuple<Tensors...> result) {
  return std::apply([](auto&... each) { return std::vector<at::Tensor>{each...}; }, result);
}
/// Builds a forward's result from a list of tensors.
template <class Result>
Result from_list(std::vector<at::Tensor> list) {
  if constexpr (std::is_same_v<Result, at::Tensor>) {
    return list.front();
  } else if constexpr (std::is_same_v<Result, std::vector<at::Tensor>>) {
    return list;
  } else {
    return [&]<std::size_t... I>(std::index_sequence<I...>) { return Result{list[I]...}; }
    (std::make_index_sequence<std::tuple_size_v<Result>>());
  }
}

}  // namespace parallel

/// Runs copies of `Net`, a torch::nn::Cloneable, on parts of each batch at the same time, each on its own thread.
///
/// 1. Tensor arguments of one dimension or more are split along dimension 0 as at::chunk does; other tensors, and
///    arguments that are not tensors, go to every replica. A batch smaller than `replicas` uses fewer replicas.
/// 2. Outputs (a tensor, a tuple or a vector of them) are joined along dimension 0; scalars become a list. They are on
///    the first device.
/// 3. Calling backward on the outputs runs all replicas' backward passes at once and adds the sum of their gradients,
///    in tree order over replicas, to grad() of the given module. Gradient mode, autocast and streams are the caller's.
/// 4. Replica 0 is the given module: its buffers (batch norm) keep their values after a forward; every other replica
///    begins with a copy of them.
///
/// The results do not depend on the threads' timing, unless the module draws random numbers (dropout): all threads draw
/// from the process's single generator.
///
/// Cost: the module is copied once. Parameters on the module's device are shared; on other devices they are copied in
/// each forward.
/// Thread-safe: no.
/// Throws: UsageError for a module that cannot be cloned or has synced batch norm, for tensors of different batch
///         sizes, for a parameter that changed between forward and backward, and for a second derivative. If replicas
///         throw, the first one's exception is rethrown after all have ended.
/// Example: lockstep::DataParallel model{Net(), {.replicas = 4}};
template <class Net>
class DataParallel {
 public:
  template <class Module>
  explicit DataParallel(Module&& module, const DataParallelOptions& options = {})
      : module_(parallel::share_module(std::forward<Module>(module))), core_(module_, options) {}

  template <class... Args>
  auto operator()(Args&&... args) {
    using Result = std::remove_cvref_t<decltype(std::declval<Net&>().forward(args...))>;
    std::vector<at::Tensor> tensors;
    (collect(tensors, args), ...);
    return parallel::from_list<Result>(
        core_.run(tensors, [&](torch::nn::Module& replica, const std::vector<at::Tensor>& parts) {
          std::size_t next = 0;
          // Braces evaluate the arguments from left to right.
          const std::tuple<Replaced<Args>...> own{replace(args, parts, next)...};
          auto& net = dynamic_cast<Net&>(replica);
          return parallel::to_list(std::apply([&](const auto&... each) { return net.forward(each...); }, own));
        }));
  }
  /// Runs the replicas on every device, and joins their outputs on the first device.
  template <class... Args>
  auto forward(Args&&... args) {
    return (*this)(std::forward<Args>(args)...);
  }

  /// Returns the given module, whose parameters are trained.
  [[nodiscard]] Net& module() const { return *module_; }
  /// Returns the wrapped module.
  [[nodiscard]] const std::shared_ptr<Net>& ptr() const { return module_; }
  /// Returns the number of replicas.
  [[nodiscard]] int replicas() const { return core_.replicas(); }
  /// Returns the parameters of the wrapped module.
  [[nodiscard]] auto parameters() const { return module_->parameters(); }
  /// Returns the parameters of the wrapped module with their names.
  [[nodiscard]] auto named_parameters() const { return module_->named_parameters(); }
  /// Returns the buffers of the wrapped module with their names.
  [[nodiscard]] auto named_buffers() const { return module_->named_buffers(); }
  /// Puts the wrapped module into training mode, or out of it.
  void train(bool on = true) { module_->train(on); }
  /// Puts the wrapped module into evaluation mode.
  void eval() { module_->eval(); }

  /// Returns the state of the wrapped module, with the module's own (unprefixed) names.
  [[nodiscard]] StateDict state_dict() const { return model_state_dict(*module_); }
  /// Loads a model's state. Throws: anything load_model_state_dict() throws.
  void load_state_dict(const StateDict& state) { load_model_state_dict(*module_, state); }

  /// The result of no_sync(). It does nothing, since gradients are never reduced across processes.
  struct [[nodiscard]] NothingToHoldBack {
    ~NothingToHoldBack() {}  // not trivial, so that an unused object causes no warning
  };
  /// Returns an object that does nothing, so that loops written for DistributedDataParallel compile.
  [[nodiscard]] NothingToHoldBack no_sync() { return {}; }

 private:
  template <class Arg>
  static constexpr bool kIsTensor = std::is_convertible_v<const std::remove_cvref_t<Arg>&, const at::Tensor&>;
  template <class Arg>
  using Replaced = std::conditional_t<kIsTensor<Arg>, at::Tensor, const std::remove_cvref_t<Arg>&>;

  template <class Arg>
  static void collect(std::vector<at::Tensor>& tensors, const Arg& arg) {
    if constexpr (kIsTensor<Arg>) tensors.push_back(arg);
  }
  template <class Arg>
  static Replaced<Arg> replace(const Arg& arg, const std::vector<at::Tensor>& parts, std::size_t& next) {
    if constexpr (kIsTensor<Arg>) {
      return parts[next++];
    } else {
      return arg;
    }
  }

  std::shared_ptr<Net> module_;
  parallel::DataParallelCore core_;
};

template <class Module>
DataParallel(Module&&) -> DataParallel<parallel::SharedModule<Module>>;
template <class Module>
DataParallel(Module&&, DataParallelOptions) -> DataParallel<parallel::SharedModule<Module>>;

}  // namespace lockstep

#pragma GCC visibility pop
