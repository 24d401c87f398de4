// SPDX-License-Identifier: Apache-2.0
#include "train/step/ordered_fault.h"

#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "lockstep/base/env.h"
#include "lockstep/base/error.h"
#include "lockstep/base/fault.h"
#include "lockstep/base/log.h"
#include "lockstep/base/number.h"
#include "lockstep/base/split.h"
#include "lockstep/tensor/random.h"

namespace lockstep::train {
namespace {

constexpr std::array kKinds = {"batch", "weight", "activation", "gradient", "optimizer"};

[[noreturn]] void refuse(const std::string& text) {
  throw UsageError(
      fmt::format("LOCKSTEP_FAULT is '{}'", text),
      "flip:WHAT:rank=R:step=K[:always][:bit=B], where WHAT is batch, weight, activation, gradient or optimizer");
}

std::int64_t number(const std::string& words, const std::string& whole) {
  const auto parsed = text::parse_number(words);
  if (!parsed || *parsed < 0) refuse(whole);
  return static_cast<std::int64_t>(*parsed);
}

/// Flips a bit behind autograd's back, like a real fault. `element` counts in memory order.
void flip(const at::Tensor& tensor, std::int64_t element, std::uint64_t bit) {
  const at::NoGradGuard no_grad;
  const at::Tensor hit = tensor.variable_data().as_strided({1}, {1}, tensor.storage_offset() + element);
  const at::Tensor here = hit.cpu();
  static_cast<unsigned char*>(here.data_ptr())[bit / 8] ^= static_cast<unsigned char>(1U << (bit % 8));
  if (!here.is_same(hit)) hit.copy_(here);
}

}  // namespace

FaultOrder parse_fault(const std::string& words_of) {
  FaultOrder order;
  const std::vector<std::string> words = text::split(words_of, ':');
  if (words.size() < 4 || words[0] != "flip") refuse(words_of);
  order.target = words[1];
  if (std::find(kKinds.begin(), kKinds.end(), order.target) == kKinds.end()) refuse(words_of);
  for (std::size_t i = 2; i < words.size(); ++i) {
    const std::string& word = words[i];
    const std::string value = word.substr(std::min(word.size(), word.find('=') + 1));
    if (word.starts_with("rank=")) {
      order.rank = static_cast<int>(number(value, words_of));
    } else if (word.starts_with("step=")) {
      order.step = number(value, words_of);
    } else if (word.starts_with("bit=")) {
      order.bit = static_cast<int>(number(value, words_of));
    } else if (word == "always" || word == "once") {
      order.always = word == "always";
    } else {
      refuse(words_of);
    }
  }
  return order;
}

OrderedFault::OrderedFault(const Job& job) {
  const auto text = env::get("LOCKSTEP_FAULT");
  if (!text) return;
  const FaultOrder order = parse_fault(*text);
  if (order.rank == job.rank() && (order.always || job.rank_info().restart_count == 0)) order_ = order;
}

void OrderedFault::strike(const char* target, const std::vector<at::Tensor>& tensors) {
  if (!awaits(target)) return;
  const std::int64_t step = fault::noted_step();
  if (step < order_->step) return;
  std::vector<at::Tensor> large;
  for (const at::Tensor& tensor : tensors) {
    if (tensor.defined() && tensor.numel() > 0) large.push_back(tensor);
  }
  if (large.empty()) return;
  const std::uint64_t draw = stream_seed(static_cast<std::uint64_t>(step), static_cast<std::uint64_t>(order_->rank));
  const at::Tensor& hit = large[draw % large.size()];
  const auto bits = 8 * static_cast<std::uint64_t>(hit.element_size());
  const std::uint64_t element = (draw >> 20U) % static_cast<std::uint64_t>(hit.numel());
  const std::uint64_t bit = order_->bit >= 0 ? static_cast<std::uint64_t>(order_->bit) % bits : (draw >> 8U) % bits;
  flip(hit, static_cast<std::int64_t>(element), bit);
  log::note("LOCKSTEP_FAULT: flipping bit {} of element {} of a tensor of {} ({}, step {})", bit, element, hit.numel(),
            target, step);
  if (!order_->always) order_.reset();
}

void OrderedFault::strike(const char* target, const NamedTensors& tensors) {
  if (!awaits(target)) return;
  std::vector<at::Tensor> values;
  for (const auto& item : tensors) values.push_back(item.second);
  strike(target, values);
}

}  // namespace lockstep::train
