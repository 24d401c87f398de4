// SPDX-License-Identifier: Apache-2.0
// The losses of captioning: the cross entropy of annotators' words, and the self-critical loss of the network's words.
#pragma once

#include <ATen/core/ivalue.h>  // before any other torch header
#include <ATen/core/Tensor.h>

#include <cstdint>

namespace lockstep::captioning {

/// The mean cross entropy over the targets. With `smoothing`, the Kullback-Leibler divergence from a distribution that
/// gives the target 1 - smoothing and every other word an equal part of the rest; its minimum is 0.
///
/// Shapes: logits [N, T, V], any float dtype; targets int64 [N, T], -1 for targets to skip; to a float32 scalar. On a
/// device, the host does not wait: rows with a skipped target are also computed, but excluded from the mean.
/// Throws: UsageError if all targets are skipped; on a device, the loss is NaN instead.
/// Source: Szegedy et al., Rethinking the Inception Architecture, 2016, section 7, as in the original code: the rest is
///         spread over V - 1 words.
[[nodiscard]] at::Tensor word_loss(const at::Tensor& logits, const at::Tensor& targets, double smoothing);

/// The baseline of a sample's reward: the mean of the image's other samples.
/// Shapes: rewards [B, S], S at least 2; to [B, S].
/// Source: Kool et al., Buy 4 REINFORCE Samples, Get a Baseline for Free, 2019.
[[nodiscard]] at::Tensor mean_of_others(const at::Tensor& rewards);

/// A batch of captions drawn from the network.
struct SampledCaptions {
  at::Tensor words;      ///< int64 [N, T], from sample()
  at::Tensor chosen;     ///< bool [N, T]: true for the network's own choices, including each caption's first 0
  at::Tensor reward;     ///< float [N]
  at::Tensor advantage;  ///< float [N]: the reward minus its baseline
};

/// A scalar whose gradient is the policy gradient, the gradient of -sum(log p(word) * advantage) / sum(chosen). Its
/// value is the negative mean reward, which decreases as captions improve; the sum itself would stay near 0.
///
/// Shapes: logits [N, T, V] of `words` under teacher forcing; to a float32 scalar.
/// Source: Rennie et al., Self-Critical Sequence Training for Image Captioning, 2017.
[[nodiscard]] at::Tensor self_critical_loss(const at::Tensor& logits, const SampledCaptions& samples);

}  // namespace lockstep::captioning
