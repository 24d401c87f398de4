// SPDX-License-Identifier: Apache-2.0
#include "captioning/model/search.h"

#include <ATen/ops/cumsum.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/searchsorted.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <fmt/format.h>

#include <memory>
#include <optional>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/optim/autocast.h"

namespace lockstep::captioning {
namespace {

// A factor such that a number below 1, times this factor and a sum, stays below that sum after rounding.
constexpr double kBelowOne = 1 - 0x1p-52;

/// Detects when every caption has ended. It polls a device without waiting, so it may be a few words late; words after
/// the end are 0 in any case.
class EndOfAll {
 public:
  bool reached(const at::Tensor& ended) {
    if (ended.is_cpu()) return ended.all().item<bool>();
    if (copied_ && !copied_->query()) return false;
    if (copied_ && answer_.item<bool>()) return true;
    ask(ended);
    return false;
  }

 private:
  void ask(const at::Tensor& ended) {
    answer_ = at::empty({}, at::TensorOptions().dtype(at::kBool).pinned_memory(true));
    answer_.copy_(ended.all(), /*non_blocking=*/true);
    const c10::Device device = ended.device();
    copied_.emplace(device.type());
    copied_->record(c10::impl::VirtualGuardImpl(device.type()).getStream(device));
  }

  at::Tensor answer_;
  std::optional<c10::Event> copied_;
};

/// Appends words until every caption has ended: `choose(log-probabilities, index of the word)` returns int64 [N].
template <class Choose>
at::Tensor say(Speaker& speaker, std::int64_t max_words, const Choose& choose) {
  if (max_words < 1) throw UsageError(fmt::format("captions must have at least 1 word, not {}", max_words));
  const at::TensorOptions ids = speaker.device.dtype(at::kLong);
  const at::Tensor words = at::zeros({speaker.rows, max_words + 1}, ids);
  at::Tensor now = at::zeros({speaker.rows}, ids);
  at::Tensor ended = at::zeros({speaker.rows}, ids.dtype(at::kBool));
  EndOfAll end;
  for (std::int64_t i = 0; i < max_words; ++i) {
    now = choose(speaker.step(now), i).masked_fill(ended, 0);
    words.select(1, i).copy_(now);
    ended = ended.logical_or(now.eq(0));
    if (i + 1 < max_words && end.reached(ended)) break;
  }
  return words;
}

}  // namespace

Speaker speaker_of(Captioner& model, const Memory& memory) {
  auto state = std::make_shared<DecoderState>(model.start(memory));
  return {.rows = memory.rows(),
          .device = memory.tokens.options(),
          .step = [&model, &memory, state](const at::Tensor& words) { return model.step(memory, *state, words); },
          .select = [state](const at::Tensor& rows) { *state = select_rows(*state, rows); }};
}

at::Tensor greedy(Speaker& speaker, std::int64_t max_words) {
  const NoGrad no_grad;
  return say(speaker, max_words, [](const at::Tensor& log_probs, std::int64_t) { return log_probs.argmax(1); });
}

at::Tensor greedy(Captioner& model, const Memory& memory, std::int64_t max_words) {
  const NoGrad no_grad;
  Speaker speaker = speaker_of(model, memory);
  return greedy(speaker, max_words);
}

Said greedy_in_all_steps(Captioner& model, const Memory& memory, std::int64_t max_words) {
  const NoGrad no_grad;
  if (max_words < 1) throw UsageError(fmt::format("captions must have at least 1 word, not {}", max_words));
  DecoderState state = model.start(memory);
  at::Tensor now = at::zeros({memory.rows()}, memory.tokens.options().dtype(at::kLong));
  at::Tensor ended = at::zeros({memory.rows()}, now.options().dtype(at::kBool));
  std::vector<at::Tensor> words;
  std::vector<at::Tensor> log_probs;
  for (std::int64_t i = 0; i < max_words; ++i) {
    const at::Tensor next = model.step(memory, state, now);
    now = next.argmax(1).masked_fill(ended, 0);
    words.push_back(now);
    log_probs.push_back(next.gather(1, now.unsqueeze(1)).squeeze(1).masked_fill(ended, 0));
    ended = ended.logical_or(now.eq(0));
  }
  words.push_back(at::zeros_like(now));
  return {.words = at::stack(words, 1), .log_probs = at::stack(log_probs, 1)};
}

at::Tensor sample(Speaker& speaker, std::int64_t max_words) {
  const NoGrad no_grad;
  if (max_words < 1) throw UsageError(fmt::format("captions must have at least 1 word, not {}", max_words));
  const at::Tensor uniform = at::rand({speaker.rows, max_words}, speaker.device.dtype(at::kDouble)).mul_(kBelowOne);
  return say(speaker, max_words, [&](const at::Tensor& log_probs, std::int64_t i) {
    // Takes the word whose part of 0 .. 1 contains the random number.
    const at::Tensor sums = at::cumsum(log_probs.exp(), 1, at::kDouble);
    const at::Tensor wanted = uniform.narrow(1, i, 1) * sums.narrow(1, sums.size(1) - 1, 1);
    // With NaN probabilities, there is no such word; the last word is taken, so that the loss can report the NaN.
    return at::searchsorted(sums, wanted, /*out_int32=*/false, /*right=*/true).squeeze(1).clamp_max(sums.size(1) - 1);
  });
}

at::Tensor sample(Captioner& model, const Memory& memory, std::int64_t max_words) {
  const NoGrad no_grad;
  Speaker speaker = speaker_of(model, memory);
  return sample(speaker, max_words);
}

at::Tensor chosen(const at::Tensor& words) {
  const at::Tensor ends = words.eq(0).to(at::kLong);
  const at::Tensor mask = ends.cumsum(1).sub_(ends).eq(0);
  mask.select(1, words.size(1) - 1).fill_(false);
  return mask;
}

}  // namespace lockstep::captioning
