// SPDX-License-Identifier: Apache-2.0
#include "train/report/folder_sink.h"

#include <fmt/format.h>

#include "lockstep/base/log.h"
#include "lockstep/base/number.h"
#include "lockstep/base/text.h"
#include "lockstep/train/evaluate.h"

namespace lockstep::train {
namespace {

using Entries = std::vector<std::pair<std::string, std::string>>;

std::string number_or_null(const std::optional<double>& value) { return value ? text::json_number(*value) : "null"; }

std::string terms_json(const std::vector<std::pair<std::string, double>>& terms) {
  std::vector<std::string> parts;
  for (const auto& [name, value] : terms) {
    parts.push_back(fmt::format("{}: {}", text::json_quote(name), text::json_number(value)));
  }
  return "{" + text::join(parts) + "}";
}

std::string best_json(const TrainResult& result) {
  if (!result.best) return "";
  return fmt::format("\"best\": {{\"metric\": {}, \"value\": {}, \"step\": {}}}, ", text::json_quote(result.best->name),
                     text::json_number(result.best->value), result.best_step);
}

std::string summary_json(const RunEnd& event, const std::string& recipe) {
  const TrainResult& result = event.result;
  return fmt::format(
      "{{\"recipe\": {}, \"world_size\": {}, \"replicas\": {}, \"epochs\": {}, \"steps\": {}, \"seconds\": {}, "
      "\"images_per_s\": {}, {}{}\"metrics\": {}, \"checkpoint\": {}{}}}\n",
      text::json_quote(recipe), event.world_size, result.replicas, result.epochs, result.steps,
      text::json_number(result.seconds, 3), text::json_number(result.images_per_s, 2),
      result.skipped_steps ? fmt::format("\"skipped_steps\": {}, ", *result.skipped_steps) : "", best_json(result),
      to_json(result.metrics), text::json_quote(result.checkpoint.string()),
      event.step_report ? ", \"report\": " + view::to_json(*event.step_report) : "");
}

}  // namespace

void LogSink::on_start(const RunStart& event) {
  if (!event.folder_has_run) return;
  folder_.drop_log_after(event.step, repeats_epoch_);
  if (event.step == 0) return;  // the run was too short to save anything
  folder_.log({{"event", "\"resume\""},
               {"step", std::to_string(event.step)},
               {"world_size", std::to_string(event.world_size)}});
}

void LogSink::on_step(const StepResult& event) {
  if (every_steps_ == 0 || event.step % every_steps_ != 0) return;
  Entries line = {{"event", "\"step\""},
                  {"step", std::to_string(event.step)},
                  {"epoch", std::to_string(event.epoch + 1)},
                  {"loss", number_or_null(event.loss)},
                  {"lr", text::json_number(event.lr)},
                  {"images_per_s", number_or_null(event.images_per_s)}};
  if (!event.terms.empty()) line.emplace_back("losses", terms_json(event.terms));
  if (event.loss_scale) {
    line.emplace_back("loss_scale", text::json_number(*event.loss_scale));
    line.emplace_back("skipped", std::to_string(event.skipped));
  }
  if (event.proved) line.emplace_back("proved", std::to_string(*event.proved));
  folder_.log(line);
}

void LogSink::on_epoch(const EpochResult& event) {
  Entries line = {{"event", "\"epoch\""},
                  {"epoch", std::to_string(event.epoch + 1)},
                  {"step", std::to_string(event.step)},
                  {"loss", number_or_null(event.loss)},
                  {"lr", text::json_number(event.lr)},
                  {"images_per_s", text::json_number(event.images_per_s, 2)},
                  {"data_wait", text::json_number(event.data_wait, 5)},
                  {"seconds", text::json_number(event.seconds, 3)}};
  if (event.bad_samples > 0) line.emplace_back("bad_samples", std::to_string(event.bad_samples));
  line.emplace_back("memory_peak", std::to_string(event.memory.peak));
  if (event.memory.reserved) line.emplace_back("memory_reserved", std::to_string(*event.memory.reserved));
  if (event.skipped) line.emplace_back("skipped", std::to_string(*event.skipped));
  line.emplace_back("metrics", to_json(event.metrics));
  folder_.log(line);
  if (!event.step_report) return;
  folder_.log({{"event", "\"report\""},
               {"epoch", std::to_string(event.epoch + 1)},
               {"step", std::to_string(event.step)},
               {"report", view::to_json(*event.step_report)}});
}

void LogSink::on_stage(const StageChange& event) {
  folder_.log({{"event", "\"refresh\""},
               {"epoch", std::to_string(event.epoch)},
               {"step", std::to_string(event.step)},
               {"reason", text::json_quote(event.reason)},
               {"decay", number_or_null(event.decay)},
               {"from_step", std::to_string(event.from_step)}});
}

void LogSink::on_end(const RunEnd& event) {
  if (event.result.stopped_by.empty()) return;  // summary.json has the rest
  folder_.log({{"event", "\"stop\""},
               {"step", std::to_string(event.result.steps)},
               {"reason", text::json_quote(event.result.stopped_by)}});
}

void FolderSink::on_start(const RunStart& event) {
  recipe_ = event.recipe;
  folder_.write(folder_.settings_file(), event.settings);
}

void FolderSink::on_evaluation(const EvaluationResult& event) {
  if (event.tally == nullptr) return;
  const auto files = event.tally->results(event.epoch + 1);
  if (!files.empty()) FileSystem::system().make_folder(folder_.path() / "result");
  for (const auto& [name, text] : files) folder_.write("result/" + name, text);
}

void FolderSink::on_end(const RunEnd& event) {
  if (!event.result.stopped_by.empty()) return;
  folder_.write("summary.json", summary_json(event, recipe_));
}

std::vector<std::filesystem::path> draw_pictures(const std::filesystem::path& folder, const Tally* tally) {
  if (tally == nullptr) return {};
  try {
    const auto pictures = folder / "pictures";
    FileSystem::system().make_folder(pictures);
    return tally->draw(pictures);
  } catch (const std::exception& error) {
    log::warn("the evaluation's images could not be drawn: {}", error.what());
    return {};
  }
}

}  // namespace lockstep::train
