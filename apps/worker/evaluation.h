// SPDX-License-Identifier: Apache-2.0
// The evaluation of a trained model and what becomes of it: text or JSON on the console, files, pictures. `eval` and
// `train --test-only` share it.
#pragma once

#include <string>

#include "lockstep/comm/job.h"
#include "worker/trained.h"

namespace lockstep::worker {

struct EvaluationRequest {
  std::string recipe;
  std::string data;             ///< as Task::make_dataset() takes it
  std::string pictures = {};    ///< a folder; empty: none
  std::string results = {};     ///< a folder for metrics.json and the recipe's other files; empty: none
  std::int64_t batch_size = 0;  ///< 0: that of the settings
  bool json = false;            ///< one JSON object instead of text
};

/// Collective: yes. Throws: UsageError where the recipe draws no pictures; as evaluate().
void evaluate_trained(Job& job, const Trained& trained, const EvaluationRequest& request);

}  // namespace lockstep::worker
