// SPDX-License-Identifier: Apache-2.0
#include "lockstep/train/schedule_config.h"

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "train/settings/numbers.h"

namespace lockstep {

using train::require_setting;

void ScheduleConfig::describe(ConfigFields& fields) {
  fields.add("schedule.type", &type, "learning rate after warm-up, per step; none: constant",
             {"none", "constant", "step", "multi_step", "cosine", "one_cycle", "polynomial", "noam", "plateau",
              "flat_cosine"});
  fields.add("schedule.warmup_epochs", &warmup_epochs, "epochs of linear warm-up (fractions welcome)");
  fields.add("schedule.warmup_steps", &warmup_steps, "warm-up in steps; 0: schedule.warmup_epochs");
  fields.add("schedule.min_lr", &min_lr, "where cosine and polynomial end; plateau goes no lower");
  fields.add("schedule.step_epochs", &step_epochs, "step: epochs until the learning rate falls, again and again");
  fields.add("schedule.gamma", &gamma, "step, multi_step: the factor of each fall; flat_cosine: of the whole one");
  fields.add("schedule.milestones", &milestones, "multi_step: epochs at which the learning rate falls");
  fields.add("schedule.power", &power, "polynomial: 1 is a straight line");
  fields.add("schedule.pct_start", &pct_start, "one_cycle: the part of the run in which the learning rate rises");
  fields.add("schedule.div_factor", &div_factor, "one_cycle: it begins at optimizer.lr / this");
  fields.add("schedule.final_div_factor", &final_div_factor, "one_cycle: it ends at its beginning / this");
  fields.add("schedule.anneal_strategy", &anneal_strategy, "one_cycle: half cosines or straight lines",
             {"cos", "linear"});
  fields.add("schedule.three_phase", &three_phase, "one_cycle: down as fast as up, then to the end");
  fields.add("schedule.model_size", &model_size, "noam: optimizer.lr is divided by its root");
  fields.add("schedule.flat_epochs", &flat_epochs, "flat_cosine: the epoch at which the cosine begins");
  fields.add("schedule.no_aug_epochs", &no_aug_epochs, "flat_cosine: epochs at the end, after the cosine");
  fields.add("schedule.metric", &metric, "plateau: a metric of data.test; empty: the first");
  fields.add("schedule.factor", &factor, "plateau: of the learning rate, when the metric gets no better");
  fields.add("schedule.patience", &patience, "plateau: evaluations in a row that may be no better");
  fields.add("schedule.threshold", &threshold, "plateau: by how much it must be better");
  fields.add("schedule.threshold_mode", &threshold_mode, "plateau: the threshold is relative or absolute",
             {"rel", "abs"});
  fields.add("schedule.cooldown", &cooldown, "plateau: evaluations after a fall that do not count");
}

void ScheduleConfig::validate() const {
  const auto number = [](std::int64_t value) { return static_cast<double>(value); };
  require_setting(warmup_epochs >= 0, "schedule.warmup_epochs", warmup_epochs, "0 or more");
  require_setting(warmup_steps >= 0, "schedule.warmup_steps", number(warmup_steps), "0 or more");
  require_setting(min_lr >= 0, "schedule.min_lr", min_lr, "0 or more");
  require_setting(step_epochs > 0, "schedule.step_epochs", step_epochs, "above 0");
  require_setting(gamma > 0, "schedule.gamma", gamma, "above 0");
  require_setting(power > 0, "schedule.power", power, "above 0");
  require_setting(pct_start > 0 && pct_start < 1, "schedule.pct_start", pct_start, "between 0 and 1");
  require_setting(!three_phase || pct_start <= 0.5, "schedule.pct_start", pct_start, "0.5 at most with three phases");
  require_setting(div_factor > 0, "schedule.div_factor", div_factor, "above 0");
  require_setting(final_div_factor > 0, "schedule.final_div_factor", final_div_factor, "above 0");
  require_setting(model_size > 0, "schedule.model_size", number(model_size), "at least 1");
  require_setting(flat_epochs >= 0, "schedule.flat_epochs", flat_epochs, "0 or more");
  require_setting(no_aug_epochs >= 0, "schedule.no_aug_epochs", no_aug_epochs, "0 or more");
  require_setting(factor > 0 && factor < 1, "schedule.factor", factor, "between 0 and 1");
  require_setting(patience >= 0, "schedule.patience", number(patience), "0 or more");
  require_setting(threshold >= 0, "schedule.threshold", threshold, "0 or more");
  require_setting(cooldown >= 0, "schedule.cooldown", number(cooldown), "0 or more");
  const bool is_set = type != "multi_step" || !milestones.empty();
  if (!is_set) throw UsageError("schedule.milestones is empty", "--set schedule.milestones=[30,60]");
  for (const double epoch : milestone_epochs()) require_setting(epoch >= 0, "schedule.milestones", epoch, "0 or more");
  const bool has_warmup = warmup_epochs > 0 || warmup_steps > 0;
  if (type == "noam" && !has_warmup) {
    throw UsageError("schedule.type is noam, which needs a warm-up", "--set schedule.warmup_steps=4000");
  }
  if (type == "one_cycle" && has_warmup) {
    throw UsageError("schedule.type is one_cycle, which has a warm-up of its own (schedule.pct_start)",
                     "--set schedule.warmup_epochs=0 --set schedule.warmup_steps=0");
  }
}

std::vector<double> ScheduleConfig::milestone_epochs() const {
  std::vector<double> epochs;
  for (const std::string& text : milestones) epochs.push_back(train::number_of("schedule.milestones", text));
  return epochs;
}

}  // namespace lockstep
