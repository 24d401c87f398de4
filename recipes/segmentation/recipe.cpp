// SPDX-License-Identifier: Apache-2.0
// Segmentation for the command line: its presets, the original code's options, and its predictions for files.
#include <ATen/core/ivalue.h>  // before any other torch header
#include <ATen/ops/empty.h>
#include <fmt/format.h>

#include <algorithm>

#include "lockstep/base/text.h"
#include "lockstep/data/augment/to_tensor.h"
#include "lockstep/data/decode.h"
#include "lockstep/train/prepare.h"
#include "segmentation/config.h"
#include "segmentation/metrics/overlay.h"
#include "segmentation/task.h"

namespace lockstep::segmentation {
namespace {

class SegmentationRecipe final : public Recipe {
 public:
  [[nodiscard]] std::string name() const override { return "segmentation"; }
  [[nodiscard]] std::string summary() const override {
    return "assigns a class to every pixel, trained on scribbles or full masks (ResNet, ASPP, LoRM)";
  }
  [[nodiscard]] std::map<std::string, std::string> presets() const override { return segmentation::presets(); }
  [[nodiscard]] std::vector<ConfigAlias> aliases() const override { return segmentation::aliases(); }
  [[nodiscard]] ConfigTree translate(const ConfigTree& tree) const override { return from_origin(tree); }
  [[nodiscard]] std::unique_ptr<TrainConfig> make_config() const override {
    return std::make_unique<SegmentationConfig>();
  }
  [[nodiscard]] std::unique_ptr<Task> make_task(const TrainConfig& config) const override {
    return std::make_unique<SegmentationTask>(dynamic_cast<const SegmentationConfig&>(config));
  }
  void settle(Task& /*task*/, TrainConfig& config) const override {
    SegmentationTask::settle(dynamic_cast<SegmentationConfig&>(config));
  }
  [[nodiscard]] std::vector<Prediction> predict(Task& task, torch::nn::Module& model,
                                                const std::vector<std::filesystem::path>& files) const override;
  [[nodiscard]] std::optional<Image> draw(Task& task, torch::nn::Module& model,
                                          const std::filesystem::path& file) const override;
};

at::Tensor shares_of_file(const SegmentationTask& task, torch::nn::Module& model, const std::filesystem::path& file) {
  const Image image = read_image(file, ColorMode::kRgb);
  Sample sample;
  sample.data = at::empty({3, image.size.height, image.size.width}, at::kFloat);
  to_float_chw(image, sample.data.data_ptr<float>());
  return task.look_at(model, Normalize{}(std::move(sample)).data.to(device_of(model))).to(at::kCPU);
}

/// Each class's share of the pixels, most frequent first: "background 86.9 %, nucleus 13.1 %".
Prediction read_one(const SegmentationTask& task, torch::nn::Module& model, const std::filesystem::path& file) {
  const at::Tensor shares = shares_of_file(task, model, file);
  const auto [confidence, classes] = shares.max(0);
  const std::vector<std::string> names = task.class_names();
  std::vector<std::pair<double, std::size_t>> parts;
  for (std::size_t c = 0; c < names.size(); ++c) {
    const double part = classes.eq(static_cast<std::int64_t>(c)).to(at::kDouble).mean().item<double>();
    if (part > 0) parts.emplace_back(-part, c);
  }
  std::sort(parts.begin(), parts.end());
  std::vector<std::string> words;
  for (const auto& [part, c] : parts) words.push_back(fmt::format("{} {:.1f} %", names[c], -100 * part));
  return {file.string(), text::join(words, ", "), confidence.mean().item<double>()};
}

std::vector<Prediction> SegmentationRecipe::predict(Task& task, torch::nn::Module& model,
                                                    const std::vector<std::filesystem::path>& files) const {
  std::vector<Prediction> predictions;
  for (const auto& file : files) predictions.push_back(read_one(dynamic_cast<SegmentationTask&>(task), model, file));
  return predictions;
}

/// The image, overlaid with the colours of its classes.
std::optional<Image> SegmentationRecipe::draw(Task& task, torch::nn::Module& model,
                                              const std::filesystem::path& file) const {
  const at::Tensor shares = shares_of_file(dynamic_cast<SegmentationTask&>(task), model, file);
  const at::Tensor classes = shares.argmax(0).to(at::kByte).contiguous();
  const auto* first = classes.data_ptr<std::uint8_t>();
  const Image image = read_image(file, ColorMode::kRgb);
  return overlay(view_of(image), {image.size, 1, {first, first + classes.numel()}});
}

}  // namespace

std::unique_ptr<Recipe> make_recipe() { return std::make_unique<SegmentationRecipe>(); }

}  // namespace lockstep::segmentation
