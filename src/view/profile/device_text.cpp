// SPDX-License-Identifier: Apache-2.0
#include "view/profile/device_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "lockstep/view/table.h"

namespace lockstep::view {
namespace {

constexpr double kBoundByHost = 0.8;  // of a step; below it the GPU waits for launches
constexpr std::size_t kLongestName = 90;

double per_step(std::int64_t count, const Profile& profile) {
  return static_cast<double>(count) / static_cast<double>(std::max<std::int64_t>(profile.steps, 1));
}

double share(std::int64_t ns, const Profile& profile) {
  return 100.0 * static_cast<double>(ns) /
         static_cast<double>(std::max<std::int64_t>(profile.end_ns - profile.begin_ns, 1));
}

std::string table_of(const std::vector<DeviceRow>& list, const char* title, const Profile& profile,
                     std::size_t most_rows) {
  std::vector<std::vector<std::string>> rows;
  DeviceRow rest;
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (i < most_rows) {
      rows.push_back({list[i].name.substr(0, kLongestName), fmt::format("{:.1f}", per_step(list[i].calls, profile)),
                      fmt::format("{:.3f}", per_step(list[i].ns, profile) / 1e6),
                      fmt::format("{:.1f} %", share(list[i].ns, profile))});
    } else {
      rest.calls += list[i].calls;
      rest.ns += list[i].ns;
    }
  }
  if (rest.calls > 0) {
    rows.push_back(
        {fmt::format("{} more", list.size() - most_rows), fmt::format("{:.1f}", per_step(rest.calls, profile)),
         fmt::format("{:.3f}", per_step(rest.ns, profile) / 1e6), fmt::format("{:.1f} %", share(rest.ns, profile))});
  }
  return render_table({{title, 24, Align::kLeft}, {"calls", 6}, {"ms", 9}, {"share", 7}}, rows);
}

std::string bound_of(const DeviceUse& use, const Profile& profile, const MachineRates& rates) {
  const double busy = share(use.busy_ns, profile) / 100;
  const double pauses = per_step(use.gaps, profile);
  std::string line = fmt::format("the GPU computes for {:.1f} % of a step, with {:.0f} pause{}: ", 100 * busy, pauses,
                                 pauses == 1 ? "" : "s");
  if (busy < kBoundByHost) return line + "the host bounds it (cuda_graph records what it launches)\n";
  line += "the GPU bounds it";
  if (const double flops = flops_of(profile); flops > 0 && rates.flops_per_s > 0) {
    line += fmt::format("; its products take at least {:.1f} % of that time, at {:.1f} TFLOP/s",
                        100 * flops / rates.flops_per_s / (static_cast<double>(use.busy_ns) / 1e9),
                        rates.flops_per_s / 1e12);
  }
  return line + "\n";
}

}  // namespace

std::string device_text(const Profile& profile, const MachineRates& rates, std::size_t most_rows) {
  if (profile.device.empty()) return "";
  const DeviceUse use = device_use(profile);
  return "\n" + table_of(use.kinds, "on the GPU", profile, most_rows) + "\n" +
         table_of(use.rows, "kernel", profile, most_rows) + bound_of(use, profile, rates);
}

}  // namespace lockstep::view
