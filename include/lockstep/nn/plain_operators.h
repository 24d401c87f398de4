// SPDX-License-Identifier: Apache-2.0
// PlainOperators: layers run libtorch's operators only, none of Lockstep's own kernels.
#pragma once

#pragma GCC visibility push(default)

namespace lockstep::nn {

/// While it lives, the layers of this library compute with libtorch's operators on this thread, not their own kernels:
/// the same values but for rounding. A tracer, a profiler of operators or another dispatch mode then sees everything.
/// Guards may be nested. Cases that libtorch lacks become errors: 1.13 has no layer norm of bfloat16 with float32
/// weights.
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

/// Returns true if a PlainOperators lives on this thread, or libtorch's tracer records it. A layer with its own kernel
/// checks this before it reads a tensor's memory.
[[nodiscard]] bool uses_plain_operators();

}  // namespace lockstep::nn

#pragma GCC visibility pop
