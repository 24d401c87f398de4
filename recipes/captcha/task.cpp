// SPDX-License-Identifier: Apache-2.0
#include "captcha/task.h"

#include <ATen/ops/binary_cross_entropy_with_logits.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/zeros.h>

#include "captcha/data/dataset.h"
#include "captcha/metrics/scores.h"
#include "captcha/model/model.h"
#include "captcha/model/origin_names.h"

namespace lockstep::captcha {

CaptchaTask::CaptchaTask(const CaptchaConfig& config) : config_(config), characters_(config.characters()) {}

std::shared_ptr<Dataset> CaptchaTask::make_dataset(const std::string& folder) {
  return open_dataset(folder, config_.labels, config_.characters());
}

std::shared_ptr<torch::nn::Module> CaptchaTask::make_model() {
  return captcha::make_model({.type = config_.model_type,
                              .height = config_.labels.height,
                              .width = config_.labels.width,
                              .length = config_.labels.length,
                              .classes = static_cast<std::int64_t>(characters_.size())});
}

std::vector<std::string> CaptchaTask::fit_weights(StateDict& weights, const NamedTensors& model) {
  return origin_names(config_.model_type).take(weights, model);
}

std::optional<TorchValue> CaptchaTask::origin_file(const ModelStates& states) const {
  return to_torch_value(origin_names(config_.model_type).give(states.best()));
}

at::Tensor CaptchaTask::forward(torch::nn::Module& model, const Batch& batch) {
  return dynamic_cast<CaptchaNet&>(model).forward(batch.data);
}

std::optional<lockstep::nn::NetworkFunction> CaptchaTask::network_function(torch::nn::Module& model) {
  auto& net = dynamic_cast<CaptchaNet&>(model);
  const auto& labels = config_.labels;
  lockstep::nn::NetworkFunction function{.inputs = {"images"}, .outputs = {"logits"}};
  function.example = [&labels](std::int64_t batch) -> std::vector<at::Tensor> {
    return {at::rand({batch, 1, labels.height, labels.width})};
  };
  function.run = [&net, &labels](const std::vector<at::Tensor>& arguments) -> std::vector<at::Tensor> {
    const at::Tensor logits = net.forward(arguments[0]);
    return {logits.view({logits.size(0), labels.length, -1})};
  };
  for (const char character : characters_) function.names.emplace_back(1, character);
  function.page = R"({"picture": "as_is", "answer": "text"})";
  return function;
}

Outputs CaptchaTask::run_exported(const lockstep::nn::TensorFunction& network, const Batch& batch) {
  return {{"", network({batch.data}).at(0).flatten(1)}};
}

at::Tensor CaptchaTask::loss(const at::Tensor& output, const Batch& batch) {
  const at::Tensor logits = output.to(at::kFloat);
  const at::Tensor target =
      at::zeros({batch.target.size(0), batch.target.size(1), static_cast<std::int64_t>(characters_.size())},
                logits.options().requires_grad(false))
          .scatter_(2, batch.target.unsqueeze(2), 1.0)
          .flatten(1);
  // Computes the same mean as loss_. On a GPU, this takes one kernel, and libtorch's multi-label loss takes ten.
  if (!logits.is_cpu()) return at::binary_cross_entropy_with_logits(logits, target);
  return loss_(logits, target);
}

at::Tensor CaptchaTask::count(const at::Tensor& output, const Batch& batch) {
  return count_reads(output.to(at::kFloat), batch.target, static_cast<std::int64_t>(characters_.size()));
}

std::vector<Metric> CaptchaTask::metrics(const at::Tensor& counts) const { return read_metrics(counts); }

std::string CaptchaTask::report(const at::Tensor& counts) const { return confusions(counts, characters_); }

}  // namespace lockstep::captcha
