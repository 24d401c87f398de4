// SPDX-License-Identifier: Apache-2.0
// `lockstep eval RECIPE --checkpoint P --data DIR`: the recipe's metrics on a folder.
#include <fmt/format.h>

#include "common/cli.h"
#include "common/launch_options.h"
#include "lockstep/base/clock.h"
#include "lockstep/base/error.h"
#include "lockstep/base/file_system.h"
#include "lockstep/base/printable.h"
#include "lockstep/base/text.h"
#include "lockstep/train/evaluate.h"
#include "lockstep/view/banner.h"
#include "lockstep/view/progress.h"
#include "worker/commands.h"
#include "worker/recipes.h"
#include "worker/trained.h"

namespace lockstep::worker {
namespace {

struct EvalArguments {
  std::string recipe;
  std::string checkpoint;
  std::string data;
  std::string pictures;
  std::vector<std::string> sets;
  std::int64_t batch_size = 0;
  bool json = false;
  JoinArguments join;
};

bool parse(EvalArguments& eval, const Arguments& arguments) {
  CLI::App app;
  cli::prepare(app, {.name = "lockstep eval",
                     .description = "Evaluate a checkpoint on labelled data; each sample counts once.",
                     .examples = {"lockstep eval captcha --checkpoint runs/digits --data data/test",
                                  "lockstep eval captcha --checkpoint runs/digits:best --data data/test --json"}});
  app.add_option("RECIPE", eval.recipe, kTrainedHelp)->required();
  app.add_option("--checkpoint", eval.checkpoint, kCheckpointHelp)->required()->type_name("PATH");
  app.add_option("--data", eval.data, "the labelled data, in any layout that the recipe trains on")
      ->required()
      ->type_name("PATH");
  app.add_option("--set", eval.sets, kOtherSetHelp)->allow_extra_args(false)->type_name("KEY=VALUE");
  app.add_option("--batch-size", eval.batch_size, "samples in a batch")
      ->check(cli::whole({1, 10'000'000}))
      ->type_name("N")
      ->default_str("as in training");
  app.add_option("--pictures", eval.pictures, "draw the worst and the best samples into this folder")
      ->type_name("FOLDER");
  app.add_flag("--json", eval.json, "print one JSON object instead of text");
  cli::describe_processes(app);
  add_join_options(app, eval.join);
  return cli::parse(app, arguments);
}

std::string describe(const Trained& trained, const Evaluation& evaluation, const std::string& data) {
  std::vector<std::pair<std::string, std::string>> lines = {
      {"checkpoint", trained.path},
      {"data", fmt::format("{} ({} samples in {})", data, text::thousands(evaluation.samples),
                           text::duration(evaluation.seconds))}};
  if (!trained.weights.empty()) lines.emplace(lines.begin() + 1, "weights", trained.weights);
  for (const Metric& metric : evaluation.metrics) lines.emplace_back(metric.name, fmt::format("{:.4f}", metric.value));
  return view::summary("evaluation", lines) + report_of(*trained.task, evaluation);
}

void draw(const Evaluation& evaluation, const EvalArguments& eval) {
  FileSystem::system().make_folder(eval.pictures);
  const auto files = evaluation.tally ? evaluation.tally->draw(eval.pictures) : std::vector<std::filesystem::path>{};
  if (files.empty())
    throw UsageError(fmt::format("the recipe {} cannot draw pictures", eval.recipe), "leave out --pictures");
}

int run(Job& job, const EvalArguments& eval) {
  const Trained trained = load_trained(find_recipe(eval.recipe), eval.checkpoint, eval.sets);
  view::ProgressBar bar(view::ProgressBar::for_stderr(), SystemClock::instance());
  EvaluateOptions options{.batch_size = eval.batch_size > 0 ? eval.batch_size : trained.config->batch_size,
                          .workers = trained.config->workers,
                          .prefetch_factor = trained.config->prefetch_factor,
                          .loader_timeout_s = trained.config->loader_timeout_s,
                          .amp = trained.config->amp,
                          .channels_last = trained.config->channels_last};
  if (job.is_main()) {
    options.progress = [&](auto done, auto total) {
      bar.update({.label = "evaluating", .step = done, .steps = total});
    };
  }
  const auto dataset = trained.task->make_dataset(eval.data);
  const Evaluation evaluation = evaluate(job, *trained.task, *trained.model, dataset, options);
  bar.clear();
  if (!eval.pictures.empty() && job.is_main()) draw(evaluation, eval);
  if (eval.json) {
    job.print(std::string_view(fmt::format(
        R"({{"recipe": {}, "checkpoint": {}, "data": {}, "samples": {}, "seconds": {:.3f}, "metrics": {}}})",
        text::json_quote(eval.recipe), text::json_quote(trained.path), text::json_quote(eval.data), evaluation.samples,
        evaluation.seconds, to_json(evaluation.metrics))));
  } else {
    job.print(std::string_view(text::printable(describe(trained, evaluation, eval.data))));
  }
  return 0;
}

}  // namespace

int cmd_eval(const Arguments& arguments) {
  EvalArguments eval;
  if (!parse(eval, arguments)) return 0;
  return with_job(eval.join, [&](Job& job) { return run(job, eval); });
}

}  // namespace lockstep::worker
