// SPDX-License-Identifier: Apache-2.0
#include "train/resume/init_from.h"

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/base/log.h"
#include "lockstep/checkpoint/weights.h"

namespace lockstep::train {

void require_one_start(const TrainerOptions& options) {
  if (options.init_from.empty() || options.resume == "none" || options.resume == "auto") return;
  throw UsageError(fmt::format("the run cannot both go on from {} and start from the weights of {}", options.resume,
                               options.init_from.string()),
                   "leave one of --resume and --init-from out");
}

void start_from_weights(Task& task, const NamedTensors& model, const std::filesystem::path& where) {
  Weights weights = load_weights(where.string());
  task.check_model_state(weights.tensors);
  for (const std::string& done : task.fit_weights(weights.tensors, model)) log::note("{}: {}", weights.origin, done);
  std::string report = to_text(copy_weights(model, weights));
  report.pop_back();  // the last line's end
  log::note("weights from {}: {}", weights.origin, report);
}

}  // namespace lockstep::train
