// SPDX-License-Identifier: Apache-2.0
// Task: the user's part of a training run, with data, model, loss and metrics; the Trainer does everything else.
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
  std::string name;              ///< its name in logs and tables
  double value = 0;              ///< its value
  bool lower_is_better = false;  ///< as for a loss; it decides which checkpoint is the best
  bool in_table = true;          ///< the table of epochs shows it
};

/// The output tensors of a network for a batch, by name. A single output has the name "".
using Outputs = std::map<std::string, at::Tensor>;

/// A part of the loss, already weighted: the loss is the sum of all parts.
struct LossTerm {
  std::string name;  ///< the name in log.jsonl and in errors
  at::Tensor value;  ///< a scalar
};

/// A run's position before the first batch of an epoch.
struct EpochInfo {
  std::int64_t epoch = 0;  ///< counted from 0
  std::int64_t stage = 1;  ///< 2 in a second stage (TrainConfig::Stages)
};

/// A checkpoint's states of a model. Tied weights are there under all their names.
struct ModelStates {
  StateDict model;                        ///< the entries as they were trained
  std::optional<StateDict> average = {};  ///< their moving average
  std::int64_t updates = 0;               ///< updates that the average has seen
  std::int64_t epochs = 0;                ///< epochs that are done

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
  /// Returns the training set, if it differs from make_dataset(), as with augmentations.
  [[nodiscard]] virtual std::shared_ptr<Dataset> make_training_set(const std::string& folder) {
    return make_dataset(folder);
  }
  /// Returns how samples become a batch; empty: they are stacked.
  [[nodiscard]] virtual Collate collate() const { return {}; }

  /// Called before weights are loaded from a checkpoint or file, and before make_model() if only the checkpoint is
  /// known (`lockstep eval`, `predict`). A task whose model keeps the meaning of its data, such as a vocabulary, takes
  /// it from there or compares it. `state` has the model's entries. Throws: DataError naming the entry that does not
  /// fit.
  virtual void check_model_state(const StateDict& /*state*/) {}

  /// Called before the weights of a file are copied into a fresh model, whose entries are in `model`. A task renames,
  /// drops or converts weights that were trained for something else. Returns its changes, a sentence each, for a note.
  /// Throws: DataError if the weights would mean something else in this model.
  virtual std::vector<std::string> fit_weights(StateDict& /*weights*/, const NamedTensors& /*model*/) { return {}; }

  /// Returns a trained model in the file format and under the names of the program that the recipe re-creates; none:
  /// there is no such program. It is the reverse of fit_weights(). Throws: UsageError naming the setting for which that
  /// program has no network.
  [[nodiscard]] virtual std::optional<TorchValue> origin_file(const ModelStates& /*states*/) const {
    return std::nullopt;
  }

  /// Called after weights are loaded into a model that only predicts from then on (`lockstep eval`, `predict`): layers
  /// may be fused. The outputs stay the same but for rounding; the state dict need not.
  virtual void prepare_inference(torch::nn::Module& /*model*/) {}

  /// Returns the network as a function of tensors, for programs without this library (`lockstep checkpoint export --to
  /// model.pt`); empty: there is none. `model` is in evaluation mode, and prepare_inference() has seen it. Lifetime:
  /// task and model outlive the function. Throws: UsageError if a setting is missing.
  [[nodiscard]] virtual std::optional<nn::NetworkFunction> network_function(torch::nn::Module& /*model*/) {
    return std::nullopt;
  }
  /// Returns the same with the steps behind the network (`--postprocess`), in the form in which programs of the
  /// recipe's origin deploy it; empty: there are no such steps.
  [[nodiscard]] virtual std::optional<nn::NetworkFunction> deployed_function(torch::nn::Module& /*model*/) {
    return std::nullopt;
  }

  /// Returns the outputs of run() for a batch of an evaluation in which `network` computes network_function() in place
  /// of the model, as an exported file does (`lockstep eval --onnx`). Throws: UsageError if the task has no such
  /// function, or its arguments have other sizes.
  [[nodiscard]] virtual Outputs run_exported(const nn::TensorFunction& network, const Batch& batch);

  /// Makes the network with fresh weights; libtorch's generator has been seeded.
  [[nodiscard]] virtual std::shared_ptr<torch::nn::Module> make_model() = 0;

  /// Called on every rank before the batches of each epoch, even if a run resumes in the middle of one. Training may
  /// depend on it.
  virtual void begin_epoch(const EpochInfo& /*info*/) {}

  /// Returns the network's output for a batch. It runs under Autocast if amp is on.
  [[nodiscard]] virtual at::Tensor forward(torch::nn::Module& model, const Batch& batch);
  /// Returns all outputs of the network; the model's mode says if it trains. It runs under Autocast if amp is on.
  [[nodiscard]] virtual Outputs run(torch::nn::Module& model, const Batch& batch);

  /// Returns a scalar, the mean over the batch's samples. It runs outside Autocast; `output` may be bfloat16.
  [[nodiscard]] virtual at::Tensor loss(const at::Tensor& output, const Batch& batch);
  /// Returns the parts of the loss, with the same names for every batch. It runs outside Autocast.
  [[nodiscard]] virtual std::vector<LossTerm> loss_terms(const Outputs& outputs, const Batch& batch);

  /// Returns true if training steps may be recorded as CUDA graphs without a request for it: for equal recording_key()
  /// and shapes, run() and loss_terms() do the same, and need be called only once.
  [[nodiscard]] virtual bool is_recordable() const { return false; }
  /// Returns the inputs of a training step on `batch` beside the values and shapes of its data and target: the host's
  /// decisions, and the entries of `extra` that run() and loss_terms() read. None: this step must not be recorded; that
  /// is the default for a batch with `extra`. The answer may differ from batch to batch and change between epochs.
  [[nodiscard]] virtual std::optional<std::string> recording_key(const Batch& batch) const;

  /// Returns the counts of a batch in evaluation: float64, one dimension, the same length for every batch. They are
  /// summed over batches and ranks.
  [[nodiscard]] virtual at::Tensor count(const at::Tensor& output, const Batch& batch);

  /// Returns the metrics of summed counts; the progress lines show the first one.
  [[nodiscard]] virtual std::vector<Metric> metrics(const at::Tensor& counts) const;

  /// Returns more text about summed counts, for the end of an evaluation; may be empty.
  [[nodiscard]] virtual std::string report(const at::Tensor& /*counts*/) const { return ""; }

  /// Makes a Tally for an evaluation whose metrics are not sums over samples; null: count() and metrics() are used.
  [[nodiscard]] virtual std::unique_ptr<Tally> make_tally() const;

  /// Returns the tensors to keep of a batch whose loss is not finite; by default data, target and indices.
  [[nodiscard]] virtual StateDict batch_state(const Batch& batch) const;

  /// Returns one line for the start banner ("conv7, 19,072,400 parameters" gets its number from the Trainer).
  [[nodiscard]] virtual std::string model_name() const = 0;
};

}  // namespace lockstep

#pragma GCC visibility pop
