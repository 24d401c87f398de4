// SPDX-License-Identifier: Apache-2.0
#include "train/loop/learner.h"

#include <utility>

#include "lockstep/base/log.h"
#include "lockstep/base/trace.h"
#include "lockstep/checkpoint/checkpoint.h"
#include "train/ranks/same_outcome.h"
#include "train/ranks/share_state.h"
#include "train/resume/stage_base.h"

namespace lockstep::train {

Learner::Learner(const Job& job, Task& task, const TrainConfig& config)
    : job_(job), task_(task), config_(config), steps_(job, task, config) {}

void Learner::build(const Start& start, const FirstWeights& init_from) {
  steps_.build(make_net(start, init_from));
  if (start.resumed) restore(start);
  build_average(start);
  loss_.emplace(job_.group(), steps_.data().block(), static_cast<int>(config_.replicas));
  loss_->start_mean(start.run.loss_sum, start.run.loss_count);
}

/// Creates the network with its initial weights. Wrapping it later gives every rank the weights of rank 0.
std::shared_ptr<TaskNet> Learner::make_net(const Start& start, const FirstWeights& init_from) {
  auto net = steps_.make_net();
  if (start.resumed) {
    do_on_main(job_, [&] {
      const StateDict model = start.checkpoint->state("model");
      task_.check_model_state(model);
      load_model_state_dict(net->net(), model);
    });
  } else if (!init_from.path.empty() && job_.is_main()) {
    start_from_weights(task_, named_entries_of(net->net()), init_from);
  }
  return net;
}

void Learner::restore(const Start& start) {
  const auto shared = [&](const char* state) { return share_state_of(job_, start.checkpoint, state); };
  steps_.weights().optimizer().load_state_dict(shared("optimizer"));
  if (steps_.weights().scaler().is_enabled()) steps_.weights().scaler().load_state_dict(shared("scaler"));
}

/// Starts the average from the current weights, which are the same on every rank.
void Learner::begin_average() {
  steps_.buffers().sync();
  average_.emplace(steps_.model().module().net(),
                   EMAOptions{.decay = config_.ema.decay, .warmups = config_.ema.warmups, .start = config_.ema.start});
}

void Learner::build_average(const Start& start) {
  if (config_.ema.decay <= 0) return;
  begin_average();
  steps_.guard().set_average([this] { return average_->state_dict(); });
  if (!start.resumed) return;
  if (start.run.stages.stage == 2) average_->set_decay(start.run.stages.decay);
  const StateDict average = share_state_of(job_, start.checkpoint, "ema");
  if (!average.empty()) return average_->load_state_dict(average);
  if (job_.is_main()) log::note("the checkpoint holds no moving average: averaging starts from the model's weights");
}

bool Learner::update(double lr) {
  if (!steps_.weights().update(lr)) {
    steps_.buffers().restore();
    return false;
  }
  if (!average_) return true;
  steps_.buffers().sync();  // all ranks get replica 0's buffers, and so the same average
  average_->update();
  return true;
}

Evaluation Learner::evaluate(const std::shared_ptr<Dataset>& set, const EvaluateOptions& options) {
  const trace::Span span({.name = "evaluate"});
  steps_.buffers().sync();
  std::optional<EMA::Swapped> averaged;
  if (average_) averaged.emplace(average_->swap_in());
  return lockstep::evaluate(job_, task_, steps_.model().module().net(), set, options);
}

void Learner::go_back_to(const std::filesystem::path& folder, std::int64_t step) {
  if (!load_base(job_, folder, step, steps_, average_ ? &*average_ : nullptr)) begin_average();
}

void Learner::set_decay(double decay) {
  if (average_) average_->set_decay(decay);
}

std::set<std::string> Learner::learnt() {
  std::set<std::string> names;
  for (const auto& [name, parameter] : named_parameters_of(steps_.model())) {
    if (parameter.requires_grad()) names.insert(name);
  }
  return names;
}

StateParts Learner::state_parts(const SaveShare& share) {
  const auto [rank, world] = share;
  StateParts parts;
  parts["model"] = part_of(steps_.model().state_dict(), rank, world);
  parts["optimizer"] = world > 1 ? steps_.weights().optimizer().state_part(rank, world)
                                 : StatePart{.entries = steps_.weights().optimizer().state_dict(), .slices = {}};
  if (average_) parts["ema"] = part_of(average_->state_dict(), rank, world);
  if (steps_.weights().scaler().is_enabled())
    parts["scaler"] = part_of(steps_.weights().scaler().state_dict(), rank, world);
  return parts;
}

}  // namespace lockstep::train
