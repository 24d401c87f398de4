// SPDX-License-Identifier: Apache-2.0
#include "worker/evaluation.h"

#include <fmt/format.h>
#include <torch/nn/module.h>

#include "lockstep/base/clock.h"
#include "lockstep/base/error.h"
#include "lockstep/base/file_system.h"
#include "lockstep/base/number.h"
#include "lockstep/base/printable.h"
#include "lockstep/base/text.h"
#include "lockstep/train/evaluate.h"
#include "lockstep/view/banner.h"
#include "lockstep/view/progress.h"

namespace lockstep::worker {
namespace {

std::string describe(const Trained& trained, const Evaluation& evaluation, const std::string& data) {
  std::vector<std::pair<std::string, std::string>> lines = {
      {"checkpoint", trained.path},
      {"data", fmt::format("{} ({} samples in {})", data, text::thousands(evaluation.samples),
                           text::duration(evaluation.seconds))}};
  if (!trained.weights.empty()) lines.emplace(lines.begin() + 1, "weights", trained.weights);
  for (const Metric& metric : evaluation.metrics) lines.emplace_back(metric.name, fmt::format("{:.4f}", metric.value));
  return view::summary("evaluation", lines) + report_of(*trained.task, evaluation);
}

void draw(const Evaluation& evaluation, const EvaluationRequest& request) {
  FileSystem::system().make_folder(request.pictures);
  const auto files = evaluation.tally ? evaluation.tally->draw(request.pictures) : std::vector<std::filesystem::path>{};
  if (files.empty())
    throw UsageError(fmt::format("the recipe {} cannot draw pictures", request.recipe), "leave out --pictures");
}

void write_results(const Evaluation& evaluation, const EvaluationRequest& request) {
  std::map<std::string, std::string> files;
  if (evaluation.tally) files = evaluation.tally->results(0);
  files.try_emplace("metrics.json", to_json(evaluation.metrics) + "\n");
  FileSystem::system().make_folder(request.results);
  for (const auto& [name, text] : files) {
    write_file_atomically(FileSystem::system(), std::filesystem::path(request.results) / name, text);
  }
}

EvaluateOptions options_of(const TrainConfig& config, const EvaluationRequest& request) {
  return {.batch_size = request.batch_size > 0 ? request.batch_size : config.batch_size,
          .workers = config.workers,
          .prefetch_factor = config.prefetch_factor,
          .loader_timeout_s = config.loader_timeout_s,
          .amp = config.amp,
          .channels_last = config.channels_last,
          .keep_all = !request.results.empty()};
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
  trained.model->to(job.device());
  const Evaluation evaluation = evaluate(job, *trained.task, *trained.model, dataset, options);
  bar.clear();
  if (!request.pictures.empty() && job.is_main()) draw(evaluation, request);
  if (!request.results.empty() && job.is_main()) write_results(evaluation, request);
  if (request.json) {
    job.print(std::string_view(
        fmt::format(R"({{"recipe": {}, "checkpoint": {}, "data": {}, "samples": {}, "seconds": {}, "metrics": {}}})",
                    text::json_quote(request.recipe), text::json_quote(trained.path), text::json_quote(request.data),
                    evaluation.samples, text::json_number(evaluation.seconds, 3), to_json(evaluation.metrics))));
  } else {
    job.print(std::string_view(text::printable(describe(trained, evaluation, request.data))));
  }
}

}  // namespace lockstep::worker
