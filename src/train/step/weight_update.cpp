// SPDX-License-Identifier: Apache-2.0
#include "train/step/weight_update.h"

#include <fmt/format.h>

#include <cmath>
#include <utility>
#include <variant>

#include "lockstep/base/log.h"
#include "lockstep/base/trace.h"
#include "lockstep/optim/clip.h"
#include "lockstep/parallel/zero.h"
#include "train/settings/optimizer_choice.h"
#include "train/step/loss_scale.h"

namespace lockstep::train {

WeightUpdate::WeightUpdate(const Job& job, const TrainConfig& config)
    : config_(config), scaler_(scaler_options(job, config)) {}

bool WeightUpdate::counts_norm() const {
  return config_.clip_norm > 0 && !config_.optimizer.zero && !scaler_.is_enabled();
}

void WeightUpdate::build(const Job& job, DistributedDataParallel<TaskNet>& model) {
  model_ = &model;
  const auto make = [this](NamedTensors parameters) -> std::unique_ptr<Optimizer> {
    return train::make_optimizer(config_.optimizer, std::move(parameters));
  };
  if (!config_.optimizer.zero) {
    optimizer_ = make(named_parameters_of(model));
  } else {
    optimizer_ = std::make_unique<ZeroRedundancyOptimizer>(named_parameters_of(model), job.group(), make,
                                                           model.shared_reducer());
  }
  if (job.is_main()) {
    for (const std::string& pattern : empty_groups(config_.optimizer, named_parameters_of(model)))
      log::note("the optimizer's group '{}' is empty: it matches no parameter of this network", pattern);
  }
  const bool is_automatic = config_.digests == "auto" && job.device().is_cpu();
  if (is_automatic || config_.digests == "true") optimizer_->digest_updates();
  digest_ = optimizer_->update_digest();
}

/// Throws if the norm is not finite; with loss scaling, the scaler skips such steps instead.
void WeightUpdate::require_finite(double norm) {
  if (!std::isfinite(norm) && !scaler_.is_enabled()) {
    const std::string gradients = non_finite_gradients(optimizer_->parameters());
    throw NonFiniteGradient(gradients.empty() ? "a gradient of another rank's shard is not finite"
                                              : fmt::format("the gradient is not finite: {}", gradients));
  }
  if (!config_.check_gradients || !std::isfinite(norm)) return;
  if (const auto ratio = norms_.add(norm)) {
    outlier_ = fmt::format("the gradients' norm is {:.3g}, {:.0f} times the median of the last steps; {}", norm, *ratio,
                           largest_gradient(optimizer_->parameters()));
  }
}

void WeightUpdate::require_last_finite() {
  const std::string gradients = std::exchange(late_norms_, {}).non_finite();
  if (!gradients.empty())
    throw NonFiniteGradient(fmt::format("the gradient is not finite: {}", gradients), /*steps_ago=*/1);
}

bool WeightUpdate::clips_on_device() const {
  return config_.clip_norm > 0 && !config_.check_gradients && !config_.optimizer.zero &&
         optim::on_one_gpu(optimizer_->parameters());
}

double WeightUpdate::factor() {
  if (config_.clip_norm <= 0 && !config_.check_gradients) return 1;
  const double norm = counts_norm() ? model_->grad_norm() : optimizer_->grad_norm();
  require_finite(norm);
  return config_.clip_norm > 0 ? clip_factor(norm, config_.clip_norm) : 1;
}

/// Weights after an update with a non-finite norm are never saved: require_last_finite() precedes a save.
at::Tensor WeightUpdate::factor_on_device() {
  const at::Tensor norms = optim::device_norms(optimizer_->parameters());
  if (!scaler_.is_enabled()) late_norms_ = LateNorms(norms, optimizer_->parameters());
  return clip_factor(optim::norm_of_norms(norms), config_.clip_norm);
}

bool WeightUpdate::update(double lr) {
  require_last_finite();
  if (scaler_.is_enabled()) {
    scaler_.unscale_(*optimizer_, own_gradients(*optimizer_));
    loss_scale_ = scaler_.get_scale();
  }
  std::variant<double, at::Tensor> clip = 1.0;
  if (clips_on_device()) {
    clip = factor_on_device();
  } else {
    clip = factor();
  }
  // After the check, because it turns infinity into a number. It is never used with clip_norm.
  if (config_.clip_value > 0) clip_grad_value(own_gradients(*optimizer_), config_.clip_value);
  optimizer_->set_lr(lr);
  const trace::Span span({.name = "optimizer"});
  const bool stepped = std::visit([this](const auto& scale) { return scaler_.step(*optimizer_, scale); }, clip);
  scaler_.update();
  digest_ = optimizer_->update_digest();
  if (digest_ && !stepped) digest_->gradients = 0;
  optimizer_->zero_grad();
  return stepped;
}

}  // namespace lockstep::train
