// SPDX-License-Identifier: Apache-2.0
// Traces a function, with batches of two sizes, to a graph that takes batches of any size.
#pragma once

#include <ATen/core/ivalue.h>  // before any other torch header
#include <torch/csrc/jit/ir/ir.h>

#include <memory>

#include "lockstep/nn/torchscript.h"

namespace lockstep::nn {

/// libtorch's tracer sees operators, and sizes only as numbers: a value that C++ computed from the batch's size is a
/// constant of the graph. So the function is traced with two sizes. Whole numbers that differ between the graphs are
/// taken as a * size + b, which fits both runs, and computed from the first argument's size instead. Devices become
/// that of the first argument. `out_of_place`: operators that change their arguments are recorded as their twins that
/// do not (relu_() as relu()).
/// Throws: UsageError if the graphs differ in any other way.
[[nodiscard]] std::shared_ptr<torch::jit::Graph> traced_graph(const NetworkFunction& function,
                                                              bool out_of_place = false);

}  // namespace lockstep::nn
