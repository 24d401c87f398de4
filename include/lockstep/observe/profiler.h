// SPDX-License-Identifier: Apache-2.0
// Profiler: records some steps of a training loop, prints where their time went, and writes a trace for Perfetto. The
// Trainer has one under --profile; your own loop calls step().
#pragma once

#include <ATen/core/ivalue.h>  // before any other torch header: Clang cannot compile 1.13 as C++20 otherwise

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
  std::int64_t steps = 10;            ///< to record
  std::int64_t warmup = 3;            ///< steps before these, which are slower: libtorch makes its buffers and threads
  std::filesystem::path folder = {};  ///< the trace of rank R goes to folder/rank-R.json; empty: none is written
  NamedTensors parameters = {};       ///< name the layers; empty: no table of layers
  at::ScalarType type = at::kFloat;   ///< type of the matrix products, for the measurement of the machine's peak
  bool inputs = false;                ///< record the inputs of each operator, for view::kernel_table(), and no memory
  bool prints = true;                 ///< false: it neither prints tables nor measures the machine
};

/// Records the steps that follow the warm-up. It changes no result. Outside of them it costs nothing: it has no
/// callbacks in libtorch and no sink in Lockstep.
///
/// It records every operator of libtorch, the fused layers of Lockstep, the nodes of the backward, collectives, loader
/// workers and saves. The forward of a model in DistributedDataParallel has a name; so has Lockstep's optimizer. Name a
/// part of your own with RECORD_USER_SCOPE("name") of libtorch.
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
  /// One profiler at a time records in a process.
  /// Throws: UsageError if steps is below 1 or warmup below 0.
  Profiler(Job job, ProfilerOptions options);
  /// Stops recording, without table and trace.
  ~Profiler();
  Profiler(const Profiler&) = delete;
  Profiler& operator=(const Profiler&) = delete;

  /// Ends a step. Call it after every step, in the thread of the loop. At the end of the warm-up the ranks measure
  /// their clocks and the machine, which takes about a second; after the last step it does the same as finish().
  /// Collective: yes. Blocks: at the end of the warm-up. Throws: IoError, as Work::wait.
  void step();

  /// Prints the tables on rank 0 and writes this rank's trace; if the loop ended before the last step, of the whole
  /// steps that there are. A second call does nothing.
  /// Collective: no. Throws: IoError.
  void finish();

  /// Returns true once all steps are recorded.
  [[nodiscard]] bool is_finished() const noexcept;
  /// Returns the profile once it is finished, with no steps if the loop ended in the warm-up.
  [[nodiscard]] const view::Profile& profile() const noexcept;
  /// Returns the machine's rates, which are measured at the end of the recording.
  [[nodiscard]] const view::MachineRates& rates() const noexcept;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep::observe

#pragma GCC visibility pop
