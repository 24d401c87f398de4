// SPDX-License-Identifier: Apache-2.0
// Autocast scopes over libtorch's thread-local autocast state.
#include "lockstep/optim/autocast.h"

#include <ATen/autocast_mode.h>
#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"

namespace lockstep {

Amp amp_from_name(std::string_view name) {
  for (const Amp amp : {Amp::kNone, Amp::kBf16, Amp::kFp16}) {
    if (name == to_string(amp)) return amp;
  }
  throw UsageError(fmt::format("unknown amp '{}'{}", name, text::did_you_mean(name, {"none", "bf16", "fp16"})),
                   "use none, bf16 or fp16");
}

std::string to_string(Amp amp) {
  switch (amp) {
    case Amp::kBf16:
      return "bf16";
    case Amp::kFp16:
      return "fp16";
    case Amp::kNone:
      break;
  }
  return "none";
}

Autocast::Autocast(c10::DeviceType device, Amp amp, AutocastOptions options)
    : device_(device), before_(tensor::autocast_state(device)) {
  if (amp == Amp::kFp16 && device == c10::DeviceType::CPU) {
    throw UsageError("autocast to fp16 is not supported on the CPU", "use bf16 on the CPU; fp16 is for CUDA");
  }
  at::autocast::increment_nesting();
  tensor::AutocastState state;
  state.enabled = amp != Amp::kNone;
  state.dtype = amp == Amp::kFp16 ? c10::ScalarType::Half : c10::ScalarType::BFloat16;
  state.weight_cache = options.weight_cache;
  tensor::set_autocast_state(device, state);
}

Autocast::~Autocast() {
  // The copies of an inner and an outer region may differ in dtype, so the end of each region drops the copies.
  at::autocast::clear_cache();
  at::autocast::decrement_nesting();
  tensor::set_autocast_state(device_, before_);
}

NoGrad::NoGrad() : cache_before_(at::autocast::is_autocast_cache_enabled()) {
  at::autocast::set_autocast_cache_enabled(false);
}

NoGrad::~NoGrad() { at::autocast::set_autocast_cache_enabled(cache_before_); }

}  // namespace lockstep
