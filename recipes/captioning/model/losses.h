// SPDX-License-Identifier: Apache-2.0
// What captioning is trained with: cross entropy with people's words, and the self-critical loss of the network's own.
#pragma once

#include <ATen/core/ivalue.h>  // before any other torch header
#include <ATen/core/Tensor.h>

#include <cstdint>

namespace lockstep::captioning {

/// Mean over the targets of cross entropy; with `smoothing` the Kullback-Leibler divergence from a distribution that
/// gives the target 1 - smoothing and every other word an equal part of the rest, which is 0 at its best.
///
/// Shapes: logits [N, T, V], any float dtype; targets int64 [N, T], -1 where nothing counts; to a float32 scalar.
/// On a device the host does not wait: rows that do not count are computed too, and left out of the mean.
/// Throws: UsageError where no target counts; on a device the loss is then not a number.
/// Source: Szegedy et al., Rethinking the Inception Architecture, 2016, section 7, as the origin has it: the rest is
///         spread over V - 1 words.
[[nodiscard]] at::Tensor word_loss(const at::Tensor& logits, const at::Tensor& targets, double smoothing);

/// What a sample's reward is compared with: the mean of the image's other samples.
/// Shapes: rewards [B, S], S at least 2; to [B, S].
/// Source: Kool et al., Buy 4 REINFORCE Samples, Get a Baseline for Free, 2019.
[[nodiscard]] at::Tensor mean_of_others(const at::Tensor& rewards);

/// One batch of captions that the network has drawn.
struct SampledCaptions {
  at::Tensor words;      ///< int64 [N, T], as sample() gives them
  at::Tensor chosen;     ///< bool [N, T]: the network's own choices, the first 0 of each among them
  at::Tensor reward;     ///< float [N]
  at::Tensor advantage;  ///< float [N]: reward less its baseline
};

/// A scalar whose gradient is that of the policy gradient: -sum(log p(word) * advantage) / sum(chosen), and whose value
/// is minus the mean reward: what is shown of it falls as captions become better, where the sum itself stays near 0.
///
/// Shapes: logits [N, T, V] of `words` under teacher forcing; to a float32 scalar.
/// Source: Rennie et al., Self-Critical Sequence Training for Image Captioning, 2017.
[[nodiscard]] at::Tensor self_critical_loss(const at::Tensor& logits, const SampledCaptions& samples);

}  // namespace lockstep::captioning
