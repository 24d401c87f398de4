// SPDX-License-Identifier: Apache-2.0
// The captcha recogniser for the command line: its presets and its predictions for files.
#include <ATen/core/ivalue.h>  // before any other torch header
#include <ATen/ops/empty.h>
#include <fmt/format.h>

#include "captcha/config.h"
#include "captcha/data/dataset.h"
#include "captcha/metrics/scores.h"
#include "captcha/task.h"
#include "lockstep/data/decode.h"
#include "lockstep/train/prepare.h"

namespace lockstep::captcha {
namespace {

class CaptchaRecipe final : public Recipe {
 public:
  [[nodiscard]] std::string name() const override { return "captcha"; }
  [[nodiscard]] std::string summary() const override {
    return "reads the characters of captcha images (7 or 3 convolutions)";
  }
  [[nodiscard]] std::map<std::string, std::string> presets() const override { return captcha::presets(); }
  [[nodiscard]] std::unique_ptr<TrainConfig> make_config() const override { return std::make_unique<CaptchaConfig>(); }
  [[nodiscard]] std::unique_ptr<Task> make_task(const TrainConfig& config) const override {
    return std::make_unique<CaptchaTask>(dynamic_cast<const CaptchaConfig&>(config));
  }
  [[nodiscard]] std::vector<Prediction> predict(Task& task, torch::nn::Module& model,
                                                const std::vector<std::filesystem::path>& files) const override;
};

// The last layer has a weight for each position in the image, so the network only works for one image size.
std::string other_size_remedy(const std::filesystem::path& file, const Labels& labels) {
  return fmt::format(
      "scale the image: convert {} -resize '{}x{}!' scaled.png; or train a model for its size: lockstep train captcha "
      "--set data.train=FOLDER",
      file.string(), labels.width, labels.height);
}

// Reads the characters in an image, with their lowest probability: a string is only as certain as its least certain
// character.
Prediction read_one(CaptchaTask& task, torch::nn::Module& model, const std::filesystem::path& file) {
  const auto& labels = task.config().labels;
  const Image image = read_image(file, ColorMode::kGray);
  if (image.size != ImageSize{labels.width, labels.height}) {
    throw other_size(file, image.size, labels, other_size_remedy(file, labels));
  }
  Batch batch;
  batch.data = at::empty({1, 1, labels.height, labels.width}, at::kFloat);
  to_float_chw(image, batch.data.data_ptr<float>());
  batch.data = batch.data.to(device_of(model));
  const auto classes = static_cast<std::int64_t>(task.characters().size());
  const at::Tensor scores_LC =
      task.forward(model, batch).to(at::kCPU, at::kFloat).view({labels.length, classes}).softmax(1);
  const auto [confidence_L, read_L] = scores_LC.max(1);
  Prediction prediction{file.string(), "", confidence_L.min().item<double>()};
  for (std::int64_t i = 0; i < labels.length; ++i) {
    prediction.text += task.characters()[static_cast<std::size_t>(read_L[i].item<std::int64_t>())];
  }
  return prediction;
}

std::vector<Prediction> CaptchaRecipe::predict(Task& task, torch::nn::Module& model,
                                               const std::vector<std::filesystem::path>& files) const {
  std::vector<Prediction> predictions;
  for (const auto& file : files) predictions.push_back(read_one(dynamic_cast<CaptchaTask&>(task), model, file));
  return predictions;
}

}  // namespace

std::unique_ptr<Recipe> make_recipe() { return std::make_unique<CaptchaRecipe>(); }

}  // namespace lockstep::captcha
