// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/gpu_devices.h"

#include <algorithm>
#include <vector>

namespace lockstep {
namespace {

constexpr std::string_view kSlice = "MIG-";

bool is_gpu_device(const std::string& name) {
  constexpr std::string_view kPrefix = "nvidia";
  return name.size() > kPrefix.size() && name.starts_with(kPrefix) &&
         std::all_of(name.begin() + kPrefix.size(), name.end(), [](char c) { return c >= '0' && c <= '9'; });
}

/// Returns the entries that CUDA uses. It stops at the first one that is not a device: "-1" hides the rest.
std::vector<std::string_view> entries_of(std::string_view list) {
  std::vector<std::string_view> entries;
  while (!list.empty()) {
    const auto comma = list.find(',');
    const std::string_view entry = list.substr(0, comma);
    if (entry.empty() || entry.front() == '-') break;
    entries.push_back(entry);
    list = comma == std::string_view::npos ? std::string_view() : list.substr(comma + 1);
  }
  return entries;
}

}  // namespace

int count_gpu_devices(const std::filesystem::path& folder) {
  int devices = 0;
  std::error_code problem;
  std::filesystem::directory_iterator entries(folder, problem);
  for (; !problem && entries != std::filesystem::directory_iterator(); entries.increment(problem)) {
    devices += is_gpu_device(entries->path().filename().string()) ? 1 : 0;
  }
  return devices;
}

int count_visible_gpus(int devices, const std::optional<std::string_view>& visible) {
  if (!visible || devices == 0) return devices;
  const int listed = static_cast<int>(entries_of(*visible).size());
  return names_slices(*visible) ? listed : std::min(devices, listed);
}

std::string visible_gpu_of(std::string_view visible, int local_rank) {
  const auto entries = entries_of(visible);
  return entries.empty() ? "" : std::string(entries[static_cast<std::size_t>(local_rank) % entries.size()]);
}

bool names_slices(std::string_view visible) { return visible.starts_with(kSlice); }

}  // namespace lockstep
