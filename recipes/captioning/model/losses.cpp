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

/// The rows that count: their log-probabilities [M, V] and their words [M].
struct Counted {
  at::Tensor log_probs;
  at::Tensor words;
};

Counted counted(const at::Tensor& logits, const at::Tensor& words, const at::Tensor& counts) {
  const at::Tensor rows = at::nonzero(counts.flatten()).flatten();
  if (rows.numel() == 0) throw UsageError("no word of the batch counts: every target is -1");
  const at::Tensor picked = logits.flatten(0, 1).index_select(0, rows);
  return {at::log_softmax(picked.to(at::kFloat), -1), words.flatten().index_select(0, rows)};
}

at::Tensor of_words(const Counted& rows) { return rows.log_probs.gather(1, rows.words.unsqueeze(1)).squeeze(1); }

}  // namespace

at::Tensor word_loss(const at::Tensor& logits, const at::Tensor& targets, double smoothing) {
  const Counted rows = counted(logits, targets, targets.ge(0));
  const at::Tensor of_target = of_words(rows);
  if (smoothing <= 0) return -of_target.mean();
  const double rest = smoothing / static_cast<double>(logits.size(-1) - 1);
  const double entropy = (1 - smoothing) * std::log(1 - smoothing) + smoothing * std::log(rest);
  const at::Tensor of_others = rows.log_probs.sum(1) - of_target;
  return entropy - ((1 - smoothing) * of_target + rest * of_others).mean();
}

at::Tensor mean_of_others(const at::Tensor& rewards) {
  const std::int64_t samples = rewards.size(1);
  if (samples < 2) throw UsageError("an image has one sample only, and so no others", "self_critical.samples=5");
  return (rewards.sum(1, true) - rewards) / static_cast<double>(samples - 1);
}

at::Tensor self_critical_loss(const at::Tensor& logits, const SampledCaptions& samples) {
  const Counted rows = counted(logits, samples.words, samples.chosen);
  const at::Tensor weight = samples.advantage.unsqueeze(1).expand_as(samples.words).masked_select(samples.chosen);
  const at::Tensor policy = -(of_words(rows) * weight).mean();
  return policy - policy.detach() - samples.reward.mean();
}

}  // namespace lockstep::captioning
