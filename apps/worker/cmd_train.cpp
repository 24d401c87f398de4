// SPDX-License-Identifier: Apache-2.0
// `lockstep train`, as one rank: settings from preset, file and --set; then the Trainer.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "common/cli.h"
#include "common/launch_options.h"
#include "common/start_notes.h"
#include "lockstep/base/clock.h"
#include "lockstep/base/env.h"
#include "lockstep/base/error.h"
#include "lockstep/base/log.h"
#include "lockstep/base/standard_streams.h"
#include "lockstep/base/text.h"
#include "lockstep/train/run_sink.h"
#include "lockstep/train/trainer.h"
#include "worker/commands.h"
#include "worker/evaluation.h"
#include "worker/recipes.h"
#include "worker/settings.h"

namespace lockstep::worker {
namespace {

struct TrainArguments {
  std::string what;
  std::string file;               ///< -c
  std::vector<std::string> sets;  ///< in the order in which they were typed, also as options or after -u
  std::string run_dir;
  std::string resume = "none";
  std::string init_from;
  bool init_from_partial = false;
  bool allow_other_bits = false;
  std::string rescue;
  double max_time = 0;       // seconds
  std::int64_t profile = 0;  // steps
  bool test_only = false;
  bool count_replicas = false;
  JoinArguments join;
};

double parse_max_time(const std::string& given) {
  const auto seconds = text::parse_duration(given);
  if (!seconds) throw UsageError("--max-time: " + seconds.error());
  if (*seconds > 0) return *seconds;
  throw UsageError(fmt::format("--max-time is {}", given), "give a time above 0, such as 45m");
}

constexpr const char* kFile = "--config";

// What -c names; empty: nothing.
std::string file_word(const Arguments& arguments) {
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string& word = arguments[i];
    if (word.starts_with("--config=")) return word.substr(9);
    if ((word == "-c" || word == kFile) && i + 1 < arguments.size()) return arguments[i + 1];
  }
  return "";
}

// The first word that is no option and no option's value; settings among the options come after it. Without one, the
// file of -c.
std::string recipe_word(const CLI::App& app, const Arguments& arguments) {
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string word = cli::with_dashes(arguments[i]);
    if (!word.starts_with("-")) return word;
    if (word == "--help" || word == "-h") return "";
    const CLI::Option* option = app.get_option_no_throw(word);
    if (option != nullptr && option->get_expected_max() > 0) ++i;
  }
  return file_word(arguments);
}

// "-u a=b c=d" as "--set a=b --set c=d": all assignments stand in one order then.
Arguments with_updates_as_sets(const Arguments& arguments) {
  Arguments words;
  bool updating = false;
  for (const std::string& word : arguments) {
    if (word == "-u" || word == "--update") {
      updating = true;
      continue;
    }
    updating = updating && !word.starts_with("-");
    if (updating) words.push_back("--set");
    words.push_back(word);
  }
  return words;
}

// Settings that were typed as options become --set, in their places, so that the last one of a name wins. An unknown
// option gets the nearest of options and settings.
Arguments with_settings(const CLI::App& app, const Arguments& typed) {
  const Arguments updated = with_updates_as_sets(typed);
  const std::string what = recipe_word(app, updated);
  if (what.empty()) return updated;
  const Recipe& recipe = recipe_of(what);
  const Arguments words =
      cli::take_settings(app, updated,
                         {.is_setting = [&](const std::string& name) { return is_setting(recipe, name); },
                          .is_switch = [&](const std::string& name) { return is_switch(recipe, name); }});
  std::vector<std::string> known = cli::option_names(app);
  for (const std::string& name : setting_names(recipe)) known.push_back("--" + name);
  for (const std::string& argument : words) {
    if (argument == "--") break;
    const std::string word = cli::with_dashes(argument.substr(0, argument.find('=')));
    if (!word.starts_with("--") || std::find(known.begin(), known.end(), word) != known.end()) continue;
    throw UsageError(
        fmt::format("lockstep train: unknown option '{}'{}", word, text::did_you_mean(word, known)),
        fmt::format("lockstep train --help lists the options, lockstep inspect config {} lists the settings",
                    recipe.name()));
  }
  return words;
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
          .notes = {"A setting can be given as an option, too: --epochs 5 is --set epochs=5. `lockstep inspect config "
                    "RECIPE` shows all settings of a recipe."}};
}

// `lockstep` has read them and taken them away: they are here for the help.
void add_launch_options(CLI::App& app) {
  cli::describe_processes(app, "one per visible GPU, or 1 without a GPU");
  cli::add_read_option(app, "--max-restarts", "how many times to restart ranks that died, from the last checkpoint")
      ->type_name("N")
      ->default_str("3")
      ->group(cli::kRanks);
  app.add_flag_function(
         "--no-standby", [](std::int64_t) {},
         "keep no processes waiting with their libraries loaded, to take over when ranks start again")
      ->group(cli::kRanks);
  cli::add_read_option(app, "--dashboard",
                       "serve a live page of the run at this address, a free port of the loopback by default, while "
                       "it goes on")
      ->expected(0, 1)
      ->type_name("HOST:PORT");
}

void add_run_options(CLI::App& app, TrainArguments& train) {
  app.add_option("--run-dir", train.run_dir, "the run folder, for the log, the checkpoints and the results")
      ->type_name("FOLDER")
      ->default_str("runs/RECIPE-TIME");
  app.add_option("-r,--resume", train.resume,
                 "where to continue from: auto is the newest valid checkpoint of the run folder; PATH is a run folder, "
                 "a step folder or RUN:NAME; URL is a step folder on a web server")
      ->type_name("none|auto|PATH|URL");
  app.add_option("-t,--init-from", train.init_from,
                 "load the model's first weights from a checkpoint, or from a .pth or .safetensors file (FILE:STATE "
                 "takes one state of it), as far as they fit; a run that --resume auto continues ignores it")
      ->type_name("PATH|URL");
  app.add_flag("--init-from-partial", train.init_from_partial,
               "let the weights of --init-from fit less than half of the model's elements");
  app.add_flag(
      "--allow-other-bits", train.allow_other_bits,
      "let a run that resumes have another setting `replicas`: its batches are divided into so many parts, and "
      "the result has other bits");
  app.add_option("--rescue", train.rescue,
                 "save the run here and end with exit code 74 if its own folder is removed or its disk cannot be "
                 "written to")
      ->type_name("FOLDER");
}

/// They are settings; options name them shorter.
void add_curve_options(CLI::App& app, TrainArguments& train) {
  const auto set = [&train](const char* key) {
    return [&train, key](const std::string& value) { train.sets.push_back(fmt::format("{}={}", key, value)); };
  };
  app.add_option_function<std::string>(
         "--tensorboard", set("tensorboard"),
         "where TensorBoard's files go: below FOLDER, in a folder with the run's name; auto is the run folder")
      ->type_name("auto|none|FOLDER")
      ->default_str("auto");
  app.add_flag_function(
      "--no-tensorboard", [&train](std::int64_t) { train.sets.emplace_back("tensorboard=none"); },
      "write no files for TensorBoard");
  app.add_option_function<std::string>(
         "--metrics", set("metrics_address"),
         "serve the run's figures to Prometheus at http://127.0.0.1:PORT/metrics while it goes on, or at HOST:PORT")
      ->type_name("PORT");
}

/// Those of train.py in D-FINE and DEIM, beside the ones above. Each is a setting under its name there.
void add_origin_options(CLI::App& app, TrainArguments& train) {
  constexpr const char* kGroup = "Words of D-FINE and DEIM, for the recipe detection";
  const auto set = [&train](const char* key) {
    return [&train, key](const std::string& value) { train.sets.push_back(fmt::format("{}={}", key, value)); };
  };
  app.add_flag_function(
         "--use-amp", [&train](std::int64_t) { train.sets.emplace_back("use_amp=true"); }, "the same as --set amp=bf16")
      ->group(kGroup);
  app.add_option_function<std::string>("--output-dir", set("output_dir"), "the same as --run-dir")
      ->type_name("FOLDER")
      ->group(kGroup);
  app.add_option_function<std::string>("--summary-dir", set("summary_dir"), "the same as --tensorboard")
      ->type_name("FOLDER")
      ->group(kGroup);
  app.add_option_function<std::string>("--tuning", set("tuning"), "the same as --init-from")
      ->type_name("PATH")
      ->group(kGroup);
  app.add_option_function<std::string>("--print-method", set("print_method"), "ignored, with a note")
      ->type_name("builtin|rich")
      ->group(kGroup);
  app.add_option_function<std::string>("--print-rank", set("print_rank"), "ignored, with a note")
      ->type_name("N")
      ->group(kGroup);
}

bool parse(TrainArguments& train, const Arguments& arguments) {
  CLI::App app;
  cli::prepare(app, help());
  app.add_option("RECIPE", train.what, kRecipeHelp)->required(file_word(arguments).empty());
  app.add_option("-c,--config", train.file,
                 "a .yml file with settings, which then need not name its recipe; files of the programs that a recipe "
                 "re-creates are understood as they are")
      ->type_name("FILE");
  app.add_option("--set", train.sets, kSetHelp)->allow_extra_args(false)->type_name("KEY=VALUE");
  std::vector<std::string> updates;  // have become --set; here for the help
  app.add_option("-u,--update", updates, "change several settings at once: -u epochs=5 seed=1")->type_name("KEY=VALUE");
  add_run_options(app, train);
  add_curve_options(app, train);
  std::string max_time;
  app.add_option("--max-time", max_time,
                 "save and end with exit code 143 after this time: 90s, 45m, 1h30m, 2d, HH:MM:SS or D-HH:MM:SS")
      ->type_name("TIME");
  app.add_option("--profile", train.profile,
                 "record N steps after the first three: print where a step's time goes, and write "
                 "RUN_DIR/trace/rank-R.json for https://ui.perfetto.dev")
      ->check(cli::whole({1, 100'000}))
      ->type_name("N");
  app.add_flag("--test-only", train.test_only,
               "train nothing: evaluate the weights of -r or -t on data.test, and write the results to RUN_DIR/eval");
  // For `lockstep`, which starts no more processes than have work: it has no settings itself.
  app.add_flag("--count-replicas", train.count_replicas)->group("");
  app.get_option("--quiet")->description(
      "print only results, warnings and errors; log.jsonl and summary.json have the rest");
  add_launch_options(app);
  cli::describe_nodes(app);
  add_join_options(app, train.join);
  add_origin_options(app, train);
  if (!cli::parse(app, with_settings(app, arguments))) return false;
  if (train.what.empty()) std::swap(train.what, train.file);
  if (!max_time.empty()) train.max_time = parse_max_time(max_time);
  return true;
}

// Nothing but the recipe's name was typed, and it has words for that.
bool asks_how_to_start(const TrainArguments& train, const Settings& settings) {
  return train.sets.empty() && settings.config().data.train.empty() && !settings.recipe().getting_started().empty();
}

// Puts the run into an experiment's folder, whose config.yml is the user's.
bool runs_in_experiment(TrainArguments& train, const Settings& settings) {
  const std::filesystem::path folder = settings.recipe().experiment_folder(settings.config());
  if (folder.empty()) return false;
  if (train.run_dir.empty()) train.run_dir = folder.string();
  std::error_code problem;
  return std::filesystem::weakly_canonical(train.run_dir, problem) ==
         std::filesystem::weakly_canonical(folder, problem);
}

// A preset was made for one kind of machine: fp16 that nobody typed becomes bf16 on a processor.
void use_bf16_on_cpu(const Job& job, const std::string& what, Settings& settings) {
  TrainConfig& config = settings.config();
  if (config.amp != "fp16" || !job.device().is_cpu() || what.find(':') == std::string::npos) return;
  for (const auto& field : settings.fields().fields()) {
    if (field.key == "amp" && !field.origin.starts_with(what)) return;
  }
  config.amp = "bf16";
  if (!job.is_main()) return;
  log::note("{} is made for GPUs: on this CPU amp is bf16 instead of fp16; --set amp=none computes in float32", what);
}

/// What the settings say of options that were not typed.
void take_options(TrainArguments& train, const Settings& settings) {
  const auto take = [&](const char* name, std::string& into, const char* nothing = "") {
    if (const std::string said = settings.option(name); !said.empty() && into == nothing) into = said;
  };
  take("--run-dir", train.run_dir);
  take("--resume", train.resume, "none");
  take("--init-from", train.init_from);
  take("--device", train.join.device);
  const std::string only = settings.option("--test-only");
  if (only == "true" || only == "True") train.test_only = true;
}

int run_test_only(const TrainArguments& train, Settings& settings) {
  return with_job(train.join, [&](Job& job) {
    evaluate_only(job, settings,
                  {.run_dir = train.run_dir,
                   .checkpoint = train.resume,
                   .weights = train.init_from,
                   .may_be_partial = train.init_from_partial});
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
      const log::QuietNotes others(!job.is_main());  // all see the same files
      settings.recipe().settle(*task, settings.config());
    }
    Trainer trainer(job, *task, settings.config(),
                    {.recipe = settings.recipe().name(),
                     .run_dir = train.run_dir,
                     .resume = train.resume,
                     .init_from = train.init_from,
                     .init_from_partial = train.init_from_partial,
                     .allow_other_bits = train.allow_other_bits,
                     .max_time = Seconds(train.max_time),
                     .rescue = train.rescue,
                     .experiment = experiment,
                     .sinks = {run_callbacks({.on_start = [](const RunStart&) { cli::say_start_notes(); }})},
                     .profile = train.profile,
                     .has_commands = true});
    const TrainResult result = trainer.fit();
    const bool done = result.stopped_by.empty() || result.requeued;
    if (done) return static_cast<int>(ExitCode::kDone);
    return static_cast<int>(result.stopped_by == "SIGINT" ? ExitCode::kInterrupted : ExitCode::kTerminated);
  });
}

}  // namespace

int cmd_train(const Arguments& arguments) {
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
  if (train.test_only) return run_test_only(train, settings);
  if (asks_how_to_start(train, settings)) {
    if (first) print_to(stderr, "{}\n", settings.recipe().getting_started());
    throw UsageError(fmt::format("{} has no training data", train.what), "set data.train as shown above");
  }
  return run(train, settings);
}

}  // namespace lockstep::worker
