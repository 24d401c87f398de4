// SPDX-License-Identifier: Apache-2.0
// The evaluation of a set: the captions of all ranks, gathered once each, and their scores.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "captioning/data/dataset.h"
#include "captioning/data/vocabulary.h"
#include "captioning/metrics/scores.h"
#include "lockstep/train/tally.h"

namespace lockstep::captioning {

/// Wants of outputs "words", int64 [B, T], and of batches CaptionBatch in `extra`.
/// Metrics: cider_d (what COCO's evaluation calls CIDEr), bleu_4, rouge_l, meteor_exact, bleu_1 to bleu_3, cider.
class CaptionTally final : public Tally {
 public:
  /// `set`: whose images are evaluated; every rank has all of its references.
  CaptionTally(std::shared_ptr<const Vocabulary> vocabulary, std::shared_ptr<const CaptionDataset> set);

  void add(const Outputs& outputs, const Batch& batch) override;
  [[nodiscard]] std::string bytes() const override;
  [[nodiscard]] std::vector<Metric> metrics(const std::vector<std::string>& parts) override;
  [[nodiscard]] std::string report() const override;
  /// result_val_<epoch>.json: [{"image_id": ..., "caption": ...}], as COCO's evaluation reads it.
  [[nodiscard]] std::map<std::string, std::string> results(std::int64_t epoch) const override;
  /// captions.png: pictures from all over the set with their captions; nothing where the set has features.
  [[nodiscard]] std::vector<std::filesystem::path> draw(const std::filesystem::path& folder) const override;

 private:
  std::shared_ptr<const Vocabulary> vocabulary_;
  std::shared_ptr<const CaptionDataset> set_;
  std::map<std::int64_t, Ids> said_;  ///< by index of the image: what the network says, without the end
  CaptionScores scores_;
};

}  // namespace lockstep::captioning
