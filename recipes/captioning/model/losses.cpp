// SPDX-License-Identifier: Apache-2.0
#include "captioning/model/losses.h"

#include <ATen/ops/index_select.h>
#include <ATen/ops/log_softmax.h>
#include <ATen/ops/nonzero.h>
#include <ATen/TensorOperators.h>

#include <cmath>

#include "lockstep/base/error.h"

namespace lockstep::captioning {
namespace {

/// The rows that are not skipped: their log-probabilities [M, V] and their words [M].
class Counted {
 public:
  Counted(const at::Tensor& logits, const at::Tensor& words, const at::Tensor& counts) {
    if (!logits.is_cpu()) {
      take_all(logits, words, counts);
      return;
    }
    rows_ = at::nonzero(counts.flatten()).flatten();
    if (rows_.numel() == 0) throw UsageError("no word in the batch counts: every target is -1");
    log_probs_ = at::log_softmax(logits.flatten(0, 1).index_select(0, rows_).to(at::kFloat), -1);
    words_ = words.flatten().index_select(0, rows_);
  }

  [[nodiscard]] const at::Tensor& log_probs() const { return log_probs_; }
  [[nodiscard]] at::Tensor of_words() const { return log_probs_.gather(1, words_.unsqueeze(1)).squeeze(1); }
  /// Returns the same rows of a tensor [N, T].
  [[nodiscard]] at::Tensor of(const at::Tensor& values) const {
    return rows_.defined() ? values.flatten().index_select(0, rows_) : values.flatten();
  }
  /// The mean over the rows that are not skipped.
  [[nodiscard]] at::Tensor mean(const at::Tensor& by_row) const {
    return rows_.defined() ? by_row.mean() : by_row.masked_fill(left_out_, 0).sum() / count_;
  }

 private:
  /// Keeps all rows and lets mean() skip some: on a device, the host would have to wait for the number of rows.
  void take_all(const at::Tensor& logits, const at::Tensor& words, const at::Tensor& counts) {
    log_probs_ = at::log_softmax(logits.flatten(0, 1).to(at::kFloat), -1);
    words_ = words.flatten().clamp_min(0);
    left_out_ = counts.flatten().logical_not();
    count_ = counts.sum();
  }

  at::Tensor log_probs_;
  at::Tensor words_;
  at::Tensor rows_;  ///< indices of the rows; undefined means all rows
  at::Tensor left_out_;
  at::Tensor count_;
};

}  // namespace

at::Tensor word_loss(const at::Tensor& logits, const at::Tensor& targets, double smoothing) {
  const Counted rows(logits, targets, targets.ge(0));
  const at::Tensor of_target = rows.of_words();
  if (smoothing <= 0) return -rows.mean(of_target);
  const double rest = smoothing / static_cast<double>(logits.size(-1) - 1);
  const double entropy = (1 - smoothing) * std::log(1 - smoothing) + smoothing * std::log(rest);
  const at::Tensor of_others = rows.log_probs().sum(1) - of_target;
  return entropy - rows.mean((1 - smoothing) * of_target + rest * of_others);
}

at::Tensor mean_of_others(const at::Tensor& rewards) {
  const std::int64_t samples = rewards.size(1);
  if (samples < 2) throw UsageError("an image has only one sample, so there are no others", "self_critical.samples=5");
  return (rewards.sum(1, true) - rewards) / static_cast<double>(samples - 1);
}

at::Tensor self_critical_loss(const at::Tensor& logits, const SampledCaptions& samples) {
  const Counted rows(logits, samples.words, samples.chosen);
  const at::Tensor weight = rows.of(samples.advantage.unsqueeze(1).expand_as(samples.words));
  const at::Tensor policy = -rows.mean(rows.of_words() * weight);
  return policy - policy.detach() - samples.reward.mean();
}

}  // namespace lockstep::captioning
