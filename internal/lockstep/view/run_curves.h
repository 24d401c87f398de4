// SPDX-License-Identifier: Apache-2.0
// The curves of a run, read from its log.jsonl during or after the run.
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

/// One run. Its names are printable (text::printable()). A value that is null or not a number, such as the loss of a
/// step that was skipped, has no point.
struct RunCurves {
  std::string name;                               ///< the folder's name
  std::map<std::string, Curve> steps;             ///< loss, lr, images_per_s, loss_scale, skipped, `losses.<part>`
  std::map<std::string, Curve> epochs;            ///< loss, lr, images_per_s, data_wait, seconds, memory_peak, ...
  std::map<std::string, Curve> metrics;           ///< metrics of the evaluated epochs
  std::map<std::int64_t, std::int64_t> epoch_of;  ///< the epoch, from 1, that ends at a step
  std::int64_t damaged = 0;  ///< number of lines that are not a JSON object; a killed run leaves one at the end
  std::vector<std::string> metric_names = {};  ///< names in the task's order: the first is its main metric
};

/// Adds a line of log.jsonl to `run`, and returns it; none if it is damaged. A run that was killed and resumed repeats
/// steps, so a line of an earlier step removes the points from that step onwards.
std::optional<LogLine> add_line(RunCurves& run, std::string_view text);

/// Reads `folder`/log.jsonl line by line, up to the last newline. Blocks: while it reads. Throws: DataError if there is
/// no such file, or more points than fit in 1 GB.
[[nodiscard]] RunCurves read_run_curves(const std::filesystem::path& folder);

/// Returns one row for each logged step and each epoch of `runs`, with a header: run, event, epoch, step, and every
/// value that any row has. A missing value is an empty cell.
[[nodiscard]] std::string curves_csv(const std::vector<RunCurves>& runs);

/// Returns `curve`, smoothed as in TensorBoard: an exponential average with `weight` on the past, bias-corrected. 0
/// changes nothing. `weight` is below 1.
[[nodiscard]] Curve smoothed(const Curve& curve, double weight);

}  // namespace lockstep::view

#pragma GCC visibility pop
