// SPDX-License-Identifier: Apache-2.0
// `lockstep train`, as one rank: settings from preset, file and --set; then the Trainer.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>

#include "common/cli.h"
#include "common/launch_options.h"
#include "common/start_notes.h"
#include "lockstep/base/clock.h"
#include "lockstep/base/env.h"
#include "lockstep/base/error.h"
#include "lockstep/base/file_system.h"
#include "lockstep/base/log.h"
#include "lockstep/base/standard_streams.h"
#include "lockstep/base/text.h"
#include "lockstep/base/whole_number.h"
#include "lockstep/launch/train_options.h"
#include "lockstep/train/run_folder.h"
#include "lockstep/train/run_sink.h"
#include "lockstep/train/trainer.h"
#include "worker/commands.h"
#include "worker/evaluation.h"
#include "worker/recipes.h"
#include "worker/settings.h"
#include "worker/typed_settings.h"

namespace lockstep::worker {
namespace {

struct TrainArguments {
  std::string what;
  std::string file;                          ///< -c
  std::vector<std::string> sets;             ///< settings in the given order, including those from options and -u
  std::map<std::string, std::string> given;  ///< other options of `lockstep train` by name; "true" for a switch
  double max_time = 0;                       // seconds
  std::int64_t profile = 0;                  // steps
  bool count_replicas = false;
  JoinArguments join;

  [[nodiscard]] std::string text(const std::string& name) const {
    const auto found = given.find(name);
    return found == given.end() ? "" : found->second;
  }
  [[nodiscard]] bool has(const std::string& name) const { return given.contains(name); }
  [[nodiscard]] std::string resume() const { return has("--resume") ? text("--resume") : "none"; }
};

double parse_max_time(const std::string& given) {
  const auto seconds = text::parse_duration(given);
  if (!seconds) throw UsageError("--max-time: " + seconds.error());
  if (*seconds > 0) return *seconds;
  throw UsageError(fmt::format("--max-time is {}", given), "use a time above 0, such as 45m");
}

cli::HelpSection recipe_list() {
  cli::HelpSection list{"Recipes", {}};
  for (const auto& recipe : recipes()) {
    std::vector<std::string> presets;
    for (const auto& [name, yaml] : recipe->presets()) presets.push_back(name);
    list.rows.emplace_back(recipe->name(), fmt::format("{}\npresets: {}", recipe->summary(), text::join(presets)));
  }
  return list;
}

cli::CommandText help() {
  return {.name = "lockstep train",
          .description = "Train a recipe on one machine or on several.",
          .examples = {"lockstep generate captcha --out data/train --count 8000 --seed 1 --charset 0-9",
                       "lockstep train captcha:digits --nproc-per-node 2 --set data.train=data/train",
                       "lockstep train captcha:digits --set data.train=data/train --run-dir runs/digits --resume auto",
                       "lockstep train captcha:digits --set data.train=data/train --profile 10",
                       "lockstep train captcha:digits --set data.train=data/train --dashboard",
                       "lockstep train detection -c configs/deim_dfine/deim_hgnetv2_s_coco.yml -t deim_s.pth --use-amp",
                       "lockstep train captcha:digits --nnodes 2 --node-rank 0 --token-file job.token --master-addr "
                       "10.0.0.1 --set data.train=data/train"},
          .lists = {recipe_list()},
          .notes = {"A setting can also be given as an option: --epochs 5 means --set epochs=5. `lockstep inspect "
                    "config RECIPE` shows all settings of a recipe. The options of a recipe's original implementation, "
                    "such as --use-amp, work as well."}};
}

// Converts an option with a setting's name to --set, at the same position.
void take(TrainArguments& train, const TrainOption& option, const std::string& value) {
  const std::string setting(option.setting);
  if (setting.empty()) {
    train.given[std::string(option.name)] = value;
  } else {
    train.sets.push_back(option.value.empty() ? setting : setting + "=" + value);
  }
}

// Adds the options. Options that the launcher or init() reads are only described.
void add_table(CLI::App& app, TrainArguments& train) {
  for (const TrainOption& option : train_options()) {
    const std::string name(option.name);
    if (option.group.empty() && app.get_option_no_throw(name) == nullptr && name != "--dashboard") {
      const std::string names = cli::option_names_of(option);
      if (option.value.empty()) {
        app.add_flag_function(names, [&train, &option](std::int64_t) { take(train, option, "true"); });
      } else {
        app.add_option_function<std::string>(
            names, [&train, &option](const std::string& value) { take(train, option, value); });
      }
    }
    cli::describe(app, name);
  }
  app.get_option("--dashboard")->expected(0, 1);
}

bool parse(TrainArguments& train, const Arguments& arguments) {
  CLI::App app;
  cli::prepare(app, help());
  app.add_option("RECIPE", train.what, kRecipeHelp)->required(file_word(arguments).empty());
  app.add_option("-c,--config", train.file);
  app.add_option("--set", train.sets)->allow_extra_args(false);
  std::vector<std::string> updates;  // already converted to --set; declared here only for --help
  app.add_option("-u,--update", updates);
  // For `lockstep`, which does not read settings itself and must not start more processes than there are replicas.
  app.add_flag("--count-replicas", train.count_replicas)->group("");
  app.get_option("--quiet")->description(
      "print only results, warnings and errors; everything else is in log.jsonl and summary.json");
  add_join_options(app, train.join);
  add_table(app, train);
  if (!cli::parse(app, with_settings(app, "lockstep train", arguments))) return false;
  if (train.what.empty()) std::swap(train.what, train.file);
  if (train.has("--max-time")) train.max_time = parse_max_time(train.text("--max-time"));
  if (train.has("--profile")) train.profile = whole_number("--profile", train.text("--profile"), {1, 100'000});
  return true;
}

// True if only the recipe's name was given, and the recipe has a getting-started text.
bool asks_how_to_start(const TrainArguments& train, const Settings& settings) {
  return train.sets.empty() && settings.config().data.train.empty() && !settings.recipe().getting_started().empty();
}

// Puts the run into an experiment's folder, in which config.yml belongs to the user.
bool runs_in_experiment(TrainArguments& train, const Settings& settings) {
  const std::filesystem::path folder = settings.recipe().experiment(settings.config(), "none").folder;
  if (folder.empty()) return false;
  const std::string& run_dir = train.given.try_emplace("--run-dir", folder.string()).first->second;
  std::error_code problem;
  return std::filesystem::weakly_canonical(run_dir, problem) == std::filesystem::weakly_canonical(folder, problem);
}

// --resume 27 may mean weights of the program that the recipe re-creates.
void take_snapshot(TrainArguments& train, const Settings& settings) {
  const std::filesystem::path weights = settings.recipe().experiment(settings.config(), train.resume()).snapshot;
  if (weights.empty()) return;
  log::note("--resume {}: {} has only weights; the run starts from them, at epoch 0", train.resume(), weights.string());
  train.given["--init-from"] = weights.string();
  train.given["--resume"] = "none";
}

// Replaces a preset's fp16 with bf16 on a CPU: a preset is made for one kind of machine.
void use_bf16_on_cpu(const Job& job, const std::string& what, Settings& settings) {
  TrainConfig& config = settings.config();
  if (config.amp != "fp16" || !job.device().is_cpu() || what.find(':') == std::string::npos) return;
  for (const auto& field : settings.fields().fields()) {
    if (field.key == "amp" && !field.origin.starts_with(what)) return;
  }
  config.amp = "bf16";
  if (!job.is_main()) return;
  log::note("{} is intended for GPUs: on this CPU, amp is bf16 instead of fp16; --set amp=none computes in float32",
            what);
}

/// Takes from the settings those options that the command line does not give.
void take_options(TrainArguments& train, const Settings& settings) {
  for (const char* name : {"--run-dir", "--resume", "--init-from"}) {
    if (const std::string said = settings.option(name); !said.empty()) train.given.try_emplace(name, said);
  }
  if (const std::string said = settings.option("--device"); train.join.device.empty()) train.join.device = said;
  const std::string only = settings.option("--test-only");
  if (only == "true" || only == "True") train.given.try_emplace("--test-only", "true");
}

// Applies --logdir: as in other programs, it is the folder that contains the run's folder. If the run's folder is given
// elsewhere, only TensorBoard's files go there.
void take_log_folder(TrainArguments& train, Settings& settings) {
  namespace fs = std::filesystem;
  const fs::path folder = settings.option("--logdir");
  if (folder.empty()) return;
  const std::string name = RunFolder::default_path(settings.recipe().name()).filename().string();
  if (train.resume() == "none" && !train.has("--run-dir")) {
    const bool writes = env::get("RANK").value_or("0") == "0";
    train.given["--run-dir"] = (writes ? make_new_folder(folder / name) : folder / name).string();
  }
  std::error_code problem;
  const auto parent = [&](const fs::path& path) {
    return fs::weakly_canonical(fs::absolute(path, problem), problem).parent_path();
  };
  const bool is_inside = parent(train.text("--run-dir")) == parent(folder / name);
  if (!is_inside && settings.config().tensorboard == "auto") settings.config().tensorboard = folder.string();
}

int run_test_only(const TrainArguments& train, Settings& settings) {
  const TestOnly what{.run_dir = train.text("--run-dir"),
                      .checkpoint = train.resume(),
                      .weights = train.text("--init-from"),
                      .may_be_partial = train.has("--init-from-partial")};
  return with_job(train.join, [&](Job& job) {
    if (what.is_file()) use_bf16_on_cpu(job, train.what, settings);
    evaluate_only(job, settings, what);
    return 0;
  });
}

int run(TrainArguments& train, Settings& settings) {
  settings.config().validate();
  const auto task = settings.recipe().make_task(settings.config());
  const bool experiment = runs_in_experiment(train, settings);
  train.join.keeps_notes = true;
  return with_job(train.join, [&](Job& job) {
    use_bf16_on_cpu(job, train.what, settings);
    {
      const log::QuietNotes others(!job.is_main());  // without repeated notes: all ranks see the same files
      settings.recipe().settle(*task, settings.config());
    }
    Trainer trainer(job, *task, settings.config(),
                    {.recipe = settings.recipe().name(),
                     .run_dir = train.text("--run-dir"),
                     .resume = train.resume(),
                     .init_from = train.text("--init-from"),
                     .init_from_partial = train.has("--init-from-partial"),
                     .allow_other_bits = train.has("--allow-other-bits"),
                     .max_time = Seconds(train.max_time),
                     .rescue = train.text("--rescue"),
                     .experiment = experiment,
                     .sinks = {run_callbacks({.on_start = [](const RunStart&) { cli::say_start_notes(); }})},
                     .profile = train.profile,
                     .has_commands = true});
    const TrainResult result = trainer.fit();
    if (result.stopped_by.empty()) evaluate_finally(job, settings, result);
    const bool done = result.stopped_by.empty() || result.requeued;
    if (done) return static_cast<int>(ExitCode::kDone);
    return static_cast<int>(result.stopped_by == "SIGINT" ? ExitCode::kInterrupted : ExitCode::kTerminated);
  });
}

/// Removes the folder that `lockstep train` created for a new run, if it stayed empty.
class UnusedFolder {
 public:
  explicit UnusedFolder(const Arguments& arguments) {
    const auto find = [&](const char* word) { return std::find(arguments.begin(), arguments.end(), word); };
    const auto option = find("--run-dir");
    const bool runs = find("--count-replicas") == arguments.end();
    if (runs && arguments.end() - option > 1) path_ = option[1];
  }
  UnusedFolder(const UnusedFolder&) = delete;
  UnusedFolder& operator=(const UnusedFolder&) = delete;
  ~UnusedFolder() {
    const std::string name = path_.filename().string();
    std::error_code ignored;
    if (without_time_stamp(name) != name && std::filesystem::is_directory(path_, ignored)) {
      std::filesystem::remove(path_, ignored);  // fails if the folder is not empty
    }
  }

 private:
  std::filesystem::path path_;
};

}  // namespace

int cmd_train(const Arguments& arguments) {
  const UnusedFolder unused(arguments);
  TrainArguments train;
  if (!parse(train, arguments)) return 0;
  const bool first = env::get("RANK").value_or("0") == "0";
  Settings settings = [&] {
    const log::QuietNotes others(!first);
    return Settings(train.what, train.sets, train.file);
  }();
  if (train.count_replicas) {
    print_to(stdout, "{}\n", settings.config().replicas);
    return 0;
  }
  take_options(train, settings);
  take_log_folder(train, settings);
  {
    const log::QuietNotes others(!first);
    take_snapshot(train, settings);
  }
  if (train.has("--test-only")) return run_test_only(train, settings);
  if (asks_how_to_start(train, settings)) {
    if (first) print_to(stderr, "{}\n", settings.recipe().getting_started());
    throw UsageError(fmt::format("{} has no training data", train.what), "set data.train as shown above");
  }
  return run(train, settings);
}

}  // namespace lockstep::worker
