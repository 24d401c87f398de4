// SPDX-License-Identifier: Apache-2.0
#include "worker/bench/benches.h"

#include <ATen/core/grad_mode.h>
#include <ATen/core/ivalue.h>  // before any other torch header
#include <ATen/ops/randn_like.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdio>

#include "captcha/task.h"
#include "lockstep/base/error.h"
#include "lockstep/base/number.h"
#include "lockstep/base/standard_streams.h"
#include "lockstep/optim/make_optimizer.h"
#include "lockstep/tensor/named_tensors.h"
#include "lockstep/tensor/random.h"
#include "lockstep/tensor/threads.h"
#include "worker/bench/bench_stream.h"
#include "worker/bench/measure.h"

namespace lockstep::worker {
namespace {

struct Entry {
  const char* name;
  const char* type;
  OptimizerOptions options;
};

/// The optimizers to time. If an optimizer is also in peers/optimizer.py, its options and its name in the JSON lines
/// are the same there.
const std::vector<Entry>& entries() {
  static const std::vector<Entry> all = {
      {"adamw", "AdamW", {.lr = 1e-3}},     {"sgd_momentum", "SGD", {.lr = 1e-3, .momentum = 0.9}},
      {"adam", "Adam", {.lr = 1e-3}},       {"adam_amsgrad", "Adam", {.lr = 1e-3, .amsgrad = true}},
      {"sgd", "SGD", {.lr = 1e-3}},         {"rmsprop", "RMSprop", {.lr = 1e-3}},
      {"adagrad", "Adagrad", {.lr = 1e-3}}, {"lamb", "LAMB", {.lr = 1e-3}},
      {"lars", "LARS", {.lr = 1e-3}},       {"lion", "Lion", {.lr = 1e-4}},
  };
  return all;
}

const Entry& entry_of(const std::string& name) {
  for (const Entry& entry : entries()) {
    if (entry.name == name) return entry;
  }
  throw UsageError(fmt::format("the benchmark has no optimizer '{}'", name),
                   fmt::format("choose among {}", fmt::join(optimizer_bench_names(), ", ")));
}

/// Arrays like AdamW's: separate parameters and gradients, and two flat states.
class Stream {
 public:
  explicit Stream(const NamedTensors& parameters) {
    std::int64_t total = 0;
    for (const auto& item : parameters) {
      values_.push_back(item.second.detach().clone());
      grads_.push_back(at::randn_like(values_.back()));
      total += item.second.numel();
    }
    first_ = at::zeros({total});
    second_ = at::zeros({total});
  }

  void run() const {
    std::int64_t offset = 0;
    for (std::size_t i = 0; i < values_.size(); ++i) {
      const StreamMemory memory{values_[i].data_ptr<float>(), grads_[i].data_ptr<float>(),
                                first_.data_ptr<float>() + offset, second_.data_ptr<float>() + offset};
      tensor::parallel_for(0, values_[i].numel(), 1 << 16, [&](std::int64_t begin, std::int64_t end) {
        stream_4r3w({memory.parameter + begin, memory.grad + begin, memory.first + begin, memory.second + begin},
                    end - begin);
      });
      offset += values_[i].numel();
    }
  }

 private:
  std::vector<at::Tensor> values_;
  std::vector<at::Tensor> grads_;
  at::Tensor first_;
  at::Tensor second_;
};

/// The medians of both times in seconds, and of the ratios of adjacent runs.
struct Pair {
  double step = 0;
  double stream = 0;
  double stream_over_step = 0;
};

/// Alternates between the two, so that a slow phase of the machine affects both.
template <class Step>
Pair time_in_turn(std::int64_t repeats, const Stream& stream, Step step) {
  constexpr std::int64_t kWarmup = 2;
  std::vector<double> steps;
  std::vector<double> streams;
  std::vector<double> ratios;
  for (std::int64_t i = 0; i < kWarmup + repeats; ++i) {
    const double of_stream = median_seconds({.warmup = 0, .counted = 1}, [&] { stream.run(); });
    const double of_step = median_seconds({.warmup = 0, .counted = 1}, step);
    if (i < kWarmup) continue;
    steps.push_back(of_step);
    streams.push_back(of_stream);
    ratios.push_back(of_stream / of_step);
  }
  return {median_of(steps), median_of(streams), median_of(ratios)};
}

void report(const OptimizerBench& bench, const char* name, std::int64_t parameters, const Pair& pair) {
  if (bench.json) {
    print_to(stdout,
             R"({{"bench": "optimizer", "optimizer": "{}", "parameters": {}, "median_ms": {}, "threads": {}, )"
             R"("stream_4r3w_median_ms": {}, "stream_over_step": {}}})"
             "\n",
             name, parameters, text::json_number(pair.step * 1e3, 3), bench.threads,
             text::json_number(pair.stream * 1e3, 3), text::json_number(pair.stream_over_step, 3));
  } else {
    print_to(stdout, "{:<14} {:>8.2f} ms per step   stream_4r3w {:>8.2f} ms, {:.2f} of a step\n", name, pair.step * 1e3,
             pair.stream * 1e3, pair.stream_over_step);
  }
  std::fflush(stdout);
}

}  // namespace

std::vector<std::string> optimizer_bench_names() {
  std::vector<std::string> names;
  for (const Entry& entry : entries()) names.emplace_back(entry.name);
  return names;
}

int run_optimizer_bench(const OptimizerBench& bench) {
  tensor::set_threads(bench.threads);
  seed_all(0);
  captcha::CaptchaTask task(captcha::CaptchaConfig{});
  const std::vector<std::string> names = bench.optimizers.empty() ? optimizer_bench_names() : bench.optimizers;
  for (const std::string& name : names) {
    const Entry& entry = entry_of(name);
    const auto net = task.make_model();
    const NamedTensors parameters = named_parameters_of(*net);
    std::int64_t count = 0;
    for (const auto& item : parameters) {
      item.second.mutable_grad() = at::randn_like(item.second.detach());
      count += item.second.numel();
    }
    const Stream stream(parameters);
    const auto optimizer = make_optimizer(entry.type, parameters, entry.options);
    report(bench, entry.name, count, time_in_turn(bench.repeats, stream, [&] { optimizer->step(); }));
  }
  return 0;
}

}  // namespace lockstep::worker
