// SPDX-License-Identifier: Apache-2.0
#include "train/optimizer_choice.h"

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "train/numbers.h"

namespace lockstep::train {
namespace {

constexpr const char* kAuto = "auto";

void take(const char* key, const std::string& text, std::optional<double>& into) {
  if (text != kAuto) into = number_of(key, text);
}

void take(const char*, const std::string& text, std::optional<bool>& into) {
  if (text != kAuto) into = text == "true";
}

}  // namespace

OptimizerOptions optimizer_options(const OptimizerConfig& config) {
  OptimizerOptions options{.lr = config.lr, .weight_decay = config.weight_decay};
  if (!config.betas.empty()) {
    if (config.betas.size() != 2) {
      throw UsageError(fmt::format("optimizer.betas has {} numbers; it must have two", config.betas.size()),
                       "--set optimizer.betas=[0.9,0.999]");
    }
    options.betas = {number_of("optimizer.betas", config.betas[0]), number_of("optimizer.betas", config.betas[1])};
  }
  take("optimizer.eps", config.eps, options.eps);
  take("optimizer.amsgrad", config.amsgrad, options.amsgrad);
  take("optimizer.momentum", config.momentum, options.momentum);
  take("optimizer.dampening", config.dampening, options.dampening);
  take("optimizer.nesterov", config.nesterov, options.nesterov);
  take("optimizer.alpha", config.alpha, options.alpha);
  take("optimizer.centered", config.centered, options.centered);
  take("optimizer.lr_decay", config.lr_decay, options.lr_decay);
  take("optimizer.initial_accumulator_value", config.initial_accumulator_value, options.initial_accumulator_value);
  take("optimizer.trust", config.trust, options.trust);
  return options;
}

std::unique_ptr<FlatOptimizer> make_optimizer(const OptimizerConfig& config, NamedTensors parameters) {
  return lockstep::make_optimizer(config.type, std::move(parameters), optimizer_options(config));
}

}  // namespace lockstep::train
