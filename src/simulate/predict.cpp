// SPDX-License-Identifier: Apache-2.0
#include "lockstep/simulate/predict.h"

#include <algorithm>
#include <numeric>

#include "lockstep/base/error.h"
#include "simulate/wire.h"

namespace lockstep::simulate {
namespace {

/// A measured step, and its waits in the order in which the rank reaches them.
struct Script {
  const MeasuredStep* step = nullptr;
  std::vector<std::size_t> waits = {};  ///< indices of the calls to wait for
};

Script script_of(const MeasuredStep& step) {
  Script script{.step = &step};
  for (std::size_t i = 0; i < step.calls.size(); ++i) {
    if (step.calls[i].waited_s >= 0) script.waits.push_back(i);
  }
  std::stable_sort(script.waits.begin(), script.waits.end(),
                   [&](std::size_t a, std::size_t b) { return step.calls[a].waited_s < step.calls[b].waited_s; });
  return script;
}

/// A rank in the middle of a step.
struct Rank {
  double now = 0;       ///< current time of its main thread
  double queue = 0;     ///< time at which its communication thread becomes free
  double computed = 0;  ///< computation time in this step so far
  double waited = 0;    ///< waiting time since the start of the simulation, in seconds
  std::size_t next_wait = 0;
  const Script* script = nullptr;

  void compute_until(double offset) {
    if (offset <= computed) return;
    now += offset - computed;
    computed = offset;
  }
  /// Simulates the waits before `offset` for calls with a number below `call`. The end of call i is `ends[i * stride]`.
  void pass_waits(double offset, std::size_t call, const double* ends, std::size_t stride) {
    const auto& calls = script->step->calls;
    while (next_wait < script->waits.size()) {
      const std::size_t i = script->waits[next_wait];
      if (i >= call || calls[i].waited_s > offset) return;
      compute_until(calls[i].waited_s);
      const double end = ends[i * stride];
      waited += std::max(0.0, end - now);
      now = std::max(now, end);
      ++next_wait;
    }
  }
};

/// Returns a pseudo-random number for a rank and step, the same in every simulation.
std::size_t draw(std::size_t rank, std::size_t step) {
  std::uint64_t x = (static_cast<std::uint64_t>(rank) << 32U | step) + 0x9e3779b97f4a7c15ULL;
  x = (x ^ (x >> 30U)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27U)) * 0x94d049bb133111ebULL;
  return static_cast<std::size_t>(x ^ (x >> 31U));
}

/// Returns the measured steps, adapted to `cluster`: a rank alone on its machine computes faster.
std::vector<MeasuredStep> steps_on(const Workload& workload, const Cluster& cluster) {
  std::vector<MeasuredStep> steps = workload.steps;
  if (cluster.gpus > 1 || workload.ranks_per_machine < 2) return steps;
  for (MeasuredStep& step : steps) {
    for (double* time : {&step.compute_s, &step.backward_s, &step.optimizer_end_s, &step.optimizer_s}) {
      *time *= workload.alone;
    }
    for (Call& call : step.calls) {
      call.called_s *= workload.alone;
      if (call.waited_s >= 0) call.waited_s *= workload.alone;
    }
  }
  return steps;
}

class Simulation {
 public:
  Simulation(const Workload& workload, const Cluster& cluster, bool is_even)
      : cluster_(cluster), wire_(cluster), steps_(steps_on(workload, cluster)) {
    for (const MeasuredStep& step : steps_) scripts_.push_back(script_of(step));
    std::vector<std::size_t> order(scripts_.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
      return scripts_[a].step->compute_s < scripts_[b].step->compute_s;
    });
    if (is_even) scripts_ = {scripts_[order[order.size() / 2]]};
    ranks_.resize(static_cast<std::size_t>(cluster.ranks()));
    const MeasuredStep& first = *scripts_.front().step;
    const double copied = cluster.host.copy_bytes_per_s;
    if (cluster.ranks() > 1) {
      for (const Call& call : first.calls) phases_.push_back(phases_of(call, cluster));
    } else if (copied > 0) {  // without calls there are no buckets, and no gradients are copied
      saved_ = static_cast<double>(gradient_bytes(first)) / copied;
    }
  }

  void run_step() {
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
      ranks_[rank].script = &scripts_[draw(rank, step_) % scripts_.size()];
      ranks_[rank].computed = 0;
      ranks_[rank].next_wait = 0;
    }
    ++step_;
    ends_.assign(phases_.size() * ranks_.size(), 0);
    for (std::size_t call = 0; call < phases_.size(); ++call) run_call(call);
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
      const double all = std::max(0.0, ranks_[rank].script->step->compute_s - saved_);
      pass_waits(rank, all, phases_.size());
      ranks_[rank].compute_until(all);
      computed_ += all;
    }
  }

  [[nodiscard]] double now() const {
    double last = 0;
    for (const Rank& rank : ranks_) last = std::max(last, rank.now);
    return last;
  }
  [[nodiscard]] double computed() const { return computed_ / static_cast<double>(ranks_.size()); }
  [[nodiscard]] double waited() const {
    double sum = 0;
    for (const Rank& rank : ranks_) sum += rank.waited;
    return sum / static_cast<double>(ranks_.size());
  }

 private:
  void pass_waits(std::size_t rank, double offset, std::size_t call) {
    ranks_[rank].pass_waits(offset, call, ends_.data() + rank, ranks_.size());
  }

  void run_call(std::size_t call) {
    times_.resize(ranks_.size());
    for (std::size_t i = 0; i < ranks_.size(); ++i) {
      const double called = ranks_[i].script->step->calls[call].called_s;
      pass_waits(i, called, call);
      ranks_[i].compute_until(called);
      times_[i] = std::max(ranks_[i].now, ranks_[i].queue);
    }
    for (const Phase& phase : phases_[call]) wire_.run(phase, times_);
    for (std::size_t i = 0; i < ranks_.size(); ++i) {
      ranks_[i].queue = times_[i];
      ends_[call * ranks_.size() + i] = times_[i];
    }
  }

  Cluster cluster_;
  Wire wire_;
  std::vector<MeasuredStep> steps_;
  std::vector<Script> scripts_;
  std::vector<std::vector<Phase>> phases_;  ///< phases, by call; none on a single rank
  std::vector<Rank> ranks_;
  std::vector<double> times_;
  std::vector<double> ends_;  ///< ends, by call and then by rank
  std::size_t step_ = 0;
  double computed_ = 0;
  double saved_ = 0;  ///< seconds per step that a single rank saves because it copies no gradients
};

}  // namespace

Prediction predict(const Workload& workload, const Cluster& cluster, const SimulationOptions& options) {
  if (workload.steps.empty()) throw UsageError("there is no step to simulate");
  if (cluster.gpus < 1 || cluster.machines < 1) throw UsageError("there is no rank to simulate");
  Simulation simulation(workload, cluster, options.is_even);
  for (int i = 0; i < options.warmup; ++i) simulation.run_step();
  const double begin = simulation.now();
  const double computed = simulation.computed();
  const double waited = simulation.waited();
  for (int i = 0; i < options.steps; ++i) simulation.run_step();
  const auto steps = static_cast<double>(options.steps);
  return {.step_s = (simulation.now() - begin) / steps,
          .compute_s = (simulation.computed() - computed) / steps,
          .waiting_s = (simulation.waited() - waited) / steps};
}

}  // namespace lockstep::simulate
