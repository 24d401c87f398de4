// SPDX-License-Identifier: Apache-2.0
// PlainOperators makes layers run only libtorch's operators, without Lockstep's own kernels.
#pragma once

#pragma GCC visibility push(default)

namespace lockstep::nn {

/// While a guard is alive, the layers of this library compute with libtorch's operators on this thread, not with their
/// own kernels. Values differ only by rounding. A tracer, an operator profiler or another dispatch mode then sees
/// everything. Guards can be nested. Cases that libtorch lacks become errors, such as a bfloat16 layer norm with
/// float32 weights in 1.13.
///
/// A function that torch::jit::tracer records needs no guard: layers detect the tracer themselves.
/// Example: const nn::PlainOperators plain;
class PlainOperators {
 public:
  PlainOperators();
  ~PlainOperators();
  PlainOperators(const PlainOperators&) = delete;
  PlainOperators& operator=(const PlainOperators&) = delete;
};

/// Returns true if a PlainOperators is alive on this thread, or libtorch's tracer is recording this thread. A layer
/// with its own kernel checks this before it reads a tensor's memory.
[[nodiscard]] bool uses_plain_operators();

}  // namespace lockstep::nn

#pragma GCC visibility pop
