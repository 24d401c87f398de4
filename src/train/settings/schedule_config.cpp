// SPDX-License-Identifier: Apache-2.0
#include "lockstep/train/schedule_config.h"

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/base/option_words.h"
#include "train/settings/numbers.h"

namespace lockstep {

using train::require_setting;

void ScheduleConfig::describe(ConfigFields& fields) {
  fields.add("schedule.type", &type, "learning rate after warm-up, per step; none: constant",
             {"none", "constant", "step", "multi_step", "cosine", "one_cycle", "polynomial", "noam", "plateau",
              "flat_cosine"});
  fields.add("schedule.warmup_epochs", &warmup_epochs, "epochs of linear warm-up (may be fractional)")
      .in({0, 1e8}, "epochs");
  fields.add("schedule.warmup_steps", &warmup_steps, "steps of linear warm-up; 0: use schedule.warmup_epochs")
      .in({0, 1e15}, "steps");
  fields.add("schedule.min_lr", &min_lr, "final rate of cosine and polynomial; lower limit of plateau")
      .in({.least = 0});
  fields.add("schedule.step_epochs", &step_epochs, "step: epochs between learning rate drops")
      .in({.least = 0, .most = 1e8, .above = true}, "epochs");
  fields.add("schedule.gamma", &gamma, "step, multi_step: factor of each drop; flat_cosine: of the whole decay")
      .in({.least = 0, .above = true});
  fields.add("schedule.milestones", &milestones, "multi_step: epochs at which the learning rate drops")
      .in({0, 1e8}, "epochs");
  fields.add("schedule.power", &power, "polynomial: exponent; 1 is linear").in({.least = 0, .above = true});
  fields.add("schedule.pct_start", &pct_start, "one_cycle: fraction of the run during which the learning rate rises")
      .in({.least = 0, .most = 1, .above = true, .below = true});
  fields.add("schedule.div_factor", &div_factor, "one_cycle: initial rate = optimizer.lr / this")
      .in({.least = 0, .above = true});
  fields.add("schedule.final_div_factor", &final_div_factor, "one_cycle: final rate = initial rate / this")
      .in({.least = 0, .above = true});
  fields.add("schedule.anneal_strategy", &anneal_strategy, "one_cycle: cosine or linear annealing", {"cos", "linear"});
  fields.add("schedule.three_phase", &three_phase,
             "one_cycle: the rate falls as fast as it rose, then anneals to the final rate");
  fields.add("schedule.model_size", &model_size, "noam: optimizer.lr is divided by its square root").in({1, 1e9});
  fields.add("schedule.flat_epochs", &flat_epochs, "flat_cosine: the epoch at which the cosine begins")
      .in({0, 1e8}, "epochs");
  fields.add("schedule.no_aug_epochs", &no_aug_epochs, "flat_cosine: final epochs, after the cosine")
      .in({0, 1e8}, "epochs");
  fields.add("schedule.metric", &metric, "plateau: a metric of data.test; empty: the first");
  fields.add("schedule.factor", &factor, "plateau: factor for the learning rate when the metric stops improving")
      .in({.least = 0, .most = 1, .above = true, .below = true});
  fields.add("schedule.patience", &patience, "plateau: consecutive evaluations allowed without improvement")
      .in({0, 1e9}, "evaluations");
  fields.add("schedule.threshold", &threshold, "plateau: minimum change that counts as an improvement")
      .in({.least = 0});
  fields.add("schedule.threshold_mode", &threshold_mode, "plateau: whether the threshold is relative or absolute",
             {"rel", "abs"});
  fields.add("schedule.cooldown", &cooldown, "plateau: evaluations to ignore after a drop").in({0, 1e9}, "evaluations");
}

void ScheduleConfig::validate() const {
  train::check_rows(*this);
  require_setting(!three_phase || pct_start <= 0.5, "schedule.pct_start", pct_start, "at most 0.5 with three phases");
  const bool is_set = type != "multi_step" || !milestones.empty();
  if (!is_set) throw UsageError("schedule.milestones is empty", setting_words("schedule.milestones=[30,60]"));
  const bool has_warmup = warmup_epochs > 0 || warmup_steps > 0;
  if (type == "noam" && !has_warmup) {
    throw UsageError("schedule.type is noam, which requires a warm-up", setting_words("schedule.warmup_steps=4000"));
  }
  if (type == "one_cycle" && has_warmup) {
    throw UsageError("schedule.type is one_cycle, which has its own warm-up (schedule.pct_start)",
                     setting_words("schedule.warmup_epochs=0") + " " + setting_words("schedule.warmup_steps=0"));
  }
}

std::vector<double> ScheduleConfig::milestone_epochs() const {
  std::vector<double> epochs;
  for (const std::string& text : milestones) epochs.push_back(train::number_of("schedule.milestones", text));
  return epochs;
}

}  // namespace lockstep
