// SPDX-License-Identifier: Apache-2.0
// The settings of the learning rate's schedule, `schedule.*`. Epochs may be fractions; they are rounded to steps.
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
  /// constant (none is the same), step, multi_step, cosine, one_cycle, polynomial, noam, plateau, flat_cosine
  std::string type = "cosine";
  double warmup_epochs = 0;       ///< linear warm-up before any type; flat_cosine and noam have their own shape
  std::int64_t warmup_steps = 0;  ///< the warm-up in steps; 0: warmup_epochs
  double min_lr = 1e-6;           ///< the end of cosine and polynomial, and the lower limit of plateau

  double step_epochs = 30;                   ///< step: epochs until the rate falls
  double gamma = 0.1;                        ///< step, multi_step: the factor; flat_cosine: the factor of its end
  std::vector<std::string> milestones = {};  ///< multi_step: epochs since the start of the run
  double power = 1;                          ///< polynomial

  double pct_start = 0.3;               ///< one_cycle, also the next four
  double div_factor = 25;               ///< the highest rate divided by the first one
  double final_div_factor = 1e4;        ///< the first rate divided by the last one
  std::string anneal_strategy = "cos";  ///< cos, linear
  bool three_phase = false;             ///< goes down to the first rate within as many steps as up

  std::int64_t model_size = 512;  ///< noam; optimizer.lr is its factor
  double flat_epochs = 0;         ///< flat_cosine: the epoch, of the whole run, in which the cosine begins
  double no_aug_epochs = 0;       ///< flat_cosine: epochs at the end of the run after the cosine

  std::string metric;                  ///< plateau: a metric of data.test; empty: the task's first
  double factor = 0.1;                 ///< plateau, also the next four
  std::int64_t patience = 10;          ///< evaluations
  double threshold = 1e-4;             ///< by how much a metric must be better
  std::string threshold_mode = "rel";  ///< rel, abs
  std::int64_t cooldown = 0;           ///< evaluations

  /// Adds every key to `fields`, with its description.
  void describe(ConfigFields& fields);
  /// Checks the values. Throws: UsageError naming the first key whose value is invalid.
  void validate() const;

  /// Returns `milestones` as numbers. Throws: UsageError if one is not a number.
  [[nodiscard]] std::vector<double> milestone_epochs() const;
};

}  // namespace lockstep

#pragma GCC visibility pop
