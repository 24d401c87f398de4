// SPDX-License-Identifier: Apache-2.0
// The captcha recogniser as a Task for the Trainer and a Recipe for the command line.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "captcha/config.h"
#include "lockstep/nn/loss.h"
#include "lockstep/train/recipe.h"
#include "lockstep/train/task.h"

namespace lockstep::captcha {

/// Lifetime: `config` outlives the task.
class CaptchaTask : public Task {
 public:
  explicit CaptchaTask(const CaptchaConfig& config);

  std::shared_ptr<Dataset> make_dataset(const std::string& folder) override;
  std::shared_ptr<torch::nn::Module> make_model() override;
  /// Accepts weights under the names in the original model.pkl.
  std::vector<std::string> fit_weights(StateDict& weights, const NamedTensors& model) override;
  [[nodiscard]] std::optional<TorchValue> origin_file(const ModelStates& states) const override;
  /// Returns logits N(L*C).
  at::Tensor forward(torch::nn::Module& model, const Batch& batch) override;
  /// Maps images [N, 1, H, W] in 0..1 to logits [N, L, C].
  std::optional<lockstep::nn::NetworkFunction> network_function(torch::nn::Module& model) override;
  Outputs run_exported(const lockstep::nn::TensorFunction& network, const Batch& batch) override;
  /// Returns MultiLabelSoftMarginLoss against the one-hot label: the mean binary cross entropy over the L*C logits.
  at::Tensor loss(const at::Tensor& output, const Batch& batch) override;
  [[nodiscard]] bool is_recordable() const override { return true; }
  at::Tensor count(const at::Tensor& output, const Batch& batch) override;
  [[nodiscard]] std::vector<Metric> metrics(const at::Tensor& counts) const override;
  [[nodiscard]] std::string report(const at::Tensor& counts) const override;
  [[nodiscard]] std::string model_name() const override { return config_.model_type; }

  [[nodiscard]] const CaptchaConfig& config() const noexcept { return config_; }
  [[nodiscard]] const std::string& characters() const noexcept { return characters_; }

 private:
  const CaptchaConfig& config_;
  std::string characters_;
  nn::MultiLabelSoftMarginLoss loss_;
};

[[nodiscard]] std::unique_ptr<Recipe> make_recipe();

}  // namespace lockstep::captcha
