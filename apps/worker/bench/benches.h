// SPDX-License-Identifier: Apache-2.0
// The measurements of `lockstep bench` in a process with libtorch: a function for each, and its options.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "lockstep/comm/job.h"
#include "lockstep/data/loader.h"

namespace lockstep::worker {

/// Saving and loading the captcha network with its AdamW state: how long a step waits, and how long the disk takes.
struct CheckpointBench {
  std::filesystem::path folder;  ///< folder for the checkpoints, which are removed afterwards
  std::int64_t repeats = 5;
  bool json = false;
};

/// Throws: UsageError if the folder exists and is not empty; IoError.
int run_checkpoint_bench(const CheckpointBench& bench);

/// Epochs over real files, or over samples that cost nothing.
struct LoaderBench {
  std::string path;          ///< anything that open_source() opens: a folder, list, packed file, ...
  std::int64_t batch = 64;   ///< samples
  std::int64_t workers = 2;  ///< loader threads
  std::int64_t prefetch = 2;
  std::int64_t epochs = 3;
  std::int64_t crop = 224;      ///< pixels per side (imagenet)
  std::int64_t size = 100'000;  ///< number of samples (noop)
  bool json = false;
};

/// Loads gray images as floats, the input of a captcha recogniser. Throws: DataError that names the file; UsageError if
/// the images differ in size.
int bench_captcha_loader(const LoaderBench& bench);

/// Loads the training input of ImageNet: random resized crop, flip, normalisation.
int bench_imagenet_loader(const LoaderBench& bench);

/// Loads samples of one number each, which measures the cost of the loader itself.
int bench_noop_loader(const LoaderBench& bench);

/// One step of each optimizer on the captcha network's parameters, compared with a kernel that has only the same memory
/// traffic.
struct OptimizerBench {
  std::vector<std::string> optimizers = {};  ///< some of optimizer_bench_names(); empty: all
  std::int64_t repeats = 9;
  int threads = 1;
  bool json = false;
};

[[nodiscard]] std::vector<std::string> optimizer_bench_names();

/// Throws: UsageError for an unknown name.
int run_optimizer_bench(const OptimizerBench& bench);

/// One rank's part of `lockstep bench startup`: one step of a small model under DistributedDataParallel.
/// Collective: yes. Rank 0 prints the monotonic time in ns at which all ranks have finished the step.
int run_startup_bench(Job& job);

/// One training step of a recipe, with its network, losses, optimizer and moving average, on data in memory.
struct StepBench {
  std::string recipe;                  ///< RECIPE, RECIPE:PRESET or FILE.yml
  std::vector<std::string> sets = {};  ///< settings, as key=value
  int data_parallel = 0;               ///< replicas of DataParallel in one process; 0: DistributedDataParallel
  bool digest_cost = false;            ///< true: measures the cost of step digests
  bool recorder_cost = false;          ///< true: compares steps with and without flight recorder and step report
  std::int64_t repeats = 7;
  std::int64_t profile = 0;  ///< number of steps to profile after the timed steps; 0: none
  bool json = false;
  bool shapes = false;  ///< true: the JSON has the parameters' shapes
};

/// Measures steps. Without `data.train` it uses the recipe's synthetic scenes, or random images for captcha. Loading is
/// not timed: the samples of one batch stay in memory and are only collated for each step. The learning rate is 0.
/// Collective: yes. Rank 0 prints the results. Throws: the UsageErrors of the Trainer.
int run_step_bench(Job& job, const StepBench& bench);

/// Measures a step of the captcha network under DataParallel: `bench.data_parallel` threads of one process instead of
/// ranks. Prints the result. Throws: UsageError if the recipe is not captcha, there are several ranks or the device is
/// a GPU.
int run_data_parallel_bench(const Job& job, const StepBench& bench);

}  // namespace lockstep::worker
