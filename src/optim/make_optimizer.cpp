// SPDX-License-Identifier: Apache-2.0
// The table of optimizers by name.
#include "lockstep/optim/make_optimizer.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>

#include "lockstep/base/error.h"
#include "lockstep/optim/adagrad.h"
#include "lockstep/optim/adam.h"
#include "lockstep/optim/adamw.h"
#include "lockstep/optim/lamb.h"
#include "lockstep/optim/lars.h"
#include "lockstep/optim/lion.h"
#include "lockstep/optim/rmsprop.h"
#include "lockstep/optim/sgd.h"

namespace lockstep {
namespace {

/// Sets OPTION of `own` if it is given. Throws if this type lacks the option.
#define LOCKSTEP_TAKE(OPTION)                                                            \
  if constexpr (requires { own.OPTION; }) {                                              \
    if (given.OPTION) own.OPTION = *given.OPTION;                                        \
  } else if (given.OPTION) {                                                             \
    throw UsageError(fmt::format("{} does not have {}", type, #OPTION), "leave it out"); \
  }

template <class Options>
Options own_options(const char* type, const OptimizerOptions& given) {
  Options own;
  LOCKSTEP_TAKE(lr)
  LOCKSTEP_TAKE(weight_decay)
  LOCKSTEP_TAKE(betas)
  LOCKSTEP_TAKE(eps)
  LOCKSTEP_TAKE(amsgrad)
  LOCKSTEP_TAKE(momentum)
  LOCKSTEP_TAKE(dampening)
  LOCKSTEP_TAKE(nesterov)
  LOCKSTEP_TAKE(alpha)
  LOCKSTEP_TAKE(centered)
  LOCKSTEP_TAKE(lr_decay)
  LOCKSTEP_TAKE(initial_accumulator_value)
  LOCKSTEP_TAKE(trust)
  own.no_decay = given.no_decay;
  own.groups = given.groups;
  return own;
}
#undef LOCKSTEP_TAKE

struct KnownType {
  const char* name;
  std::unique_ptr<FlatOptimizer> (*make)(const char* type, NamedTensors parameters, const OptimizerOptions& options);
};

template <class Made, class Options>
std::unique_ptr<FlatOptimizer> make(const char* type, NamedTensors parameters, const OptimizerOptions& options) {
  return std::make_unique<Made>(std::move(parameters), own_options<Options>(type, options));
}

constexpr KnownType kTypes[] = {
    {"AdamW", make<AdamW, AdamWOptions>},
    {"Adam", make<Adam, AdamOptions>},
    {"SGD", make<SGD, SGDOptions>},
    {"RMSprop", make<RMSprop, RMSpropOptions>},
    {"Adagrad", make<Adagrad, AdagradOptions>},
    {"LAMB", make<LAMB, LAMBOptions>},
    {"LARS", make<LARS, LARSOptions>},
    {"Lion", make<Lion, LionOptions>},
};

bool equal_in_any_case(const std::string& a, const std::string& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](char x, char y) {
    return std::tolower(static_cast<unsigned char>(x)) == std::tolower(static_cast<unsigned char>(y));
  });
}

}  // namespace

const std::vector<std::string>& optimizer_types() {
  static const std::vector<std::string> all = [] {
    std::vector<std::string> names;
    for (const KnownType& type : kTypes) names.emplace_back(type.name);
    return names;
  }();
  return all;
}

std::unique_ptr<FlatOptimizer> make_optimizer(const std::string& type, NamedTensors parameters,
                                              const OptimizerOptions& options) {
  for (const KnownType& known : kTypes) {
    if (equal_in_any_case(known.name, type)) return known.make(known.name, std::move(parameters), options);
  }
  throw UsageError(fmt::format("there is no optimizer '{}'", type),
                   fmt::format("choose one of {}", fmt::join(optimizer_types(), ", ")));
}

}  // namespace lockstep
