// SPDX-License-Identifier: Apache-2.0
#include "lockstep/train/evaluate.h"

#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include "lockstep/base/clock.h"
#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/data/loader.h"
#include "lockstep/optim/autocast.h"
#include "lockstep/train/prepare.h"

namespace lockstep {
namespace {

// Evaluation mode until it goes out of scope.
class EvalMode {
 public:
  explicit EvalMode(torch::nn::Module& model) : model_(model), was_training_(model.is_training()) { model_.eval(); }
  ~EvalMode() { model_.train(was_training_); }
  EvalMode(const EvalMode&) = delete;
  EvalMode& operator=(const EvalMode&) = delete;

 private:
  torch::nn::Module& model_;
  bool was_training_;
};

DataLoaderOptions loader_options(const Job& job, const EvaluateOptions& options) {
  return {.batch_size = options.batch_size,
          .workers = options.workers,
          .prefetch_factor = options.prefetch_factor,
          .shard = {job.rank(), job.world_size()},
          .remainder = Remainder::kKeep};
}

at::Tensor forward(const Job& job, Task& task, torch::nn::Module& model, const Batch& batch, Amp amp) {
  const Autocast autocast(job.device().type(), amp);
  return task.forward(model, batch);
}

}  // namespace

Evaluation evaluate(const Job& job, Task& task, torch::nn::Module& model, const std::shared_ptr<Dataset>& dataset,
                    const EvaluateOptions& options) {
  require_cpu(job.device());
  const EvalMode mode(model);
  const NoGrad no_grad;
  const Amp amp = amp_from_name(options.amp);
  const TimePoint begin = SystemClock::instance().now();
  DataLoader loader(dataset, loader_options(job, options));
  Evaluation result;
  std::int64_t done = 0;
  for (Batch& batch : loader.epoch(0)) {
    if (amp != Amp::kNone) batch.data = to_channels_last(batch.data);
    const at::Tensor counts = task.count(forward(job, task, model, batch, amp), batch);
    result.counts = result.counts.defined() ? result.counts + counts : counts;
    done += batch.size;
    if (options.progress) options.progress(done, loader.samples_per_epoch());
  }
  result.samples = dataset->size();
  // A rank without a sample does not know how long the counts are: the longest decides.
  at::Tensor length = at::full({1}, result.counts.defined() ? result.counts.numel() : 0, at::kLong);
  job.group().all_reduce(length, {.op = ReduceOp::kMax}).wait();
  if (length.item<std::int64_t>() == 0) throw DataError("there is no sample to evaluate");
  if (!result.counts.defined()) result.counts = at::zeros({length.item<std::int64_t>()}, at::kDouble);
  job.group().all_reduce(result.counts).wait();
  result.metrics = task.metrics(result.counts);
  result.seconds = Seconds(SystemClock::instance().now() - begin).count();
  return result;
}

std::string to_text(const std::vector<Metric>& metrics) {
  std::vector<std::string> parts;
  for (const Metric& metric : metrics) parts.push_back(fmt::format("{} {:.4f}", metric.name, metric.value));
  return text::join(parts, "  ");
}

std::string to_json(const std::vector<Metric>& metrics) {
  std::vector<std::string> parts;
  for (const Metric& m : metrics) parts.push_back(fmt::format("{}: {}", text::json_quote(m.name), m.value));
  return "{" + text::join(parts) + "}";
}

}  // namespace lockstep
