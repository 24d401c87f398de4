// SPDX-License-Identifier: Apache-2.0
// Random streams: seeds and generators, and the state of a generator as a tensor that a checkpoint can hold.
#pragma once

#include <ATen/core/ivalue.h>  // before any other torch header: otherwise Clang cannot compile libtorch 1.13

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>

#include <cstdint>

#pragma GCC visibility push(default)

namespace lockstep {

/// Seeds the default generators of all devices (torch::manual_seed).
void seed_all(std::uint64_t seed);

/// Creates a CPU generator that yields the numbers of Python's torch.Generator().manual_seed(seed).
[[nodiscard]] at::Generator make_generator(std::uint64_t seed);

/// Returns a seed for stream `stream` of a run with `seed`; neighbouring streams are unrelated.
[[nodiscard]] std::uint64_t stream_seed(std::uint64_t seed, std::uint64_t stream);

/// Returns the state of the default CPU generator (dropout, initialisation).
[[nodiscard]] at::Tensor random_state();
/// Sets the state of the default CPU generator. Throws: DataError if `state` is not a random_state().
void set_random_state(const at::Tensor& state);

}  // namespace lockstep

#pragma GCC visibility pop
