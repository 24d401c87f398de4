// SPDX-License-Identifier: Apache-2.0
// GradientHook: calls a function with a tensor's gradients for as long as it lives. A parameter may belong to the
// program, which trains on after the run.
#pragma once

#include <ATen/core/ivalue.h>  // before any other torch header
#include <ATen/core/Tensor.h>

#include <utility>

namespace lockstep::train {

/// Owned by one thread. No backward pass may run on the tensor while the hook is created or destroyed.
class GradientHook {
 public:
  /// Calls `call` with each gradient of `tensor`, which requires gradients; what `call` returns, if anything, replaces
  /// the gradient. It is called on the thread of the backward pass.
  template <class Call>
  GradientHook(at::Tensor tensor, Call call)
      : tensor_(std::move(tensor)), number_(tensor_.register_hook(std::move(call))) {}
  ~GradientHook() {
    if (tensor_.defined()) tensor_.remove_hook(number_);
  }
  GradientHook(GradientHook&&) noexcept = default;
  GradientHook& operator=(GradientHook&&) = delete;
  GradientHook(const GradientHook&) = delete;
  GradientHook& operator=(const GradientHook&) = delete;

 private:
  at::Tensor tensor_;  ///< undefined once moved from
  unsigned number_;
};

}  // namespace lockstep::train
