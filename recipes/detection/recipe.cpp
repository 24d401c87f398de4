// SPDX-License-Identifier: Apache-2.0
// The detector on the command line: presets, the original options, and predictions for files.
#include <ATen/core/ivalue.h>  // before any other torch header
#include <fmt/format.h>

#include <algorithm>
#include <any>
#include <cmath>
#include <utility>

#include "detection/config.h"
#include "detection/tally.h"
#include "detection/task.h"
#include "lockstep/base/clock.h"
#include "lockstep/base/error.h"
#include "lockstep/base/number.h"
#include "lockstep/base/text.h"
#include "lockstep/data/decode.h"
#include "lockstep/data/draw_boxes.h"
#include "lockstep/data/loader.h"
#include "lockstep/train/prepare.h"

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
  [[nodiscard]] ConfigTree translate(const ConfigTree& tree) const override { return from_origin(tree); }
  [[nodiscard]] std::unique_ptr<TrainConfig> make_config() const override {
    return std::make_unique<DetectionConfig>();
  }
  [[nodiscard]] std::unique_ptr<Task> make_task(const TrainConfig& config) const override {
    return std::make_unique<DetectionTask>(dynamic_cast<const DetectionConfig&>(config));
  }
  void settle(Task& task, TrainConfig& config) const override {
    dynamic_cast<DetectionTask&>(task).settle(dynamic_cast<DetectionConfig&>(config));
  }
  [[nodiscard]] bool has_threshold() const override { return true; }
  void predict_all(Task& task, torch::nn::Module& model, const std::vector<std::filesystem::path>& files,
                   const PredictOptions& options, const std::function<void(Prediction)>& take) const override;
  [[nodiscard]] std::vector<Prediction> predict(Task& task, torch::nn::Module& model,
                                                const std::vector<std::filesystem::path>& files) const override;
  [[nodiscard]] std::optional<Image> draw(Task& task, torch::nn::Module& model,
                                          const std::filesystem::path& file) const override;
};

/// The detections in one file whose score is at least a given value, most certain first.
struct Looked {
  std::string file;
  ImageSize size;
  std::vector<FoundObject> found;
  std::optional<FoundObject> guess;  ///< most certain detection if nothing was found
  double seconds = 0;
};

Looked looked_at(const std::filesystem::path& file, ImageSize size, std::vector<FoundObject> found, double least) {
  for (FoundObject& object : found) object.box = cut_at_edges(object.box, size);
  Looked looked{.file = file.string(), .size = size, .found = {}, .guess = std::nullopt};
  if (!found.empty() && found.front().score < least) looked.guess = found.front();
  std::erase_if(found, [least](const FoundObject& object) { return object.score < least; });
  looked.found = std::move(found);
  return looked;
}

/// Runs the model over files in batches, and passes each result to `take`. Blocks: until all files are read.
void look_at(DetectionTask& task, torch::nn::Module& model, const std::vector<std::filesystem::path>& files,
             const PredictOptions& options, const std::function<void(Looked)>& take) {
  const c10::Device device = device_of(model);
  const bool skip = options.unreadable != nullptr;
  DataLoader loader(picture_files(files, task.config().image_size),
                    {.batch_size = options.batch_size,
                     .workers = options.workers,
                     .remainder = Remainder::kKeep,
                     .bad_samples = skip ? BadSamples::kSkip : BadSamples::kError,
                     .note_bad_samples = false,
                     .note_waiting = false,
                     .pin_memory = device.is_cuda(),
                     .device = device,
                     .collate = task.collate()});
  const double least = options.threshold.value_or(kConfident);
  std::size_t reported = 0;
  const auto report = [&] {
    const std::vector<BadSample> bad = loader.bad_samples();
    for (; reported < bad.size(); ++reported) options.unreadable(DataError(bad[reported].what));
  };
  for (Batch& batch : loader.epoch(0)) {
    report();
    const TimePoint begin = SystemClock::instance().now();
    prepare_batch(batch, device, task.config().channels_last);
    const auto& targets = std::any_cast<const Targets&>(batch.extra);
    auto found = found_objects(task.run(model, batch), targets);
    const double seconds = Seconds(SystemClock::instance().now() - begin).count() / static_cast<double>(found.size());
    for (std::size_t i = 0; i < found.size(); ++i) {
      const std::filesystem::path& file = files[static_cast<std::size_t>(batch.indices[i])];
      Looked looked = looked_at(file, targets[i].size, std::move(found[i]), least);
      looked.seconds = seconds;
      take(std::move(looked));
    }
  }
  report();
}

/// The fields of a JSON object: "boxes": [[x1, y1, x2, y2], ...] and the other results.
std::string json_of(const DetectionTask& task, const Looked& looked) {
  std::vector<std::string> boxes;
  std::vector<std::string> scores;
  std::vector<std::string> labels;
  std::vector<std::string> names;
  for (const FoundObject& object : looked.found) {
    const CocoBox& box = object.box;
    std::vector<std::string> corners;
    for (const double side : {box.x, box.y, box.x + box.width, box.y + box.height}) {
      corners.push_back(text::json_number(side, 2));
    }
    boxes.push_back("[" + text::join(corners) + "]");
    scores.push_back(text::json_number(object.score, 4));
    labels.push_back(fmt::format("{}", object.label));
    names.push_back(text::json_quote(task.class_name(object.label)));
  }
  return fmt::format(R"("width": {}, "height": {}, "boxes": [{}], "scores": [{}], "labels": [{}], "names": [{}])",
                     looked.size.width, looked.size.height, text::join(boxes), text::join(scores), text::join(labels),
                     text::join(names));
}

/// Class and score, as in "circle 0.93"; a guess has a question mark.
std::string name_and_score(const DetectionTask& task, const FoundObject& object, const char* doubt = "") {
  return fmt::format("{}{} {:.2f}", task.class_name(object.label), doubt, object.score);
}

BoxMark mark_of(const FoundObject& object, std::int64_t thick, std::string text) {
  const auto x = static_cast<float>(object.box.x);
  const auto y = static_cast<float>(object.box.y);
  return {.box = {x, y, x + static_cast<float>(object.box.width), y + static_cast<float>(object.box.height)},
          .ink = mark_ink(object.label),
          .thick = thick,
          .text = std::move(text)};
}

/// Twice the size, but at most kMostDrawn pixels per side, because letters and lines have a fixed size in pixels.
ImageSize drawn_size(ImageSize size) {
  constexpr double kMostDrawn = 1920;
  const double factor = std::min(2.0, kMostDrawn / static_cast<double>(std::max(size.width, size.height)));
  const auto side = [factor](std::int64_t length) {
    return std::max<std::int64_t>(std::llround(factor * static_cast<double>(length)), 1);
  };
  return {side(size.width), side(size.height)};
}

/// The enlarged image, with a frame around each detection, or a thin frame around the best guess if there is none.
Image picture_of(const DetectionTask& task, const Looked& looked) {
  std::vector<BoxMark> marks;
  for (const FoundObject& object : looked.found) marks.push_back(mark_of(object, 2, name_and_score(task, object)));
  if (looked.guess) marks.push_back(mark_of(*looked.guess, 1, name_and_score(task, *looked.guess, "?")));
  const Image image = read_image(looked.file, ColorMode::kRgb);
  return draw_boxes(view_of(image), drawn_size(image.size), marks);
}

/// A detection, as in "circle 0.93 at 12, 30 (40 x 20 px)".
std::string words_of(const DetectionTask& task, const FoundObject& object) {
  return fmt::format("{} at {:.0f}, {:.0f} ({:.0f} x {:.0f} px)", name_and_score(task, object), object.box.x,
                     object.box.y, object.box.width, object.box.height);
}

/// All detections of a file, with their lowest score as the file's confidence.
Prediction prediction_of(const DetectionTask& task, const Looked& looked, const PredictOptions& options) {
  Prediction prediction{.file = looked.file, .text = "", .confidence = std::nullopt};
  std::vector<std::string> words;
  for (const FoundObject& object : looked.found) {
    prediction.confidence = std::min(prediction.confidence.value_or(1), object.score);
    words.push_back(words_of(task, object));
  }
  prediction.text = text::join(words, "; ");
  if (words.empty()) {
    prediction.text =
        fmt::format("nothing found with a confidence of at least {}", options.threshold.value_or(kConfident));
    if (looked.guess) prediction.text += "; the best guess: " + words_of(task, *looked.guess);
  }
  if (words.size() > 1) prediction.sure_of = "least certain box";
  prediction.json = json_of(task, looked);
  prediction.seconds = looked.seconds;
  if (options.pictures) prediction.picture = picture_of(task, looked);
  return prediction;
}

void DetectionRecipe::predict_all(Task& task, torch::nn::Module& model, const std::vector<std::filesystem::path>& files,
                                  const PredictOptions& options, const std::function<void(Prediction)>& take) const {
  auto& detection = dynamic_cast<DetectionTask&>(task);
  look_at(detection, model, files, options,
          [&](const Looked& looked) { take(prediction_of(detection, looked, options)); });
}

std::vector<Prediction> DetectionRecipe::predict(Task& task, torch::nn::Module& model,
                                                 const std::vector<std::filesystem::path>& files) const {
  std::vector<Prediction> predictions;
  predict_all(task, model, files, {.workers = 0}, [&](Prediction one) { predictions.push_back(std::move(one)); });
  return predictions;
}

std::optional<Image> DetectionRecipe::draw(Task& task, torch::nn::Module& model,
                                           const std::filesystem::path& file) const {
  std::optional<Image> picture;
  predict_all(task, model, {file}, {.workers = 0, .pictures = true},
              [&](Prediction one) { picture = std::move(one.picture); });
  return picture;
}

}  // namespace

std::unique_ptr<Recipe> make_recipe() { return std::make_unique<DetectionRecipe>(); }

}  // namespace lockstep::detection
