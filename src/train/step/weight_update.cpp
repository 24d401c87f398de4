// SPDX-License-Identifier: Apache-2.0
#include "train/step/weight_update.h"

#include <utility>

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
}

bool WeightUpdate::update(double lr) {
  if (scaler_.is_enabled()) {
    scaler_.unscale_(*optimizer_, own_gradients(*optimizer_));
    // Read before the update is queued, where step() waits for the device in any case.
    loss_scale_ = scaler_.get_scale();
  }
  if (config_.clip_value > 0) clip_grad_value(own_gradients(*optimizer_), config_.clip_value);
  double factor = 1.0;
  if (config_.clip_norm > 0) {
    const double norm = counts_norm() ? model_->grad_norm() : optimizer_->grad_norm();
    factor = clip_factor(norm, config_.clip_norm);
  }
  optimizer_->set_lr(lr);
  const trace::Span span({.name = "optimizer"});
  const bool stepped = scaler_.step(*optimizer_, factor);
  scaler_.update();
  optimizer_->zero_grad();
  return stepped;
}

}  // namespace lockstep::train
