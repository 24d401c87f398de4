// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include "lockstep/base/text.h"
#include "lockstep/view/profile.h"
#include "lockstep/view/table.h"

namespace lockstep::view {
namespace {

constexpr double kBoundByHost = 0.8;  // share of a step; below it the GPU waits for launches
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
  if (busy < kBoundByHost) return line + "the host is the bottleneck (cuda_graph records what it launches)\n";
  line += "the GPU is the bottleneck";
  if (const double flops = flops_of(profile); flops > 0 && rates.flops_per_s > 0) {
    line += fmt::format("; its products take at least {:.1f} % of that time, at {:.1f} TFLOP/s",
                        100 * flops / rates.flops_per_s / (static_cast<double>(use.busy_ns) / 1e9),
                        rates.flops_per_s / 1e12);
  }
  return line + "\n";
}

/// Returns the kinds of kernels, the kernels, and what limits a step; "" without a GPU.
std::string device_text(const Profile& profile, const MachineRates& rates, std::size_t most_rows) {
  if (profile.device.empty()) return "";
  const DeviceUse use = device_use(profile);
  return "\n" + table_of(use.kinds, "on the GPU", profile, most_rows) + "\n" +
         table_of(use.rows, "kernel", profile, most_rows) + bound_of(use, profile, rates);
}

using Row = std::vector<std::string>;

/// Writes the tables, with times per average step.
class Words {
 public:
  explicit Words(const Profile& profile)
      : steps_(static_cast<double>(std::max<std::int64_t>(profile.steps, 1))),
        whole_(static_cast<double>(std::max<std::int64_t>(profile.end_ns - profile.begin_ns, 1))) {}

  [[nodiscard]] std::string calls(std::int64_t calls) const {
    const double per_step = static_cast<double>(calls) / steps_;
    return per_step == static_cast<double>(static_cast<std::int64_t>(per_step)) ? fmt::format("{:.0f}", per_step)
                                                                                : fmt::format("{:.1f}", per_step);
  }
  [[nodiscard]] std::string ms(std::int64_t ns) const {
    return fmt::format("{:.3f}", static_cast<double>(ns) / 1e6 / steps_);
  }
  [[nodiscard]] std::string share(std::int64_t ns) const {
    return fmt::format("{:.1f} %", 100 * static_cast<double>(ns) / whole_);
  }
  [[nodiscard]] static std::string rate(double count, std::int64_t ns) {
    if (count <= 0 || ns <= 0) return "";
    return fmt::format("{:.2f}", count / static_cast<double>(ns));
  }
  [[nodiscard]] std::string giga_flops(double flops) const {
    return flops > 0 ? fmt::format("{:.3f}", flops / 1e9 / steps_) : "";
  }

 private:
  double steps_;
  double whole_;
};

std::string parts_text(const Profile& profile, const Words& words) {
  std::vector<Row> rows;
  for (const PartRow& part : part_table(profile)) {
    rows.push_back({std::string(part.name), words.ms(part.ns), words.share(part.ns)});
  }
  rows.push_back({"a step", words.ms(profile.end_ns - profile.begin_ns), "100.0 %"});
  return render_table({{"part", 24, Align::kLeft}, {"ms", 10}, {"share", 7}}, rows);
}

Row operator_row(const OperatorRow& row, const Words& words) {
  return {row.name,
          words.calls(row.calls),
          words.ms(row.self_ns),
          words.ms(row.total_ns),
          words.share(row.self_ns),
          Words::rate(static_cast<double>(row.bytes), row.total_ns),
          Words::rate(row.flops, row.total_ns)};
}

std::string operators_text(const Profile& profile, const Words& words, std::size_t most_rows) {
  const std::vector<OperatorRow> table = operator_table(profile);
  std::vector<Row> rows;
  OperatorRow rest;
  std::int64_t inside = 0;
  for (std::size_t i = 0; i < table.size(); ++i) {
    inside += table[i].self_ns;
    if (i < most_rows) {
      rows.push_back(operator_row(table[i], words));
    } else {
      rest.calls += table[i].calls;
      rest.self_ns += table[i].self_ns;
    }
  }
  if (table.size() > most_rows) {
    rows.push_back({fmt::format("{} more", table.size() - most_rows), words.calls(rest.calls), words.ms(rest.self_ns),
                    "", words.share(rest.self_ns), "", ""});
  }
  const std::int64_t outside = profile.end_ns - profile.begin_ns - inside;
  rows.push_back({"outside operators", "", words.ms(outside), "", words.share(outside), "", ""});
  return render_table({{"operator", 24, Align::kLeft},
                       {"calls", 6},
                       {"self ms", 9},
                       {"total ms", 9},
                       {"share", 7},
                       {"GB/s", 6},
                       {"GFLOP/s", 7}},
                      rows);
}

std::string layers_text(const Profile& profile, const Words& words, std::size_t most_rows) {
  std::vector<LayerRow> table = layer_table(profile);
  if (table.empty()) return "";
  const auto time = [](const LayerRow& row) { return row.forward_ns + row.backward_ns; };
  std::size_t left_out = 0;
  if (table.size() > most_rows) {  // keeps the slowest layers, in their original order
    std::vector<std::int64_t> times;
    for (const LayerRow& row : table) times.push_back(time(row));
    std::nth_element(times.begin(), times.begin() + static_cast<std::ptrdiff_t>(most_rows) - 1, times.end(),
                     std::greater<>());
    left_out = std::erase_if(table, [&](const LayerRow& row) { return time(row) < times[most_rows - 1]; });
  }
  std::vector<Row> rows;
  for (const LayerRow& row : table) {
    rows.push_back({row.name, words.ms(row.forward_ns), words.ms(row.backward_ns), words.share(time(row)),
                    words.giga_flops(row.flops), Words::rate(row.flops, time(row))});
  }
  const std::string note = left_out > 0 ? fmt::format("and {} faster layers\n", left_out) : "";
  return "\n" +
         render_table({{"layer", 24, Align::kLeft},
                       {"forward ms", 10},
                       {"backward ms", 11},
                       {"share", 7},
                       {"GFLOP", 7},
                       {"GFLOP/s", 7}},
                      rows) +
         note;
}

std::string memory_text(const Profile& profile) {
  constexpr std::size_t kMostRows = 10;
  const MemoryPeak peak = memory_peak(profile);
  if (peak.bytes == 0) return "";
  const auto row_of = [&](const MemoryRow& row) {
    return Row{row.made_by.empty() ? "outside operators" : row.made_by, row.layer, std::to_string(row.tensors),
               text::bytes(static_cast<std::uint64_t>(row.bytes)),
               fmt::format("{:.1f} %", 100.0 * static_cast<double>(row.bytes) / static_cast<double>(peak.bytes))};
  };
  std::vector<Row> rows;
  MemoryRow rest;
  for (std::size_t i = 0; i < peak.rows.size(); ++i) {
    if (i < kMostRows) {
      rows.push_back(row_of(peak.rows[i]));
    } else {
      rest.tensors += peak.rows[i].tensors;
      rest.bytes += peak.rows[i].bytes;
    }
  }
  if (rest.tensors > 0) {
    rest.made_by = fmt::format("{} more", peak.rows.size() - kMostRows);
    rows.push_back(row_of(rest));
  }
  return fmt::format("\nmemory: the steps' tensors took at most {}{}, not counting older ones\n\n",
                     text::bytes(static_cast<std::uint64_t>(peak.bytes)),
                     peak.section.empty() ? "" : ", in " + peak.section) +
         render_table({{"tensors created by", 24, Align::kLeft},
                       {"layer", 12, Align::kLeft},
                       {"tensors", 7},
                       {"memory", 9},
                       {"share", 7}},
                      rows);
}

std::string flops_text(const Profile& profile, const MachineRates& rates) {
  const double flops = flops_of(profile);
  if (flops <= 0) return "";
  const double steps = static_cast<double>(std::max<std::int64_t>(profile.steps, 1));
  const double rate = flops / std::max(seconds_of(profile), 1e-9);
  std::string line = fmt::format("{:.3f} GFLOP a step, {:.2f} GFLOP/s", flops / 1e9 / steps, rate / 1e9);
  if (rates.flops_per_s > 0) {
    line += fmt::format(", {:.1f} % of the {:.2f} GFLOP/s of {} matrix products (lockstep bench peak)",
                        100 * rate / rates.flops_per_s, rates.flops_per_s / 1e9, rates.flops_type);
  }
  return line + "\n";
}

}  // namespace

std::string profile_text(const Profile& profile, const MachineRates& rates, std::size_t most_rows) {
  const Words words(profile);
  std::string out = fmt::format("profile of {} on rank {} of {}; times are averages per step\n\n",
                                text::counted(profile.steps, "step"), profile.rank, profile.world_size);
  out += parts_text(profile, words) + "\n" + operators_text(profile, words, most_rows) +
         layers_text(profile, words, most_rows) + memory_text(profile) + device_text(profile, rates, most_rows) + "\n";
  if (rates.copied_bytes_per_s > 0) {
    out += fmt::format("GB/s: bytes read by an operator that only moves memory; memcpy copies {:.2f} GB/s\n",
                       rates.copied_bytes_per_s / 1e9);
  }
  return out + flops_text(profile, rates);
}

}  // namespace lockstep::view
