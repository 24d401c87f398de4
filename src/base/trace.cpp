// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/trace.h"

namespace lockstep::trace {
namespace {
std::atomic<Sink*> current_sink{nullptr};
}  // namespace

void set_sink(Sink* sink) noexcept { current_sink.store(sink, std::memory_order_release); }
Sink* sink() noexcept { return current_sink.load(std::memory_order_acquire); }

}  // namespace lockstep::trace
