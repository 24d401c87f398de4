// SPDX-License-Identifier: Apache-2.0
#include "train/step/taken_batches.h"

#include <ATen/TensorOperators.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "lockstep/optim/autocast.h"
#include "train/step/bad_batch.h"

namespace lockstep::train {

namespace fs = std::filesystem;

void TakenBatches::begin() {
  const auto replicas = static_cast<std::size_t>(loaders_.block().size());
  Call next{.epoch = loaders_.epoch()};
  next.losses.resize(replicas);
  next.rows.resize(replicas);
  before_ = std::exchange(now_, std::move(next));
}

void TakenBatches::add(std::size_t local, std::int64_t number, const at::Tensor& row) {
  if (now_.first_batch < 0) now_.first_batch = number;
  at::Tensor& sum = now_.losses[local];
  sum = sum.defined() ? sum + row : row;
  now_.rows[local].push_back(row);
}

void TakenBatches::fail(int replica, Batch batch, const std::string& fault) {
  failed_ = Failed{replica, std::move(batch), fault};
}

std::int64_t TakenBatches::bad_batch(const Call& call, std::size_t local) {
  const std::vector<at::Tensor>& rows = call.rows[local];
  const auto bad = std::find_if(rows.begin(), rows.end(),
                                [](const at::Tensor& row) { return !std::isfinite(row[0].item<double>()); });
  return call.first_batch + (bad == rows.end() ? 0 : bad - rows.begin());
}

std::vector<std::string> TakenBatches::bad_samples(std::int64_t ago) const {
  const NoGrad no_grad;
  std::vector<std::string> names;
  const std::vector<std::int64_t> replicas = bad_replicas(ago);
  if (replicas.empty()) return names;
  const Call& call = ago == 0 ? now_ : before_;
  const auto local = static_cast<std::size_t>(replicas.front() - loaders_.block().begin);
  loaders_.look_again(local, call.epoch, bad_batch(call, local), [&](const Batch& batch) {
    for (const std::int64_t index : batch.indices) names.push_back(loaders_.dataset().describe(index));
  });
  return names;
}

fs::path TakenBatches::remake_and_keep(const Call& call, std::size_t local, std::int64_t step,
                                       const fs::path& folder) const {
  fs::path file;
  loaders_.look_again(local, call.epoch, bad_batch(call, local), [&](const Batch& batch) {
    file = write_bad_batch(task_, loaders_.dataset(), batch,
                           {.step = step,
                            .replica = loaders_.block().begin + static_cast<int>(local),
                            .fault = fmt::format("loss {}", call.losses[local][0].item<double>())},
                           folder);
  });
  return file;
}

std::vector<std::int64_t> TakenBatches::bad_replicas(std::int64_t ago) const {
  std::vector<std::int64_t> found;
  const Call& call = ago == 0 ? now_ : before_;
  for (std::size_t local = 0; local < call.losses.size(); ++local) {
    const at::Tensor& loss = call.losses[local];
    if (!loss.defined() || std::isfinite(loss[0].item<double>())) continue;
    found.push_back(loaders_.block().begin + static_cast<std::int64_t>(local));
  }
  return found;
}

std::vector<fs::path> TakenBatches::keep_bad(std::int64_t step, std::int64_t ago, const fs::path& folder) const {
  const NoGrad no_grad;
  if (failed_) {
    return {write_bad_batch(task_, loaders_.dataset(), failed_->batch,
                            {.step = step, .replica = failed_->replica, .fault = failed_->fault}, folder)};
  }
  std::vector<fs::path> kept;
  const Call& call = ago == 0 ? now_ : before_;
  for (const std::int64_t replica : bad_replicas(ago)) {
    kept.push_back(remake_and_keep(call, static_cast<std::size_t>(replica - loaders_.block().begin), step, folder));
  }
  return kept;
}

}  // namespace lockstep::train
