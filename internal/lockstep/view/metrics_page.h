// SPDX-License-Identifier: Apache-2.0
// The metrics of a run in Prometheus' text format, produced by a pure function.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#pragma GCC visibility push(default)

namespace lockstep::view {

/// The metrics of a run so far; unknown ones are omitted from the page.
struct RunFigures {
  std::string recipe;                                        ///< name of the recipe
  std::string run;                                           ///< the name of the run folder
  std::int64_t world_size = 1;                               ///< number of ranks
  std::int64_t restarts = 0;                                 ///< number of restarts of the ranks
  std::int64_t step = 0;                                     ///< steps done
  std::int64_t total_steps = 0;                              ///< steps of the whole run; 0: unknown
  std::int64_t epoch = 0;                                    ///< the current epoch, from 1; 0: none has begun
  std::int64_t skipped = 0;                                  ///< steps that were skipped
  std::int64_t bad_samples = 0;                              ///< samples that were skipped
  std::optional<double> loss = {};                           ///< loss of the last logged step
  std::optional<double> learning_rate = {};                  ///< learning rate of the last step
  std::optional<double> images_per_s = {};                   ///< speed over all ranks
  std::optional<double> loss_scale = {};                     ///< loss scale, with fp16
  std::optional<double> data_wait = {};                      ///< fraction of the last epoch spent waiting for data
  std::optional<std::int64_t> memory_peak = {};              ///< peak memory in bytes, the maximum over all ranks
  std::vector<std::pair<std::string, double>> losses = {};   ///< the parts of the loss
  std::vector<std::pair<std::string, double>> metrics = {};  ///< metrics of the last evaluation
};

/// Returns the page, in version 0.0.4 of Prometheus's text format. All names begin with "lockstep_".
[[nodiscard]] std::string metrics_page(const RunFigures& figures);

}  // namespace lockstep::view

#pragma GCC visibility pop
