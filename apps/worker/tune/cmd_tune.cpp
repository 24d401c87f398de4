// SPDX-License-Identifier: Apache-2.0
// `lockstep tune`: times real steps of a recipe with one setting changed at a time, and writes the fastest into a
// settings file. A training run never chooses a setting by timing.
#include <ATen/core/ivalue.h>  // before any other torch header
#include <ATen/ops/full.h>
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>

#include "common/cli.h"
#include "common/launch_options.h"
#include "common/start_notes.h"
#include "lockstep/base/clock.h"
#include "lockstep/base/error.h"
#include "lockstep/base/file_system.h"
#include "lockstep/base/printable.h"
#include "lockstep/base/text.h"
#include "lockstep/train/step_timer.h"
#include "lockstep/view/banner.h"
#include "worker/commands.h"
#include "worker/recipes.h"
#include "worker/settings.h"
#include "worker/settings_table.h"
#include "worker/tune/tune_report.h"
#include "worker/tune/tune_search.h"

namespace lockstep::worker {
namespace {

constexpr std::int64_t kWarmUp = 2;  // the buckets are rebuilt after the first step
constexpr int kFinalPairs = 5;

struct TuneArguments {
  std::string what;
  std::vector<std::string> sets;
  std::string output = "tuned.yml";
  double budget = 120;
  JoinArguments join;
};

bool parse(TuneArguments& tune, const Arguments& arguments) {
  CLI::App app;
  cli::prepare(
      app, {.name = "lockstep tune",
            .description = fmt::format("Time steps of a recipe with one setting changed at a time, and write the "
                                       "faster settings to a file.\n\nThe search tries {}. Pass the file to `lockstep "
                                       "train`. No file is written if nothing is faster, or if Ctrl-C ends the search.",
                                       tuned_words(TrainConfig().rows())),
            .examples = {"lockstep tune captcha --nproc-per-node 2 --set data.train=data/train",
                         "lockstep train tuned.yml --nproc-per-node 2"}});
  app.add_option("RECIPE", tune.what, kRecipeHelp)->required();
  app.add_option("--set", tune.sets, kSetHelp)->allow_extra_args(false)->type_name("KEY=VALUE");
  app.add_option("--output", tune.output, "the file to write, which must not exist yet")->type_name("FILE");
  cli::add_number(app, "--budget", tune.budget, "start no new trial after this time")
      ->check(cli::above_zero())
      ->type_name("SECONDS");
  cli::describe_processes(app);
  add_join_options(app, tune.join);
  return cli::parse(app, arguments);
}

/// One combination of values, ready to run steps.
struct Timed {
  std::unique_ptr<Settings> settings;
  std::unique_ptr<Task> task;
  std::unique_ptr<StepTimer> timer;
};

class Tuner {
 public:
  Tuner(Job& job, const TuneArguments& arguments) : job_(job), arguments_(arguments) {
    const Timed as_given = open({});
    for (const auto& field : as_given.settings->fields().fields()) given_[field.key] = value_of(field);
    as_given.settings->recipe().settle(*as_given.task, as_given.settings->config());
    for (const auto& field : as_given.settings->fields().fields()) {
      if (given_[field.key] != value_of(field)) settled_.push_back(field.key + "=" + value_of(field));
    }
    dataset_ = as_given.task->make_training_set(as_given.settings->config().data.train);
    for (const auto& field : as_given.settings->fields().fields()) given_[field.key] = value_of(field);
    if (given_.at("threads") == "0") given_["threads"] = "1";
  }

  int run();

 private:
  static std::string value_of(const ConfigFields::Field& field) { return ConfigFields::value_text(field.target); }
  [[nodiscard]] Timed open(const TuneValues& values) const;
  [[nodiscard]] int cores_of_a_rank() const;
  [[nodiscard]] std::vector<TuneKey> keys() const;
  StepTimer& timer(const TuneValues& values);
  void keep_only(const TuneValues& one, const TuneValues& other);
  double seconds(const TuneValues& values, bool loads);
  StepPair pair(const TuneValues& best, const TuneValues& candidate, bool loads);
  bool has_same_buckets(const TuneValues& best, const TuneValues& candidate, const TuneKey& key);
  [[nodiscard]] double elapsed() const;
  [[nodiscard]] TuneGain gain(const TuneValues& start, const TuneValues& best);
  void write(const TuneResult& found, const TuneValues& start, const TuneGain& gain) const;

  Job& job_;
  const TuneArguments& arguments_;
  std::shared_ptr<Dataset> dataset_;
  TuneValues given_;                  ///< values of all keys at the start of the search
  std::vector<std::string> settled_;  ///< settings determined by the data, as key=value
  std::map<TuneValues, Timed> ready_;
  std::int64_t pairs_ = 0;
  TimePoint begin_ = SystemClock::instance().now();
};

Timed Tuner::open(const TuneValues& values) const {
  std::vector<std::string> sets = arguments_.sets;
  sets.insert(sets.end(), settled_.begin(), settled_.end());
  for (const auto& [key, value] : values) sets.push_back(key + "=" + value);
  Timed timed{.settings = std::make_unique<Settings>(arguments_.what, sets)};
  timed.settings->config().validate();
  timed.task = timed.settings->recipe().make_task(timed.settings->config());
  return timed;
}

/// The fewest cores that any rank has for itself, so that all ranks try the same values on unequal machines.
int Tuner::cores_of_a_rank() const {
  const int own = std::max(1, view::cpu_info().cores / job_.rank_info().local_world_size);
  const at::Tensor fewest = at::full({1}, own, at::kInt);
  job_.group().all_reduce(fewest, {.op = ReduceOp::kMin}).wait();
  return fewest.item<int>();
}

std::vector<TuneKey> Tuner::keys() const {
  const std::int64_t replicas = std::stoll(given_.at("replicas"));
  return tune_keys({.cores = cores_of_a_rank(),
                    .replicas = replicas == 0 ? job_.world_size() : static_cast<int>(replicas),
                    .cpu = job_.device().is_cpu()},
                   TrainConfig().rows());
}

StepTimer& Tuner::timer(const TuneValues& values) {
  Timed& timed = ready_[values];
  if (timed.timer == nullptr) {
    timed = open(values);
    timed.timer = std::make_unique<StepTimer>(job_, *timed.task, timed.settings->config(), dataset_);
    (void)timed.timer->run(kWarmUp);
  }
  return *timed.timer;
}

/// Keeps only these two combinations, because each one holds a network in memory.
void Tuner::keep_only(const TuneValues& one, const TuneValues& other) {
  std::erase_if(ready_, [&](const auto& item) { return item.first != one && item.first != other; });
}

/// Times a step. Prefetching for one combination continues during the other's steps and slows down both equally. If
/// `loads` is true, the loading itself differs, so each combination prefetches only during its own steps.
double Tuner::seconds(const TuneValues& values, bool loads) {
  StepTimer& timed = timer(values);
  if (!loads) return timed.run(1);
  (void)timed.run(1);
  const double both = timed.run(2);
  timed.rest();
  return both / 2;
}

StepPair Tuner::pair(const TuneValues& best, const TuneValues& candidate, bool loads) {
  keep_only(best, candidate);
  (void)timer(best);
  (void)timer(candidate);
  if (loads) {
    timer(best).rest();
    timer(candidate).rest();
  }
  StepPair pair;
  if (pairs_++ % 2 == 0) {
    pair.best = seconds(best, loads);
    pair.candidate = seconds(candidate, loads);
  } else {
    pair.candidate = seconds(candidate, loads);
    pair.best = seconds(best, loads);
  }
  return pair;
}

/// True if both combinations lead to the same buckets, for example because all gradients of the model fit into one
/// bucket.
bool Tuner::has_same_buckets(const TuneValues& best, const TuneValues& candidate, const TuneKey& key) {
  if (key.key != "bucket_cap_mb") return false;
  keep_only(best, candidate);
  return timer(best).bucket_bytes() == timer(candidate).bucket_bytes();
}

/// The elapsed time on rank 0's clock, so that all ranks stop at the same point.
double Tuner::elapsed() const {
  const at::Tensor own = at::full({1}, Seconds(SystemClock::instance().now() - begin_).count(), at::kDouble);
  job_.group().broadcast(own, 0).wait();
  return own.item<double>();
}

TuneGain Tuner::gain(const TuneValues& start, const TuneValues& best) {
  std::vector<StepPair> pairs;
  for (int i = 0; i < kFinalPairs; ++i) pairs.push_back(pair(start, best, true));
  const TuneVerdict verdict = judge(pairs);
  return {.before = verdict.best, .after = verdict.seconds};
}

int Tuner::run() {
  const std::vector<TuneKey> keys = this->keys();
  TuneValues start;
  for (const TuneKey& key : keys) start[key.key] = given_.at(key.key);
  (void)timer(start);
  cli::say_start_notes();
  job_.print("{}", start_line({.what = arguments_.what,
                               .processes = job_.world_size(),
                               .seconds = seconds(start, false),
                               .budget_s = arguments_.budget}));
  TuneResult found = tune(keys, start,
                          {.pair = [this](const TuneValues& best, const TuneValues& candidate,
                                          const TuneKey& key) { return pair(best, candidate, key.loads); },
                           .has_time = [this] { return elapsed() < arguments_.budget; },
                           .tried = [this](const TuneTrial& trial) { job_.print("{}", trial_line(trial)); },
                           .same = [this](const TuneValues& best, const TuneValues& candidate,
                                          const TuneKey& key) { return has_same_buckets(best, candidate, key); }});
  if (!found.same.empty())
    job_.print("not timed, because gradients are reduced in the same way: {}", text::join(found.same));
  if (!found.untried.empty()) job_.print("not tried, because the budget ran out: {}", text::join(found.untried));
  const TuneGain gained = found.best == start ? TuneGain{} : gain(start, found.best);
  if (gained.after >= gained.before) found.best = start;
  if (found.best == start) {
    job_.print("nothing is faster than the given settings: no file is written");
  } else if (job_.is_main()) {
    write(found, start, gained);
  }
  return 0;
}

void Tuner::write(const TuneResult& found, const TuneValues& start, const TuneGain& gain) const {
  const std::string gained = gain_line(gain);
  const view::CpuInfo cpu = view::cpu_info();
  std::vector<std::string> head = {
      fmt::format("by lockstep tune {} on {}, {} {}, processes: {}", arguments_.what, cpu.name, cpu.cores,
                  cpu.cores == 1 ? "core" : "cores", job_.world_size()),
      gained};
  const std::vector<std::string> bits = bits_that_change(start, found);
  if (!bits.empty()) head.push_back("these change the bits of the result: " + text::join(bits));
  const Timed as_given = open({});
  write_file_atomically(FileSystem::system(), arguments_.output, tuned_yaml(head, as_given.settings->fields(), found));
  job_.print("{}", gained);
  if (!bits.empty()) {
    job_.print("note: {} {} the bits of the result: set {} when a run starts, and do not change {} later",
               text::join(bits), bits.size() == 1 ? "changes" : "change", bits.size() == 1 ? "it" : "them",
               bits.size() == 1 ? "it" : "them");
  }
  const std::string ranks = job_.world_size() == 1 ? "" : fmt::format(" --nproc-per-node {}", job_.world_size());
  job_.print("{}", view::next_commands({{fmt::format("lockstep train {}{}", text::shell_word(arguments_.output), ranks),
                                         "train with these settings"}}));
}

}  // namespace

int cmd_tune(const Arguments& arguments) {
  TuneArguments tune;
  if (!parse(tune, arguments)) return 0;
  if (!tune.output.ends_with(".yml") && !tune.output.ends_with(".yaml")) {
    throw UsageError(fmt::format("--output is '{}', not a .yml file", tune.output), "use a name such as tuned.yml");
  }
  if (FileSystem::system().exists(tune.output)) {
    throw UsageError(fmt::format("{} already exists", tune.output), "remove the file, or pass another --output");
  }
  tune.join.keeps_notes = true;
  return with_job(tune.join, [&](Job& job) { return Tuner(job, tune).run(); });
}

}  // namespace lockstep::worker
