// SPDX-License-Identifier: Apache-2.0
// Evaluates a trained model and reports on it: text or JSON on the console, files, images. Shared by `eval` and
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
  std::string data;             ///< path for Task::make_dataset()
  std::string pictures = {};    ///< folder for images; empty: none
  std::string results = {};     ///< folder for metrics.json and the recipe's other files; empty: none
  std::string onnx = {};        ///< exported file that computes in place of the model; empty: none
  std::string runtime = {};     ///< Python or Node that runs the exported file; empty: the first with ONNX Runtime
  std::int64_t batch_size = 0;  ///< samples; 0: the settings' batch size
  bool json = false;            ///< true: prints one JSON object instead of text
  /// The epoch, from 1, whose weights get a final test; the result files have its number and "test" in their names. 0:
  /// no final test.
  std::int64_t final_after = 0;
  int replicas = 0;  ///< parts into which the samples are divided (EvaluateOptions::replicas); 0: the world size
};

/// Collective: yes. Throws: UsageError if the recipe does not draw images, or if the ONNX file was exported from
/// another network; anything evaluate() throws.
void evaluate_trained(Job& job, const Trained& trained, const EvaluationRequest& request);

/// `lockstep train ... --test-only`: runs only the evaluation that normally ends a run.
struct TestOnly {
  std::string run_dir;     ///< run folder, to whose folder `eval` results go; empty: the run of `checkpoint`
  std::string checkpoint;  ///< --resume: a checkpoint with its own settings, or a file of weights
  std::string weights;     ///< --init-from
  bool may_be_partial = false;

  /// The checkpoint or file to evaluate; empty: none.
  [[nodiscard]] std::string source() const;
  /// True if the source is a file of weights, which has no settings.
  [[nodiscard]] bool is_file() const;
};

/// Evaluates on data.test and writes the recipe's result files. For a file of weights, uses all settings that were
/// given. For a checkpoint, uses the checkpoint's own settings, except for the given settings of the data and the typed
/// ones of an evaluation (eval.*, amp, batch_size, workers, ...); a note names the typed ones that are not used.
/// Collective: yes. Throws: UsageError if no checkpoint or no data set is given; anything evaluate_trained() throws.
void evaluate_only(Job& job, Settings& settings, const TestOnly& what);

/// Evaluates the best weights of a complete run on the recipe's final test set, if it has one, and writes the results
/// into the run's folder `result`. Collective: yes. Throws: anything evaluate_trained() throws.
void evaluate_finally(Job& job, const Settings& settings, const TrainResult& result);

}  // namespace lockstep::worker
