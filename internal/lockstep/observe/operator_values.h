// SPDX-License-Identifier: Apache-2.0
// OperatorValues: digests of the inputs and outputs of each libtorch operator in a step. Comparing two recordings of
// the same step finds the first operator whose values differ.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/tensor/named_tensors.h"

#pragma GCC visibility push(default)

namespace lockstep::observe {

/// The beginning or the end of an operator, of an autograd node or of a Lockstep layer.
struct OperatorValue {
  std::string name;       ///< "aten::convolution", "lockstep::linear", "MaxPool2DWithIndicesBackward0"
  std::string layer;      ///< the module whose weights the operator, or an enclosing one, reads; "" if none
  int depth = 0;          ///< number of enclosing operators
  bool backward = false;  ///< it runs in the backward pass
  bool end = false;       ///< the end, with a digest of the outputs; false: the beginning, with a digest of the inputs
  std::uint64_t digest = 0;  ///< digest of the values in their logical order; 0: not computed

  bool operator==(const OperatorValue&) const = default;
};

/// Records the operators of the thread that created it, until it is destroyed. Operators that only allocate memory or
/// fill it with a constant are skipped, because a step may or may not need them. Views have no digest.
///
/// Cost: reads every value once. Thread-safe: no; use it only on the thread that created it.
class OperatorValues {
 public:
  /// The names of `parameters` identify the layers.
  explicit OperatorValues(const NamedTensors& parameters);
  ~OperatorValues();
  OperatorValues(const OperatorValues&) = delete;
  OperatorValues& operator=(const OperatorValues&) = delete;

  /// Returns the events since the last call, in order.
  [[nodiscard]] std::vector<OperatorValue> take();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

/// Returns the digest of a tensor's values in their logical order, with any strides. A GPU tensor is copied first.
[[nodiscard]] std::uint64_t digest_of_values(const at::Tensor& tensor);

}  // namespace lockstep::observe

#pragma GCC visibility pop
