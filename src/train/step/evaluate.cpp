// SPDX-License-Identifier: Apache-2.0
#include "lockstep/train/evaluate.h"

#include <fmt/format.h>

#include "lockstep/base/clock.h"
#include "lockstep/base/error.h"
#include "lockstep/base/fault.h"
#include "lockstep/base/number.h"
#include "lockstep/base/text.h"
#include "lockstep/comm/objects.h"
#include "lockstep/data/loader.h"
#include "lockstep/optim/autocast.h"
#include "lockstep/train/prepare.h"
#include "train/step/evaluation_parts.h"

namespace lockstep {
namespace {

constexpr const char* kMetrics = "metrics of the evaluation";

/// A rank's part of an evaluation.
class Counter {
 public:
  Counter(const Job& job, Task& task, torch::nn::Module& model, const EvaluateOptions& options)
      : job_(job),
        task_(task),
        model_(model),
        options_(options),
        replicas_(options.replicas == 0 ? job.world_size() : options.replicas),
        block_(replicas_of_rank(job.rank(), job.world_size(), replicas_)),
        seeds_(job.device(), options.seed) {}

  at::Tensor count(const std::shared_ptr<Dataset>& dataset) {
    open(dataset);
    std::vector<at::Tensor> counts;
    for (int replica = block_.begin; replica < block_.end; ++replica) {
      at::Tensor sum;  // on the device, so that the host waits only at the end
      each_batch(replica, [&](const Outputs& outputs, const Batch& batch) {
        const at::Tensor more =
            fault::in_section(kMetrics, [&] { return task_.count(outputs.begin()->second, batch); });
        sum = sum.defined() ? sum + more : more;
      });
      counts.push_back(sum.defined() ? sum.cpu() : sum);
    }
    return train::sum_over_parts(job_.group(), std::move(counts), block_, replicas_);
  }

  std::vector<Metric> fill(const std::shared_ptr<Dataset>& dataset, Tally& tally) {
    open(dataset);
    for (int replica = block_.begin; replica < block_.end; ++replica) {
      each_batch(replica, [&](const Outputs& outputs, const Batch& batch) {
        fault::in_section(kMetrics, [&] { tally.add(outputs, batch); });
      });
    }
    (void)train::on_some_rank(job_.group(), done_);
    return tally.metrics(all_gather_bytes(job_.group(), tally.bytes()));
  }

  /// Returns the number of samples that any rank has skipped. Collective: if bad samples are skipped.
  [[nodiscard]] std::int64_t skipped() const {
    if (!options_.skip_bad_samples) return 0;
    std::int64_t own = 0;
    for (const DataLoader& loader : loaders_) own += std::ssize(loader.bad_samples());
    std::int64_t all = 0;
    for (const std::int64_t count : all_gather_object(job_.group(), own)) all += count;
    return all;
  }

 private:
  [[nodiscard]] DataLoaderOptions loader_options(int replica) const {
    const bool pinned = options_.pin_memory && job_.device().is_cuda();
    return {.batch_size = options_.batch_size,
            .workers = options_.workers,
            .prefetch_factor = options_.prefetch_factor,
            .shard = {replica, replicas_},
            .remainder = Remainder::kKeep,
            .bad_samples = options_.skip_bad_samples ? BadSamples::kSkip : BadSamples::kError,
            .timeout_s = options_.loader_timeout_s,
            .pin_memory = pinned,
            .device = pinned ? job_.device() : c10::Device(c10::kCPU),
            .collate = task_.collate()};
  }

  /// Opens this rank's shards.
  void open(const std::shared_ptr<Dataset>& dataset) {
    for (int replica = block_.begin; replica < block_.end; ++replica) {
      loaders_.emplace_back(dataset, loader_options(replica));
      total_ += loaders_.back().samples_per_epoch();
    }
  }

  [[nodiscard]] Outputs run(const Batch& batch) {
    const Autocast autocast(job_.device().type(), options_.network ? Amp::kNone : amp_from_name(options_.amp));
    return fault::in_section("forward of the evaluation", [&] {
      return options_.network ? task_.run_exported(options_.network, batch) : task_.run(model_, batch);
    });
  }

  template <class Take>
  void each_batch(int replica, const Take& take) {
    DataLoader& loader = loaders_[static_cast<std::size_t>(replica - block_.begin)];
    for (Batch& batch : loader.epoch(0)) {
      seeds_.begin(replica, batch.step);
      prepare_batch(batch, job_.device(), options_.channels_last);
      take(run(batch), batch);
      done_ += batch.size;
      if (options_.progress) options_.progress(done_, total_);
    }
  }

  const Job& job_;
  Task& task_;
  torch::nn::Module& model_;
  const EvaluateOptions& options_;
  int replicas_;
  ReplicaSpan block_;
  train::BatchSeeds seeds_;
  std::vector<DataLoader> loaders_;
  std::int64_t done_ = 0;
  std::int64_t total_ = 0;
};

}  // namespace

Evaluation evaluate(const Job& job, Task& task, torch::nn::Module& model, const std::shared_ptr<Dataset>& dataset,
                    const EvaluateOptions& options) {
  const train::EvalMode mode(model);
  const NoGrad no_grad;
  const TimePoint begin = SystemClock::instance().now();
  Evaluation result;
  Counter counter(job, task, model, options);
  result.tally = task.make_tally();
  if (result.tally && options.keep_all) result.tally->keep_all();
  if (!result.tally) result.counts = counter.count(dataset);
  result.metrics = result.tally ? counter.fill(dataset, *result.tally)
                                : fault::in_section(kMetrics, [&] { return task.metrics(result.counts); });
  result.samples = dataset->size();
  result.skipped = counter.skipped();
  result.seconds = Seconds(SystemClock::instance().now() - begin).count();
  return result;
}

std::string report_of(const Task& task, const Evaluation& evaluation) {
  if (evaluation.tally) return evaluation.tally->report();
  return evaluation.counts.defined() ? task.report(evaluation.counts) : "";
}

std::string to_text(const std::vector<Metric>& metrics) {
  std::vector<std::string> parts;
  for (const Metric& metric : metrics) parts.push_back(fmt::format("{} {:.4f}", metric.name, metric.value));
  return text::join(parts, "  ");
}

std::string to_json(const std::vector<Metric>& metrics) {
  std::vector<std::string> parts;
  for (const Metric& m : metrics)
    parts.push_back(fmt::format("{}: {}", text::json_quote(m.name), text::json_number(m.value)));
  return "{" + text::join(parts) + "}";
}

}  // namespace lockstep
