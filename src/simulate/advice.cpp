// SPDX-License-Identifier: Apache-2.0
#include "lockstep/simulate/advice.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "lockstep/simulate/variants.h"

namespace lockstep::simulate {
namespace {

constexpr std::int64_t kMiB = std::int64_t{1} << 20;
constexpr std::array<std::int64_t, 9> kBucketMiB = {1, 2, 4, 8, 16, 25, 50, 100, 200};
constexpr double kSmallShare = 0.1;      // share of a step below which waiting is not a bottleneck
constexpr double kWorthChanging = 0.01;  // share of a step

/// Simulates variants of one request.
class Trials {
 public:
  Trials(const Workload& workload, const PlanRequest& request) : request_(request), workload_(workload) {
    base_ = predict(workload_, request_.cluster, request_.simulation);
  }

  [[nodiscard]] const Prediction& base() const { return base_; }

  [[nodiscard]] Alternative on(const std::string& name, const Workload& workload, const Cluster& cluster) const {
    return judged(name, predict(workload, cluster, request_.simulation));
  }
  [[nodiscard]] Alternative with(const std::string& name, const Workload& workload) const {
    return on(name, workload, request_.cluster);
  }
  [[nodiscard]] Alternative evenly() const {
    SimulationOptions even = request_.simulation;
    even.is_even = true;
    return judged("uneven steps", predict(workload_, request_.cluster, even));
  }

 private:
  [[nodiscard]] Alternative judged(const std::string& name, const Prediction& found) const {
    return {.name = name, .step_s = found.step_s, .gain = base_.step_s > 0 ? 1 - found.step_s / base_.step_s : 0};
  }

  PlanRequest request_;
  const Workload& workload_;
  Prediction base_;
};

std::vector<Alternative> limits_of(const Trials& trials, const Workload& workload, const PlanRequest& request) {
  Cluster wide = request.cluster;
  wide.network.bytes_per_s = wide.local.bytes_per_s = 0;
  Cluster near = request.cluster;
  near.network.latency_s = near.local.latency_s = 0;
  Cluster free = request.cluster;
  free.host = {};
  std::vector<Alternative> limits = {trials.on("bandwidth", workload, wide), trials.on("latency", workload, near),
                                     trials.on("processors", workload, free)};
  if (!request.simulation.is_even) limits.push_back(trials.evenly());
  return limits;
}

std::string bottleneck_of(const Prediction& base, const std::vector<Alternative>& limits) {
  if (base.waiting_s < kSmallShare * base.step_s) return "computation";
  const auto best = std::max_element(limits.begin(), limits.end(),
                                     [](const Alternative& a, const Alternative& b) { return a.gain < b.gain; });
  return best->name;
}

std::vector<Alternative> other_backends(const Trials& trials, const Workload& workload, const PlanRequest& request) {
  std::vector<Alternative> found;
  const Backend present = request.cluster.chosen();
  if (request.cluster.gpus == 1 || present == Backend::kNccl) return found;
  for (const Backend backend : {Backend::kTcp, Backend::kAuto}) {
    Cluster other = request.cluster;
    other.backend = backend;
    if (other.chosen() == present) continue;
    found.push_back(trials.on(fmt::format("backend {}", backend_text(other.chosen())), workload, other));
  }
  return found;
}

std::vector<PlanPoint> curve_of(const Workload& workload, const PlanRequest& request) {
  std::vector<Cluster> clusters;
  Cluster cluster = request.cluster;
  cluster.machines = 1;
  for (cluster.gpus = 1; cluster.gpus < request.cluster.gpus; cluster.gpus *= 2) clusters.push_back(cluster);
  cluster.gpus = request.cluster.gpus;
  for (; cluster.ranks() <= request.most_ranks; cluster.machines *= 2) clusters.push_back(cluster);
  std::vector<PlanPoint> curve;
  for (const Cluster& each : clusters) curve.push_back({each, predict(workload, each, request.simulation)});
  return curve;
}

}  // namespace

Plan make_plan(const Workload& measured, const PlanRequest& request) {
  const std::int64_t cap = request.bucket_bytes.value_or(0);
  const Workload workload =
      cap > 0 ? with_buckets(measured, {.first_bytes = std::min(cap, kMiB), .bytes = cap}) : measured;
  const Trials trials(workload, request);
  Plan plan;
  plan.asked = {request.cluster, trials.base()};
  plan.curve = curve_of(workload, request);
  plan.limits = limits_of(trials, workload, request);
  plan.bottleneck = bottleneck_of(trials.base(), plan.limits);
  const std::int64_t bytes = gradient_bytes(workload.steps.front());
  double best = kWorthChanging;
  for (const std::int64_t size : kBucketMiB) {
    const std::int64_t limit = size * kMiB;
    plan.buckets.push_back(trials.with(fmt::format("buckets of {} MiB", size),
                                       with_buckets(measured, {.first_bytes = kMiB, .bytes = limit})));
    if (plan.buckets.back().gain > best) {
      best = plan.buckets.back().gain;
      plan.best_bucket_bytes = limit;
    }
    if (limit >= bytes) break;  // one bucket holds all gradients
  }
  plan.alternatives = other_backends(trials, workload, request);
  const HostCosts& host = request.cluster.host;
  plan.alternatives.push_back(trials.with("ZeRO-1", with_zero(workload, request.cluster.ranks())));
  plan.alternatives.push_back(trials.with("bf16 hook", with_bf16(workload, host)));
  if (!workload.shapes.empty()) {
    plan.alternatives.push_back(trials.with(fmt::format("PowerSGD hook, rank {}", request.power_sgd_rank),
                                            with_power_sgd(workload, request.power_sgd_rank, host)));
  }
  return plan;
}

}  // namespace lockstep::simulate
