// SPDX-License-Identifier: Apache-2.0
#include "lockstep/train/optimizer_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "lockstep/base/error.h"
#include "train/settings/numbers.h"
#include "train/settings/optimizer_choice.h"

namespace lockstep {
namespace {

std::vector<std::string> type_names() {
  std::vector<std::string> names = optimizer_types();
  for (std::string& name : names) {
    std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::tolower(c); });
  }
  return names;
}

}  // namespace

void OptimizerConfig::describe(ConfigFields& fields) {
  const std::vector<std::string> flag = {"auto", "true", "false"};
  fields.add("optimizer.type", &type, "the optimizer; keys specific to it are auto unless set", type_names());
  fields.add("optimizer.lr", &lr, "learning rate after warm-up").in({.least = 0, .above = true});
  fields.add("optimizer.weight_decay", &weight_decay, "weight decay; decoupled in adamw, lamb and lion")
      .in({.least = 0});
  fields.add("optimizer.lr_scaling", &lr_scaling, "none; replicas: lr x replicas; batch: lr x total batch / 256",
             {"none", "replicas", "batch"});
  fields
      .add("optimizer.zero", &zero,
           "ZeRO-1: each process keeps only its part of the optimizer state; the result is the same")
      .at_resume(OnResume::kFree);
  fields.add("optimizer.betas", &betas, "adamw, adam, lamb, lion: two numbers");
  fields.add("optimizer.eps", &eps, "adamw, adam, rmsprop, adagrad, lamb: added to the divisor");
  fields.add("optimizer.amsgrad", &amsgrad, "adamw, adam: divide by the largest second moment so far", flag);
  fields.add("optimizer.momentum", &momentum, "sgd, rmsprop, lars: momentum");
  fields.add("optimizer.dampening", &dampening, "sgd: dampening of a gradient's contribution to the momentum");
  fields.add("optimizer.nesterov", &nesterov, "sgd: Nesterov momentum", flag);
  fields.add("optimizer.alpha", &alpha, "rmsprop: smoothing factor of the mean square");
  fields.add("optimizer.centered", &centered, "rmsprop: divide by the standard deviation", flag);
  fields.add("optimizer.lr_decay", &lr_decay, "adagrad: learning rate decay per step");
  fields.add("optimizer.initial_accumulator_value", &initial_accumulator_value, "adagrad: initial sum of squares");
  fields.add("optimizer.trust", &trust, "lars: size of an update at lr 1, relative to the parameter's norm");
  fields.add("optimizer.groups", &groups,
             "maps of params (a regular expression over names) and lr, weight_decay, ... for the matching parameters");
}

void OptimizerConfig::validate() const {
  train::check_rows(*this);
  const OptimizerOptions options = train::optimizer_options(*this);
  try {
    OptimizerOptions common = options;
    common.groups.clear();  // without a model, their patterns cannot match anything
    // Creating an optimizer without parameters checks its type's options and their ranges.
    (void)make_optimizer(type, NamedTensors{}, common);
  } catch (const UsageError& error) {
    throw UsageError(fmt::format("optimizer.type is {}: {}", type, error.message()), error.hint());
  }
  for (const ParameterGroup& group : options.groups) train::require_group(type, options, group);
}

}  // namespace lockstep
