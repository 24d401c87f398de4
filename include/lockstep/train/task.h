// SPDX-License-Identifier: Apache-2.0
// Task: the user's part of a training run (data, model, loss and metrics); the Trainer does everything else.
#pragma once

#include <ATen/core/ivalue.h>  // before any other torch header

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/checkpoint/torch_file.h"
#include "lockstep/data/collate.h"
#include "lockstep/data/dataset.h"
#include "lockstep/nn/torchscript.h"
#include "lockstep/tensor/named_tensors.h"
#include "lockstep/tensor/state_dict.h"

namespace torch::nn {
class Module;  // torch/nn/module.h takes 6 s to compile, and a caller with a network includes it anyway
}

#pragma GCC visibility push(default)

namespace lockstep {

class Tally;

/// A metric of an evaluation, such as {"string_accuracy", 0.914}.
struct Metric {
  std::string name;              ///< the metric's name in logs and tables
  double value = 0;              ///< its value
  bool lower_is_better = false;  ///< a smaller value is better, as for a loss; determines which checkpoint is best
  bool in_table = true;          ///< shown in the table of epochs
};

/// The output tensors of a network for a batch, by name. A single output has the name "".
using Outputs = std::map<std::string, at::Tensor>;

/// A part of the loss, already weighted: the loss is the sum of all parts.
struct LossTerm {
  std::string name;  ///< the name in log.jsonl and in errors
  at::Tensor value;  ///< a scalar
};

/// The epoch about to begin.
struct EpochInfo {
  std::int64_t epoch = 0;  ///< counted from 0
  std::int64_t stage = 1;  ///< 1, or 2 in the second stage (TrainConfig::Stages)
};

/// The states of a model in a checkpoint. Tied weights have entries under all their names.
struct ModelStates {
  StateDict model;                        ///< the trained entries
  std::optional<StateDict> average = {};  ///< the moving average of the entries
  std::int64_t updates = 0;               ///< number of updates of the average
  std::int64_t epochs = 0;                ///< completed epochs

  /// Returns the states that `lockstep eval` uses.
  [[nodiscard]] const StateDict& best() const { return average ? *average : model; }
};

/// One training problem. A network with one output and one loss overrides forward(), loss() and count(); one with
/// several overrides run(), loss_terms() and make_tally() instead.
///
/// The training thread or a replica's thread calls the methods, never two at a time. None may communicate, except run()
/// and loss_terms() in training: they may call this_replica().all_reduce() if every batch makes the same calls.
/// Example: recipes/captcha/task.cpp; recipes/detection/task.cpp.
class Task {
 public:
  virtual ~Task() = default;

  /// Returns the samples under `folder`, for training or evaluation. Throws: DataError naming the folder or file.
  [[nodiscard]] virtual std::shared_ptr<Dataset> make_dataset(const std::string& folder) = 0;
  /// Returns the training set. Override this if training needs a different set from make_dataset(), for example one
  /// with augmentations.
  [[nodiscard]] virtual std::shared_ptr<Dataset> make_training_set(const std::string& folder) {
    return make_dataset(folder);
  }
  /// Returns the function that combines samples into a batch; empty to stack them.
  [[nodiscard]] virtual Collate collate() const { return {}; }

  /// Called before weights are loaded from a checkpoint or file, and before make_model() if only the checkpoint is
  /// known (`lockstep eval`, `predict`). A task whose model stores the meaning of its data, such as a vocabulary, reads
  /// or compares it in `state`, the model's entries. Throws: DataError naming the entry that does not match.
  virtual void check_model_state(const StateDict& /*state*/) {}

  /// Called before the weights of a file are copied into a fresh model, whose entries are in `model`. A task renames,
  /// drops or converts weights that were trained for something else. Returns one sentence per change.
  /// Throws: DataError if the weights would have a different meaning in this model.
  virtual std::vector<std::string> fit_weights(StateDict& /*weights*/, const NamedTensors& /*model*/) { return {}; }

  /// Returns a trained model in the file format and with the names of the program that the recipe re-creates; none if
  /// there is no such program. The reverse of fit_weights(). Throws: UsageError naming the setting for which that
  /// program has no network.
  [[nodiscard]] virtual std::optional<TorchValue> origin_file(const ModelStates& /*states*/) const {
    return std::nullopt;
  }

  /// Called after weights are loaded into a model that only predicts from then on (`lockstep eval`, `predict`): layers
  /// may be fused. The outputs must stay the same except for rounding; the state dict may change.
  virtual void prepare_inference(torch::nn::Module& /*model*/) {}

  /// Returns the network as a function of tensors, for programs without this library (`lockstep checkpoint export --to
  /// model.pt`); empty if there is none. `model` is in evaluation mode, and has been through prepare_inference().
  /// Lifetime: the task and the model outlive the function. Throws: UsageError if a setting is missing.
  [[nodiscard]] virtual std::optional<nn::NetworkFunction> network_function(torch::nn::Module& /*model*/) {
    return std::nullopt;
  }
  /// Returns the network with its postprocessing (`--postprocess`), in the form deployed by the program that the recipe
  /// re-creates; empty if there is no postprocessing.
  [[nodiscard]] virtual std::optional<nn::NetworkFunction> deployed_function(torch::nn::Module& /*model*/) {
    return std::nullopt;
  }

  /// Returns outputs like those of run() for a batch of an evaluation. `network` computes network_function() in place
  /// of the model, for example from an exported file (`lockstep eval --onnx`). Throws: UsageError if the task has no
  /// such function, or if its arguments have different sizes.
  [[nodiscard]] virtual Outputs run_exported(const nn::TensorFunction& network, const Batch& batch);

  /// Creates the network with fresh weights; libtorch's generator has been seeded.
  [[nodiscard]] virtual std::shared_ptr<torch::nn::Module> make_model() = 0;

  /// Called on every rank before the batches of each epoch, even if a run resumes in the middle of an epoch, so
  /// training may depend on this call.
  virtual void begin_epoch(const EpochInfo& /*info*/) {}

  /// Returns the network's output for a batch. It runs under Autocast if amp is on.
  [[nodiscard]] virtual at::Tensor forward(torch::nn::Module& model, const Batch& batch);
  /// Returns all outputs of the network, in training or evaluation mode. It runs under Autocast if amp is on.
  [[nodiscard]] virtual Outputs run(torch::nn::Module& model, const Batch& batch);

  /// Returns a scalar, the mean over the batch's samples. It runs outside Autocast; `output` may be bfloat16.
  [[nodiscard]] virtual at::Tensor loss(const at::Tensor& output, const Batch& batch);
  /// Returns the parts of the loss, with the same names for every batch. It runs outside Autocast.
  [[nodiscard]] virtual std::vector<LossTerm> loss_terms(const Outputs& outputs, const Batch& batch);

  /// Returns true if training steps may be recorded as CUDA graphs with cuda_graph: auto. For equal recording_key() and
  /// shapes, run() and loss_terms() must then do the same, so that they need be called only once.
  [[nodiscard]] virtual bool is_recordable() const { return false; }
  /// Returns a string identifying everything a training step on `batch` depends on besides its data and target: the
  /// host's decisions, and the entries of `extra` that run() and loss_terms() read. None means that this step must not
  /// be recorded; that is the default for a batch with `extra`. The result may differ from batch to batch and change
  /// between epochs.
  [[nodiscard]] virtual std::optional<std::string> recording_key(const Batch& batch) const;

  /// Returns the counts of a batch in evaluation: float64, one dimension, the same length for every batch. They are
  /// summed over batches and ranks.
  [[nodiscard]] virtual at::Tensor count(const at::Tensor& output, const Batch& batch);

  /// Returns the metrics from the summed counts; the progress lines show the first one.
  [[nodiscard]] virtual std::vector<Metric> metrics(const at::Tensor& counts) const;

  /// Returns additional text on the summed counts, for the end of an evaluation; may be empty.
  [[nodiscard]] virtual std::string report(const at::Tensor& /*counts*/) const { return ""; }

  /// Creates a Tally for an evaluation whose metrics are not sums over samples; null to use count() and metrics().
  [[nodiscard]] virtual std::unique_ptr<Tally> make_tally() const;

  /// Returns the tensors to save from a batch whose loss is not finite; by default its data, target and indices.
  [[nodiscard]] virtual StateDict batch_state(const Batch& batch) const;

  /// Returns one line for the start banner, such as "conv7"; the Trainer adds the number of parameters.
  [[nodiscard]] virtual std::string model_name() const = 0;
};

}  // namespace lockstep

#pragma GCC visibility pop
