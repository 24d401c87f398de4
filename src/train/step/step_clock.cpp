// SPDX-License-Identifier: Apache-2.0
#include "train/step/step_clock.h"

#include <fmt/format.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <algorithm>
#include <ctime>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

#include "lockstep/base/log.h"

namespace lockstep::train {
namespace {

constexpr double kNanosecond = 1e-9;

std::int64_t clock_ns(clockid_t clock) noexcept {
  timespec now{};
  (void)::clock_gettime(clock, &now);
  return static_cast<std::int64_t>(now.tv_sec) * 1'000'000'000 + now.tv_nsec;
}

std::int64_t wall_ns() noexcept { return clock_ns(CLOCK_MONOTONIC); }
std::int64_t thread_cpu_ns() noexcept { return clock_ns(CLOCK_THREAD_CPUTIME_ID); }

/// Returns the part that a span belongs to; none means the enclosing part.
std::optional<view::StepPart> part_of(std::string_view name) noexcept {
  using view::StepPart;
  if (name == "DataLoader::next") return StepPart::kData;
  if (name == "forward" || name == "loss") return StepPart::kForward;
  if (name == "backward") return StepPart::kBackward;
  if (name == "DistributedDataParallel::end_backward" || name == "ZeroRedundancyOptimizer::gather") {
    return StepPart::kExposed;
  }
  if (name == "optimizer") return StepPart::kOptimizer;
  if (name == "save") return StepPart::kSave;
  if (name == "evaluate") return StepPart::kEvaluate;
  return std::nullopt;
}

bool is_compute(view::StepPart part) noexcept {
  return part == view::StepPart::kForward || part == view::StepPart::kBackward || part == view::StepPart::kOptimizer;
}

/// Returns true for a part that includes its nested spans, such as the forward passes of an evaluation.
bool holds_all(view::StepPart part) noexcept {
  return part == view::StepPart::kEvaluate || part == view::StepPart::kSave;
}

bool is_loading(const trace::Event& event) noexcept { return event.name == "the data set"; }

std::atomic<std::int64_t> clocks_made{0};

/// A thread's place in its last clock. Unlike its address, a clock's number is never reused.
struct ThreadPlace {
  std::int64_t clock = -1;
  std::size_t lane = 0;
};
thread_local ThreadPlace trains_for;
thread_local std::int64_t loads_for = -1;
thread_local std::int64_t loading_since = 0;
thread_local std::int64_t loading_cpu_since = 0;

/// Returns true if a thread of this process with that number exists.
bool is_alive(int thread) { return ::access(fmt::format("/proc/self/task/{}", thread).c_str(), F_OK) == 0; }

/// Starts a clock that is never destroyed.
StepClock& lasting_clock(int replicas) {
  static std::mutex mutex;
  static auto* const clocks = new std::vector<std::unique_ptr<StepClock>>;
  const std::lock_guard lock(mutex);
  return *clocks->emplace_back(std::make_unique<StepClock>(replicas));
}

}  // namespace

StepClock::StepClock(int replicas)
    : id_(clocks_made.fetch_add(1)), lanes_(static_cast<std::size_t>(replicas < 1 ? 1 : replicas)) {
  stretches_.reserve(kStretches);
  begin_ = mark_ = wall_ns();
  (void)own_lane();
  if (!trace::add_sink(*this)) log::debug("there is no free slot for a trace sink: the step report will be empty");
}

StepClock::~StepClock() { trace::remove_sink(*this); }

void StepClock::add_thread(std::vector<int>& threads) noexcept {
  const std::lock_guard lock(mutex_);
  try {
    threads.push_back(static_cast<int>(::syscall(SYS_gettid)));
  } catch (const std::bad_alloc&) {  // the thread's delays are not counted
  }
}

/// Returns the lane of the calling thread; nullptr if it is not a replica's thread.
StepClock::Lane* StepClock::own_lane() noexcept {
  if (trains_for.clock == id_) return &lanes_[trains_for.lane];
  Lane& lane = lanes_[running_];
  if (lane.has_thread) return nullptr;
  lane.has_thread = true;
  lane.cpu_mark = thread_cpu_ns();
  trains_for = {id_, running_};
  add_thread(training_threads_);
  return &lane;
}

/// Adds the time since the last mark to the running thread's part.
void StepClock::charge(Lane& lane, bool is_own_thread) noexcept {
  const view::StepPart part = lane.depth == 0 ? view::StepPart::kOther : lane.parts[std::min(lane.depth, kDepth) - 1];
  const std::int64_t now = wall_ns();
  const std::int64_t passed = now - std::exchange(mark_, now);
  wall_[static_cast<std::size_t>(part)] += passed;
  if (is_compute(part)) compute_ += passed;
  if (!is_own_thread) return;
  const std::int64_t cpu_now = thread_cpu_ns();
  const std::int64_t used = cpu_now - std::exchange(lane.cpu_mark, cpu_now);
  if (is_compute(part)) compute_cpu_ += used;
}

void StepClock::enter(view::StepPart part) noexcept {
  Lane* lane = own_lane();
  if (lane == nullptr) return;
  charge(*lane, true);
  const std::size_t above = std::min(lane->depth, kDepth);
  if (above > 0 && holds_all(lane->parts[above - 1])) part = lane->parts[above - 1];
  if (lane->depth < kDepth) lane->parts[lane->depth] = part;
  ++lane->depth;
}

void StepClock::leave() noexcept {
  Lane* lane = own_lane();
  if (lane == nullptr || lane->depth == 0) return;
  charge(*lane, true);
  --lane->depth;
}

void StepClock::begin(const trace::Event& event) noexcept {
  if (event.sequence != 0) return;
  if (is_loading(event)) {
    if (std::exchange(loads_for, id_) != id_) add_thread(loading_threads_);
    loading_since = wall_ns();
    loading_cpu_since = thread_cpu_ns();
    return;
  }
  if (const auto part = part_of(event.name)) enter(*part);
}

void StepClock::end(const trace::Event& event) noexcept {
  if (event.sequence != 0) return;
  if (is_loading(event)) {
    if (loads_for != id_) return;
    loading_.fetch_add(wall_ns() - loading_since, std::memory_order_relaxed);
    loading_cpu_.fetch_add(thread_cpu_ns() - loading_cpu_since, std::memory_order_relaxed);
    return;
  }
  if (part_of(event.name)) leave();
}

void StepClock::turn_to(int local) noexcept {
  const auto next = static_cast<std::size_t>(local);
  if (next >= lanes_.size()) return;
  Lane& lane = lanes_[running_];
  charge(lane, trains_for.clock == id_ && trains_for.lane == running_);
  running_ = next;
}

void StepClock::step(std::int64_t step) noexcept {
  if (Lane* lane = own_lane(); lane != nullptr) charge(*lane, true);
  if (in_step_) end_step();
  in_step_ = step >= 0;
  if (!in_step_) return;
  if (stretches_.empty() || stretches_.back().steps >= stretch_steps_) {
    if (stretches_.size() == kStretches) merge_stretches();
    stretches_.push_back({.first_step = step});
    stretch_compute_ = compute_;
    stretch_cpu_ = compute_cpu_;
  }
}

void StepClock::end_step() noexcept {
  ++steps_;
  view::Stretch& last = stretches_.back();
  ++last.steps;
  last.compute = static_cast<double>(compute_ - stretch_compute_) * kNanosecond;
  last.compute_cpu = static_cast<double>(compute_cpu_ - stretch_cpu_) * kNanosecond;
}

/// Joins each pair of stretches into one.
void StepClock::merge_stretches() noexcept {
  for (std::size_t i = 0; i < kStretches / 2; ++i) {
    view::Stretch merged = stretches_[2 * i];
    const view::Stretch& second = stretches_[2 * i + 1];
    merged.steps += second.steps;
    merged.compute += second.compute;
    merged.compute_cpu += second.compute_cpu;
    stretches_[i] = merged;
  }
  stretches_.resize(kStretches / 2);
  stretch_steps_ *= 2;
}

ClockReading StepClock::take() {
  if (Lane* lane = own_lane(); lane != nullptr) charge(*lane, true);
  if (std::exchange(in_step_, false)) end_step();
  ClockReading reading{.steps = std::exchange(steps_, 0),
                       .seconds = static_cast<double>(mark_ - std::exchange(begin_, mark_)) * kNanosecond};
  for (std::size_t i = 0; i < view::kParts; ++i) {
    reading.parts[i] = static_cast<double>(std::exchange(wall_[i], 0)) * kNanosecond;
  }
  reading.compute_cpu = static_cast<double>(compute_cpu_ - std::exchange(taken_cpu_, compute_cpu_)) * kNanosecond;
  reading.loading = static_cast<double>(loading_.exchange(0)) * kNanosecond;
  reading.loading_cpu = static_cast<double>(loading_cpu_.exchange(0)) * kNanosecond;
  reading.stretches = stretches_;
  const std::lock_guard lock(mutex_);
  reading.training_threads = training_threads_;
  reading.loading_threads = loading_threads_;
  std::erase_if(loading_threads_, [](int thread) { return !is_alive(thread); });
  return reading;
}

RunClock::RunClock(int replicas) : clock_(lasting_clock(replicas)) {}

RunClock::~RunClock() { trace::remove_sink(clock_); }

}  // namespace lockstep::train
