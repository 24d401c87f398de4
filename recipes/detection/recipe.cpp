// SPDX-License-Identifier: Apache-2.0
// What the command line knows of the detector: its presets, the words of its origin, and how it looks at files.
#include <ATen/core/ivalue.h>  // before any other torch header
#include <ATen/ops/empty.h>
#include <fmt/format.h>

#include "detection/aliases.h"
#include "detection/presets.h"
#include "detection/tally.h"
#include "detection/task.h"
#include "lockstep/base/text.h"
#include "lockstep/data/decode.h"
#include "lockstep/data/draw_boxes.h"

namespace lockstep::detection {
namespace {

class DetectionRecipe final : public Recipe {
 public:
  [[nodiscard]] std::string name() const override { return "detection"; }
  [[nodiscard]] std::string summary() const override {
    return "finds objects and their boxes (a DETR with refined distributions, trained in two stages)";
  }
  [[nodiscard]] std::map<std::string, std::string> presets() const override { return detection::presets(); }
  [[nodiscard]] std::vector<ConfigAlias> aliases() const override { return detection::aliases(); }
  [[nodiscard]] std::unique_ptr<TrainConfig> make_config() const override {
    return std::make_unique<DetectionConfig>();
  }
  [[nodiscard]] std::unique_ptr<Task> make_task(const TrainConfig& config) const override {
    return std::make_unique<DetectionTask>(dynamic_cast<const DetectionConfig&>(config));
  }
  void settle(Task& task, TrainConfig& config) const override {
    dynamic_cast<DetectionTask&>(task).settle(dynamic_cast<DetectionConfig&>(config));
  }
  [[nodiscard]] std::vector<Prediction> predict(Task& task, torch::nn::Module& model,
                                                const std::vector<std::filesystem::path>& files) const override;
  [[nodiscard]] std::optional<Image> draw(Task& task, torch::nn::Module& model,
                                          const std::filesystem::path& file) const override;
};

std::vector<FoundObject> look_at(DetectionTask& task, torch::nn::Module& model, const std::filesystem::path& file) {
  const Image image = read_image(file, ColorMode::kRgb);
  const std::int64_t side = task.config().image_size;
  const Image resized = resize_image(image, {side, side});
  Batch batch;
  batch.data = at::empty({1, 3, side, side}, at::kFloat);
  to_float_chw(resized, batch.data.data_ptr<float>());
  Targets targets(1);
  targets.front().size = image.size;
  return found_objects(task.run(model, batch), targets).front();
}

/// "circle 0.93 at 12, 30 (40 x 20 px), ring ..."
Prediction read_one(DetectionTask& task, torch::nn::Module& model, const std::filesystem::path& file) {
  std::vector<std::string> words;
  double least = 1;
  for (const FoundObject& object : look_at(task, model, file)) {
    if (object.score < kConfident) break;
    least = object.score;
    words.push_back(fmt::format("{} {:.2f} at {:.0f}, {:.0f} ({:.0f} x {:.0f} px)", task.class_name(object.label),
                                object.score, object.box.x, object.box.y, object.box.width, object.box.height));
  }
  if (words.empty())
    return {file.string(), fmt::format("nothing found with a confidence of {} or more", kConfident), {}};
  return {file.string(), text::join(words, "; "), least};
}

std::vector<Prediction> DetectionRecipe::predict(Task& task, torch::nn::Module& model,
                                                 const std::vector<std::filesystem::path>& files) const {
  std::vector<Prediction> predictions;
  for (const auto& file : files) predictions.push_back(read_one(dynamic_cast<DetectionTask&>(task), model, file));
  return predictions;
}

/// Twice as large, with a frame around each confident detection.
std::optional<Image> DetectionRecipe::draw(Task& task, torch::nn::Module& model,
                                           const std::filesystem::path& file) const {
  auto& detection = dynamic_cast<DetectionTask&>(task);
  std::vector<BoxMark> marks;
  for (const FoundObject& object : look_at(detection, model, file)) {
    if (object.score < kConfident) break;
    const auto x = static_cast<float>(object.box.x);
    const auto y = static_cast<float>(object.box.y);
    marks.push_back({.box = {x, y, x + static_cast<float>(object.box.width), y + static_cast<float>(object.box.height)},
                     .ink = mark_ink(object.label),
                     .thick = 2,
                     .text = fmt::format("{} {:.2f}", detection.class_name(object.label), object.score)});
  }
  const Image image = read_image(file, ColorMode::kRgb);
  return draw_boxes(view_of(image), {2 * image.size.width, 2 * image.size.height}, marks);
}

}  // namespace

std::unique_ptr<Recipe> make_recipe() { return std::make_unique<DetectionRecipe>(); }

}  // namespace lockstep::detection
