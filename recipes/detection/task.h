// SPDX-License-Identifier: Apache-2.0
// The detector as a Task of the Trainer and as a Recipe of the command line.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "detection/config.h"
#include "detection/model/layers_at_once.h"
#include "lockstep/train/recipe.h"
#include "lockstep/train/task.h"

namespace lockstep::detection {

/// Lifetime: `config` outlives the task.
class DetectionTask final : public Task {
 public:
  explicit DetectionTask(const DetectionConfig& config) : config_(config) {}

  /// `folder`: a path for open_source(), or synthetic scenes such as "scenes:200" or, with a seed, "scenes:200:7".
  std::shared_ptr<Dataset> make_dataset(const std::string& folder) override;
  std::shared_ptr<Dataset> make_training_set(const std::string& folder) override;
  /// Sets the number and names of the classes in `config` from data.train, unless they are already set.
  /// Throws: UsageError naming both numbers if num_classes does not match the set; DataError if the set cannot be read.
  void settle(DetectionConfig& config);
  [[nodiscard]] Collate collate() const override;
  std::shared_ptr<torch::nn::Module> make_model() override;
  /// Accepts weights with the published names, including heads for other classes and standalone backbones
  /// (dfine/weights.h).
  std::vector<std::string> fit_weights(StateDict& weights, const NamedTensors& model) override;
  /// Returns the published networks' weights, under the original names; nothing for the small detector, which has no
  /// counterpart elsewhere.
  [[nodiscard]] std::optional<TorchValue> origin_file(const ModelStates& states) const override;
  /// Drops the layers needed only in training.
  void prepare_inference(torch::nn::Module& model) override;
  /// Maps images [N, 3, S, S] in 0..1 to logits [N, Q, C] and boxes [N, Q, 4].
  std::optional<nn::NetworkFunction> network_function(torch::nn::Module& model) override;
  /// Maps images and orig_target_sizes [N, 2] (width, height) to labels, boxes and scores (decode_together()).
  std::optional<nn::NetworkFunction> deployed_function(torch::nn::Module& model) override;
  Outputs run_exported(const nn::TensorFunction& network, const Batch& batch) override;
  /// In training, adds denoising queries built from the batch's objects.
  Outputs run(torch::nn::Module& model, const Batch& batch) override;
  /// Divides by the mean number of boxes over all replicas, which takes one small all-reduce per batch.
  std::vector<LossTerm> loss_terms(const Outputs& outputs, const Batch& batch) override;
  [[nodiscard]] std::unique_ptr<Tally> make_tally() const override;
  [[nodiscard]] StateDict batch_state(const Batch& batch) const override;
  [[nodiscard]] std::string model_name() const override;

  [[nodiscard]] const DetectionConfig& config() const noexcept { return config_; }
  /// The name of label `label`.
  [[nodiscard]] std::string class_name(std::int64_t label) const;

 private:
  const DetectionConfig& config_;
  std::vector<std::string> names_of_training_;
  std::shared_ptr<const ImageSource> opened_;       ///< data.train, between settle() and make_training_set()
  std::vector<std::string> names_of_set_;           ///< class names from the last make_dataset()
  std::shared_ptr<const ImageSource> test_source_;  ///< images from the last make_dataset()
  std::vector<std::int64_t> category_ids_;          ///< COCO's id of each label in that set
  LayersAtOnce layers_;                             ///< layers of the network in training
};

[[nodiscard]] std::unique_ptr<Recipe> make_recipe();

}  // namespace lockstep::detection
