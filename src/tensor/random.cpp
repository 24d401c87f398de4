// SPDX-License-Identifier: Apache-2.0
#include "lockstep/tensor/random.h"

#include <ATen/Context.h>
#include <ATen/CPUGeneratorImpl.h>

#include <mutex>

#include "lockstep/base/error.h"
#include "lockstep/tensor/keep_random_state.h"

namespace lockstep {

void seed_all(std::uint64_t seed) { at::manual_seed(seed); }

at::Generator make_generator(std::uint64_t seed) { return at::detail::createCPUGenerator(seed); }

// SplitMix64: a bijection, so different streams of one seed never have the same seed.
std::uint64_t stream_seed(std::uint64_t seed, std::uint64_t stream) {
  std::uint64_t z = seed + (stream + 1) * 0x9E3779B97F4A7C15U;
  z = (z ^ (z >> 30U)) * 0xBF58476D1CE4E5B9U;
  z = (z ^ (z >> 27U)) * 0x94D049BB133111EBU;
  return z ^ (z >> 31U);
}

at::Tensor random_state() {
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  const std::lock_guard<std::mutex> lock(generator.mutex());
  return generator.get_state();
}

void set_random_state(const at::Tensor& state) {
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  const std::lock_guard<std::mutex> lock(generator.mutex());
  try {
    generator.set_state(state);
  } catch (const c10::Error& error) {
    throw DataError(std::string("not a state of the CPU's random generator: ") + error.what_without_backtrace());
  }
}

namespace tensor {

KeepRandomState::KeepRandomState(const c10::Device& device) : cpu_(random_state()) {
  if (!device.is_cuda()) return;
  generator_ = at::globalContext().defaultGenerator(device);
  const std::lock_guard lock(generator_->mutex());
  device_ = generator_->get_state();
}

KeepRandomState::~KeepRandomState() {
  set_random_state(cpu_);
  if (!generator_) return;
  const std::lock_guard lock(generator_->mutex());
  generator_->set_state(device_);
}

}  // namespace tensor
}  // namespace lockstep
