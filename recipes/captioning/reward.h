// SPDX-License-Identifier: Apache-2.0
// CIDEr-D as the reward of captions drawn from the network.
#pragma once

#include <ATen/core/ivalue.h>  // before any other torch header
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <vector>

#include "captioning/data/collate.h"
#include "captioning/metrics/cider.h"

namespace lockstep::captioning {

/// The document frequencies of a training set's references, each truncated as in training, with its final 0. cache: the
/// file from which they are read, or to which they are written if it is missing; empty means no file.
/// Throws: UsageError if the set is empty; DataError if the file is not valid, or belongs to different captions or ids;
///         IoError.
[[nodiscard]] std::shared_ptr<const DocumentFrequencies> frequencies_of(const CaptionDataset& set,
                                                                        const std::filesystem::path& cache);

/// Scores captions against the annotators' captions of the same images, over word ids with the final 0, so that an end
/// at the right position is rewarded. Thread-safe: yes.
class Reward {
 public:
  explicit Reward(std::shared_ptr<const DocumentFrequencies> frequencies) : cider_(std::move(frequencies)) {}

  /// Returns the rewards. Shapes: words int64 [B * S, T], image by image, on any device; to float32 [B * S] on the CPU.
  /// Cost: docs/design/captioning.md.
  [[nodiscard]] at::Tensor operator()(const at::Tensor& words, const CaptionBatch& batch) const;

 private:
  CiderD cider_;
};

}  // namespace lockstep::captioning
