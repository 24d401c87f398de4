// SPDX-License-Identifier: Apache-2.0
// StepWatch: sees single steps of a run from inside, batch by batch, as hooks of a module do in Python.
#pragma once

#include <cstdint>

#include "lockstep/data/dataset.h"
#include "lockstep/train/run_sink.h"

#pragma GCC visibility push(default)

namespace lockstep {

/// A batch whose gradients are computed. Lifetime: during the call.
struct WatchedBatch {
  int replica = 0;           ///< the replica that computes it
  const Batch& batch;        ///< on the model's device
  torch::nn::Module& model;  ///< the task's, with the weights from before the step
  Dataset& dataset;          ///< the training set
};

/// Receives the steps of this rank that it asks for. It must leave the model unchanged. It may draw random numbers,
/// since each batch seeds its own. Thread-safe: not needed; the replicas' threads call it one at a time.
class StepWatch {
 public:
  virtual ~StepWatch() = default;
  /// Returns true if the step that begins is to be watched. Called before each step.
  virtual bool wants(std::int64_t step) = 0;
  /// A batch's forward comes next.
  virtual void on_batch(const WatchedBatch& /*watched*/) {}
  /// Its backward is done. `losses` is the loss, and its parts if there are several, in one dimension.
  virtual void on_batch_done(const WatchedBatch& /*watched*/, const at::Tensor& /*losses*/) {}
  /// The step's gradients are reduced.
  virtual void on_gradients(const StepGradients& /*gradients*/) {}
};

}  // namespace lockstep

#pragma GCC visibility pop
