// SPDX-License-Identifier: Apache-2.0
#include "worker/checkpoint/pictures.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "lockstep/base/error.h"
#include "lockstep/base/log.h"
#include "lockstep/data/loader.h"

namespace lockstep::worker {
namespace {

constexpr std::int64_t kMostRows = 5;  // largest batch of compare_onnx()

/// The network's first argument in an evaluation: up to kMostRows rows.
at::Tensor rows_of(const Trained& trained, const std::string& data) {
  const at::NoGradGuard no_grad;
  const auto network = trained.task->network_function(*trained.model);
  if (!network) return {};
  std::vector<at::Tensor> seen;
  std::int64_t rows = 0;
  const nn::TensorFunction watched = [&](const std::vector<at::Tensor>& arguments) {
    seen.push_back(arguments.at(0).clone());
    rows += seen.back().size(0);
    return network->run(arguments);
  };
  const auto set = trained.task->make_dataset(data);
  DataLoader loader(set, {.batch_size = std::min(kMostRows, set->size()),
                          .remainder = Remainder::kKeep,
                          .collate = trained.task->collate()});
  for (const Batch& batch : loader.epoch(0)) {
    (void)trained.task->run_exported(watched, batch);
    if (rows >= kMostRows) break;
  }
  return at::cat(seen).narrow(0, 0, std::min(rows, kMostRows));
}

/// Repeats `rows` to fill a batch.
at::Tensor batch_of(const at::Tensor& rows, std::int64_t batch) {
  std::vector<at::Tensor> all;
  for (std::int64_t have = 0; have < batch; have += rows.size(0)) all.push_back(rows);
  return at::cat(all).narrow(0, 0, batch);
}

}  // namespace

nn::NetworkFunction on_pictures(const Trained& trained, nn::NetworkFunction function, const std::string& data) {
  const std::string& path = data.empty() ? trained.config->test_data() : data;
  std::error_code problem;
  if (data.empty() && !std::filesystem::exists(path, problem)) return function;
  at::Tensor rows;
  try {
    rows = rows_of(trained, path);
  } catch (const Error& error) {
    if (!data.empty()) throw;
    log::note("the file is compared on synthetic inputs, because the images of {} cannot be used: {}", path,
              error.message());
  }
  if (!rows.defined()) return function;
  log::note("compared on images of {}", path);
  function.example = [rows, others = function.example](std::int64_t batch) {
    std::vector<at::Tensor> arguments = others(batch);
    arguments.at(0) = batch_of(rows, batch);
    return arguments;
  };
  return function;
}

}  // namespace lockstep::worker
