// SPDX-License-Identifier: Apache-2.0
// Captions from a network: the likeliest word each time, words drawn at random, or the best of several by beam search.
// Everything runs without gradients and in the mode (training or evaluation) that the caller has set.
#pragma once

#include <ATen/core/ivalue.h>  // before any other torch header
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>

#include "captioning/model/model.h"

namespace lockstep::captioning {

/// A language model that reads one word a row and says what comes next: what searches need of a Captioner, and what
/// tests write down as a table.
struct Speaker {
  std::int64_t rows = 0;     ///< N, rows of words
  at::TensorOptions device;  ///< where `words` shall lie
  /// Reads `words` (int64 [N]) and gives log-probabilities [N, V] of the next.
  std::function<at::Tensor(const at::Tensor& words)> step;
  /// Row i becomes what row rows[i] (int64 [N]) was.
  std::function<void(const at::Tensor& rows)> select;
};

/// Both live as long as the Speaker does.
[[nodiscard]] Speaker speaker_of(Captioner& model, const Memory& memory);

/// Captions come as int64 [N, T], T = max_words + 1: words, then 0 and nothing but 0. A caption that has max_words
/// words is ended there: the 0 in the last column is never the network's own choice. Throws (all of them): UsageError
/// where max_words or beam is below 1.

/// The likeliest word each time, of equal ones that with the lower id; memory.rows() rows.
[[nodiscard]] at::Tensor greedy(Captioner& model, const Memory& memory, std::int64_t max_words);
[[nodiscard]] at::Tensor greedy(Speaker& speaker, std::int64_t max_words);

/// Captions with the log-probability of each word.
struct Said {
  at::Tensor words;      ///< int64 [N, T]
  at::Tensor log_probs;  ///< float32 [N, T - 1], 0 after the end of a caption
};

/// greedy()'s captions, in max_words steps whatever the network says: what a tracer can record.
[[nodiscard]] Said greedy_in_all_steps(Captioner& model, const Memory& memory, std::int64_t max_words);

/// Words drawn from the distribution; memory.rows() rows, so repeat the memory for several captions of each picture.
/// The random numbers are [N, max_words] float64 drawn at the start from libtorch's generator of the device, whatever
/// the network says: how many are taken does not depend on when captions end. Log-probabilities that are no numbers
/// give words as well, so that it is the loss that is found not to be finite.
[[nodiscard]] at::Tensor sample(Captioner& model, const Memory& memory, std::int64_t max_words);
[[nodiscard]] at::Tensor sample(Speaker& speaker, std::int64_t max_words);

/// Which words of captions the search has chosen: true up to the first 0 of a row, that one included, but never in the
/// last column. The mean of a sampled caption's reward runs over these.
/// Shapes: int64 [N, T] to bool [N, T].
[[nodiscard]] at::Tensor chosen(const at::Tensor& words);

struct BeamOptions {
  std::int64_t beam = 3;
  std::int64_t max_words = 16;
};

/// The caption with the largest sum of log-probabilities, that of its final 0 included and with no correction for its
/// length, among those that the beam keeps; one row for each of memory.rows().
///
/// beam 1 gives greedy()'s captions; a beam of at least as many rows as there are beginnings of captions of any one
/// length gives the best of all captions. In between nothing is promised: a wider beam can lose the better caption.
/// Of equal sums the lower place in the beam goes first, then the lower word id, so that the same log-probabilities
/// always give the same captions.
/// Cost: one step of memory.rows() * beam rows a word; ends when the best of every row has ended.
[[nodiscard]] at::Tensor beam_search(Captioner& model, const Memory& memory, const BeamOptions& options = {});
/// Over `speaker.rows` / beam captions: row b * beam + k is place k of caption b.
[[nodiscard]] at::Tensor beam_search(Speaker& speaker, const BeamOptions& options = {});

}  // namespace lockstep::captioning
