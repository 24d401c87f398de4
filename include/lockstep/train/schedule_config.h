// SPDX-License-Identifier: Apache-2.0
// The settings of the learning rate schedule, `schedule.*`. Epoch counts may be fractional; they are rounded to steps.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/base/config.h"

#pragma GCC visibility push(default)

namespace lockstep {

/// Names and defaults as in torch.optim.lr_scheduler, with epochs instead of steps. Schedule (optim/schedule.h) and
/// PlateauOptions (optim/plateau.h) describe the types.
struct ScheduleConfig {
  /// constant (or none), step, multi_step, cosine, one_cycle, polynomial, noam, plateau, flat_cosine
  std::string type = "cosine";
  double warmup_epochs = 0;       ///< linear warm-up before any type; flat_cosine and noam have other warm-ups
  std::int64_t warmup_steps = 0;  ///< length of the warm-up in steps; if 0, warmup_epochs applies
  double min_lr = 1e-6;           ///< last rate of cosine and polynomial, and lower limit for plateau

  double step_epochs = 30;  ///< step: epochs between reductions of the rate
  double gamma = 0.1;  ///< step, multi_step: reduction factor; flat_cosine: last rate, as a fraction of optimizer.lr
  std::vector<std::string> milestones = {};  ///< multi_step: epochs since the start of the run
  double power = 1;                          ///< polynomial

  double pct_start = 0.3;         ///< one_cycle (like the next four): fraction of the steps during which the rate rises
  double div_factor = 25;         ///< the highest rate divided by the first one
  double final_div_factor = 1e4;  ///< the first rate divided by the last one
  std::string anneal_strategy = "cos";  ///< cos, linear
  bool three_phase = false;             ///< the rate first falls back to its initial value, in as many steps as it rose

  std::int64_t model_size = 512;  ///< noam: width of the model; optimizer.lr scales the rate
  double flat_epochs = 0;         ///< flat_cosine: epochs from the start of the run until the cosine begins
  double no_aug_epochs = 0;       ///< flat_cosine: epochs at the end of the run after the cosine

  std::string metric;                  ///< plateau: a metric of data.test; empty: the task's first metric
  double factor = 0.1;                 ///< plateau (like the next four): each reduction multiplies the rate by this
  std::int64_t patience = 10;          ///< allowed number of consecutive evaluations without improvement
  double threshold = 1e-4;             ///< minimum improvement over the best value so far
  std::string threshold_mode = "rel";  ///< rel, abs
  std::int64_t cooldown = 0;           ///< evaluations after a reduction that do not count as bad

  /// Adds every key to `fields`, with its description.
  void describe(ConfigFields& fields);
  /// Checks the values. Throws: UsageError naming the first key whose value is invalid.
  void validate() const;

  /// Returns `milestones` as numbers. Throws: UsageError if one is not a number.
  [[nodiscard]] std::vector<double> milestone_epochs() const;
};

}  // namespace lockstep

#pragma GCC visibility pop
