// SPDX-License-Identifier: Apache-2.0
// Finds captions with a network: greedily, by sampling, or by beam search. All searches run without gradients, in the
// mode (training or evaluation) that the caller has set.
#pragma once

#include <ATen/core/ivalue.h>  // before any other torch header
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>

#include "captioning/model/model.h"

namespace lockstep::captioning {

/// A language model that reads one word per row and predicts the next: the interface through which the searches use a
/// Captioner. Tests use a table instead.
struct Speaker {
  std::int64_t rows = 0;     ///< number N of word rows
  at::TensorOptions device;  ///< device of `words`
  /// Reads `words` (int64 [N]) and returns the log-probabilities [N, V] of the next word.
  std::function<at::Tensor(const at::Tensor& words)> step;
  /// Replaces row i with row rows[i] (int64 [N]).
  std::function<void(const at::Tensor& rows)> select;
};

/// Lifetime: both arguments outlive the Speaker.
[[nodiscard]] Speaker speaker_of(Captioner& model, const Memory& memory);

/// Captions are int64 [N, T], T = max_words + 1: words, then zeros. A caption ends after max_words words: the 0 in the
/// last column is never the network's own choice. Throws (all functions): UsageError if max_words or beam is below 1.

/// Takes the most likely word in each step; ties go to the lower id. Returns memory.rows() rows.
[[nodiscard]] at::Tensor greedy(Captioner& model, const Memory& memory, std::int64_t max_words);
[[nodiscard]] at::Tensor greedy(Speaker& speaker, std::int64_t max_words);

/// Captions with the log-probability of each word.
struct Said {
  at::Tensor words;      ///< int64 [N, T]
  at::Tensor log_probs;  ///< float32 [N, T - 1], 0 after the end of a caption
};

/// Returns greedy()'s captions, but in exactly max_words steps, so that a tracer can record them.
[[nodiscard]] Said greedy_in_all_steps(Captioner& model, const Memory& memory, std::int64_t max_words);

/// Draws words from the distribution. Returns memory.rows() rows: repeat the memory for several captions per image. The
/// random numbers are [N, max_words] float64, drawn at the start from the device's libtorch generator, so their count
/// does not depend on the captions' lengths. NaN log-probabilities yield words as well, so that the loss is detected as
/// non-finite.
[[nodiscard]] at::Tensor sample(Captioner& model, const Memory& memory, std::int64_t max_words);
[[nodiscard]] at::Tensor sample(Speaker& speaker, std::int64_t max_words);

/// Marks the words that the search chose: true up to and including the first 0 of a row, but never in the last column.
/// The self-critical loss averages over these words. Shapes: int64 [N, T] to bool [N, T].
[[nodiscard]] at::Tensor chosen(const at::Tensor& words);

struct BeamOptions {
  std::int64_t beam = 3;
  std::int64_t max_words = 16;
};

/// Returns the caption with the largest sum of log-probabilities among the captions in the beam, for each of
/// memory.rows(). The sum includes the final 0 and is not normalised by length.
///
/// With beam 1 the result is greedy()'s captions; with a beam at least as wide as the number of prefixes of any one
/// length, it is the best of all captions. Widths in between guarantee nothing: a wider beam can lose the better
/// caption. In a tie, the lower index in the beam wins, then the lower word id, so the same log-probabilities always
/// give the same captions.
/// Cost: one step of memory.rows() * beam rows per word; ends when the best caption of every row has ended.
[[nodiscard]] at::Tensor beam_search(Captioner& model, const Memory& memory, const BeamOptions& options = {});
/// Searches for `speaker.rows` / beam captions: row b * beam + k is candidate k of caption b.
[[nodiscard]] at::Tensor beam_search(Speaker& speaker, const BeamOptions& options = {});

}  // namespace lockstep::captioning
