// SPDX-License-Identifier: Apache-2.0
// Beam search over all captions of a batch at once. Only one bool per word is read back from the device.
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include <limits>
#include <vector>

#include "captioning/model/search.h"
#include "lockstep/base/error.h"
#include "lockstep/optim/autocast.h"

namespace lockstep::captioning {
namespace {

constexpr double kNever = -std::numeric_limits<double>::infinity();

void check_options(const BeamOptions& options) {
  if (options.beam < 1 || options.max_words < 1) {
    throw UsageError(fmt::format("beam search with beam size {} and {} words; both must be at least 1", options.beam,
                                 options.max_words));
  }
}

/// The beams of B captions, with K candidates each, best first.
struct Beam {
  at::Tensor words;   // int64 [B, K, T]
  at::Tensor scores;  // [B, K], sums of log-probabilities
  at::Tensor ended;   // bool [B, K]
};

Beam empty_beam(const Speaker& speaker, const BeamOptions& options) {
  const std::int64_t captions = speaker.rows / options.beam;
  const at::TensorOptions ids = speaker.device.dtype(at::kLong);
  return {.words = at::zeros({captions, options.beam, options.max_words + 1}, ids),
          .scores = {},
          .ended = at::zeros({captions, options.beam}, ids.dtype(at::kBool))};
}

/// Sums of log-probabilities, at least in float32. Initially, all candidates of a beam are equal, so only one counts.
at::Tensor sums_of(const Beam& beam, const at::Tensor& log_probs) {
  const at::Tensor sums = log_probs.scalar_type() == at::kDouble ? log_probs : log_probs.to(at::kFloat);
  const at::Tensor next = sums.view({beam.ended.size(0), beam.ended.size(1), -1});
  if (beam.scores.defined()) return beam.scores.unsqueeze(2) + next;
  at::Tensor first = at::full_like(next, kNever);
  first.select(1, 0).copy_(next.select(1, 0));
  return first;
}

/// Chooses the best K of the K * V continuations, as indices of candidate and word. Among equal values, argmax returns
/// the first, so the lower candidate and then the lower word win; topk does not guarantee an order.
void choose(const at::Tensor& candidates, std::int64_t beam, at::Tensor& scores, at::Tensor& picked) {
  std::vector<at::Tensor> values;
  std::vector<at::Tensor> places;
  for (std::int64_t k = 0; k < beam; ++k) {
    const at::Tensor at = candidates.argmax(1, /*keepdim=*/true);
    values.push_back(candidates.gather(1, at));
    places.push_back(at);
    if (k + 1 < beam) candidates.scatter_(1, at, kNever);
  }
  scores = at::cat(values, 1);
  picked = at::cat(places, 1);
}

/// Extends each caption by one word, or ends it. Returns the row that each candidate came from, int64 [B * K].
at::Tensor lengthen(Beam& beam, const at::Tensor& log_probs, std::int64_t at) {
  const std::int64_t places = beam.ended.size(1);
  const at::Tensor sums = sums_of(beam, log_probs);
  const std::int64_t vocabulary = sums.size(2);
  if (at > 0) {
    // A finished caption continues with one more 0 at no cost. Its other continuations have far lower sums, so they
    // never displace a caption that could win.
    sums.select(2, 0).copy_(at::where(beam.ended, beam.scores, sums.select(2, 0)));
  }
  at::Tensor picked;
  choose(sums.view({-1, places * vocabulary}), places, beam.scores, picked);
  const at::Tensor from = picked.div(vocabulary, "floor");
  const at::Tensor word = picked.remainder(vocabulary);
  beam.ended = beam.ended.gather(1, from).logical_or(word.eq(0));
  beam.words = beam.words.gather(1, from.unsqueeze(2).expand_as(beam.words));
  beam.words.select(2, at).copy_(word);
  const at::Tensor first = at::arange(0, beam.ended.numel(), places, from.options()).unsqueeze(1);
  return (from + first).view(-1);
}

}  // namespace

at::Tensor beam_search(Speaker& speaker, const BeamOptions& options) {
  check_options(options);
  const NoGrad no_grad;
  Beam beam = empty_beam(speaker, options);
  at::Tensor now = at::zeros({speaker.rows}, beam.words.options());
  bool over = false;
  for (std::int64_t i = 0; i < options.max_words && !over; ++i) {
    const at::Tensor rows = lengthen(beam, speaker.step(now), i);
    now = beam.words.select(2, i).reshape(-1);
    // Sums only decrease, so once the best caption has ended, it stays the best.
    over = beam.ended.select(1, 0).all().item<bool>();
    if (!over) speaker.select(rows);
  }
  if (!over) {
    const at::Tensor ends = sums_of(beam, speaker.step(now)).select(2, 0);
    beam.scores = at::where(beam.ended, beam.scores, ends);
  }
  const at::Tensor best = beam.scores.argmax(1).view({-1, 1, 1}).expand({-1, 1, beam.words.size(2)});
  return beam.words.gather(1, best).squeeze(1);
}

at::Tensor beam_search(Captioner& model, const Memory& memory, const BeamOptions& options) {
  check_options(options);
  const NoGrad no_grad;
  const Memory rows = repeated(memory, options.beam);
  Speaker speaker = speaker_of(model, rows);
  return beam_search(speaker, options);
}

}  // namespace lockstep::captioning
