// SPDX-License-Identifier: Apache-2.0
#include "worker/bench/benches.h"

#include <ATen/core/ivalue.h>  // before any other torch header
#include <fmt/format.h>
#include <time.h>

#include <algorithm>
#include <atomic>
#include <optional>

#include "lockstep/base/number.h"
#include "lockstep/base/text.h"
#include "lockstep/base/trace.h"
#include "lockstep/observe/profiler.h"
#include "lockstep/train/step_graph.h"
#include "worker/bench/digest_cost.h"
#include "worker/bench/measure.h"
#include "worker/bench/recorder_cost.h"
#include "worker/bench/timed_recipe.h"

namespace lockstep::worker {
namespace {

double cpu_seconds(clockid_t clock) {
  timespec time{};
  clock_gettime(clock, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

/// Counts the CPU seconds that all threads spend inside collectives.
class CollectiveCpu final : public trace::Sink {
 public:
  void begin(const trace::Event& event) noexcept override {
    if (event.sequence != 0) began_ = cpu_seconds(CLOCK_THREAD_CPUTIME_ID);
  }
  void end(const trace::Event& event) noexcept override {
    if (event.sequence == 0) return;
    nanoseconds_ += static_cast<std::int64_t>((cpu_seconds(CLOCK_THREAD_CPUTIME_ID) - began_) * 1e9);
  }
  [[nodiscard]] double seconds() const noexcept { return static_cast<double>(nanoseconds_.load()) * 1e-9; }

 private:
  static thread_local double began_;
  std::atomic<std::int64_t> nanoseconds_{0};
};
thread_local double CollectiveCpu::began_ = 0;

/// Returns the process's counter. It is never destroyed: after remove_sink() a thread may still end a span in it.
CollectiveCpu& collective_cpu() {
  static auto* const counter = new CollectiveCpu;
  return *counter;
}

struct StepTime {
  double seconds = 0;
  double collective_share = 0;            ///< share of all CPU seconds spent in collectives
  std::optional<std::size_t> waits = {};  ///< how often the host waits for the GPU in a step; none: not counted
};

StepTime time_steps(StepTimer& timer, std::int64_t warmup, std::int64_t repeats) {
  CollectiveCpu& collectives = collective_cpu();
  const double collectives_before = collectives.seconds();
  (void)trace::add_sink(collectives);
  const double before = cpu_seconds(CLOCK_PROCESS_CPUTIME_ID);
  for (std::int64_t i = 0; i < warmup; ++i) (void)timer.run(1);
  std::vector<double> seconds;
  for (std::int64_t i = 0; i < repeats; ++i) seconds.push_back(timer.run(1));
  const double all = cpu_seconds(CLOCK_PROCESS_CPUTIME_ID) - before;
  trace::remove_sink(collectives);
  return {.seconds = median_of(seconds), .collective_share = (collectives.seconds() - collectives_before) / all};
}

int report_recorder(const Job& job, const StepBench& bench, const TimedRecipe& timed, const RecorderCost& cost) {
  const double share = cost.events_per_step * cost.event_seconds / cost.median_seconds;
  if (bench.json) {
    job.print(
        R"({{"bench": "{}_step_recorder", "network": "{}", "ranks": {}, "batch": {}, "pairs": {}, "median_ms": {}, )"
        R"("ratio": {}, "low": {}, "high": {}, "events_per_step": {}, "event_ns": {}, )"
        R"("share_of_step": {}}})",
        timed.settings.recipe().name(), timed.task->model_name(), job.world_size(),
        timed.settings.config().batch_size.value(), cost.pairs, text::json_number(cost.median_seconds * 1e3, 3),
        text::json_number(cost.ratio.median, 5), text::json_number(cost.ratio.low, 5),
        text::json_number(cost.ratio.high, 5), text::json_number(cost.events_per_step),
        text::json_number(cost.event_seconds * 1e9, 1), text::json_number(share, 7));
  } else {
    job.print(
        "{} pairs of steps with and without flight recorder and step report: {:.1f} ms without, ratio {:.4f} (95 %: "
        "{:.4f} to {:.4f})\n{} events a step, {:.0f} ns each: {:.4f} % of the step",
        cost.pairs, cost.median_seconds * 1e3, cost.ratio.median, cost.ratio.low, cost.ratio.high, cost.events_per_step,
        cost.event_seconds * 1e9, share * 100);
  }
  return 0;
}

int report_digests(const Job& job, const StepBench& bench, const TimedRecipe& timed, const DigestCost& cost) {
  const TrainConfig& config = timed.settings.config();
  const auto [median, low, high] = cost.digest;
  if (bench.json) {
    job.print(
        R"({{"bench": "{}_step_digests", "network": "{}", "ranks": {}, "batch": {}, "parameters": {}, "pairs": {}, )"
        R"("step_ms": {}, "update_ms": {}, "digest_us": {}, "low_us": {}, "high_us": {}, "record_us": {}, )"
        R"("share": {}, "share_low": {}, "share_high": {}}})",
        timed.settings.recipe().name(), timed.task->model_name(), job.world_size(), config.batch_size.value(),
        timed.timer->parameter_count(), cost.pairs, text::json_number(cost.step * 1e3, 3),
        text::json_number(cost.update * 1e3, 3), text::json_number(median * 1e6, 2), text::json_number(low * 1e6, 2),
        text::json_number(high * 1e6, 2), text::json_number(cost.record * 1e6, 2),
        text::json_number(cost.share(median), 6), text::json_number(cost.share(low), 6),
        text::json_number(cost.share(high), 6));
  } else {
    job.print(
        "{} pairs of updates with and without digests: {:.2f} ms without, {:.0f} us more with them (95 %: {:.0f} to "
        "{:.0f}), and {:.1f} us for the record: {:.3f} % (95 %: {:.3f} to {:.3f}) of a step of {:.1f} ms",
        cost.pairs, cost.update * 1e3, median * 1e6, low * 1e6, high * 1e6, cost.record * 1e6, cost.share(median) * 100,
        cost.share(low) * 100, cost.share(high) * 100, cost.step * 1e3);
  }
  return 0;
}

/// Returns a JSON field, ", \"shapes\": [[64, 3, 7, 7], ...]".
std::string shapes_json(const NamedTensors& parameters) {
  std::string list;
  for (const auto& [name, tensor] : parameters) {
    list +=
        fmt::format("{}[{}]", list.empty() ? "" : ", ", fmt::join(tensor.sizes().begin(), tensor.sizes().end(), ", "));
  }
  return fmt::format(", \"shapes\": [{}]", list);
}

void report(const Job& job, const StepBench& bench, const TimedRecipe& timed, const StepTime& time) {
  const TrainConfig& config = timed.settings.config();
  const std::int64_t batch = config.batch_size;
  const double images_per_s = static_cast<double>(batch * config.replicas) / time.seconds;
  if (bench.json) {
    job.print(R"({{"bench": "{}_step", "network": "{}", "backend": "{}", "ranks": {}, "replicas": {}, "threads": {}, )"
              R"("exact": {}, "zero": {}, "cuda_graph": "{}", "fused_layers": {}, "batch": {}, "amp": "{}", )"
              R"("channels_last": {}, "device": "{}", "parameters": {}, "median_ms": {}, "images_per_s": {}, )"
              R"("collective_cpu_share": {}{}{}}})",
              timed.settings.recipe().name(), timed.task->model_name(), job.backend(), job.world_size(),
              config.replicas, config.threads, config.exact, config.optimizer.zero, config.cuda_graph,
              config.fused_layers, batch, config.amp, config.channels_last, job.device().is_cuda() ? "cuda" : "cpu",
              timed.timer->parameter_count(), text::json_number(time.seconds * 1e3, 3),
              text::json_number(images_per_s, 3), text::json_number(time.collective_share, 5),
              time.waits ? fmt::format(R"(, "waits": {})", *time.waits) : "",
              bench.shapes ? shapes_json(timed.timer->parameters()) : "");
  } else {
    job.print(
        "{} ({}, {} parameters), {} x {} images on {}, {}: {:.1f} ms per step, {:.1f} images/s, "
        "collectives take {:.1f} % of the CPU seconds{}",
        bench.recipe, timed.task->model_name(), timed.timer->parameter_count(),
        text::counted(config.replicas, "replica"), batch, text::counted(job.world_size(), "rank"),
        config.amp == "none" ? "float32" : config.amp, time.seconds * 1e3, images_per_s, time.collective_share * 100,
        time.waits ? fmt::format("; the host waits {} times per step", *time.waits) : "");
  }
}

void print_profile(Job& job, const StepBench& bench, TimedRecipe& timed) {
  observe::Profiler profiler(job, {.steps = bench.profile,
                                   .warmup = 1,
                                   .parameters = timed.timer->parameters(),
                                   .type = timed.settings.config().amp == "bf16" ? at::kBFloat16 : at::kFloat});
  while (!profiler.is_finished()) {
    (void)timed.timer->run(1);
    profiler.step();
  }
}

}  // namespace

int run_step_bench(Job& job, const StepBench& bench) {
  if (bench.data_parallel > 0) return run_data_parallel_bench(job, bench);
  std::vector<std::string> sets = bench.sets;
  if (bench.digest_cost) sets.emplace_back("digests=false");
  TimedRecipe timed(job, bench.recipe, sets);
  const bool on_gpu = job.device().is_cuda();
  // On a GPU, the step is recorded as a CUDA graph after a few steps.
  const bool records = timed.settings.config().cuda_graph != "false" && on_gpu;
  const int first = job.world_size() > 1 ? StepGraph::kWarmUpOfRanks : StepGraph::kWarmUp;
  const std::int64_t warmup = records ? first + 2 : 3;
  if (bench.recorder_cost) {
    (void)timed.timer->run(warmup);
    return report_recorder(job, bench, timed, measure_recorder(bench.repeats, [&] { (void)timed.timer->run(1); }));
  }
  if (bench.digest_cost) {
    const auto step_once = [&] { (void)timed.timer->run(1); };
    const std::string& type = timed.settings.config().optimizer.type;
    return report_digests(job, bench, timed,
                          measure_digests(bench.repeats, timed.timer->parameters(), type, step_once));
  }
  StepTime time = time_steps(*timed.timer, warmup, bench.repeats);
  if (on_gpu && !records) time.waits = timed.timer->waits().size();
  report(job, bench, timed, time);
  if (bench.profile > 0) print_profile(job, bench, timed);
  return 0;
}

}  // namespace lockstep::worker
