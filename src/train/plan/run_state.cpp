// SPDX-License-Identifier: Apache-2.0
#include "train/plan/run_state.h"

#include <ATen/ops/empty.h>
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "lockstep/base/error.h"
#include "lockstep/base/option_words.h"

namespace lockstep::train {

std::string or_only_weights(std::string_view first) {
  return fmt::format("{}, or load only the weights: {} instead of {}", first, option_words("init-from"),
                     option_words("resume"));
}

std::string only_own_runs() {
  return fmt::format("only the Trainer's checkpoints can be resumed; {} loads the weights of any checkpoint",
                     option_words("init-from"));
}

namespace {

[[noreturn]] void refuse_entry(const std::string& name) {
  throw DataError(fmt::format("the checkpoint's state 'run' has no valid entry '{}'", name), only_own_runs());
}

}  // namespace

template <class T>
T entry(const StateDict& state, const std::string& name) {
  const auto found = state.find(name);
  if (found != state.end()) {
    if (const auto* value = std::get_if<T>(&found->second)) return *value;
  }
  refuse_entry(name);
}

template std::int64_t entry(const StateDict&, const std::string&);
template double entry(const StateDict&, const std::string&);
template bool entry(const StateDict&, const std::string&);
template std::string entry(const StateDict&, const std::string&);

namespace {

constexpr const char* kBadSamples = "bad_samples";
constexpr std::int64_t kMostCount = 1'000'000'000'000'000;

/// Parses "5,20". Anything else is ignored, since the indices are only counted.
std::set<std::int64_t> indices_of(const std::string& text) {
  std::set<std::int64_t> indices;
  const char* const end = text.data() + text.size();
  for (const char* at = text.data(); at < end; ++at) {
    std::int64_t index = 0;
    const auto read = std::from_chars(at, end, index);
    if (read.ec == std::errc()) indices.insert(index);
    at = std::find(read.ptr, end, ',');
  }
  return indices;
}

/// Returns the indices as a tensor, because a string's length is limited.
at::Tensor tensor_of(const std::set<std::int64_t>& indices) {
  at::Tensor tensor = at::empty({static_cast<std::int64_t>(indices.size())}, at::kLong);
  std::copy(indices.begin(), indices.end(), tensor.data_ptr<std::int64_t>());
  return tensor;
}

std::set<std::int64_t> bad_samples_of(const StateDict& state) {
  const auto found = state.find(kBadSamples);
  if (found == state.end()) return {};
  if (const auto* text = std::get_if<std::string>(&found->second)) return indices_of(*text);  // of an older version
  const auto* tensor = std::get_if<at::Tensor>(&found->second);
  if (tensor == nullptr || !tensor->defined() || !tensor->device().is_cpu() || tensor->scalar_type() != at::kLong) {
    refuse_entry(kBadSamples);
  }
  const at::Tensor flat = tensor->contiguous();
  const auto* const first = flat.data_ptr<std::int64_t>();
  return {first, first + flat.numel()};
}

}  // namespace

std::int64_t count_entry(const StateDict& state, const std::string& name) {
  const auto count = entry<std::int64_t>(state, name);
  // A checkpoint that passes verification may still contain any value.
  if (count >= 0 && count <= kMostCount) return count;
  throw DataError(
      fmt::format("the checkpoint's state 'run' says {} is {}; valid values are 0 to {}", name, count, kMostCount),
      or_only_weights("use another checkpoint"));
}

StateDict to_state(const RunState& run) {
  StateDict state = {{"step", run.step},       {"epoch", run.epoch},       {"batch", run.batch},
                     {"samples", run.samples}, {"loss.sum", run.loss_sum}, {"loss.count", run.loss_count}};
  if (run.skipped > 0) {
    state["skipped"] = run.skipped;
    state["epoch_skipped"] = run.epoch_skipped;
  }
  if (!run.bad_samples.empty()) state[kBadSamples] = tensor_of(run.bad_samples);
  if (run.best) {
    state["best.metric"] = run.best->name;
    state["best.value"] = run.best->value;
    state["best.lower_is_better"] = run.best->lower_is_better;
    state["best.step"] = run.best_step;
    if (run.best_loss) state["best.loss"] = *run.best_loss;
  }
  if (run.plateau) {
    state["plateau.lr"] = run.plateau->lr;
    state["plateau.bad"] = run.plateau->bad;
    state["plateau.cooldown"] = run.plateau->cooldown;
    if (run.plateau->best) state["plateau.best"] = *run.plateau->best;
  }
  add_stages(run.stages, state);
  if (run.begun_replicas > 0) state["begun.replicas"] = run.begun_replicas;
  return state;
}

RunState run_state_of(const StateDict& state) {
  RunState run{.step = count_entry(state, "step"),
               .epoch = count_entry(state, "epoch"),
               .batch = count_entry(state, "batch"),
               .samples = count_entry(state, "samples"),
               .loss_sum = entry<double>(state, "loss.sum"),
               .loss_count = count_entry(state, "loss.count")};
  if (state.count("skipped") != 0) {
    run.skipped = count_entry(state, "skipped");
    run.epoch_skipped = count_entry(state, "epoch_skipped");
  }
  run.bad_samples = bad_samples_of(state);
  if (state.count("best.metric") != 0) {
    run.best = Metric{.name = entry<std::string>(state, "best.metric"),
                      .value = entry<double>(state, "best.value"),
                      .lower_is_better = entry<bool>(state, "best.lower_is_better")};
    run.best_step = count_entry(state, "best.step");
    if (state.count("best.loss") != 0) run.best_loss = entry<double>(state, "best.loss");
  }
  if (state.count("plateau.lr") != 0) {
    run.plateau = PlateauState{.lr = entry<double>(state, "plateau.lr"),
                               .bad = count_entry(state, "plateau.bad"),
                               .cooldown = count_entry(state, "plateau.cooldown")};
    if (state.count("plateau.best") != 0) run.plateau->best = entry<double>(state, "plateau.best");
  }
  run.stages = stages_of(state);
  if (state.count("digest_fold") != 0) {
    run.digest_fold = static_cast<std::uint64_t>(entry<std::int64_t>(state, "digest_fold"));
  }
  if (state.count("begun.replicas") != 0) run.begun_replicas = count_entry(state, "begun.replicas");
  return run;
}

void require_place(const RunState& run, std::int64_t batches_per_epoch) {
  if (run.batch <= batches_per_epoch) return;
  throw DataError(fmt::format("the checkpoint's state 'run' says batch is {}, but an epoch has {} batches", run.batch,
                              batches_per_epoch),
                  or_only_weights("use another checkpoint"));
}

bool is_better(const Metric& metric, const std::optional<Metric>& best) {
  if (!best || best->name != metric.name) return true;
  if (std::isnan(best->value)) return !std::isnan(metric.value);
  return metric.lower_is_better ? metric.value < best->value : metric.value > best->value;
}

bool replaces_best(const RunState& run, const Metric& metric, std::optional<double> loss) {
  if (is_better(metric, run.best)) return true;
  const bool is_none = std::isnan(metric.value) && std::isnan(run.best->value);
  if (metric.value != run.best->value && !is_none) return false;
  if (!run.best_loss || std::isnan(*run.best_loss)) return true;
  return loss && *loss <= *run.best_loss;
}

}  // namespace lockstep::train
