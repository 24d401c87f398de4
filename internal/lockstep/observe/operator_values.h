// SPDX-License-Identifier: Apache-2.0
// OperatorValues: digests of the inputs and outputs of each operator of libtorch in a step. Two recordings of a step
// that should be equal show the first operator whose bits differ.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/tensor/named_tensors.h"

#pragma GCC visibility push(default)

namespace lockstep::observe {

/// One event of an operator, a node of the backward or a layer of Lockstep: it begins, or it ends.
struct OperatorValue {
  std::string name;          ///< "aten::convolution", "lockstep::linear", "MaxPool2DWithIndicesBackward0"
  std::string layer;         ///< the module whose weights are read, by it or by the operator around it; "": none
  int depth = 0;             ///< number of operators around it
  bool backward = false;     ///< it runs in the backward
  bool end = false;          ///< the digest is that of the outputs; false: of the inputs
  std::uint64_t digest = 0;  ///< digest of the values in their logical order; 0: not computed

  bool operator==(const OperatorValue&) const = default;
};

/// Records the operators of the thread that made it, until it is destroyed. Those that only make memory, or fill it
/// with a constant, are left out: a step may need them or not, depending on the steps before it in the process. Views
/// have no digest.
///
/// Cost: reads every value once. Thread-safe: no; used in the thread that made it.
class OperatorValues {
 public:
  /// `parameters` name the layers.
  explicit OperatorValues(const NamedTensors& parameters);
  ~OperatorValues();
  OperatorValues(const OperatorValues&) = delete;
  OperatorValues& operator=(const OperatorValues&) = delete;

  /// Returns the events so far, in their order, and forgets them.
  [[nodiscard]] std::vector<OperatorValue> take();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

/// Returns the digest of a tensor's values in their logical order, whatever its strides. A GPU's tensor is copied
/// first.
[[nodiscard]] std::uint64_t digest_of_values(const at::Tensor& tensor);

}  // namespace lockstep::observe

#pragma GCC visibility pop
