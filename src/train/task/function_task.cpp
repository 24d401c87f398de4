// SPDX-License-Identifier: Apache-2.0
#include "lockstep/train/function_task.h"

#include <ATen/ops/tensor.h>
#include <fmt/format.h>
#include <torch/nn/module.h>

#include <set>

#include "lockstep/base/error.h"

namespace lockstep {
namespace {

constexpr const char* kLoss = "loss";

// Returns true for the dtypes that autocast computes in.
bool is_half(const at::Tensor& output) {
  return output.scalar_type() == at::kBFloat16 || output.scalar_type() == at::kHalf;
}

// Turns "mine::NetImpl" into "Net", the name in the source code.
std::string short_name(std::string type) {
  const auto colons = type.rfind("::");
  if (colons != std::string::npos) type.erase(0, colons + 2);
  if (type.size() > 4 && type.ends_with("Impl")) type.resize(type.size() - 4);
  return type;
}

void check_metrics(const std::vector<MetricFunction>& metrics) {
  std::set<std::string> names = {kLoss};
  for (const MetricFunction& metric : metrics) {
    if (metric.name.empty() || !metric.values) {
      throw UsageError(fmt::format("the metric '{}' of a task needs a name and a function", metric.name));
    }
    if (names.insert(metric.name).second) continue;
    throw UsageError(fmt::format("the task has two metrics called '{}'", metric.name),
                     metric.name == kLoss ? "the mean loss is always measured" : "");
  }
}

double mean(const at::Tensor& values, const std::string& name) {
  if (!values.defined() || values.numel() == 0) {
    throw UsageError(fmt::format("'{}' of the task returned no value for a batch", name),
                     "return one value per sample, or their mean");
  }
  return values.detach().to(at::kDouble).mean().item<double>();
}

}  // namespace

void train::throw_other_model(const char* wanted, const torch::nn::Module& model) {
  throw UsageError(fmt::format("the task's forward takes a {}, but the task's model is a {}", wanted, model.name()),
                   "use the same class in both functions");
}

FunctionTask::FunctionTask(TaskOptions options) : options_(std::move(options)) {
  if (!options_.model.make) throw UsageError("the task has no model", ".model = [] { return Net(); }");
  if (!options_.dataset) {
    throw UsageError("the task has no data", ".dataset = [](const std::string& folder) { ... }");
  }
  if (!options_.loss) {
    throw UsageError("the task has no loss", ".loss = [](const at::Tensor& output, const Batch& batch) { ... }");
  }
  if (!options_.forward.call) options_.forward.call = options_.model.forward;
  if (!options_.forward.call) {
    throw UsageError(fmt::format("{} has no at::Tensor forward(at::Tensor)", options_.model.type),
                     ".forward = [](Net& net, const Batch& batch) { ... }");
  }
  check_metrics(options_.metrics);
}

std::shared_ptr<Dataset> FunctionTask::make_dataset(const std::string& folder) {
  auto dataset = options_.dataset(folder).get();
  if (dataset == nullptr) throw UsageError(fmt::format("the task's data set for '{}' is a null pointer", folder));
  return dataset;
}

std::shared_ptr<torch::nn::Module> FunctionTask::make_model() {
  auto model = options_.model.make();
  if (model == nullptr) throw UsageError("the task's model is a null pointer");
  return model;
}

at::Tensor FunctionTask::forward(torch::nn::Module& model, const Batch& batch) {
  at::Tensor output = options_.forward.call(model, batch);
  // Losses do not accept bfloat16 outputs together with float32 targets.
  return is_half(output) ? output.to(at::kFloat) : output;
}

at::Tensor FunctionTask::loss(const at::Tensor& output, const Batch& batch) { return options_.loss(output, batch); }

// The counts are the number of samples, then each metric's sum over them, then the loss's sum.
at::Tensor FunctionTask::count(const at::Tensor& output, const Batch& batch) {
  const auto size = static_cast<double>(batch.size);
  std::vector<double> counts = {size};
  for (const MetricFunction& metric : options_.metrics) {
    counts.push_back(size * mean(metric.values(output, batch), metric.name));
  }
  counts.push_back(size * mean(loss(output, batch), kLoss));
  return at::tensor(counts, at::kDouble);
}

std::vector<Metric> FunctionTask::metrics(const at::Tensor& counts) const {
  std::vector<Metric> result;
  const auto add = [&](const std::string& name, bool lower_is_better) {
    const auto at = static_cast<std::int64_t>(result.size()) + 1;
    result.push_back({.name = name,
                      .value = counts[at].item<double>() / counts[0].item<double>(),
                      .lower_is_better = lower_is_better});
  };
  for (const MetricFunction& metric : options_.metrics) add(metric.name, metric.lower_is_better);
  add(kLoss, true);
  return result;
}

std::string FunctionTask::model_name() const {
  return options_.name.empty() ? short_name(options_.model.type) : options_.name;
}

}  // namespace lockstep
