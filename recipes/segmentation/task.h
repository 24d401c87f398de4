// SPDX-License-Identifier: Apache-2.0
// Segmentation as a Task for the Trainer and a Recipe for the command line.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "lockstep/train/recipe.h"
#include "lockstep/train/task.h"
#include "segmentation/config.h"

namespace lockstep::segmentation {

/// Lifetime: `config` outlives the task.
class SegmentationTask final : public Task {
 public:
  explicit SegmentationTask(const SegmentationConfig& config) : config_(config) {}

  /// Opens images with full masks. `folder`: a path for open_test_set().
  std::shared_ptr<Dataset> make_dataset(const std::string& folder) override;
  /// Opens images with the maps that the losses need.
  std::shared_ptr<Dataset> make_training_set(const std::string& folder) override;
  /// Sets the number and the names of the classes in `config` from data.train, unless they are set, and sets the test
  /// set.
  /// Throws: UsageError naming both numbers if num_classes does not match the set; DataError if the set cannot be read.
  static void settle(SegmentationConfig& config);
  [[nodiscard]] Collate collate() const override { return segmentation::collate(); }
  std::shared_ptr<torch::nn::Module> make_model() override;
  /// Accepts the original code's files (model_best.pth) and ImageNet backbones, whose classifier is dropped.
  std::vector<std::string> fit_weights(StateDict& weights, const NamedTensors& model) override;
  /// Returns {epoch, state_dict}, the format of the original evaluate.py.
  [[nodiscard]] std::optional<TorchValue> origin_file(const ModelStates& states) const override;
  /// Maps images [N, 3, S, S] in 0..1 to the classes' probabilities [N, C, S, S], from a single view at one scale. S is
  /// the side of the evaluation window, or of the training crop if that window is the whole image.
  std::optional<nn::NetworkFunction> network_function(torch::nn::Module& model) override;
  /// Returns the outputs of Segmenter in training; in evaluation, "classes", uint8 [B, H, W], with each image evaluated
  /// on its own according to the eval.* settings, and 255 outside the image.
  Outputs run(torch::nn::Module& model, const Batch& batch) override;
  /// Throws: UsageError if a view's size differs from the function's images.
  Outputs run_exported(const nn::TensorFunction& network, const Batch& batch) override;
  std::vector<LossTerm> loss_terms(const Outputs& outputs, const Batch& batch) override;
  [[nodiscard]] bool is_recordable() const override { return true; }
  [[nodiscard]] std::unique_ptr<Tally> make_tally() const override;
  /// The network, the labels, and the losses with their weights, as in "res50_ASPP_lorm, stride 8, learns from
  /// scribbles (segmentation, 0.5 pseudo, lorm)".
  [[nodiscard]] std::string model_name() const override;

  [[nodiscard]] const SegmentationConfig& config() const noexcept { return config_; }
  /// The names by label: from the settings, otherwise from the set, otherwise class_0 and so on.
  [[nodiscard]] std::vector<std::string> class_names() const;
  /// The classes' probabilities [C, H, W] for a normalised image [3, H, W].
  [[nodiscard]] at::Tensor look_at(torch::nn::Module& model, const at::Tensor& picture) const;

 private:
  /// The side S of network_function().
  [[nodiscard]] std::int64_t exported_side() const;
  /// The outputs of run() in an evaluation.
  [[nodiscard]] Outputs classes_of_batch(const Batch& batch, const LogitsOf& logits) const;

  const SegmentationConfig& config_;
  std::shared_ptr<const ImageSource> test_source_;  ///< source of the set from the last make_dataset()
  std::vector<std::string> names_of_set_;
};

[[nodiscard]] std::unique_ptr<Recipe> make_recipe();

}  // namespace lockstep::segmentation
