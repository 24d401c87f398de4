// SPDX-License-Identifier: Apache-2.0
// Runs GPU kernels on the CPU, one block after another, with a host thread for each thread of a block. Include it
// before the kernels' source. It has only the parts of CUDA that these kernels use.
#pragma once

#include <barrier>
#include <bit>
#include <cmath>
#include <functional>
#include <map>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "lockstep/tensor/device_kernels.h"

namespace lockstep::emulated {

struct Index {
  unsigned x = 0;
  unsigned y = 0;
};

// NOLINTBEGIN(cppcoreguidelines-avoid-non-const-global-variables): CUDA's names are global
inline thread_local Index emulated_thread;
inline thread_local Index emulated_block;
inline thread_local std::barrier<>* emulated_barrier = nullptr;
// NOLINTEND(cppcoreguidelines-avoid-non-const-global-variables)

/// Kernels by name. `Argument`: the struct of their arguments. A thread must not wait for its block after another of
/// the block's threads has returned.
template <class Argument>
class EmulatedKernels final : public tensor::DeviceKernels {
 public:
  using Kernel = std::function<void(Argument)>;

  explicit EmulatedKernels(std::map<std::string, Kernel> kernels) : kernels_(std::move(kernels)) {}

  void launch(const char* kernel, const tensor::KernelGrid& grid, const void* argument) override {
    launched.emplace_back(kernel);
    const Kernel& run = kernels_.at(kernel);
    const Argument with = *static_cast<const Argument*>(argument);
    std::barrier<> barrier(grid.threads);
    std::vector<std::jthread> threads;
    for (unsigned i = 0; i < grid.threads; ++i) {
      threads.emplace_back([&, i] {
        emulated_thread = {.x = i};
        emulated_barrier = &barrier;
        for (unsigned block = 0; block < grid.x * grid.y; ++block) {
          emulated_block = {block % grid.x, block / grid.x};
          run(with);
          barrier.arrive_and_wait();
        }
      });
    }
  }

  std::vector<std::string> launched;  ///< names of the launched kernels, in order

 private:
  std::map<std::string, Kernel> kernels_;
};

}  // namespace lockstep::emulated

// NOLINTBEGIN: CUDA's names
#define threadIdx ::lockstep::emulated::emulated_thread
#define blockIdx ::lockstep::emulated::emulated_block
#define __global__
#define __launch_bounds__(threads)
#define __shared__ static
inline void __syncthreads() { lockstep::emulated::emulated_barrier->arrive_and_wait(); }
inline unsigned __float_as_uint(float value) { return std::bit_cast<unsigned>(value); }
inline float __uint_as_float(unsigned bits) { return std::bit_cast<float>(bits); }
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunknown-pragmas"
#define LOCKSTEP_KERNELS 1
// NOLINTEND
