// SPDX-License-Identifier: Apache-2.0
// Automatic mixed precision as scopes: a region that computes in bf16 or fp16, and an evaluation inside it.
#pragma once

#include <ATen/core/ivalue.h>  // before any other torch header: Clang cannot compile 1.13 as C++20 otherwise

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

/// Returns the precision of the name "none", "bf16" or "fp16". Throws: UsageError listing the names.
[[nodiscard]] Amp amp_from_name(std::string_view name);
/// Returns "none", "bf16" or "fp16".
[[nodiscard]] std::string to_string(Amp amp);

/// The options of an Autocast.
struct AutocastOptions {
  /// Keeps the cast copy of a weight for the rest of the region, even when the weight changes. Off by default: from C++
  /// a stale copy trains on old weights, and a copy made under no_grad swallows the gradient. It pays only if a region
  /// uses a weight many times (recurrent nets) and does not change it.
  bool weight_cache = false;
};

/// Makes eligible operations of this thread run in `amp` on `device` until it goes out of scope; kNone means full
/// precision. Regions may nest. Its end restores the state before and empties the weight cache. Run backward outside
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

/// Turns gradients off until it goes out of scope, and the weight cache too. An evaluation inside an Autocast with the
/// weight cache then neither sees old weights nor leaves copies that would swallow the gradient of the training
/// forward.
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
