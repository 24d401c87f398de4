// SPDX-License-Identifier: Apache-2.0
#include "observe/memory_watch.h"

#include <c10/core/Allocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>

#include <atomic>

namespace lockstep::observe {
namespace {

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

/// Its base is that of libtorch's profilers, since libtorch takes for one of these whatever is registered in its place.
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
