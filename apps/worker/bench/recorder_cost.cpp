// SPDX-License-Identifier: Apache-2.0
#include "worker/bench/recorder_cost.h"

#include <atomic>
#include <optional>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/base/trace.h"
#include "worker/bench/measure.h"

namespace lockstep::worker {
namespace {

/// During its lifetime, the process has no sinks.
class WithoutSinks {
 public:
  WithoutSinks() {
    for (trace::Sink* sink : before_) {
      if (sink != nullptr) trace::remove_sink(*sink);
    }
  }
  ~WithoutSinks() {
    for (trace::Sink* sink : before_) {
      if (sink != nullptr) (void)trace::add_sink(*sink);
    }
  }
  WithoutSinks(const WithoutSinks&) = delete;
  WithoutSinks& operator=(const WithoutSinks&) = delete;

 private:
  const trace::Sinks before_ = trace::sinks();
};

/// Counts the calls to a sink.
class Counter final : public trace::Sink {
 public:
  void begin(const trace::Event& /*event*/) noexcept override { ++events; }
  void end(const trace::Event& /*event*/) noexcept override { ++events; }
  void step(std::int64_t /*step*/) noexcept override { ++events; }
  std::atomic<std::int64_t> events{0};
};

std::int64_t events_of(const std::function<void()>& step) {
  // Never destroyed: after remove_sink() a thread may still end a span in it.
  static auto* const counter = new Counter;
  const std::int64_t before = counter->events;
  (void)trace::add_sink(*counter);
  step();
  trace::remove_sink(*counter);
  return counter->events - before;
}

/// The time to record one event of a collective, the kind of event with the most fields.
double event_seconds(trace::Sink& recorder) {
  constexpr int kEvents = 100'000;
  const trace::Event event{.name = "bench", .sequence = 1, .bytes = 1, .bucket = 0, .buckets = 1};
  const double seconds = seconds_of([&] {
    for (int i = 0; i < kEvents / 2; ++i) {
      recorder.begin(event);
      recorder.end(event);
    }
  });
  return seconds / kEvents;
}

}  // namespace

RecorderCost measure_recorder(std::int64_t pairs, const std::function<void()>& step) {
  trace::Sink* const recorder = trace::sinks().front();
  if (recorder == nullptr) {
    throw UsageError("this process has no flight recorder", "leave LOCKSTEP_FLIGHT unset");
  }
  step();
  RecorderCost cost{.pairs = pairs, .events_per_step = static_cast<double>(events_of(step))};
  std::vector<double> ratios;
  std::vector<double> without;
  for (std::int64_t i = 0; i < pairs; ++i) {
    // The order changes from pair to pair, so that drift in the machine's speed favours neither side.
    const bool with_first = i % 2 == 0;
    double seconds[2] = {};
    for (const bool with : {with_first, !with_first}) {
      std::optional<WithoutSinks> off;
      if (!with) off.emplace();
      seconds[with ? 1 : 0] = seconds_of(step);
    }
    ratios.push_back(seconds[1] / seconds[0]);
    without.push_back(seconds[0]);
  }
  cost.median_seconds = median_of(without);
  cost.event_seconds = event_seconds(*recorder);
  cost.ratio = median_range(std::move(ratios));
  return cost;
}

}  // namespace lockstep::worker
