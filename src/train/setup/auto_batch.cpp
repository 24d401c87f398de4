// SPDX-License-Identifier: Apache-2.0
#include "train/setup/auto_batch.h"

#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include <algorithm>
#include <atomic>

#include "lockstep/base/error.h"
#include "lockstep/base/option_words.h"
#include "lockstep/base/text.h"
#include "lockstep/data/sampler.h"
#include "lockstep/tensor/keep_random_state.h"
#include "train/setup/batch_search.h"

namespace lockstep::train {
namespace {

std::atomic<bool> any_device{false};  // NOLINT(cppcoreguidelines-avoid-non-const-global-variables): for tests

/// Runs a first collective before free memory is measured, because on a GPU it allocates NCCL's buffers permanently.
void connect_device(const Job& job) {
  if (job.world_size() == 1 || !job.device().is_cuda()) return;
  job.group().all_reduce(at::zeros({1}, job.device())).wait();
}

std::int64_t smallest_of_all(const Job& job, std::int64_t own) {
  const at::Tensor smallest = at::full({1}, own, at::kLong);
  job.group().all_reduce(smallest, {.op = ReduceOp::kMin}).wait();
  return smallest.item<std::int64_t>();
}

ResourceError nothing_fits(const Untried& run, const std::string& problem) {
  const std::string place = problem.empty() ? "on another rank" : fmt::format("on {}", run.job.device().str());
  const std::string words = problem.empty() ? "" : ": " + text::first_line(problem);
  return ResourceError(fmt::format("batch_size is auto, but not even a batch of 1 fits in memory {}{}", place, words),
                       "use amp=bf16, optimizer.zero=true on several processes, or a smaller model");
}

}  // namespace

MeasureAnyDevice::MeasureAnyDevice() { any_device = true; }
MeasureAnyDevice::~MeasureAnyDevice() { any_device = false; }

void require_measurable(const TrainConfig& config, const c10::Device& device) {
  if (!config.batch_size.is_auto() || device.is_cuda() || any_device) return;
  throw UsageError("batch_size is auto, which measures GPU memory, but the device is the CPU",
                   "use a number: " + setting_words("batch_size=64"));
}

std::int64_t find_batch_size(const Untried& run) {
  const tensor::KeepRandomState keep(run.job.device());
  const DistributedSampler part(run.dataset->size(), {0, run.config.replicas});
  const std::int64_t most = std::min(part.size(), kLargestAutoBatch);
  if (most == 0) return 1;  // there are no samples; the plan reports that
  connect_device(run.job);
  BatchProbe probe(run);
  const std::int64_t own = largest_batch(most, [&probe](std::int64_t batch) { return probe.fits(batch); });
  const std::int64_t found = smallest_of_all(run.job, own);
  if (found == 0) throw nothing_fits(run, own == 0 ? probe.problem() : "");
  return found;
}

}  // namespace lockstep::train
