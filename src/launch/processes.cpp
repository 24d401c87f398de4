// SPDX-License-Identifier: Apache-2.0
#include "lockstep/launch/processes.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string_view>

#include "lockstep/base/control_group.h"
#include "lockstep/base/error.h"
#include "lockstep/base/whole_number.h"

namespace lockstep {
namespace {

// CUDA stops reading the list at the first entry that is no device: "-1" hides the rest.
int count_visible(std::string_view list) {
  int count = 0;
  while (!list.empty()) {
    const auto comma = list.find(',');
    const auto entry = list.substr(0, comma);
    if (entry.empty() || entry.front() == '-') break;
    ++count;
    list = comma == std::string_view::npos ? std::string_view() : list.substr(comma + 1);
  }
  return count;
}

bool is_gpu_device(const std::string& name) {
  constexpr std::string_view kPrefix = "nvidia";
  return name.size() > kPrefix.size() && name.compare(0, kPrefix.size(), kPrefix) == 0 &&
         std::all_of(name.begin() + kPrefix.size(), name.end(), [](char c) { return c >= '0' && c <= '9'; });
}

std::string count_words(int count, const char* thing) {
  return fmt::format("{} {}{}", count, thing, count == 1 ? "" : "s");
}

std::string cpu_words() {
  const std::string words = count_words(count_cpus(), "usable CPU");
  if (count_cpus() >= affinity_cpus()) return words;
  return fmt::format("{} (the quota of this control group, of {} by affinity)", words, affinity_cpus());
}

}  // namespace

int count_gpus() {
  int devices = 0;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator("/dev", ignored)) {
    devices += is_gpu_device(entry.path().filename().string()) ? 1 : 0;
  }
  // Set and empty means "no GPU", so env::get, which takes empty for unset, does not serve here.
  const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");  // NOLINT(concurrency-mt-unsafe)
  return visible == nullptr ? devices : std::min(devices, count_visible(visible));
}

int count_cpus() { return usable_cpus(); }

ProcessCount resolve_process_count(const std::string& text) {
  if (text == "cpu") return {count_cpus(), cpu_words()};
  if (text == "gpu" || text == "auto") {
    const int gpus = count_gpus();
    if (gpus > 0) return {gpus, count_words(gpus, "visible GPU")};
    if (text == "gpu") {
      throw UsageError("--nproc-per-node gpu, and no GPU is visible",
                       "check CUDA_VISIBLE_DEVICES and /dev/nvidia0, or give a number or 'cpu'");
    }
    return {count_cpus(), fmt::format("no visible GPU, {}", cpu_words())};
  }
  const WholeRange range{.least = 1};
  const auto count = parse_whole(text, range);
  if (!count) {
    throw UsageError(fmt::format("--nproc-per-node is '{}'; it must be {}, or auto, gpu or cpu", text, to_text(range)));
  }
  return {static_cast<int>(*count), "as asked"};
}

}  // namespace lockstep
