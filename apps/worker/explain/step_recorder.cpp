// SPDX-License-Identifier: Apache-2.0
#include "worker/explain/step_recorder.h"

#include <torch/nn/module.h>

#include <cmath>
#include <limits>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/data/loader.h"
#include "lockstep/optim/autocast.h"
#include "lockstep/parallel/replica_team.h"
#include "lockstep/train/prepare.h"

namespace lockstep::worker {
namespace {

constexpr std::size_t kMostNeighbours = 100;

std::string layer_of(const std::string& parameter) {
  const auto dot = parameter.rfind('.');
  return dot == std::string::npos ? parameter : parameter.substr(0, dot);
}

/// Saves and restores a model's buffers, because forward passes in training mode change them.
class KeptBuffers {
 public:
  explicit KeptBuffers(torch::nn::Module& model) : buffers_(model.buffers()) {
    for (const at::Tensor& buffer : buffers_) kept_.push_back(buffer.detach().clone());
  }
  ~KeptBuffers() {
    const at::NoGradGuard no_grad;
    for (std::size_t i = 0; i < buffers_.size(); ++i) buffers_[i].copy_(kept_[i]);
  }
  KeptBuffers(const KeptBuffers&) = delete;
  KeptBuffers& operator=(const KeptBuffers&) = delete;

 private:
  std::vector<at::Tensor> buffers_;
  std::vector<at::Tensor> kept_;
};

std::uint64_t row_digest(const at::Tensor& rows, std::int64_t samples, std::int64_t row) {
  if (!rows.defined() || rows.dim() == 0 || rows.size(0) != samples) return 0;
  return observe::digest_of_values(rows[row]);
}

bool are_pictures(const Batch& batch) {
  const at::Tensor& data = batch.data;
  return data.defined() && data.dim() == 4 && data.size(0) == batch.size && (data.size(1) == 1 || data.size(1) == 3);
}

}  // namespace

bool StepRecorder::wants(std::int64_t step) {
  if (options_.on_step) options_.on_step(step);
  now_ = step;
  return step <= options_.step;
}

void StepRecorder::on_batch(const WatchedBatch& watched) {
  if (now_ != options_.step) return;
  if (record_.batches.empty()) {
    for (const auto& [name, entry] : named_entries_of(watched.model)) {
      record_.weights = record_.weights * 31 + observe::digest_of_values(entry);
    }
  }
  BatchRecord batch{.replica = watched.replica,
                    .data = observe::digest_of_values(watched.batch.data),
                    .target = observe::digest_of_values(watched.batch.target)};
  for (std::int64_t i = 0; i < std::ssize(watched.batch.indices); ++i) {
    const std::int64_t index = watched.batch.indices[static_cast<std::size_t>(i)];
    batch.samples.push_back({.index = index,
                             .name = watched.dataset.describe(index),
                             .digest = row_digest(watched.batch.data, watched.batch.size, i),
                             .loss = std::numeric_limits<double>::quiet_NaN()});
    if (are_pictures(watched.batch)) pictures_.push_back(watched.batch.data[i].detach().to(at::kCPU).clone());
  }
  record_.step = now_;
  model_ = &watched.model;
  dataset_ = &watched.dataset;
  epoch_ = watched.batch.epoch;
  places_[watched.replica] = record_.batches.size();
  record_.batches.push_back(std::move(batch));
  if (options_.operators) {
    values_[watched.replica] = std::make_unique<observe::OperatorValues>(named_parameters_of(watched.model));
  }
}

void StepRecorder::on_batch_done(const WatchedBatch& watched, const at::Tensor& losses) {
  if (now_ != options_.step) return;
  BatchRecord& batch = batch_of(watched.replica);
  if (const auto found = values_.find(watched.replica); found != values_.end()) {
    batch.values = found->second->take();
    values_.erase(found);
  }
  const at::Tensor row = losses.detach().to(at::kCPU, at::kDouble).contiguous();
  batch.losses.assign(row.data_ptr<double>(), row.data_ptr<double>() + row.numel());
}

/// Runs as the only replica, because computing a loss may all-reduce over all replicas.
void StepRecorder::add_single_losses() {
  const KeptBuffers kept(*model_);
  ReplicaTeam alone(*options_.group, {.replicas = 1, .threads = static_cast<int>(config_.threads)});
  alone.run([this](Replica&) {
    for (BatchRecord& batch : record_.batches) {
      for (SampleRecord& sample : batch.samples) sample.loss = loss_alone(sample.index);
    }
  });
}

double StepRecorder::loss_alone(std::int64_t index) const {
  const at::NoGradGuard no_grad;
  const auto twice = make_dataset(2, [&](std::int64_t) {
    SampleContext context(static_cast<std::uint64_t>(config_.seed), epoch_, index);
    return dataset_->get(index, context);
  });
  DataLoader loader(twice, {.batch_size = 2, .workers = 0, .shuffle = false, .collate = task_.collate()});
  DataLoader::Epoch pass = loader.epoch(0);
  Batch& batch = *pass.next();
  const c10::Device device = device_of(*model_);
  prepare_batch(batch, device, config_.channels_last);
  const Outputs outputs = [&] {
    const Autocast autocast(device.type(), amp_from_name(config_.amp));
    return task_.run(*model_, batch);
  }();
  double loss = 0;
  for (const LossTerm& term : task_.loss_terms(outputs, batch)) loss += term.value.item<double>();
  return loss;
}

void StepRecorder::on_gradients(const StepGradients& gradients) {
  LayerNorms squares;
  for (const auto& [name, parameter] : named_parameters_of(gradients.model)) {
    const at::Tensor& gradient = parameter.grad();
    if (!gradient.defined()) continue;
    const double norm = gradient.detach().norm().item<double>() / gradients.loss_scale;
    squares[layer_of(name)] += norm * norm;
    if (now_ != options_.step) continue;
    record_.gradients.push_back({.name = name, .digest = observe::digest_of_values(gradient), .norm = norm});
  }
  for (auto& [layer, square] : squares) square = std::sqrt(square);
  norms_.push_back(std::move(squares));
  if (now_ == options_.step && options_.single_losses) add_single_losses();
  if (norms_.size() > kMostNeighbours + 1) norms_.erase(norms_.begin());
}

}  // namespace lockstep::worker
