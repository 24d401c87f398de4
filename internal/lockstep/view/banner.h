// SPDX-License-Identifier: Apache-2.0
// The text that a training run prints at its start and end.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#pragma GCC visibility push(default)

namespace lockstep::view {

/// The device of a rank. Hosts are shown if there are several. With more than 16 devices, identical neighbours share a
/// line.
struct BannerDevice {
  int rank = 0;      ///< the rank of the device
  std::string host;  ///< "node1"
  std::string name;  ///< "GPU 0: NVIDIA A100-PCIE-40GB", "Intel Xeon, 2 cores, 2 libtorch threads"
};

/// The contents of the start banner. An empty string or a zero count omits its line.
struct BannerInfo {
  std::string title;                   ///< "Lockstep 0.1.0: captcha"
  std::vector<BannerDevice> devices;   ///< one for each rank, in rank order
  std::string backend;                 ///< "shm"
  std::string backend_reason;          ///< "all ranks share this host's memory"
  std::int64_t batch_per_replica = 0;  ///< samples in a replica's batch
  std::string batch_origin;   ///< the origin of batch_per_replica: "found by batch_size: auto"; empty: the settings
  std::int64_t replicas = 1;  ///< data-parallel width
  std::int64_t accumulate_steps = 1;                       ///< batches per step
  std::int64_t workers = 0;                                ///< loader threads per replica
  std::int64_t train_samples = 0;                          ///< samples in the training set
  std::int64_t test_samples = 0;                           ///< samples in the test set
  std::int64_t steps_per_epoch = 0;                        ///< optimizer steps per epoch
  std::int64_t epochs = 0;                                 ///< epochs of the run
  std::int64_t max_steps = 0;                              ///< 0: no limit
  std::string precision;                                   ///< "bf16 autocast, channels last"
  double learning_rate = 0;                                ///< the learning rate in use, after scaling
  double base_learning_rate = 0;                           ///< the rate that was set
  std::string learning_rate_scaling = "none";              ///< none, replicas, batch
  std::string schedule;                                    ///< "5 epochs of warm-up, then cosine"
  std::string model;                                       ///< "conv7"
  std::int64_t parameters = 0;                             ///< number of the model's parameters
  std::string run_folder;                                  ///< the folder of the run's files
  std::string resumed_from;                                ///< the step folder that was resumed; empty: a fresh run
  std::vector<std::pair<std::string, std::string>> extra;  ///< additional lines from the recipe: label, text
};

/// Returns the banner between rules of 80 '='; it ends with a newline.
[[nodiscard]] std::string banner(const BannerInfo& info);

/// Returns the summary of a run: a block with a title between rules and aligned labels. It ends with a newline.
[[nodiscard]] std::string summary(const std::string& title,
                                  const std::vector<std::pair<std::string, std::string>>& lines);

/// Returns commands to type next: "next" and one command per line, each with its effect. It ends with a newline.
[[nodiscard]] std::string next_commands(const std::vector<std::pair<std::string, std::string>>& commands);

/// The processor of this machine.
struct CpuInfo {
  std::string name = "CPU";  ///< model name, from /proc/cpuinfo
  int cores = 1;             ///< cores that this process may use
};
/// Reads the processor of this machine.
[[nodiscard]] CpuInfo cpu_info();

/// Returns the model name in the text of /proc/cpuinfo; "CPU" if there is none (as on Arm).
[[nodiscard]] std::string parse_cpu_name(const std::string& cpuinfo);

}  // namespace lockstep::view

#pragma GCC visibility pop
