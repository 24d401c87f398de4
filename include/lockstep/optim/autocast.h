// SPDX-License-Identifier: Apache-2.0
// Automatic mixed precision with scopes: a region that computes in bf16 or fp16, and a nested region without gradients.
#pragma once

#include <ATen/core/ivalue.h>  // before any other torch header: otherwise Clang cannot compile libtorch 1.13

#include <ATen/core/grad_mode.h>

#include <string>
#include <string_view>

#include "lockstep/tensor/torch_version.h"

#pragma GCC visibility push(default)

namespace lockstep {

/// The number type of the forward pass.
enum class Amp {
  kNone,  ///< float32
  kBf16,  ///< bfloat16, for operations that are safe in it
  kFp16   ///< float16, for operations that are safe in it; the loss must be scaled
};

/// Returns the Amp with the name "none", "bf16" or "fp16". Throws: UsageError listing the names.
[[nodiscard]] Amp amp_from_name(std::string_view name);
/// Returns "none", "bf16" or "fp16".
[[nodiscard]] std::string to_string(Amp amp);

/// The options of an Autocast.
struct AutocastOptions {
  /// Keeps the cast copy of a weight for the rest of the region, even if the weight changes. It is off by default,
  /// because a stale copy trains on old weights, and a copy made under no_grad loses the gradient. It pays off only if
  /// a region uses a weight many times (recurrent networks) and does not change it.
  bool weight_cache = false;
};

/// Makes eligible operations on this thread run in `amp` on `device` until it goes out of scope; kNone means full
/// precision. Regions may nest. At its end, the state is restored and the weight cache emptied. Run backward outside
/// it.
///
/// Throws: UsageError for fp16 on the CPU and for devices that are neither CPU nor CUDA.
/// Example: lockstep::Autocast autocast{job.device().type(), lockstep::Amp::kBf16};
class [[nodiscard]] Autocast {
 public:
  Autocast(c10::DeviceType device, Amp amp, AutocastOptions options = {});
  ~Autocast();
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;

 private:
  c10::DeviceType device_;
  tensor::AutocastState before_;
};

/// Turns off gradients and the weight cache until it goes out of scope. An evaluation inside an Autocast with
/// weight_cache then neither uses old weights nor leaves copies that lose the gradient of the training forward.
class [[nodiscard]] NoGrad {
 public:
  NoGrad();
  ~NoGrad();
  NoGrad(const NoGrad&) = delete;
  NoGrad& operator=(const NoGrad&) = delete;

 private:
  at::NoGradGuard guard_;
  bool cache_before_;
};

}  // namespace lockstep

#pragma GCC visibility pop
