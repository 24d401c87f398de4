// SPDX-License-Identifier: Apache-2.0
// IDX files, such as MNIST's, as tensors written directly into the batch.
#pragma once

#include "lockstep/data/dataset.h"
#include "lockstep/data/sources/idx.h"

#pragma GCC visibility push(default)

namespace lockstep {

/// Yields images as float32 C x H x W in 0 .. 1, and labels as int64 if there are labels.
/// Example: DataLoader loader{IdxDataset({"train-images-idx3-ubyte.gz", "train-labels-idx1-ubyte.gz"}), job, {}};
class IdxDataset final : public FixedShapeDataset {
 public:
  /// Throws: anything IdxImages throws.
  explicit IdxDataset(const IdxPaths& paths) : images_(paths.images, paths.labels) {}

  [[nodiscard]] std::int64_t size() const override { return images_.size(); }
  [[nodiscard]] SampleSpec spec() const override;
  void get_into(std::int64_t index, SampleContext& context, SampleSlot slot) override;

 private:
  IdxImages images_;
};

}  // namespace lockstep

#pragma GCC visibility pop
