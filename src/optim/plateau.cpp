// SPDX-License-Identifier: Apache-2.0
#include "lockstep/optim/plateau.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "lockstep/base/error.h"

namespace lockstep {
namespace {

bool is_better(const PlateauOptions& options, double metric, const std::optional<double>& best) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (options.lower_is_better) {
    const double old = best.value_or(kInfinity);
    return metric < (options.relative ? old * (1 - options.threshold) : old - options.threshold);
  }
  const double old = best.value_or(-kInfinity);
  return metric > (options.relative ? old * (1 + options.threshold) : old + options.threshold);
}

double reduced(const PlateauOptions& options, double lr) {
  const double next = std::max(lr * options.factor, options.min_lr);
  return lr - next > options.eps ? next : lr;
}

}  // namespace

PlateauState after_metric(const PlateauOptions& options, PlateauState state, double metric) {
  if (!(options.factor > 0 && options.factor < 1)) {
    throw UsageError(fmt::format("a plateau's factor is {}; it must be between 0 and 1", options.factor));
  }
  if (is_better(options, metric, state.best)) {
    state.best = metric;
    state.bad = 0;
  } else {
    ++state.bad;
  }
  if (state.cooldown > 0) {
    --state.cooldown;
    state.bad = 0;
  }
  if (state.bad > options.patience) {
    state.lr = reduced(options, state.lr);
    state.cooldown = options.cooldown;
    state.bad = 0;
  }
  return state;
}

}  // namespace lockstep
