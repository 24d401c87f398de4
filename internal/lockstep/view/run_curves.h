// SPDX-License-Identifier: Apache-2.0
// The curves of a run, read from its log.jsonl while the run goes on or after it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/view/run_log.h"

#pragma GCC visibility push(default)

namespace lockstep::view {

/// A value at a step.
struct CurvePoint {
  std::int64_t step = 0;  ///< the step
  double value = 0;       ///< the value
};
/// Points in ascending order of their steps.
using Curve = std::vector<CurvePoint>;

/// One run. Its names are printable (text::printable()). A figure that is null or no number, such as the loss of a step
/// that was left out, has no point.
struct RunCurves {
  std::string name;                               ///< the folder's
  std::map<std::string, Curve> steps;             ///< loss, lr, images_per_s, loss_scale, skipped, `losses.<part>`
  std::map<std::string, Curve> epochs;            ///< loss, lr, images_per_s, data_wait, seconds, memory_peak, ...
  std::map<std::string, Curve> metrics;           ///< metrics of the evaluated epochs
  std::map<std::int64_t, std::int64_t> epoch_of;  ///< step at the end of an epoch: the epoch, from 1
  std::int64_t damaged = 0;                       ///< lines that are no JSON object, as a kill leaves one at the end
  std::vector<std::string> metric_names = {};  ///< in the log's order, which is the task's: the first is its main one
};

/// Adds a line of log.jsonl to `run`, and returns it; none: it is damaged. A killed run repeats steps: a line of an
/// earlier step voids the points from there on.
std::optional<LogLine> add_line(RunCurves& run, std::string_view text);

/// Reads `folder`/log.jsonl, line by line; text after the last line end is left for the next time. Blocks: while it
/// reads. Throws: DataError if there is no such file, or more points than fit in 1 GB.
[[nodiscard]] RunCurves read_run_curves(const std::filesystem::path& folder);

/// Returns one row for each logged step and each epoch of `runs`, with a header: run, event, epoch, step, and every
/// figure that one of them has; a figure that a row lacks is empty.
[[nodiscard]] std::string curves_csv(const std::vector<RunCurves>& runs);

/// Returns `curve` as TensorBoard smooths it: an exponential average with `weight` on the past, corrected for its
/// start. 0 changes nothing. `weight` is below 1.
[[nodiscard]] Curve smoothed(const Curve& curve, double weight);

}  // namespace lockstep::view

#pragma GCC visibility pop
