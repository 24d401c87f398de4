// SPDX-License-Identifier: Apache-2.0
#include "support/double/device.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <mutex>
#include <set>

#include "support/double/operators.h"
#include "support/double/streams.h"
#include "support/host_log.h"

namespace lockstep::testing::make_believe {
namespace {

constexpr int kMost = 8;

thread_local int gpu_here = 0;  // NOLINT(cppcoreguidelines-avoid-non-const-global-variables)
thread_local std::array<c10::StreamId, kMost>
    streams_here{};  // NOLINT(cppcoreguidelines-avoid-non-const-global-variables)

c10::Device gpu(int index) { return {c10::kCUDA, static_cast<c10::DeviceIndex>(index)}; }
int index_of(const c10::Device& device) { return device.has_index() ? device.index() : gpu_here; }

struct Event {
  std::mutex mutex;
  Marker marker;
};

Marker marker_of(void* event) {
  auto& known = *static_cast<Event*>(event);
  const std::lock_guard lock(known.mutex);
  return known.marker;
}

struct Guard final : c10::impl::DeviceGuardImplInterface {
  [[nodiscard]] c10::DeviceType type() const override { return c10::kCUDA; }
  [[nodiscard]] c10::Device exchangeDevice(c10::Device to) const override {
    const c10::Device before = getDevice();
    setDevice(to);
    return before;
  }
  [[nodiscard]] c10::Device getDevice() const override { return gpu(gpu_here); }
  void setDevice(c10::Device to) const override {
    if (to.index() >= gpu_count()) throw std::runtime_error("CUDA error: invalid device ordinal");
    gpu_here = index_of(to);
  }
  void uncheckedSetDevice(c10::Device to) const noexcept override { gpu_here = index_of(to); }
  [[nodiscard]] c10::Stream getStream(c10::Device device) const noexcept override { return current_stream(device); }
  [[nodiscard]] c10::Stream getDefaultStream(c10::Device device) const override {
    return c10::Stream(c10::Stream::UNSAFE, gpu(index_of(device)), 0);
  }
  [[nodiscard]] c10::Stream getStreamFromGlobalPool(c10::Device device, bool /*high*/) const override {
    static std::atomic<c10::StreamId> next{1};
    return c10::Stream(c10::Stream::UNSAFE, gpu(index_of(device)), next++);
  }
  [[nodiscard]] c10::Stream exchangeStream(c10::Stream to) const noexcept override {
    const c10::Stream before = current_stream(to.device());
    streams_here.at(static_cast<std::size_t>(index_of(to.device()))) = to.id();
    return before;
  }
  [[nodiscard]] c10::DeviceIndex deviceCount() const noexcept override {
    return static_cast<c10::DeviceIndex>(gpu_count());
  }
  void record(void** event, const c10::Stream& stream, c10::DeviceIndex /*on*/, c10::EventFlag /*how*/) const override {
    if (*event == nullptr) *event = new Event;
    const Marker marker = stream_of(stream).mark();
    auto& known = *static_cast<Event*>(*event);
    const std::lock_guard lock(known.mutex);
    known.marker = marker;
  }
  void block(void* event, const c10::Stream& stream) const override { stream_of(stream).hold(marker_of(event)); }
  [[nodiscard]] bool queryEvent(void* event) const override {
    refuse_in_recording();
    return is_done(marker_of(event));
  }
  void destroyEvent(void* event, c10::DeviceIndex /*on*/) const noexcept override { delete static_cast<Event*>(event); }
  [[nodiscard]] bool queryStream(const c10::Stream& stream) const override {
    refuse_in_recording();
    return is_done(stream_of(stream).mark());
  }
  void synchronizeStream(const c10::Stream& stream) const override {
    note_wait("the stream");
    refuse_in_recording();
    stream_of(stream).wait();
  }
  void recordDataPtrOnStream(const c10::DataPtr& data, const c10::Stream& stream) const override {
    Ledger::instance().record_stream(data.get(), stream_of(stream).number());
  }
};

struct PinnedMemory {
  std::mutex mutex;
  std::set<const void*> known = {};
};

PinnedMemory& pinned_memory() {
  static auto* const kept = new PinnedMemory;
  return *kept;
}

struct Pinned final : c10::Allocator {
  [[nodiscard]] c10::DataPtr allocate(size_t bytes) const override {
    void* data = ::aligned_alloc(64, (bytes + 64) / 64 * 64);
    const std::lock_guard lock(pinned_memory().mutex);
    pinned_memory().known.insert(data);
    return {data, data, &give_back, c10::kCPU};
  }
  static void give_back(void* data) {
    const std::lock_guard lock(pinned_memory().mutex);
    pinned_memory().known.erase(data);
    ::free(data);
  }
  [[nodiscard]] c10::DeleterFnPtr raw_deleter() const override { return &give_back; }
};

/// The interface through which libtorch's CPU part calls its CUDA part.
struct Hooks final : at::CUDAHooksInterface {
  explicit Hooks(at::CUDAHooksArgs /*none*/) {}
  void initCUDA() const override {}
  [[nodiscard]] bool hasCUDA() const override { return true; }
  [[nodiscard]] bool hasPrimaryContext(int64_t /*device*/) const override { return true; }
  [[nodiscard]] int64_t current_device() const override { return current_gpu().index(); }
  [[nodiscard]] int getNumGPUs() const override { return gpu_count(); }
  [[nodiscard]] std::string showConfig() const override { return "simulated GPUs"; }
  [[nodiscard]] bool isPinnedPtr(void* data) const override { return is_pinned(data); }
  [[nodiscard]] at::Device getDeviceFromPtr(void* /*data*/) const override { return current_gpu(); }
  [[nodiscard]] const at::Generator& getDefaultCUDAGenerator(c10::DeviceIndex /*of*/) const override {
    return at::detail::getDefaultCPUGenerator();
  }
  [[nodiscard]] c10::Allocator* getPinnedMemoryAllocator() const override {
    static Pinned allocator;
    return &allocator;
  }
};

}  // namespace

int gpu_count() {
  const char* text = std::getenv("LOCKSTEP_DOUBLE_GPUS");  // NOLINT(concurrency-mt-unsafe)
  return text == nullptr ? 1 : std::clamp(std::atoi(text), 1, kMost);
}

c10::Device current_gpu() { return gpu(gpu_here); }

c10::Stream current_stream(const c10::Device& device) {
  const int index = index_of(device);
  return c10::Stream(c10::Stream::UNSAFE, gpu(index), streams_here.at(static_cast<std::size_t>(index)));
}

OnGpu::OnGpu(int index) : before_(gpu_here) { gpu_here = index; }
OnGpu::~OnGpu() { gpu_here = before_; }

bool is_pinned(const void* data) {
  const std::lock_guard lock(pinned_memory().mutex);
  return pinned_memory().known.count(data) != 0;
}

bool register_gpus() {
  if (c10::impl::hasDeviceGuardImpl(c10::kCUDA)) return false;
  static const Guard guard;
  static c10::impl::DeviceGuardImplRegistrar const guards(c10::kCUDA, &guard);
  at::CUDAHooksRegistry()->Register("CUDAHooks", [](at::CUDAHooksArgs args) -> std::unique_ptr<at::CUDAHooksInterface> {
    return std::make_unique<Hooks>(args);
  });
  register_operators();
  return true;
}

}  // namespace lockstep::testing::make_believe
