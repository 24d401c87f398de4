// SPDX-License-Identifier: Apache-2.0
#include "train/setup/run_banner.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "lockstep/base/text.h"
#include "lockstep/base/version.h"
#include "lockstep/store/store.h"
#include "lockstep/tensor/device.h"
#include "lockstep/tensor/torch_version.h"
#include "lockstep/train/prepare.h"
#include "train/settings/precision.h"
#include "train/settings/schedule_choice.h"
#include "train/step/loss_scale.h"
#include "train/step/out_of_memory.h"

namespace lockstep::train {
namespace {

/// Returns the line about the optimizer; empty for AdamW without ZeRO.
std::string optimizer_text(const OptimizerConfig& config, int world) {
  std::vector<std::string> parts;
  if (config.type != "adamw") parts.push_back(config.type);
  if (config.zero) {
    parts.push_back(fmt::format("state sharded over {} (ZeRO-1)", counted(world, "process", "processes")));
  }
  return text::join(parts);
}

constexpr std::size_t kNamedChains = 2;

/// Returns "6 of 7; features.20: BatchNorm2d: no ReLU follows", naming the first layers that are not fused; empty if
/// there is nothing to fuse.
std::string fused_text(const nn::Optimized& layers) {
  const std::size_t all = layers.fused.size() + layers.left.size();
  if (all == 0) return "";
  std::string text = fmt::format("{} of {}", layers.fused.size(), all);
  for (std::size_t i = 0; i < std::min(layers.left.size(), kNamedChains); ++i) {
    text += fmt::format("; {}: {}", layers.left[i].name, layers.left[i].what);
  }
  if (layers.left.size() > kNamedChains) text += fmt::format("; and {} more", layers.left.size() - kNamedChains);
  return text;
}

/// Returns a description of this rank's device.
std::string device_text(const Job& job, const TrainConfig& config) {
  const c10::Device device = job.device();
  if (device.is_cuda()) return fmt::format("GPU {}: {}", device.index(), tensor::device_name(device));
  const view::CpuInfo cpu = view::cpu_info();
  return fmt::format("{}, {}, libtorch threads: {}", cpu.name, counted(cpu.cores, "core", "cores"), config.threads);
}

std::vector<view::BannerDevice> devices(const Job& job, const TrainConfig& config) {
  const std::string key = "lockstep/device/";
  job.store().set(key + std::to_string(job.rank()), job.host() + "\n" + device_text(job, config));
  std::vector<view::BannerDevice> devices;
  for (int rank = 0; job.is_main() && rank < job.world_size(); ++rank) {
    const std::string found = job.store().get(key + std::to_string(rank), job.timeout());
    const std::size_t end = found.find('\n');
    devices.push_back({rank, found.substr(0, end), found.substr(end + 1)});
  }
  return devices;
}

}  // namespace

view::BannerInfo run_banner(const BannerFacts& facts) {
  view::BannerInfo info{.title = fmt::format("Lockstep {}: {}", kVersion, facts.recipe),
                        .devices = devices(facts.job, facts.config),
                        .backend = facts.job.backend(),
                        .backend_reason = facts.job.backend_reason(),
                        .batch_per_replica = facts.config.batch_size,
                        .replicas = facts.config.replicas,
                        .accumulate_steps = facts.config.accumulate_steps,
                        .workers = facts.config.workers,
                        .train_samples = facts.train_samples,
                        .test_samples = facts.test_samples,
                        .steps_per_epoch = facts.plan.steps_per_epoch,
                        .epochs = facts.config.epochs,
                        .max_steps = facts.config.max_steps,
                        .precision = precision_text(facts.config, facts.job.device()),
                        .learning_rate = facts.plan.lr,
                        .base_learning_rate = facts.config.optimizer.lr,
                        .learning_rate_scaling = facts.config.optimizer.lr_scaling,
                        .schedule = schedule_text(facts.config.schedule),
                        .model = facts.model,
                        .parameters = parameter_count(facts.steps.model().module().net()),
                        .run_folder = facts.run_folder.string()};
  if (facts.found_batch) info.batch_origin = "found by batch_size: auto";
  if (facts.config.replicas != facts.job.world_size()) {
    info.extra.emplace_back("replicas", fmt::format("{} on {}", facts.config.replicas,
                                                    counted(facts.job.world_size(), "process", "processes")));
  }
  if (const std::string text = fused_text(facts.steps.optimized()); !text.empty()) {
    info.extra.emplace_back("fused layers", text);
  }
  if (const std::string text = optimizer_text(facts.config.optimizer, facts.job.world_size()); !text.empty()) {
    info.extra.emplace_back("optimizer", text);
  }
  if (facts.averaged) {
    info.extra.emplace_back("evaluated", fmt::format("with a moving average of the weights (decay {}, {} warm-ups)",
                                                     facts.config.ema.decay, facts.config.ema.warmups));
  }
  if (const auto library = tensor::product_library(); library && !facts.job.device().is_cuda()) {
    info.extra.emplace_back("matrix products", library->text());
  }
  const std::string blocking = launch_blocking_text(facts.job.device());
  if (!blocking.empty()) info.extra.emplace_back("kernels", blocking);
  if (facts.start.checkpoint) {
    info.resumed_from =
        fmt::format("{}, step {}", facts.start.checkpoint->path().string(), text::thousands(facts.start.run.step));
  }
  return info;
}

}  // namespace lockstep::train
