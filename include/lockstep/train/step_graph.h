// SPDX-License-Identifier: Apache-2.0
// StepGraph: forward, loss and backward of a step, recorded once for each shape and then launched by one call. Without
// it, a GPU that computes small steps waits for the host to launch each kernel.
#pragma once

#include <ATen/core/ivalue.h>  // before any other torch header
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/comm/job.h"
#include "lockstep/data/dataset.h"
#include "lockstep/tensor/device_graph.h"
#include "lockstep/tensor/named_tensors.h"

#pragma GCC visibility push(default)

namespace lockstep {

/// The options of a StepGraph.
struct StepGraphOptions {
  /// Creates an empty recording. If it returns null, this device cannot record, and every step is computed normally.
  std::function<std::unique_ptr<tensor::DeviceGraph>()> make = tensor::make_device_graph;
  /// Returns a string identifying everything that a step's computation depends on besides the shapes of data and
  /// target; none if this batch's step must not be recorded. Without this function, steps depend only on the shapes,
  /// and batches with `extra` are not recorded.
  std::function<std::optional<std::string>(const Batch&)> key = {};
  /// If true, a step that cannot be recorded is computed normally, and fallback() gives the reason; if false, such a
  /// step ends the run. Before the recording, a trial run finds operators that make the host wait; a step with such
  /// operators is not recorded.
  bool automatic = false;
  /// The job whose ranks take part in a step's collectives; none: the step has no collectives. Before each step the
  /// ranks compare, with a small collective on CPU tensors, what they would record or replay. All ranks then do the
  /// same: if their batches differ, all compute normally. The steps may call collectives only on GPU tensors over NCCL.
  std::optional<Job> job = {};
};

/// Runs training steps as CUDA graphs. The first steps are computed normally. After them, a step is recorded when its
/// shape occurs for the third time, and later steps of that shape replay the recording. The update of the weights is
/// not recorded: the host keeps the learning rate, clipping and the optimizer's counts.
///
/// 1. run() sets undefined gradients (after zero_grad()) to the batch's, in the same memory for each shape. It adds to
///    defined gradients (accumulation), in the same memory for all shapes.
/// 2. `compute` runs on the host only in the first steps and when recording. Any other data that it reads must stay
///    in the same memory, and its decisions are made once for each shape and key.
/// 3. There are at most kMost recordings, each of which lives as long as the StepGraph. Steps of further shapes are
///    computed normally. A recording that fails ends the run, unless StepGraphOptions::automatic is set.
/// 4. Create a DistributedDataParallel while the result of DeviceGraph::enter() is alive: it keeps autograd nodes.
///
/// Must be used from the training thread. With StepGraphOptions::job, run() is collective.
/// Lifetime: parameters and buffers must keep their memory.
///
/// Source:  PyTorch's torch.cuda.CUDAGraph, "whole network capture".
///
/// Example: StepGraph steps(named_parameters_of(net), [&](const Batch& batch) {
///            at::Tensor loss = criterion(net->forward(batch.data), batch.target);
///            loss.backward();
///            return loss.detach();
///          });
class StepGraph {
 public:
  /// Runs forward, loss and backward; returns the loss without its autograd graph.
  using Compute = std::function<at::Tensor(const Batch&)>;

  /// Steps that are computed normally before the first recording: during these, libraries choose algorithms and
  /// allocate memory.
  static constexpr int kWarmUp = 3;
  /// The number of such steps in a job with several ranks, during which DistributedDataParallel also settles its
  /// buckets and NCCL connects.
  static constexpr int kWarmUpOfRanks = 11;
  /// The maximum number of recordings. Each one holds its batch, its loss and its gradients.
  static constexpr std::size_t kMost = 16;

  StepGraph(NamedTensors parameters, Compute compute, StepGraphOptions options = {});

  /// Runs one step on `batch`, whose tensors are on the device; random numbers come from `seed`.
  /// Returns: the loss, in its own memory. Blocks: only while recording and just before.
  /// Throws: UsageError with the reason if the step cannot be recorded; anything `compute` throws.
  at::Tensor run(const Batch& batch, std::uint64_t seed);

  /// Returns true if there is a recording to replay.
  [[nodiscard]] bool recorded() const noexcept { return !recordings_.empty(); }
  /// Returns the reason why no more steps are recorded; empty if steps are recorded.
  [[nodiscard]] const std::string& fallback() const noexcept { return fallback_; }
  /// Returns true if a shape has occurred for the third time but is not recorded, because there are kMost recordings.
  [[nodiscard]] bool has_left_out() const noexcept { return has_left_out_; }

 private:
  /// A step of one shape, which sets gradients or adds to them.
  struct Recording {
    std::unique_ptr<tensor::DeviceGraph> graph;
    Batch batch;                             ///< the tensors that it reads
    std::uint64_t calls = 0;                 ///< StepCalls::recorded
    at::Tensor loss = {};                    ///< the loss that it writes
    std::vector<at::Tensor> gradients = {};  ///< gradients by parameter; undefined if a parameter gets no gradient
  };

  [[nodiscard]] std::optional<std::string> key_of(const Batch& batch) const;
  at::Tensor compute(const Batch& batch, std::uint64_t seed);
  at::Tensor look(const Batch& batch, std::uint64_t seed);
  void share(std::string obstacle);
  std::string capture(Recording& made);
  bool record(const std::string& key, const Batch& batch, std::uint64_t seed);
  [[nodiscard]] std::string defined_gradients() const;
  [[nodiscard]] std::vector<at::Tensor> gradients() const;
  void set_gradients(const std::vector<at::Tensor>& gradients);
  void gather_sums();
  at::Tensor replay(Recording& recording, const Batch& batch, std::uint64_t seed);

  NamedTensors parameters_;
  Compute compute_;
  StepGraphOptions options_;
  std::unique_ptr<tensor::DeviceGraph> next_;  ///< the next recording, still empty; all recordings use its stream
  bool adds_ = false;                          ///< a step has added to existing gradients
  std::vector<at::Tensor> sums_;               ///< sums to which recordings add, by parameter; undefined at first
  int steps_ = 0;
  std::map<std::string, int> seen_;              ///< number of computed steps, by key
  std::map<std::string, Recording> recordings_;  ///< recordings, by key
  bool has_left_out_ = false;
  std::string fallback_;
};

}  // namespace lockstep

#pragma GCC visibility pop
