// SPDX-License-Identifier: Apache-2.0
// Captioning as a Task of the Trainer and as a Recipe of the command line.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "captioning/config.h"
#include "captioning/data/dataset.h"
#include "captioning/model/model.h"
#include "captioning/reward.h"
#include "lockstep/train/recipe.h"
#include "lockstep/train/task.h"

namespace lockstep::captioning {

/// The model holds the vocabulary as the buffer "vocabulary" (uint8, Vocabulary::to_text()) and the width of features
/// as "feature_width", so that captioning needs nothing but a checkpoint.
///
/// Lifetime: `config` outlives the task.
class CaptioningTask final : public Task {
 public:
  explicit CaptioningTask(const CaptioningConfig& config) : config_(config) {}

  std::shared_ptr<Dataset> make_dataset(const std::string& folder) override;
  std::shared_ptr<Dataset> make_training_set(const std::string& folder) override;
  [[nodiscard]] Collate collate() const override;
  /// Compares the vocabulary of `state` with this task's, or takes it if the task has none yet.
  void check_model_state(const StateDict& state) override;
  std::shared_ptr<torch::nn::Module> make_model() override;
  /// Accepts the original snapshots, whose word ids refer to the original vocabulary.
  /// Throws: DataError if data.vocabulary is not set, or has a different number of words.
  std::vector<std::string> fit_weights(StateDict& weights, const NamedTensors& model) override;
  /// Returns just the state dict, like the original snapshot/caption_model_N.pth.
  [[nodiscard]] std::optional<TorchValue> origin_file(const ModelStates& states) const override;
  /// Maps images [N, 3, H, W] in 0..1, or features [N, L, D], to the result of greedy search: "words" [N, T] and
  /// "log_probs" [N, T - 1], as in Said.
  std::optional<nn::NetworkFunction> network_function(torch::nn::Module& model) override;
  void begin_epoch(const EpochInfo& info) override;
  /// Returns, in training with annotators' captions, "logits" [B * S, T, V]; in self-critical training also "words",
  /// "chosen", "reward" and "advantage" (SampledCaptions; sampling has no gradient); in evaluation "words" [B, T].
  Outputs run(torch::nn::Module& model, const Batch& batch) override;
  /// Returns greedy captions, whatever eval.beam_size is.
  Outputs run_exported(const nn::TensorFunction& network, const Batch& batch) override;
  /// Returns the term "cross_entropy" or "self_critical".
  std::vector<LossTerm> loss_terms(const Outputs& outputs, const Batch& batch) override;
  [[nodiscard]] bool is_recordable() const override { return true; }
  /// Returns a key only for batches of images, and only while training uses nothing but annotators' words: drawing
  /// words needs the host.
  [[nodiscard]] std::optional<std::string> recording_key(const Batch& batch) const override;
  [[nodiscard]] std::unique_ptr<Tally> make_tally() const override;
  [[nodiscard]] std::string model_name() const override;

  [[nodiscard]] const CaptioningConfig& config() const noexcept { return config_; }
  /// The vocabulary. Throws: UsageError until a training set or a checkpoint has set it.
  [[nodiscard]] std::shared_ptr<const Vocabulary> vocabulary() const;
  /// True if the current batch is trained on the network's own captions.
  [[nodiscard]] bool is_self_critical() const noexcept;

 private:
  /// The number L of feature rows for an exported network. Throws: UsageError if no setting gives it.
  [[nodiscard]] std::int64_t feature_rows() const;
  void require_origins_words(const StateDict& weights, const NamedTensors& model) const;
  void require_final_test() const;
  void check_feature_width(std::int64_t theirs);
  void make_vocabulary(const std::vector<CaptionedImage>& images);
  Outputs run_self_critical(Captioner& model, const Memory& memory, const Batch& batch);

  const CaptioningConfig& config_;
  std::shared_ptr<const Vocabulary> vocabulary_;
  std::int64_t feature_width_ = 0;
  std::shared_ptr<CaptionDataset> test_set_;  ///< set by the last make_dataset()
  std::optional<Reward> reward_;
  EpochInfo now_;
};

[[nodiscard]] std::unique_ptr<Recipe> make_recipe();

}  // namespace lockstep::captioning
