// SPDX-License-Identifier: Apache-2.0
#include "train/report/step_reporter.h"

#include <numeric>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/comm/objects.h"
#include "lockstep/tensor/device_memory.h"

namespace lockstep::train {

StepReporter::StepReporter(const Job& job, StepRunner& steps, const TrainConfig& config)
    : job_(job), steps_(steps), config_(config) {}

void StepReporter::start(std::int64_t step) {
  const ClockReading ignored = steps_.clock().take();
  before_ = read_counters();
  network_before_ = read_network_counters(job_.host());
  (void)training_delays_.since_last(ignored.training_threads);
  (void)loading_delays_.since_last(ignored.loading_threads);
  first_step_ = since_step_ = step + 1;
}

view::RankFigures StepReporter::own_figures() {
  const ClockReading clock = steps_.clock().take();
  const ProcessCounters now = read_counters();
  const ProcessCounters before = std::exchange(before_, now);
  const ProcessState state = read_state();
  const NetworkCounters network = read_network_counters(job_.host());
  const NetworkCounters passed = passed_since(std::exchange(network_before_, network), network);
  const std::vector<std::int64_t> buckets = steps_.model().bucket_bytes();
  view::RankFigures figures{.rank = job_.rank(),
                            .host = job_.host(),
                            .steps = clock.steps,
                            .seconds = clock.seconds,
                            .parts = clock.parts,
                            .compute_cpu = clock.compute_cpu,
                            .delayed = training_delays_.since_last(clock.training_threads),
                            .process_cpu = now.cpu - before.cpu,
                            .preempted = now.preempted - before.preempted,
                            .read_bytes = now.read_bytes - before.read_bytes,
                            .cores = state.cores,
                            .cpus = state.cpus,
                            .buckets = std::ssize(buckets),
                            .bucket_bytes = std::accumulate(buckets.begin(), buckets.end(), std::int64_t{0}),
                            .resident = state.resident,
                            .shared = state.shared,
                            .host_memory = state.host_memory,
                            .host_free = state.host_free,
                            .network = passed.network,
                            .traffic = passed.traffic,
                            .resent = passed.resent,
                            .stretches = clock.stretches};
  // A rank's replicas take turns, each with its own workers.
  figures.workers = {.count = config_.workers * steps_.data().block().size(),
                     .busy = clock.loading,
                     .cpu = clock.loading_cpu,
                     .delayed = loading_delays_.since_last(clock.loading_threads)};
  if (job_.device().is_cuda()) figures.device = memory_use(job_.device()).peak;
  return figures;
}

view::ReportSettings StepReporter::settings() const {
  return {.workers = config_.workers,
          .batch_size = config_.batch_size.is_auto() ? 0 : config_.batch_size.value(),
          .bucket_cap_mb = config_.bucket_cap_mb};
}

std::shared_ptr<const view::StepReport> StepReporter::end_epoch(std::int64_t step) {
  auto report = std::make_shared<view::StepReport>();
  report->first_step = std::exchange(since_step_, step + 1);
  report->last_step = last_step_ = step;
  for (const std::string& each : all_gather_bytes(job_.group(), view::to_json(own_figures()))) {
    auto figures = view::parse_rank_figures(each);
    if (!figures) throw InternalError("a rank's metrics for the step report cannot be read");
    report->ranks.push_back(std::move(*figures));
  }
  sums_.resize(report->ranks.size());
  for (std::size_t i = 0; i < sums_.size(); ++i) view::add(sums_[i], report->ranks[i]);
  report->findings = view::find_causes(report->ranks, settings());
  return report;
}

std::shared_ptr<const view::StepReport> StepReporter::whole() const {
  if (sums_.empty()) return nullptr;
  auto report = std::make_shared<view::StepReport>(
      view::StepReport{.first_step = first_step_, .last_step = last_step_, .ranks = sums_});
  report->findings = view::find_causes(sums_, settings());
  return report;
}

}  // namespace lockstep::train
