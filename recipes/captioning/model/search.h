// SPDX-License-Identifier: Apache-2.0
// Captions from a network: by the likeliest word each time, by words drawn at random, or the best of several by beam
// search. All run without gradients, in the mode (training or evaluation) set by the caller.
#pragma once

#include <ATen/core/ivalue.h>  // before any other torch header
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>

#include "captioning/model/model.h"

namespace lockstep::captioning {

/// A language model that reads one word per row and predicts the next: the interface of a Captioner to the searches. In
/// tests it is a table.
struct Speaker {
  std::int64_t rows = 0;     ///< N, rows of words
  at::TensorOptions device;  ///< the place of `words`
  /// Reads `words` (int64 [N]) and returns log-probabilities [N, V] of the next.
  std::function<at::Tensor(const at::Tensor& words)> step;
  /// Replaces row i by row rows[i] (int64 [N]).
  std::function<void(const at::Tensor& rows)> select;
};

/// Lifetime: both arguments outlive the Speaker.
[[nodiscard]] Speaker speaker_of(Captioner& model, const Memory& memory);

/// Captions are int64 [N, T], T = max_words + 1: words, then only 0. A caption of max_words words is cut off there: the
/// 0 in the last column is never the network's own choice. Throws (all functions): UsageError if max_words or beam is
/// below 1.

/// The likeliest word each time, the lower id in a tie; memory.rows() rows.
[[nodiscard]] at::Tensor greedy(Captioner& model, const Memory& memory, std::int64_t max_words);
[[nodiscard]] at::Tensor greedy(Speaker& speaker, std::int64_t max_words);

/// Captions with the log-probability of each word.
struct Said {
  at::Tensor words;      ///< int64 [N, T]
  at::Tensor log_probs;  ///< float32 [N, T - 1], 0 after the end of a caption
};

/// greedy()'s captions in exactly max_words steps, which a tracer can record.
[[nodiscard]] Said greedy_in_all_steps(Captioner& model, const Memory& memory, std::int64_t max_words);

/// Draws words from the distribution; memory.rows() rows, so repeat the memory for several captions of each picture.
/// The random numbers are [N, max_words] float64, drawn at the start from libtorch's generator of the device: their
/// count does not depend on the captions' lengths. NaN log-probabilities yield words as well, so that the loss is found
/// not to be finite.
[[nodiscard]] at::Tensor sample(Captioner& model, const Memory& memory, std::int64_t max_words);
[[nodiscard]] at::Tensor sample(Speaker& speaker, std::int64_t max_words);

/// Marks the words that the search chose: true up to and including the first 0 of a row, but never in the last column.
/// The mean of a sampled caption's reward is over these.
/// Shapes: int64 [N, T] to bool [N, T].
[[nodiscard]] at::Tensor chosen(const at::Tensor& words);

struct BeamOptions {
  std::int64_t beam = 3;
  std::int64_t max_words = 16;
};

/// The caption with the largest sum of log-probabilities, including its final 0 and without a correction for length,
/// among those that the beam keeps; one row for each of memory.rows().
///
/// With beam 1 these are greedy()'s captions; with at least as many places as there are prefixes of captions of any one
/// length, the best of all captions. Between them nothing is guaranteed: a wider beam can lose the better caption. In a
/// tie the lower place in the beam wins, then the lower word id, so that the same log-probabilities always give the
/// same captions.
/// Cost: one step of memory.rows() * beam rows per word; ends when the best of every row has ended.
[[nodiscard]] at::Tensor beam_search(Captioner& model, const Memory& memory, const BeamOptions& options = {});
/// Over `speaker.rows` / beam captions: row b * beam + k is place k of caption b.
[[nodiscard]] at::Tensor beam_search(Speaker& speaker, const BeamOptions& options = {});

}  // namespace lockstep::captioning
