// SPDX-License-Identifier: Apache-2.0
#include "observe/memory_watch.h"

#include <c10/core/Allocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>

#include <atomic>

namespace lockstep::observe {
namespace {

bool has_memory(const at::Tensor& tensor) { return tensor.defined() && tensor.has_storage() && tensor.numel() > 0; }

const char* address_of(const at::Tensor& tensor) { return static_cast<const char*>(tensor.data_ptr()); }

std::string module_of(const std::string& parameter) {
  const std::size_t dot = parameter.rfind('.');
  return dot == std::string::npos ? "the module itself" : parameter.substr(0, dot);
}

using torch::profiler::impl::ProfilerConfig;
using torch::profiler::impl::ProfilerState;
using torch::profiler::impl::ProfilerStateBase;

// libtorch 1.13 counts totals as int64_t, 2.x as size_t.
template <class Method>
struct TotalOf;
template <class Base, class Total>
struct TotalOf<void (Base::*)(void*, std::int64_t, Total, Total, c10::Device)> {
  using Type = Total;
};
using Total = TotalOf<decltype(&c10::MemoryReportingInfoBase::reportMemoryUsage)>::Type;

}  // namespace

LayersOfMemory::LayersOfMemory(const NamedTensors& parameters) {
  for (const auto& [name, tensor] : parameters) {
    if (!has_memory(tensor)) continue;
    const char* begin = address_of(tensor);
    ranges_.try_emplace(begin, Range{begin + tensor.nbytes(), module_of(name)});
  }
}

const std::string* LayersOfMemory::layer_of(const at::Tensor& tensor) const {
  if (!has_memory(tensor)) return nullptr;
  const char* address = address_of(tensor);
  auto range = ranges_.upper_bound(address);
  if (range == ranges_.begin()) return nullptr;
  --range;
  return address < range->second.end ? &range->second.module : nullptr;
}

const std::string* LayersOfMemory::layer_of(c10::ArrayRef<const c10::IValue> inputs) const {
  if (ranges_.empty()) return nullptr;
  for (const c10::IValue& input : inputs) {
    if (input.isTensor()) {
      if (const std::string* module = layer_of(input.toTensor())) return module;
    } else if (input.isTensorList()) {
      for (const at::Tensor& tensor : input.toTensorVector()) {
        if (const std::string* module = layer_of(tensor)) return module;
      }
    }
  }
  return nullptr;
}

/// Derives from the base class of libtorch's profilers, because libtorch stores this object as one.
class MemoryWatch::State final : public ProfilerStateBase {
 public:
  explicit State(MemoryListener listener)
      : ProfilerStateBase(ProfilerConfig(ProfilerState::Disabled, /*report_input_shapes=*/false,
                                         /*profile_memory=*/true)),
        listener_(listener) {}

  torch::profiler::impl::ActiveProfilerType profilerType() override {
    return torch::profiler::impl::ActiveProfilerType::NONE;
  }

  void reportMemoryUsage(void* address, std::int64_t bytes, Total /*allocated*/, Total /*reserved*/,
                         c10::Device /*device*/) override {
    if (const MemoryListener listener = listener_.load(std::memory_order_relaxed)) listener(address, bytes);
  }

  void silence() noexcept { listener_ = nullptr; }

 private:
  std::atomic<MemoryListener> listener_;
};

MemoryWatch::MemoryWatch(MemoryListener listener)
    : state_(std::make_shared<State>(listener)), thread_(std::this_thread::get_id()) {
  c10::ThreadLocalDebugInfo::_push(c10::DebugInfoKind::PROFILER_STATE, state_);
}

void MemoryWatch::stop() noexcept {
  if (!state_) return;
  state_->silence();
  const bool is_on_top = c10::ThreadLocalDebugInfo::get(c10::DebugInfoKind::PROFILER_STATE) == state_.get();
  if (thread_ == std::this_thread::get_id() && is_on_top) {
    (void)c10::ThreadLocalDebugInfo::_pop(c10::DebugInfoKind::PROFILER_STATE);
  }
  state_ = nullptr;
}

}  // namespace lockstep::observe
