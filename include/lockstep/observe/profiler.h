// SPDX-License-Identifier: Apache-2.0
// Profiler: records some steps of a training loop, prints how long their parts took, and writes a trace for Perfetto.
// The Trainer creates one for --profile; your own loop creates one and calls step().
#pragma once

#include <ATen/core/ivalue.h>  // before any other torch header: otherwise Clang cannot compile libtorch 1.13

#include <cstdint>
#include <filesystem>
#include <memory>

#include "lockstep/comm/job.h"
#include "lockstep/tensor/named_tensors.h"
#include "lockstep/view/profile.h"

#pragma GCC visibility push(default)

namespace lockstep::observe {

/// The settings of a Profiler: the steps that it records, and its output.
struct ProfilerOptions {
  std::int64_t steps = 10;  ///< number of steps to record
  std::int64_t warmup = 3;  ///< steps before recording; they are slower because libtorch creates buffers and threads
  std::filesystem::path folder = {};  ///< rank R writes its trace to folder/rank-R.json; empty: no trace is written
  NamedTensors parameters = {};       ///< the parameters, whose names identify the layers; empty: no table of layers
  at::ScalarType type = at::kFloat;   ///< type of the matrix products that measure the machine's peak
  bool inputs = false;  ///< true: records the inputs of operators, for view::kernel_table(), instead of memory use
  bool prints = true;   ///< false: it neither prints tables nor measures the machine
};

/// Records the steps that follow the warm-up. It does not change any results. Outside these steps it costs nothing,
/// because it then has no callbacks in libtorch and no sink in Lockstep.
///
/// It records libtorch's operators, Lockstep's fused layers, autograd nodes, collectives, loader workers and saves. The
/// forward pass of a DistributedDataParallel and the step of a Lockstep optimizer are named sections. Name a section of
/// your own code with libtorch's RECORD_USER_SCOPE("name").
///
/// Example:
///   lockstep::observe::Profiler profiler(job, {.steps = 10, .parameters = lockstep::named_parameters_of(net)});
///   for (auto& batch : loader.epoch(0)) {
///     train_on(batch);
///     profiler.step();
///   }
///   profiler.finish();
class Profiler {
 public:
  /// Only one profiler at a time may record in a process.
  /// Throws: UsageError if steps is below 1 or warmup below 0.
  Profiler(Job job, ProfilerOptions options);
  /// Stops recording, without tables or a trace.
  ~Profiler();
  Profiler(const Profiler&) = delete;
  Profiler& operator=(const Profiler&) = delete;

  /// Ends a step. Call it after every step, on the loop's thread. At the end of the warm-up the ranks compare clocks
  /// and measure the machine, which takes about a second. After the last step it calls finish().
  /// Collective: yes. Blocks: at the end of the warm-up. Throws: IoError; anything Work::wait throws.
  void step();

  /// Prints the tables on rank 0 and writes this rank's trace. If the loop ended early, they cover the steps that were
  /// completed. A second call does nothing.
  /// Collective: no. Throws: IoError.
  void finish();

  /// Returns true once all steps are recorded.
  [[nodiscard]] bool is_finished() const noexcept;
  /// Returns the finished profile; it has no steps if the loop ended during the warm-up.
  [[nodiscard]] const view::Profile& profile() const noexcept;
  /// Returns the machine's rates.
  [[nodiscard]] const view::MachineRates& rates() const noexcept;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep::observe

#pragma GCC visibility pop
