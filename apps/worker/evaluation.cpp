// SPDX-License-Identifier: Apache-2.0
#include "worker/evaluation.h"

#include <ATen/core/ivalue.h>  // before any other torch header
#include <ATen/ops/full.h>
#include <fmt/format.h>
#include <torch/nn/module.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <string_view>
#include <vector>

#include "lockstep/base/clock.h"
#include "lockstep/base/error.h"
#include "lockstep/base/file_system.h"
#include "lockstep/base/log.h"
#include "lockstep/base/number.h"
#include "lockstep/base/printable.h"
#include "lockstep/base/text.h"
#include "lockstep/tensor/named_tensors.h"
#include "lockstep/tensor/threads.h"
#include "lockstep/train/evaluate.h"
#include "lockstep/train/first_weights.h"
#include "lockstep/view/banner.h"
#include "lockstep/view/progress.h"
#include "worker/onnx/onnx_session.h"
#include "worker/trained.h"

namespace lockstep::worker {
namespace {

std::string describe(const Trained& trained, const Evaluation& evaluation, const EvaluationRequest& request,
                     const std::string& runtime) {
  std::vector<std::pair<std::string, std::string>> lines = {
      {"checkpoint", trained.path},
      {"data", fmt::format("{} ({} samples in {})", request.data, text::thousands(evaluation.samples),
                           text::duration(evaluation.seconds))}};
  if (evaluation.skipped > 0) {
    lines.emplace_back("skipped", text::counted(evaluation.skipped, "unreadable sample", "unreadable samples"));
  }
  if (!trained.weights.empty()) lines.emplace(lines.begin() + 1, "weights", trained.weights);
  if (!runtime.empty()) lines.emplace_back("network", fmt::format("{}, computed by {}", request.onnx, runtime));
  for (const Metric& metric : evaluation.metrics) lines.emplace_back(metric.name, fmt::format("{:.4f}", metric.value));
  return view::summary("evaluation", lines) + report_of(*trained.task, evaluation);
}

void draw(const Evaluation& evaluation, const EvaluationRequest& request) {
  FileSystem::system().make_folder(request.pictures);
  const auto files = evaluation.tally ? evaluation.tally->draw(request.pictures) : std::vector<std::filesystem::path>{};
  if (files.empty())
    throw UsageError(fmt::format("the recipe {} cannot draw pictures", request.recipe), "leave out --pictures");
}

/// The name of a final result: "result_test_12.json" for "result_val_12.json".
std::string name_of_final(std::string name) {
  constexpr std::string_view kVal = "_val_";
  const std::size_t at = name.find(kVal);
  return at == std::string::npos ? name : name.replace(at, kVal.size(), "_test_");
}

void write_results(const Evaluation& evaluation, const EvaluationRequest& request) {
  std::map<std::string, std::string> files;
  if (evaluation.tally) files = evaluation.tally->results(request.final_after);
  files.try_emplace(request.final_after > 0 ? "metrics_test.json" : "metrics.json", to_json(evaluation.metrics) + "\n");
  FileSystem::system().make_folder(request.results);
  for (const auto& [name, text] : files) {
    const std::string own = request.final_after > 0 ? name_of_final(name) : name;
    write_file_atomically(FileSystem::system(), std::filesystem::path(request.results) / own, text);
  }
}

EvaluateOptions options_of(const TrainConfig& config, const EvaluationRequest& request) {
  return {.batch_size = request.batch_size > 0 ? request.batch_size : config.batch_size,
          .workers = config.workers,
          .prefetch_factor = config.prefetch_factor,
          .loader_timeout_s = config.loader_timeout_s,
          .skip_bad_samples = config.bad_samples == "skip",
          .amp = config.amp,
          .channels_last = config.channels_last,
          .pin_memory = config.pin_memory,
          .keep_all = !request.results.empty(),
          .replicas = request.replicas};
}

/// Throws: ResourceError if there is no runtime; UsageError if the file's arguments or results differ from the recipe's
///         network.
std::unique_ptr<OnnxSession> open_onnx(const Trained& trained, const EvaluationRequest& request) {
  if (request.onnx.empty()) return nullptr;
  const auto function = trained.task->network_function(*trained.model);
  const auto runtime = find_onnx_runtime(request.runtime);
  if (!runtime) throw ResourceError("neither python3 nor node has ONNX Runtime", "pip install onnxruntime");
  auto session = std::make_unique<OnnxSession>(*runtime, request.onnx);
  if (function && session->inputs() == function->inputs && session->outputs() == function->outputs) return session;
  throw UsageError(fmt::format("{} computes {} from {}, which does not match the network of {}", request.onnx,
                               text::join(session->outputs()), text::join(session->inputs()), request.recipe),
                   "export a checkpoint of this recipe with lockstep checkpoint export, without --postprocess");
}

}  // namespace

void evaluate_trained(Job& job, const Trained& trained, const EvaluationRequest& request) {
  view::ProgressBar bar(view::ProgressBar::for_stderr(), SystemClock::instance());
  EvaluateOptions options = options_of(*trained.config, request);
  if (job.is_main()) {
    options.progress = [&](auto done, auto total) {
      bar.update({.label = "evaluating", .step = done, .steps = total});
    };
  }
  const auto dataset = trained.task->make_dataset(request.data);
  const std::unique_ptr<OnnxSession> onnx = open_onnx(trained, request);
  if (onnx) options.network = [&](const auto& arguments) { return onnx->run(arguments); };
  trained.model->to(job.device());
  const Evaluation evaluation = evaluate(job, *trained.task, *trained.model, dataset, options);
  bar.clear();
  if (!request.pictures.empty() && job.is_main()) draw(evaluation, request);
  if (!request.results.empty() && job.is_main()) write_results(evaluation, request);
  if (request.json) {
    job.print(std::string_view(fmt::format(
        R"({{"recipe": {}, "checkpoint": {}, "data": {}, "samples": {}, "skipped": {}, "seconds": {}, "metrics": {}}})",
        text::json_quote(request.recipe), text::json_quote(trained.path), text::json_quote(request.data),
        evaluation.samples, evaluation.skipped, text::json_number(evaluation.seconds, 3),
        to_json(evaluation.metrics))));
  } else {
    job.print(std::string_view(text::printable(describe(trained, evaluation, request, onnx ? onnx->runtime() : ""))));
  }
}

namespace {

namespace fs = std::filesystem;

/// True if the evaluation of a checkpoint uses this setting's given value, not the checkpoint's.
bool replaces_own(const ConfigFields::Field& field) {
  static constexpr std::array<std::string_view, 8> kOfEvaluation = {
      "amp", "batch_size", "channels_last", "loader_timeout_s", "workers", "prefetch_factor", "pin_memory", "threads"};
  if (field.key.starts_with("data.") || field.key == "bad_samples") return field.origin != "default";
  if (field.origin != "--set") return false;
  if (field.key.starts_with("eval.")) return true;
  // A checkpoint has the batch size that auto has found.
  return ConfigFields::value_text(field.target) != "auto" &&
         std::find(kOfEvaluation.begin(), kOfEvaluation.end(), field.key) != kOfEvaluation.end();
}

/// The given settings that replace the checkpoint's own, in the form of --set.
std::vector<std::string> settings_for_test(const Settings& settings) {
  std::vector<std::string> sets;
  for (const auto& field : settings.fields().fields()) {
    if (replaces_own(field)) sets.push_back(field.key + "=" + ConfigFields::value_text(field.target));
  }
  // If the test set is part of data.train, the checkpoint says which folder it was in.
  if (const std::string& test = settings.config().test_data(); !test.empty()) sets.push_back("data.test=" + test);
  return sets;
}

/// Writes a note that names the typed settings that differ from the checkpoint's and are not used.
void note_unused(const Settings& settings, const Trained& trained) {
  const ConfigFields own = trained.config->rows();
  std::vector<std::string> unused;
  for (const auto& field : settings.fields().fields()) {
    if (field.origin != "--set" || replaces_own(field)) continue;
    const std::string value = ConfigFields::value_text(field.target);
    const bool differs = std::any_of(own.fields().begin(), own.fields().end(), [&](const auto& row) {
      return row.key == field.key && ConfigFields::value_text(row.target) != value;
    });
    if (differs) unused.push_back(field.key + "=" + value);
  }
  if (unused.empty()) return;
  log::note("--test-only uses the settings of {}; without effect: {}", trained.path, text::join(unused));
}

/// A model with these settings and the weights from a file.
Trained with_weights(Settings& settings, const FirstWeights& weights) {
  Trained trained;
  TrainConfig& config = settings.config();
  if (config.data.train.empty()) config.data.train = config.data.test;  // the model's classes come from data.train
  settings.recipe().settle(*settings.recipe().make_task(settings.config()), settings.config());
  trained.config = settings.release();
  if (trained.config->threads > 0) tensor::set_threads(static_cast<int>(trained.config->threads));
  trained.task = settings.recipe().make_task(*trained.config);
  trained.model = trained.task->make_model();
  start_from_weights(*trained.task, named_entries_of(*trained.model), weights);
  trained.model->eval();
  trained.task->prepare_inference(*trained.model);
  trained.path = weights.path.string();
  return trained;
}

/// The run folder of a checkpoint: "/home/runs/a" for "runs/a/checkpoints/step-00000012"; empty outside a run folder.
fs::path run_of(const fs::path& step) {
  const fs::path checkpoints = fs::absolute(step).lexically_normal().parent_path();
  return checkpoints.filename() == "checkpoints" ? checkpoints.parent_path() : fs::path();
}

}  // namespace

std::string TestOnly::source() const {
  const std::string& resumed = checkpoint == "auto" ? run_dir : checkpoint;
  return resumed.empty() || resumed == "none" ? weights : resumed;
}

bool TestOnly::is_file() const { return source() == weights || fs::is_regular_file(source()); }

void evaluate_only(Job& job, Settings& settings, const TestOnly& what) {
  const std::string data = settings.config().test_data();
  if (data.empty())
    throw UsageError("--test-only has nothing to evaluate on: data.test is not set", "-u data.test=SET");
  const std::string from = what.source();
  if (from.empty()) {
    throw UsageError("--test-only has no weights to evaluate",
                     "-r RUN for a checkpoint, or -t FILE for a file of weights");
  }
  const std::string recipe = settings.recipe().name();
  const Trained trained = [&] {
    const log::QuietNotes others(!job.is_main());
    if (what.is_file()) return with_weights(settings, {from, what.may_be_partial});
    Trained loaded = load_trained(settings.recipe(), from, settings_for_test(settings));
    note_unused(settings, loaded);
    return loaded;
  }();
  if (!trained.weights.empty() && job.is_main()) log::note("the weights are {}", trained.weights);
  const fs::path own = what.is_file() ? fs::path() : run_of(trained.path);
  const fs::path run = what.run_dir.empty() ? own : fs::path(what.run_dir);
  evaluate_trained(job, trained,
                   {.recipe = recipe, .data = data, .results = run.empty() ? "eval" : (run / "eval").string()});
}

namespace {

/// True if every rank can see the file or folder. Collective: yes.
bool see_all(Job& job, const fs::path& path) {
  const at::Tensor seen = at::full({1}, fs::exists(path) ? 1 : 0, at::kInt);
  job.group().all_reduce(seen, {.op = ReduceOp::kMin}).wait();
  return seen.item<int>() == 1;
}

/// The epoch, from 1, whose weights are evaluated.
std::int64_t epoch_of(const TrainResult& result, bool best) {
  const std::int64_t step = best ? result.best_step : result.steps;
  return std::max<std::int64_t>(1, (step * result.epochs + result.steps - 1) / std::max<std::int64_t>(1, result.steps));
}

}  // namespace

void evaluate_finally(Job& job, const Settings& settings, const TrainResult& result) {
  const std::vector<std::string> sets = settings.config().settings_of_final_test();
  if (sets.empty()) return;
  if (!see_all(job, result.run_dir / "checkpoints")) {
    if (job.is_main()) log::note("the final test is skipped: not every rank sees {}", result.run_dir.string());
    return;
  }
  // A run that began in a different folder may have left its best checkpoint there.
  const bool best = settings.config().has_evaluations() && see_all(job, result.run_dir / "checkpoints/best");
  const Trained trained = [&] {
    const log::QuietNotes others(!job.is_main());
    return load_trained(settings.recipe(), result.run_dir.string() + (best ? ":best" : ""), sets);
  }();
  evaluate_trained(job, trained,
                   {.recipe = settings.recipe().name(),
                    .data = trained.config->data.test,
                    .results = (result.run_dir / "result").string(),
                    .final_after = epoch_of(result, best),
                    .replicas = static_cast<int>(result.replicas)});
}

}  // namespace lockstep::worker
