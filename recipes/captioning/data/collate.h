// SPDX-License-Identifier: Apache-2.0
// Collates samples of a CaptionDataset into a batch: features of different lengths are padded.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "captioning/data/dataset.h"
#include "lockstep/data/collate.h"

namespace lockstep::captioning {

/// Batch::extra.
struct CaptionBatch {
  std::vector<std::int64_t> lengths;  ///< rows of each sample's features; empty for images
  std::int64_t words = 0;             ///< number of target columns that hold a word of any caption; 0 without a target
  std::vector<std::shared_ptr<const ImageCaptions>> images;
};

/// Returns the function that builds Batch::data [B, 3, H, W], or [B, Lmax, D] with zeros after each sample's own rows;
/// Batch::target [B, 2, S, T], undefined if the samples have none; Batch::extra: CaptionBatch. Thread-safe: yes.
[[nodiscard]] Collate collate();

}  // namespace lockstep::captioning
