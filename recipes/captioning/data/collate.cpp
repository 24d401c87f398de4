// SPDX-License-Identifier: Apache-2.0
#include "captioning/data/collate.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/stack.h>
#include <ATen/TensorOperators.h>

#include <algorithm>
#include <any>
#include <cstring>
#include <utility>

namespace lockstep::captioning {
namespace {

/// Stacks samples [L, D] into [B, Lmax, D], padded with zeros after each sample's rows.
at::Tensor padded_features(const std::vector<Sample>& samples, std::vector<std::int64_t>& lengths) {
  for (const Sample& sample : samples) lengths.push_back(sample.data.size(0));
  const std::int64_t longest = *std::ranges::max_element(lengths);
  const std::int64_t width = samples.front().data.size(1);
  at::Tensor data = at::empty({std::ssize(samples), longest, width}, samples.front().data.options());
  auto* to = data.data_ptr<float>();
  for (const Sample& sample : samples) {
    const std::int64_t own = sample.data.numel();
    std::copy_n(sample.data.data_ptr<float>(), own, to);
    std::fill_n(to + own, longest * width - own, 0.0F);
    to += longest * width;
  }
  return data;
}

at::Tensor stacked(const std::vector<Sample>& samples, at::Tensor Sample::*part) {
  std::vector<at::Tensor> rows;
  rows.reserve(samples.size());
  for (const Sample& sample : samples) rows.push_back(sample.*part);
  return at::stack(rows);
}

/// The number of columns of [B, 2, S, T] that the longest caption takes up, including its end. Counted here, while the
/// target is still in host memory.
std::int64_t longest_of(const at::Tensor& target) {
  return target.select(1, 1).ge(0).sum(2).max().item<std::int64_t>();
}

Batch caption_batch(const std::vector<Sample>& samples) {
  Batch batch;
  CaptionBatch extra;
  for (const Sample& sample : samples) {
    extra.images.push_back(std::any_cast<std::shared_ptr<const ImageCaptions>>(sample.extra));
  }
  const bool features = samples.front().data.dim() == 2;
  batch.data = features ? padded_features(samples, extra.lengths) : stacked(samples, &Sample::data);
  if (samples.front().target.defined()) {
    batch.target = stacked(samples, &Sample::target);
    extra.words = longest_of(batch.target);
  }
  batch.extra = std::move(extra);
  return batch;
}

}  // namespace

Collate collate() {
  return [](const std::vector<Sample>& samples) { return caption_batch(samples); };
}

}  // namespace lockstep::captioning
