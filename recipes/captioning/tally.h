// SPDX-License-Identifier: Apache-2.0
// The evaluation of a set: all ranks' captions, one per image, and their scores.
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

/// Requires the output "words", int64 [B, T], and batches with CaptionBatch in `extra`.
/// Metrics: cider_d (CIDEr in COCO's evaluation), bleu_4, rouge_l, meteor_exact, bleu_1 to bleu_3, cider.
class CaptionTally final : public Tally {
 public:
  /// `set`: the evaluated images; every rank has all of their references.
  CaptionTally(std::shared_ptr<const Vocabulary> vocabulary, std::shared_ptr<const CaptionDataset> set);

  void add(const Outputs& outputs, const Batch& batch) override;
  [[nodiscard]] std::string bytes() const override;
  [[nodiscard]] std::vector<Metric> metrics(const std::vector<std::string>& parts) override;
  [[nodiscard]] std::string report() const override;
  /// The file result_val_<epoch>.json: [{"image_id": ..., "caption": ...}], the format of COCO's evaluation.
  [[nodiscard]] std::map<std::string, std::string> results(std::int64_t epoch) const override;
  /// Draws captions.png: images, evenly spread over the set, with their captions; nothing for features.
  [[nodiscard]] std::vector<std::filesystem::path> draw(const std::filesystem::path& folder) const override;

 private:
  std::shared_ptr<const Vocabulary> vocabulary_;
  std::shared_ptr<const CaptionDataset> set_;
  std::map<std::int64_t, Ids> said_;  ///< the network's captions without the end mark, by the image's index
  CaptionScores scores_;
};

}  // namespace lockstep::captioning
