// SPDX-License-Identifier: Apache-2.0
// FunctionTask: a Task built from functions, for programs that do not define a class. A task that needs more (counts
// that are not means, a report) overrides methods of FunctionTask or of Task.
#pragma once

#include <ATen/core/ivalue.h>  // before any other torch header
#include <c10/util/Type.h>

#include <concepts>
#include <functional>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "lockstep/data/dataset.h"
#include "lockstep/parallel/distributed_data_parallel.h"
#include "lockstep/train/task.h"

#pragma GCC visibility push(default)

namespace lockstep {

namespace train {

/// A forward pass of any network: returns the output for (network, batch).
using ForwardCall = std::function<at::Tensor(torch::nn::Module&, const Batch&)>;

/// Throws: always a UsageError, which names both types.
[[noreturn]] void throw_other_model(const char* wanted, const torch::nn::Module& model);

/// Returns `model` as a Net. Throws: UsageError if it is of another type.
template <class Net>
Net& model_as(torch::nn::Module& model) {
  // A static_cast does not compile: libtorch's modules inherit virtually.
  auto* net = dynamic_cast<Net*>(&model);
  if (net == nullptr) throw_other_model(c10::demangle_type<Net>(), model);
  return *net;
}

template <class Net>
concept CalledWithData = requires(Net& net, const at::Tensor& data) {
  { net.forward(data) } -> std::convertible_to<at::Tensor>;
};

/// Turns a function that creates a network into the parts of a Task.
struct ModelFunction {
  std::function<std::shared_ptr<torch::nn::Module>()> make;  ///< creates the network
  ForwardCall forward;  ///< calls the network with batch.data; empty if its forward does not take one tensor
  std::string type;     ///< the network's class

  ModelFunction() = default;
  template <std::invocable F>
  ModelFunction(F function) {  // NOLINT(google-explicit-constructor): `.model = [] { return Net(); }`
    using Net = parallel::SharedModule<std::invoke_result_t<F&>>;
    make = [call = std::move(function)]() mutable -> std::shared_ptr<torch::nn::Module> {
      return parallel::share_module(call());
    };
    if constexpr (CalledWithData<Net>) {
      forward = [](torch::nn::Module& model, const Batch& batch) -> at::Tensor {
        return model_as<Net>(model).forward(batch.data);
      };
    }
    type = c10::demangle_type<Net>();
  }
};

/// A user's forward function; its first parameter may have the network's own type.
struct ForwardFunction {
  ForwardCall call;  ///< calls the network

  ForwardFunction() = default;
  template <class F>
  requires requires(F function) { std::function(function); }
  ForwardFunction(F function)  // NOLINT(google-explicit-constructor): `.forward = [](Net& net, const Batch& b) {...}`
      : call(with_type(std::function(std::move(function)))) {}

 private:
  template <class Result, class Net>
  static ForwardCall with_type(std::function<Result(Net&, const Batch&)> function) {
    return [call = std::move(function)](torch::nn::Module& model, const Batch& batch) -> at::Tensor {
      return call(model_as<Net>(model), batch);
    };
  }
};

}  // namespace train

/// A metric of an evaluation: the mean of a value over all samples.
struct MetricFunction {
  std::string name;  ///< the name in logs and tables
  /// Returns one value per sample of the batch, or their mean, of any type, including bool.
  std::function<at::Tensor(const at::Tensor& output, const Batch& batch)> values;
  bool lower_is_better = false;  ///< a smaller value is better
};

/// The parts of a task. `loss` and `metrics` get the outputs in float32, whatever the amp.
struct TaskOptions {
  /// Creates the network with fresh weights: a module by value, a std::shared_ptr to one, or a ModuleHolder.
  train::ModelFunction model = {};
  /// Returns the data set for data.train or data.test. The argument is the setting's value: a folder, or any string
  /// that the program understands.
  std::function<DatasetHandle(const std::string& folder)> dataset = nullptr;
  /// Returns a scalar: the mean over the batch's samples.
  std::function<at::Tensor(const at::Tensor& output, const Batch& batch)> loss = nullptr;

  // The following fields are optional.
  /// A function (Net&, const Batch&) -> at::Tensor; without it the network is called with batch.data.
  train::ForwardFunction forward = {};
  /// The metrics of an evaluation. The progress lines show the first one; the mean loss is added as the last one.
  std::vector<MetricFunction> metrics = {};
  std::string name = {};  ///< the name in the banner; empty: the network's class
};

/// A Task that calls the functions of TaskOptions.
/// Example: lockstep::FunctionTask task({.model = [] { return Net(); },
///                                       .dataset = [](const std::string& folder) { return lines(folder); },
///                                       .loss = [](const at::Tensor& output, const lockstep::Batch& batch) {
///                                         return torch::mse_loss(output, batch.target);
///                                       }});
class FunctionTask : public Task {
 public:
  /// Throws: UsageError naming a missing function, or a metric whose name is used twice.
  explicit FunctionTask(TaskOptions options);

  [[nodiscard]] std::shared_ptr<Dataset> make_dataset(const std::string& folder) override;
  [[nodiscard]] std::shared_ptr<torch::nn::Module> make_model() override;
  [[nodiscard]] at::Tensor forward(torch::nn::Module& model, const Batch& batch) override;
  [[nodiscard]] at::Tensor loss(const at::Tensor& output, const Batch& batch) override;
  [[nodiscard]] at::Tensor count(const at::Tensor& output, const Batch& batch) override;
  [[nodiscard]] std::vector<Metric> metrics(const at::Tensor& counts) const override;
  [[nodiscard]] std::string model_name() const override;

 private:
  TaskOptions options_;
};

}  // namespace lockstep

#pragma GCC visibility pop
