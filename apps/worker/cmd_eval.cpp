// SPDX-License-Identifier: Apache-2.0
// `lockstep eval RECIPE --checkpoint P --data DIR`: the recipe's metrics on a folder.
#include "common/cli.h"
#include "common/launch_options.h"
#include "worker/commands.h"
#include "worker/evaluation.h"
#include "worker/recipes.h"

namespace lockstep::worker {
namespace {

struct EvalArguments {
  EvaluationRequest request;
  std::string checkpoint;
  std::vector<std::string> sets;
  JoinArguments join;
};

bool parse(EvalArguments& eval, const Arguments& arguments) {
  CLI::App app;
  cli::prepare(app,
               {.name = "lockstep eval",
                .description = "Evaluate a checkpoint on labelled data; each sample counts once.",
                .examples = {"lockstep eval captcha --checkpoint runs/digits --data data/test",
                             "lockstep eval detection --checkpoint runs/scenes:best --data data/test --results found",
                             "lockstep eval captcha --checkpoint runs/digits:best --data data/test --onnx model.onnx",
                             "lockstep eval captcha --checkpoint runs/digits:best --data data/test --json"}});
  app.add_option("RECIPE", eval.request.recipe, kTrainedHelp)->required();
  app.add_option("--checkpoint", eval.checkpoint, kCheckpointHelp)->required()->type_name("PATH");
  app.add_option("--data", eval.request.data, "the labelled data, in any layout that the recipe trains on")
      ->required()
      ->type_name("PATH");
  app.add_option("--set", eval.sets, kOtherSetHelp)->allow_extra_args(false)->type_name("KEY=VALUE");
  app.add_option("--batch-size", eval.request.batch_size, "samples in a batch")
      ->check(cli::whole({1, 10'000'000}))
      ->type_name("N")
      ->default_str("as in training");
  app.add_option("--pictures", eval.request.pictures, "draw the worst and the best samples into this folder")
      ->type_name("FOLDER");
  app.add_option("--results", eval.request.results,
                 "write metrics.json and the recipe's own results (COCO results in detections.json, captions.json) "
                 "into this folder")
      ->type_name("FOLDER");
  app.add_option("--onnx", eval.request.onnx,
                 "run the network from this file, written by `lockstep checkpoint export`, with ONNX Runtime")
      ->type_name("FILE");
  app.add_option(
         "--runtime", eval.request.runtime,
         "for --onnx: a Python or Node executable with ONNX Runtime (default: python3 or node, the first that has it)")
      ->type_name("PROGRAM");
  app.add_flag("--json", eval.request.json, "print one JSON object instead of text");
  cli::describe_processes(app);
  add_join_options(app, eval.join);
  return cli::parse(app, arguments);
}

}  // namespace

int cmd_eval(const Arguments& arguments) {
  EvalArguments eval;
  if (!parse(eval, arguments)) return 0;
  return with_job(eval.join, [&](Job& job) {
    evaluate_trained(job, load_trained(find_recipe(eval.request.recipe), eval.checkpoint, eval.sets), eval.request);
    return 0;
  });
}

}  // namespace lockstep::worker
