// SPDX-License-Identifier: Apache-2.0
#include "train/step/batch_pass.h"

#include <fmt/format.h>

#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/fault.h"
#include "lockstep/base/log.h"
#include "lockstep/base/text.h"
#include "lockstep/optim/autocast.h"
#include "lockstep/tensor/random.h"
#include "lockstep/train/prepare.h"
#include "train/task/loss_terms.h"

namespace lockstep::train {
namespace {

/// Returns which steps run without a CUDA graph, and why; empty if none do.
std::string unrecorded(const StepGraph& graph) {
  if (!graph.fallback().empty()) return "steps run without a CUDA graph: " + graph.fallback();
  if (!graph.has_left_out()) return "";
  return fmt::format(
      "steps of further shapes run without a CUDA graph: there are {} recordings, the maximum; batches of fewer shapes "
      "avoid this",
      StepGraph::kMost);
}

}  // namespace

void BatchPass::build(DistributedDataParallel<TaskNet>& model, std::unique_ptr<tensor::DeviceGraph> graph) {
  model_ = &model;
  if (!graph) return;
  StepGraphOptions options;
  options.automatic = parts_.config.cuda_graph == "auto";
  options.job = job_;
  options.key = [this](const Batch& batch) {
    std::optional<std::string> key = parts_.task.recording_key(batch);
    // The division and the reduction are part of the recording.
    if (key) *key += fmt::format(" / {}{}", batches_, adds_up_ ? " adds up" : "");
    return key;
  };
  graph_.emplace(
      named_parameters_of(model), [this](const Batch& batch) { return compute(batch); }, std::move(options));
}

at::Tensor BatchPass::run(const Replica& replica, Batch& batch, bool is_last) {
  // Without buckets, every backward pass works like the last one.
  adds_up_ = !is_last && !(graph_ && job_.world_size() == 1);
  const WatchedBatch watched{
      .replica = replica.index(), .batch = batch, .model = model_->module().net(), .dataset = parts_.data.dataset()};
  if (watch_ != nullptr) watch_->on_batch(watched);
  const std::uint64_t seed = seed_of(replica.index(), batch);
  at::Tensor row;
  if (graph_) {
    row = graph_->run(batch, seed);
    note_unrecorded();
  } else {
    seed_all(seed);
    row = compute(batch);
  }
  if (watch_ != nullptr) watch_->on_batch_done(watched, row);
  return row;
}

BatchLoss BatchPass::loss_again(int replica, const Batch& batch) {
  seed_all(seed_of(replica, batch));
  Outputs outputs;
  {
    const Autocast autocast(job_.device().type(), amp_from_name(parts_.config.amp));
    outputs = model_->module().forward(batch);
  }
  return loss_of(std::move(outputs), batch);
}

void BatchPass::note_unrecorded() {
  std::string text = unrecorded(*graph_);
  if (text == noted_) return;
  noted_ = std::move(text);
  if (job_.is_main()) log::note("{}", noted_);
}

at::Tensor BatchPass::compute(const Batch& batch) {
  if (!adds_up_) return backward(batch);
  const NoSync adds_up = model_->no_sync();
  return backward(batch);
}

at::Tensor BatchPass::backward(const Batch& batch) {
  Outputs outputs;
  {
    const Autocast autocast(job_.device().type(), amp_from_name(parts_.config.amp));
    outputs = model_->forward(batch);
  }
  const BatchLoss loss = loss_of(std::move(outputs), batch);
  fault::in_section("backward", [&] { loss.scaled.backward(); });
  return loss.row;
}

// The outputs are released before the backward pass begins.
BatchLoss BatchPass::loss_of(Outputs outputs, const Batch& batch) {
  if (parts_.fault.awaits("activation")) {
    for (const auto& item : outputs) parts_.fault.strike("activation", {item.second});
  }
  const std::vector<LossTerm> terms = loss_terms(outputs, batch);
  if (loss_names_.empty()) loss_names_ = train::loss_names(terms);
  require_same_names(loss_names_, train::loss_names(terms));
  const double share = 1.0 / static_cast<double>(batches_);
  const at::Tensor loss = total_loss(terms);
  const at::Tensor row = loss_row(loss, terms);
  const bool is_whole = batches_ == 1;
  return {.scaled = parts_.weights.scaler().scale(is_whole ? loss : loss * share), .row = is_whole ? row : row * share};
}

/// With an undefined target, libtorch's losses fail with a message that does not mention the data set.
std::vector<LossTerm> BatchPass::loss_terms(const Outputs& outputs, const Batch& batch) {
  try {
    return fault::in_section("loss", [&] { return parts_.task.loss_terms(outputs, batch); });
  } catch (const c10::Error& error) {
    if (batch.target.defined()) throw;
    const std::string why = error.what_without_backtrace();
    throw UsageError(fmt::format("the loss failed on samples that have no target: {}", text::first_line(why)),
                     "give each sample of the data set a target, or write a loss that uses only batch.data");
  }
}

/// The random seed (for dropout) of one batch of one replica. It depends on nothing else, so there is no state to save.
std::uint64_t BatchPass::seed_of(int replica, const Batch& batch) const {
  const auto run_seed = static_cast<std::uint64_t>(parts_.config.seed);
  const std::uint64_t stream = stream_seed(run_seed, static_cast<std::uint64_t>(replica) + 1);
  const std::int64_t number = parts_.data.epoch() * parts_.data.batches_per_epoch() + batch.step;
  return stream_seed(stream, static_cast<std::uint64_t>(number));
}

}  // namespace lockstep::train
