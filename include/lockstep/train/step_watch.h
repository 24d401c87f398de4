// SPDX-License-Identifier: Apache-2.0
// StepWatch: observes individual steps of a run from inside, batch by batch, like module hooks in Python.
#pragma once

#include <cstdint>

#include "lockstep/data/dataset.h"
#include "lockstep/train/run_sink.h"

#pragma GCC visibility push(default)

namespace lockstep {

/// A batch whose gradients are being computed. Lifetime: only during the call.
struct WatchedBatch {
  int replica = 0;           ///< the replica that computes it
  const Batch& batch;        ///< the batch, on the model's device
  torch::nn::Module& model;  ///< the task's model, with the weights before the step
  Dataset& dataset;          ///< the training set
};

/// Receives those steps of this rank that wants() selects. It must leave the model unchanged. It may draw random
/// numbers, because each batch seeds the generator. Thread-safe: not needed; the replicas' threads take turns.
class StepWatch {
 public:
  virtual ~StepWatch() = default;
  /// Returns true if the step about to begin is to be watched. Called before each step.
  virtual bool wants(std::int64_t step) = 0;
  /// Called before the batch's forward pass.
  virtual void on_batch(const WatchedBatch& /*watched*/) {}
  /// Called after the batch's backward pass. `losses` has one dimension: the loss, then its parts if there are several.
  virtual void on_batch_done(const WatchedBatch& /*watched*/, const at::Tensor& /*losses*/) {}
  /// Called once the step's gradients are reduced.
  virtual void on_gradients(const StepGradients& /*gradients*/) {}
};

}  // namespace lockstep

#pragma GCC visibility pop
