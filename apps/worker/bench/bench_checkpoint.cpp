// SPDX-License-Identifier: Apache-2.0
#include "worker/bench/benches.h"

#include <ATen/core/ivalue.h>  // before any other torch header
#include <ATen/ops/randn_like.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <vector>

#include "captcha/task.h"
#include "lockstep/base/error.h"
#include "lockstep/base/number.h"
#include "lockstep/base/standard_streams.h"
#include "lockstep/base/text.h"
#include "lockstep/checkpoint/async_saver.h"
#include "lockstep/checkpoint/checkpoint.h"
#include "lockstep/optim/adamw.h"
#include "lockstep/tensor/memory.h"
#include "lockstep/tensor/named_tensors.h"
#include "lockstep/tensor/random.h"
#include "lockstep/tensor/threads.h"
#include "worker/bench/measure.h"

namespace lockstep::worker {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

/// The same state as in peers/checkpoint.py: the network, and an AdamW optimizer after one step.
CheckpointStates bench_states() {
  seed_all(0);
  captcha::CaptchaTask task(captcha::CaptchaConfig{});
  const auto net = task.make_model();
  AdamW optimizer(*net, {.lr = 1e-3});
  for (const auto& [name, parameter] : optimizer.parameters()) parameter.mutable_grad() = at::randn_like(parameter);
  optimizer.step();
  return {{"model", model_state_dict(*net)}, {"optimizer", optimizer.state_dict()}};
}

/// A plain copy of all tensors into memory that has been touched before: the shortest possible pause.
class Copies {
 public:
  explicit Copies(const CheckpointStates& states) {
    for (const auto& [name, state] : states) {
      for (const auto& [key, value] : state) {
        if (const auto* tensor = std::get_if<at::Tensor>(&value)) pairs_.emplace_back(*tensor, tensor->clone());
      }
    }
  }
  void run() const {
    for (const auto& [from, to] : pairs_) std::memcpy(to.data_ptr(), from.data_ptr(), from.nbytes());
  }
  [[nodiscard]] std::uint64_t bytes() const {
    std::uint64_t bytes = 0;
    for (const auto& [from, to] : pairs_) bytes += from.nbytes();
    return bytes;
  }

 private:
  std::vector<std::pair<at::Tensor, at::Tensor>> pairs_;
};

double seconds_of(const std::function<void()>& action) {
  const auto begin = Clock::now();
  action();
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

struct Figures {
  std::vector<double> save, load, copy, pause, written;
};

/// Alternates between all variants, so that a slow phase of the machine affects all of them.
class Bench {
 public:
  explicit Bench(const CheckpointBench& bench) : bench_(bench), states_(bench_states()), copies_(states_) {
    for (const auto& [name, state] : states_) parts_[name].entries = state;
    saver_.reserve(parts_);
  }

  Figures run() {
    constexpr std::int64_t kWarmup = 2;
    for (std::int64_t i = 0; i < kWarmup + bench_.repeats; ++i) {
      Figures once = run_once();
      if (i < kWarmup) continue;
      for (const auto& [all, one] : {std::pair{&figures_.save, &once.save},
                                     {&figures_.load, &once.load},
                                     {&figures_.copy, &once.copy},
                                     {&figures_.pause, &once.pause},
                                     {&figures_.written, &once.written}}) {
        all->push_back(one->front());
      }
    }
    return figures_;
  }

  [[nodiscard]] std::uint64_t bytes() const { return copies_.bytes(); }

 private:
  Figures run_once() {
    Figures once;
    fs::path path;
    once.save.push_back(seconds_of([&] { path = commit(states_); }));
    once.load.push_back(seconds_of([&] { load(path); }));
    once.copy.push_back(seconds_of([&] { copies_.run(); }));
    const auto begin = Clock::now();
    once.pause.push_back(seconds_of([&] {
      saver_.save(parts_, [this](const StateParts& copy) {
        const auto peers = no_peers();
        commit_sharded_checkpoint(FileSystem::system(), *peers, bench_.folder, {.step = ++step_}, {copy, {}});
      });
    }));
    saver_.wait();
    once.written.push_back(std::chrono::duration<double>(Clock::now() - begin).count());
    FileSystem::system().remove(bench_.folder);
    return once;
  }

  fs::path commit(const CheckpointStates& states) {
    return commit_checkpoint(FileSystem::system(), bench_.folder, {.step = ++step_}, states);
  }

  static void load(const fs::path& path) {
    const Checkpoint checkpoint = read_checkpoint(path.string());
    for (const std::string& name : checkpoint.names()) (void)checkpoint.state(name);
  }

  CheckpointBench bench_;
  CheckpointStates states_;
  StateParts parts_;
  Copies copies_;
  std::int64_t step_ = 0;
  Figures figures_;
  AsyncSaver saver_;
};

}  // namespace

int run_checkpoint_bench(const CheckpointBench& bench) {
  if (!FileSystem::system().list(bench.folder).empty()) {
    throw UsageError(fmt::format("{} is not empty", bench.folder.string()), "pass a folder that does not exist yet");
  }
  tensor::set_threads(1);
  keep_freed_memory();
  Bench measured(bench);
  const Figures figures = measured.run();
  const double save = median_of(figures.save) * 1e3;
  const double load = median_of(figures.load) * 1e3;
  const double copy = median_of(figures.copy) * 1e3;
  const double pause = median_of(figures.pause) * 1e3;
  const double written = median_of(figures.written) * 1e3;
  if (bench.json) {
    print_to(stdout,
             R"({{"bench": "checkpoint", "bytes": {}, "ranks": 1, "threads": 1, "save_ms": {}, "load_ms": {}, )"
             R"("pause_ms": {}, "memcpy_ms": {}, "async_save_ms": {}}})"
             "\n",
             measured.bytes(), text::json_number(save, 3), text::json_number(load, 3), text::json_number(pause, 3),
             text::json_number(copy, 3), text::json_number(written, 3));
    return 0;
  }
  print_to(stdout, "state           {}\n", text::bytes(measured.bytes()));
  print_to(stdout, "save            {:>8.1f} ms, until it is on disk\n", save);
  print_to(stdout, "load            {:>8.1f} ms, every byte verified\n", load);
  print_to(stdout,
           "pause           {:>8.1f} ms in a step for an asynchronous save, {:.2f} times a plain copy of the state\n",
           pause, pause / copy);
  print_to(stdout, "asynchronously  {:>8.1f} ms, until it is on disk\n", written);
  return 0;
}

}  // namespace lockstep::worker
