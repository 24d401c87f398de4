// SPDX-License-Identifier: Apache-2.0
// Traces a function, with batches of two sizes, to a graph that takes batches of any size.
#pragma once

#include <ATen/core/ivalue.h>  // before any other torch header
#include <torch/csrc/jit/ir/ir.h>

#include <memory>

#include "lockstep/nn/torchscript.h"

namespace lockstep::nn {

/// libtorch's tracer records operators but not the C++ arithmetic on sizes: a number that C++ computed from the batch
/// size becomes a constant of the graph. So the function is traced with two batch sizes. If an integer differs between
/// the two graphs, it becomes a * size + b: `a` and `b` fit both graphs, and `size` is the batch size of the first
/// argument. Every device becomes the device of the first argument. With `out_of_place`, in-place operators are
/// recorded as their out-of-place versions (relu_() as relu()). Throws: UsageError if the graphs differ in any other
/// way.
[[nodiscard]] std::shared_ptr<torch::jit::Graph> traced_graph(const NetworkFunction& function,
                                                              bool out_of_place = false);

}  // namespace lockstep::nn
