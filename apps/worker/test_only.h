// SPDX-License-Identifier: Apache-2.0
// `lockstep train ... --test-only`: no training, but the evaluation that a run would end with.
#pragma once

#include <string>

#include "lockstep/comm/job.h"
#include "worker/settings.h"

namespace lockstep::worker {

struct TestOnly {
  std::string run_dir;     ///< results go into its folder `eval`; empty: that of the run that `checkpoint` names
  std::string checkpoint;  ///< --resume: a checkpoint with its own settings, or a file of weights
  std::string weights;     ///< --init-from
  bool may_be_partial = false;
};

/// Evaluates on data.test and writes the recipe's files of results. A checkpoint keeps its own settings, but for those
/// of the data that were given; a file of weights gets all that were given.
/// Collective: yes. Throws: UsageError where there is nothing to evaluate, or on nothing; as evaluate_trained().
void evaluate_only(Job& job, Settings& settings, const TestOnly& what);

}  // namespace lockstep::worker
