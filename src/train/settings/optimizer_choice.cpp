// SPDX-License-Identifier: Apache-2.0
#include "train/settings/optimizer_choice.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <regex>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "train/settings/numbers.h"

namespace lockstep::train {
namespace {

constexpr const char* kAuto = "auto";

void take(const char* key, const std::string& text, std::optional<double>& into) {
  if (text != kAuto) into = number_of(key, text);
}

void take(const char*, const std::string& text, std::optional<bool>& into) {
  if (text != kAuto) into = text == "true";
}

std::array<double, 2> two_numbers(const std::string& key, const std::vector<std::string>& texts) {
  if (texts.size() == 2) return {number_of(key, texts[0]), number_of(key, texts[1])};
  throw UsageError(fmt::format("{} has {} numbers; it must have two", key, texts.size()), "write it as [0.9,0.999]");
}

/// Reads `optimizer.groups[index]` from the settings.
ParameterGroup group_of(const ConfigMap& map, std::size_t index) {
  const std::string name = fmt::format("optimizer.groups[{}]", index);
  ParameterGroup group;
  const std::map<std::string, std::optional<double>*> numbers = {
      {"lr", &group.lr}, {"weight_decay", &group.weight_decay}, {"momentum", &group.momentum}, {"eps", &group.eps}};
  for (const auto& [key, value] : map) {
    const auto* text = std::get_if<std::string>(&value);
    const auto number = numbers.find(key);
    const std::string full = name + "." + key;
    if (key == "betas" && text == nullptr) {
      group.betas = two_numbers(full, std::get<std::vector<std::string>>(value));
    } else if (key == "may_be_empty" && text != nullptr && (*text == "true" || *text == "false")) {
      group.may_be_empty = *text == "true";
    } else if (key == "params" && text != nullptr) {
      group.pattern = *text;
    } else if (number != numbers.end() && text != nullptr) {
      *number->second = number_of(full, *text);
    } else if (key == "may_be_empty") {
      throw UsageError(fmt::format("{} must be true or false", full));
    } else if (key == "betas" || key == "params" || number != numbers.end()) {
      throw UsageError(fmt::format("{} is {}", full, text == nullptr ? "a list" : "not a list of two numbers"));
    } else {
      const std::vector<std::string> keys = {"params", "lr",       "weight_decay", "betas",
                                             "eps",    "momentum", "may_be_empty"};
      throw UsageError(fmt::format("{} has an unknown key '{}'{}", name, key, text::did_you_mean(key, keys)),
                       fmt::format("a group has {}", text::join(keys)));
    }
  }
  if (group.pattern.empty()) {
    throw UsageError(fmt::format("{} has no params", name),
                     "set params to a regular expression over parameter names, such as params: bias$");
  }
  return group;
}

}  // namespace

OptimizerOptions optimizer_options(const OptimizerConfig& config) {
  OptimizerOptions options{.lr = config.lr, .weight_decay = config.weight_decay};
  if (!config.betas.empty()) options.betas = two_numbers("optimizer.betas", config.betas);
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
  for (const ConfigMap& map : config.groups) options.groups.push_back(group_of(map, options.groups.size()));
  return options;
}

void require_group(const std::string& type, const OptimizerOptions& options, const ParameterGroup& group) {
  // Creating an optimizer without parameters checks the options without requiring any pattern to match.
  OptimizerOptions own = options;
  own.groups.clear();
  own.lr = group.lr ? group.lr : own.lr;
  own.weight_decay = group.weight_decay ? group.weight_decay : own.weight_decay;
  own.betas = group.betas ? group.betas : own.betas;
  own.eps = group.eps ? group.eps : own.eps;
  own.momentum = group.momentum ? group.momentum : own.momentum;
  try {
    (void)lockstep::make_optimizer(type, NamedTensors{}, own);
    (void)std::regex(group.pattern, std::regex::ECMAScript);
  } catch (const UsageError& error) {
    throw UsageError(fmt::format("the group '{}' of optimizer.groups: {}", group.pattern, error.message()),
                     error.hint());
  } catch (const std::regex_error& error) {
    throw UsageError(fmt::format("the group '{}' of optimizer.groups is not a valid regular expression: {}",
                                 group.pattern, error.what()),
                     "use ECMAScript syntax; a dot in a name is \\.");
  }
}

std::vector<std::string> empty_groups(const OptimizerConfig& config, const NamedTensors& parameters) {
  std::vector<std::string> patterns;
  for (const ParameterGroup& group : optimizer_options(config).groups) {
    const std::regex expression(group.pattern, std::regex::ECMAScript);
    const bool found = std::any_of(parameters.begin(), parameters.end(),
                                   [&](const auto& item) { return std::regex_search(item.first, expression); });
    if (!found) patterns.push_back(group.pattern);
  }
  return patterns;
}

std::unique_ptr<FlatOptimizer> make_optimizer(const OptimizerConfig& config, NamedTensors parameters) {
  return lockstep::make_optimizer(config.type, std::move(parameters), optimizer_options(config));
}

}  // namespace lockstep::train
