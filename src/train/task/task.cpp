// SPDX-License-Identifier: Apache-2.0
// Default implementations of Task's functions: those for several outputs call those for one output.
#include "lockstep/train/task.h"

#include <ATen/ops/tensor.h>
#include <c10/util/Type.h>
#include <fmt/format.h>

#include <typeinfo>

#include "lockstep/base/error.h"
#include "lockstep/train/tally.h"

namespace lockstep {
namespace {

[[noreturn]] void throw_missing(const Task& task, const char* one, const char* several) {
  throw UsageError(fmt::format("{} overrides neither {} nor {}", c10::demangle(typeid(task).name()), one, several),
                   fmt::format("a network with one output needs {}, one with several needs {}", one, several));
}

const at::Tensor& only(const Outputs& outputs) {
  const auto found = outputs.find("");
  if (found != outputs.end() && outputs.size() == 1) return found->second;
  throw UsageError(fmt::format("the task's run() returns {} outputs, but its loss takes the single output of forward()",
                               outputs.size()),
                   "override loss_terms() and make_tally() together with run()");
}

}  // namespace

at::Tensor Task::forward(torch::nn::Module& /*model*/, const Batch& /*batch*/) {
  throw_missing(*this, "forward()", "run()");
}

Outputs Task::run(torch::nn::Module& model, const Batch& batch) { return {{"", forward(model, batch)}}; }

Outputs Task::run_exported(const nn::TensorFunction& /*network*/, const Batch& /*batch*/) {
  throw_missing(*this, "network_function()", "run_exported()");
}

at::Tensor Task::loss(const at::Tensor& /*output*/, const Batch& /*batch*/) {
  throw_missing(*this, "loss()", "loss_terms()");
}

std::vector<LossTerm> Task::loss_terms(const Outputs& outputs, const Batch& batch) {
  return {{"loss", loss(only(outputs), batch)}};
}

std::optional<std::string> Task::recording_key(const Batch& batch) const {
  return batch.extra.has_value() ? std::nullopt : std::optional<std::string>("");
}

at::Tensor Task::count(const at::Tensor& /*output*/, const Batch& /*batch*/) {
  throw_missing(*this, "count()", "make_tally()");
}

std::vector<Metric> Task::metrics(const at::Tensor& /*counts*/) const { return {}; }

std::unique_ptr<Tally> Task::make_tally() const { return nullptr; }

StateDict Task::batch_state(const Batch& batch) const {
  StateDict state = {{"indices", at::tensor(batch.indices, at::kLong)}};
  if (batch.data.defined()) state["data"] = batch.data;
  if (batch.target.defined()) state["target"] = batch.target;
  return state;
}

}  // namespace lockstep
