// SPDX-License-Identifier: Apache-2.0
// Captioning on the command line: presets, experiments in their original form, and captions for files.
#include <ATen/core/ivalue.h>  // before any other torch header
#include <ATen/ops/cat.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include <cmath>

#include "captioning/config.h"
#include "captioning/data/collate.h"
#include "captioning/model/search.h"
#include "captioning/page.h"
#include "captioning/start_words.h"
#include "captioning/task.h"
#include "lockstep/base/error.h"
#include "lockstep/optim/autocast.h"
#include "lockstep/train/prepare.h"

namespace lockstep::captioning {
namespace {

constexpr const char* kGettingStarted = R"(lockstep train captioning --folder FOLDER [options]
lockstep train captioning[:PRESET] --set data.train=SET [--set data.test=SET] [options]

Learns to describe images: cross entropy with people's captions, then, in a second stage, self-critical
training with CIDEr-D as its reward.

  --folder FOLDER        an experiment: FOLDER/config.yml has the settings (sections TRAIN, DATA_LOADER, MODEL,
                         SOLVER, LOSSES, SCORER, INFERENCE, or this program's own keys); the run is written there, with
                         snapshot/ and result/
  --resume auto          continue from the folder's newest checkpoint
  --resume N             start from the original FOLDER/snapshot/caption_model_N.pth
  --init-from RUN:best   start from the weights of another run, as self-critical runs do
  --set key=value        any setting; `lockstep inspect config captioning` lists them all
  --nproc-per-node N     processes

Presets: smoke (no data needed, half a minute), scenes, nlvr, pure_t, xlan. A SET is a folder with captions.txt or
captions.json, a COCO captions file, or scenes:COUNT:SEED.

Example:
  lockstep train captioning:smoke
  lockstep train captioning --folder experiments/xlan --nproc-per-node 2
)";

class CaptioningRecipe final : public Recipe {
 public:
  [[nodiscard]] std::string name() const override { return "captioning"; }
  [[nodiscard]] std::string summary() const override {
    return "describes images in words, trained on captions and then self-critically (transformer, X-linear)";
  }
  [[nodiscard]] std::map<std::string, std::string> presets() const override { return captioning::presets(); }
  [[nodiscard]] std::vector<ConfigAlias> aliases() const override {
    return {{"local_rank"}, {.from = "load_epoch", .instead = "--resume auto, which continues a run"}};
  }
  [[nodiscard]] ConfigTree base_settings(const ConfigTree& typed) const override {
    const auto folder = typed.values().find("folder");
    if (folder == typed.values().end() || folder->second.yaml.empty()) return {};
    if (folder->second.origin != "--set") {
      throw UsageError(
          fmt::format("{}: pass the experiment's folder on the command line, because the run is written there",
                      folder->second.origin),
          fmt::format("lockstep train captioning --folder {}", folder->second.yaml));
    }
    return read_experiment(std::filesystem::path(folder->second.yaml) / "config.yml");
  }
  [[nodiscard]] Experiment experiment(const TrainConfig& config, const std::string& resume) const override {
    const std::filesystem::path folder = dynamic_cast<const CaptioningConfig&>(config).folder;
    return {folder, common::snapshot_of(kStartWords, folder, resume)};
  }
  [[nodiscard]] std::string getting_started() const override { return kGettingStarted; }
  [[nodiscard]] std::unique_ptr<TrainConfig> make_config() const override {
    return std::make_unique<CaptioningConfig>();
  }
  [[nodiscard]] std::unique_ptr<Task> make_task(const TrainConfig& config) const override {
    return std::make_unique<CaptioningTask>(dynamic_cast<const CaptioningConfig&>(config));
  }
  [[nodiscard]] std::vector<Prediction> predict(Task& task, torch::nn::Module& model,
                                                const std::vector<std::filesystem::path>& files) const override;
  [[nodiscard]] std::optional<Image> draw(Task& task, torch::nn::Module& model,
                                          const std::filesystem::path& file) const override;
};

/// A set with one file, without captions.
std::shared_ptr<CaptionDataset> set_of(const CaptioningTask& task, const std::filesystem::path& file) {
  SetOptions options = task.config().set_options("", false);
  if (!task.config().has_features()) options.features.clear();
  return CaptionDataset::open(options, {{.id = file.stem().string(), .file = file.string(), .captions = {}}},
                              task.vocabulary(), false);
}

/// Returns the caption and the geometric mean of its words' probabilities.
Prediction say(const CaptioningTask& task, Captioner& model, CaptionDataset& set, const std::filesystem::path& file) {
  const NoGrad no_grad;
  SampleContext context(0, 0, 0);
  std::vector<Sample> samples;
  samples.push_back(set.get(0, context));
  const Batch batch = collate()(std::move(samples), {});
  const Memory memory = model.encode(batch.data.to(device_of(model)), {});
  const CaptioningConfig& config = task.config();
  const at::Tensor words =
      beam_search(model, memory, {.beam = config.eval.beam_size, .max_words = config.sets.max_words});
  const at::Tensor inputs = at::cat({at::zeros({1, 1}, words.options()), words.narrow(1, 0, words.size(1) - 1)}, 1);
  const at::Tensor of_words = model.log_probs(memory, inputs).gather(2, words.unsqueeze(2)).squeeze(2);
  const double mean = of_words.masked_select(chosen(words)).mean().item<double>();
  const at::Tensor ids = words.cpu();
  return {file.string(), task.vocabulary()->text_of(ids.data_ptr<std::int64_t>(), ids.size(1)), std::exp(mean)};
}

std::vector<Prediction> CaptioningRecipe::predict(Task& task, torch::nn::Module& model,
                                                  const std::vector<std::filesystem::path>& files) const {
  auto& captioning = dynamic_cast<CaptioningTask&>(task);
  std::vector<Prediction> predictions;
  for (const auto& file : files) {
    predictions.push_back(say(captioning, dynamic_cast<Captioner&>(model), *set_of(captioning, file), file));
  }
  return predictions;
}

/// Returns the image with its caption below; nullopt if the inputs are features.
std::optional<Image> CaptioningRecipe::draw(Task& task, torch::nn::Module& model,
                                            const std::filesystem::path& file) const {
  auto& captioning = dynamic_cast<CaptioningTask&>(task);
  if (captioning.config().has_features()) return std::nullopt;
  const auto set = set_of(captioning, file);
  const Prediction said = say(captioning, dynamic_cast<Captioner&>(model), *set, file);
  return captioned({.picture = set->picture(0), .caption = said.text});
}

}  // namespace

std::unique_ptr<Recipe> make_recipe() { return std::make_unique<CaptioningRecipe>(); }

}  // namespace lockstep::captioning
