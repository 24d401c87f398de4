// SPDX-License-Identifier: Apache-2.0
#include <ATen/core/ivalue.h>  // before any other torch header: Clang cannot compile 1.13 as C++20 otherwise

#include "observe/kernel_recorder.h"

#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/csrc/autograd/profiler_kineto.h>

namespace lockstep::observe {
namespace {

namespace kineto = torch::autograd::profiler;
using torch::profiler::impl::ActivityType;

const torch::profiler::impl::ProfilerConfig& config() {
  static const torch::profiler::impl::ProfilerConfig kConfig(torch::profiler::impl::ProfilerState::KINETO);
  return kConfig;
}

/// Newer events count nanoseconds, older ones microseconds.
template <class Event>
view::DeviceCall call_of(const Event& event) {
  if constexpr (requires { event.startNs(); }) {
    const auto begin = static_cast<std::int64_t>(event.startNs());
    return {event.name(), begin, begin + static_cast<std::int64_t>(event.durationNs())};
  } else {
    const auto begin = static_cast<std::int64_t>(event.startUs()) * 1000;
    return {event.name(), begin, begin + static_cast<std::int64_t>(event.durationUs()) * 1000};
  }
}

}  // namespace

KernelRecorder::~KernelRecorder() {
  if (on_) (void)kineto::disableProfiler();
}

void KernelRecorder::start() {
  if (!device_.is_cuda()) return;
  kineto::prepareProfiler(config(), {ActivityType::CUDA});
  kineto::enableProfiler(config(), {ActivityType::CUDA});
  on_ = true;
}

std::vector<view::DeviceCall> KernelRecorder::stop() {
  if (!on_) return {};
  c10::impl::VirtualGuardImpl(device_.type()).getStream(device_).synchronize();
  on_ = false;
  const auto recorded = kineto::disableProfiler();
  std::vector<view::DeviceCall> calls;
  for (const kineto::KinetoEvent& event : recorded->events()) {
    // The host's calls of CUDA and the marks of synchronisations are among them too.
    if (event.deviceType() == device_.type() && event.name().find("Sync") == std::string::npos) {
      calls.push_back(call_of(event));
    }
  }
  return calls;
}

}  // namespace lockstep::observe
