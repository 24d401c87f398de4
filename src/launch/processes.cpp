// SPDX-License-Identifier: Apache-2.0
#include "lockstep/launch/processes.h"
#include "lockstep/base/text.h"

#include <fmt/format.h>

#include <cstdlib>
#include <optional>
#include <string_view>

#include "lockstep/base/control_group.h"
#include "lockstep/base/error.h"
#include "lockstep/base/gpu_devices.h"
#include "lockstep/base/whole_number.h"

namespace lockstep {
namespace {

std::string cpu_words() {
  const std::string words = text::counted(count_cpus(), "usable CPU");
  if (count_cpus() >= affinity_cpus()) return words;
  return fmt::format("{} (the quota of this control group; {} by affinity)", words, affinity_cpus());
}

bool are_usable(const RankPlaces& places) { return places.gpus > 0 && places.obstacle.problem.empty(); }

std::string idle_words(const RankPlaces& places) {
  return fmt::format("{} {} idle, since {}", text::counted(places.gpus, "visible GPU"), places.gpus == 1 ? "is" : "are",
                     places.obstacle.problem);
}

[[noreturn]] void throw_no_gpu(const RankPlaces& places) {
  if (places.gpus == 0) {
    throw UsageError("--nproc-per-node is gpu, but no GPU is visible",
                     "check CUDA_VISIBLE_DEVICES and /dev/nvidia0, or use a number or 'cpu'");
  }
  throw UsageError(
      fmt::format("--nproc-per-node is gpu, but {}", idle_words(places)),
      fmt::format("{}; or use 'cpu', or {} if the program does not use Lockstep", places.obstacle.remedy, places.gpus));
}

}  // namespace

int count_gpus() {
  // An empty value means "no GPU", but env::get() treats it as unset.
  const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");  // NOLINT(concurrency-mt-unsafe)
  return count_visible_gpus(count_gpu_devices(),
                            visible == nullptr ? std::nullopt : std::optional<std::string_view>(visible));
}

int count_cpus() { return usable_cpus(); }

RankPlaces find_places() {
  RankPlaces places{.gpus = count_gpus(), .cpus = count_cpus(), .cpu_words = cpu_words()};
  if (places.gpus > 0) places.obstacle = cuda::obstacle_to(cuda::search_of_this_process());
  return places;
}

ProcessCount choose_process_count(const std::string& text, const RankPlaces& places) {
  if (text == "cpu") return {places.cpus, places.cpu_words};
  if (text == "gpu" || text == "auto") {
    if (are_usable(places)) return {places.gpus, text::counted(places.gpus, "visible GPU")};
    if (text == "gpu") throw_no_gpu(places);
    const std::string why = places.gpus == 0 ? "no visible GPU" : idle_words(places);
    return {places.cpus, fmt::format("{}, {}", why, places.cpu_words)};
  }
  const WholeRange range{.least = 1};
  const auto count = parse_whole(text, range);
  if (!count) {
    throw UsageError(fmt::format("--nproc-per-node is '{}'; it must be {}, or auto, gpu or cpu", text, to_text(range)));
  }
  return {static_cast<int>(*count), "as asked"};
}

ProcessCount choose_training_count(const RankPlaces& places) {
  if (places.gpus == 0) return {1, "no GPU is visible"};
  if (!are_usable(places)) return {1, idle_words(places)};
  return {places.gpus, places.gpus == 1 ? "1 GPU is visible" : fmt::format("{} GPUs are visible", places.gpus)};
}

ProcessCount limit_to_replicas(const ProcessCount& count, std::int64_t replicas) {
  if (replicas <= 0 || replicas >= count.count) return count;
  const int processes = static_cast<int>(replicas);
  return {processes, fmt::format("{} and the run has {}", count.reason, text::counted(processes, "replica"))};
}

ProcessCount resolve_process_count(const std::string& text) { return choose_process_count(text, find_places()); }

}  // namespace lockstep
