// SPDX-License-Identifier: Apache-2.0
// StepClock: adds up the time of the training thread and the loader workers by part, from the spans that modules
// report. It keeps only sums, so its memory use does not grow with the length of the run.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <vector>

#include "lockstep/base/trace.h"
#include "lockstep/view/step_report.h"

namespace lockstep::train {

/// The times that a clock has added up since the last reading. Units: seconds.
struct ClockReading {
  std::int64_t steps = 0;
  double seconds = 0;
  std::array<double, view::kParts> parts{};
  double compute_cpu = 0;
  double loading = 0;  ///< time in the data set, summed over all threads
  double loading_cpu = 0;
  std::vector<view::Stretch> stretches;  ///< stretches since the start of the clock
  std::vector<int> training_threads;     ///< thread numbers as in /proc/self/task
  std::vector<int> loading_threads;
};

/// The threads of one rank's replicas take turns and count as one thread, because exactly one of them runs.
class StepClock final : public trace::Sink {
 public:
  /// Starts the clock, on the training thread. `replicas` is the number of this rank's replicas. Lifetime: the clock
  /// outlives every span that began before its end; a run has a RunClock.
  explicit StepClock(int replicas);
  ~StepClock() override;
  StepClock(const StepClock&) = delete;
  StepClock& operator=(const StepClock&) = delete;

  void begin(const trace::Event& event) noexcept override;
  void end(const trace::Event& event) noexcept override;
  void step(std::int64_t step) noexcept override;

  /// Records that replica `local` of this rank is now running.
  void turn_to(int local) noexcept;

  /// While this object lives, the training thread is in `part`.
  class Stay {
   public:
    Stay(StepClock& clock, view::StepPart part) noexcept : clock_(clock) { clock_.enter(part); }
    ~Stay() { clock_.leave(); }
    Stay(const Stay&) = delete;
    Stay& operator=(const Stay&) = delete;

   private:
    StepClock& clock_;
  };

  /// Returns the sums and starts new ones. The next reading lists no loader thread that has ended by now. Call it on
  /// the training thread, outside all spans.
  [[nodiscard]] ClockReading take();

 private:
  static constexpr std::size_t kDepth = 16;
  static constexpr std::size_t kStretches = 16;
  static constexpr std::int64_t kFirstStretch = 8;  // in steps; doubles whenever all stretches are full

  /// The state of a replica's thread.
  struct Lane {
    std::array<view::StepPart, kDepth> parts{};
    std::size_t depth = 0;
    std::int64_t cpu_mark = 0;
    bool has_thread = false;
  };

  void enter(view::StepPart part) noexcept;
  void leave() noexcept;
  [[nodiscard]] Lane* own_lane() noexcept;
  void charge(Lane& lane, bool is_own_thread) noexcept;
  void end_step() noexcept;
  void merge_stretches() noexcept;
  void add_thread(std::vector<int>& threads) noexcept;

  const std::int64_t id_;
  // The members below belong to the threads that take turns; the team's lock orders access to them.
  std::vector<Lane> lanes_;
  std::size_t running_ = 0;
  std::int64_t begin_ = 0;
  std::int64_t mark_ = 0;
  std::array<std::int64_t, view::kParts> wall_{};
  std::int64_t compute_ = 0;  ///< since the start of the clock, like compute_cpu_
  std::int64_t compute_cpu_ = 0;
  std::int64_t taken_cpu_ = 0;
  std::int64_t steps_ = 0;
  bool in_step_ = false;
  std::vector<view::Stretch> stretches_;
  std::int64_t stretch_steps_ = kFirstStretch;
  std::int64_t stretch_compute_ = 0;  ///< value of compute_ at the start of the last stretch
  std::int64_t stretch_cpu_ = 0;

  std::atomic<std::int64_t> loading_{0};
  std::atomic<std::int64_t> loading_cpu_{0};
  std::mutex mutex_;  ///< guards the two lists, to which each thread is added once
  std::vector<int> training_threads_;
  std::vector<int> loading_threads_;
};

/// Times the steps of a run. At its end the clock takes no further spans, but it is never destroyed: another thread may
/// still end a span in it, such as a loader thread that was left behind at a sample that hangs.
class RunClock {
 public:
  /// Starts a clock, on the training thread. `replicas` is the number of this rank's replicas.
  explicit RunClock(int replicas);
  ~RunClock();
  RunClock(const RunClock&) = delete;
  RunClock& operator=(const RunClock&) = delete;

  /// Returns the clock, which stays valid until the process ends.
  [[nodiscard]] StepClock& clock() const { return clock_; }

 private:
  StepClock& clock_;
};

}  // namespace lockstep::train
