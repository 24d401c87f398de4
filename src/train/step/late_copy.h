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
  /// Starts the copy behind the current stream's earlier work. A CPU tensor is not copied.
  explicit LateCopy(const at::Tensor& tensor);

  /// Blocks: until the copy is done, but not for later work of the stream.
  [[nodiscard]] const at::Tensor& get() const;

 private:
  at::Tensor host_;
  std::optional<c10::Event> copied_;
};

}  // namespace lockstep::train
