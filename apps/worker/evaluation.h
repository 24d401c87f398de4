// SPDX-License-Identifier: Apache-2.0
// Evaluates a trained model and reports on it: text or JSON on the console, files, pictures. Shared by `eval` and
// `train --test-only`.
#pragma once

#include <string>

#include "lockstep/comm/job.h"
#include "lockstep/train/train_result.h"
#include "worker/settings.h"
#include "worker/trained.h"

namespace lockstep::worker {

struct EvaluationRequest {
  std::string recipe;
  std::string data;             ///< as Task::make_dataset() takes it
  std::string pictures = {};    ///< a folder; empty: none
  std::string results = {};     ///< a folder for metrics.json and the recipe's other files; empty: none
  std::string onnx = {};        ///< an exported file that computes in place of the model; empty: none
  std::string runtime = {};     ///< the Python or Node for it; empty: one that has ONNX Runtime
  std::int64_t batch_size = 0;  ///< 0: that of the settings
  bool json = false;            ///< one JSON object instead of text
  /// The epoch, from 1, whose weights get a final test: its number and "test" are in the names of results. 0: no final
  /// test.
  std::int64_t final_after = 0;
};

/// Collective: yes. Throws: UsageError if the recipe draws no pictures, or the ONNX file is of another network; as
/// evaluate().
void evaluate_trained(Job& job, const Trained& trained, const EvaluationRequest& request);

/// `lockstep train ... --test-only`: only the evaluation that a run would end with.
struct TestOnly {
  std::string run_dir;     ///< results go into its folder `eval`; empty: the run of `checkpoint`
  std::string checkpoint;  ///< --resume: a checkpoint with its own settings, or a file of weights
  std::string weights;     ///< --init-from
  bool may_be_partial = false;
};

/// Evaluates on data.test and writes the recipe's result files. A checkpoint keeps its own settings, except given
/// settings of the data; a file of weights gets all given settings.
/// Collective: yes. Throws: UsageError if no checkpoint or no data set is named; as evaluate_trained().
void evaluate_only(Job& job, Settings& settings, const TestOnly& what);

/// Evaluates the best weights of a complete run on the recipe's final test set, if it has one, and writes the results
/// into the run's folder `result`. Collective: yes. Throws: as evaluate_trained().
void evaluate_finally(Job& job, const Settings& settings, const TrainResult& result);

}  // namespace lockstep::worker
