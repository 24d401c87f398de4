// SPDX-License-Identifier: Apache-2.0
// Scores for the labels read: counts summed over batches and ranks, and the metrics derived from them. N batch, L
// characters, C classes.
#pragma once

#include <ATen/core/ivalue.h>  // before any other torch header
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/train/task.h"

namespace lockstep::captcha {

/// Returns the most likely class of each character. Shapes: logits N(L*C), result NL int64.
[[nodiscard]] at::Tensor decode(const at::Tensor& logits, std::int64_t classes);

/// Returns the counts {strings, strings read correctly, then the CxC table of (true, read) characters}, float64.
/// Shapes: logits N(L*C), target NL int64, result 2 + C*C.
[[nodiscard]] at::Tensor count_reads(const at::Tensor& logits, const at::Tensor& target_NL, std::int64_t classes);

/// Returns string_accuracy and char_accuracy, each 0..1 (0 if nothing was counted).
[[nodiscard]] std::vector<Metric> read_metrics(const at::Tensor& counts);

/// Returns the most frequent character confusions, one per line.
[[nodiscard]] std::string confusions(const at::Tensor& counts, const std::string& characters, std::size_t limit = 10);

}  // namespace lockstep::captcha
