// SPDX-License-Identifier: Apache-2.0
#include "train/report/folder_sink.h"

#include <fmt/format.h>

#include "lockstep/base/log.h"
#include "lockstep/base/number.h"
#include "lockstep/base/text.h"
#include "lockstep/train/evaluate.h"

namespace lockstep::train {
namespace {

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
    log::warn("no pictures of the evaluation: {}", error.what());
    return {};
  }
}

}  // namespace lockstep::train
