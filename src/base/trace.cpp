// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/trace.h"

#include <atomic>

namespace lockstep::trace {
namespace {

std::array<std::atomic<Sink*>, std::tuple_size_v<Sinks>> current;  // static: all nullptr

bool exchange(Sink* from, Sink* to) noexcept {
  for (std::atomic<Sink*>& place : current) {
    Sink* expected = from;
    if (place.compare_exchange_strong(expected, to, std::memory_order_acq_rel)) return true;
  }
  return false;
}

}  // namespace

bool add_sink(Sink& sink) noexcept { return exchange(nullptr, &sink); }

void remove_sink(Sink& sink) noexcept { (void)exchange(&sink, nullptr); }

Sinks sinks() noexcept {
  Sinks found{};
  for (std::size_t i = 0; i < found.size(); ++i) found[i] = current[i].load(std::memory_order_acquire);
  return found;
}

}  // namespace lockstep::trace
