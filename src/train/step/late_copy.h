// SPDX-License-Identifier: Apache-2.0
// A number that a device computes and the host wants later, without either waiting for the other in between.
#pragma once

#include <ATen/core/ivalue.h>  // before any other torch header
#include <ATen/core/Tensor.h>
#include <c10/core/Event.h>

#include <optional>

namespace lockstep::train {

class LateCopy {
 public:
  LateCopy() = default;
  /// Starts the copy behind what the current stream has been given. A tensor of the CPU is not copied.
  explicit LateCopy(const at::Tensor& tensor);

  /// Blocks: until the copy is made; not for what the stream was given after it.
  [[nodiscard]] const at::Tensor& get() const;

 private:
  at::Tensor host_;
  std::optional<c10::Event> copied_;
};

}  // namespace lockstep::train
