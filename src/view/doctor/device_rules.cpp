// SPDX-License-Identifier: Apache-2.0
// Rules for GPUs, the disk and collectives.
#include <fmt/format.h>

#include <map>

#include "lockstep/base/text.h"
#include "view/doctor/rules.h"

namespace lockstep::view {
namespace {

constexpr double kSlowSync = 50;         // milliseconds
constexpr double kSlowDisk = 50e6;       // bytes per second
constexpr double kSlowAllReduce = 1000;  // microseconds

std::string rate(double bytes_per_s) { return text::bytes(static_cast<std::uint64_t>(bytes_per_s)) + "/s"; }

std::string gpus_text(const GpuFacts& facts) {
  std::string value = fmt::format("{} x {}", facts.gpus.size(), facts.gpus.front().name);
  if (!facts.driver.empty()) value += ", driver " + facts.driver;
  if (!facts.obstacle.problem.empty()) return value + ", not usable by Lockstep";
  if (!facts.nccl.problem.empty()) return value + ", no NCCL";
  return value + fmt::format(", NCCL {} ({})", facts.nccl.version, facts.nccl.path);
}

void find_obstacle(Check& check, const GpuFacts& facts) {
  if (!facts.obstacle.problem.empty()) {
    add_finding(check, Health::kWarn,
                fmt::format("{}: ranks compute on the CPU; {}", facts.obstacle.problem, facts.obstacle.remedy));
  } else if (facts.gpus.size() > 1 && !facts.nccl.problem.empty()) {
    add_finding(
        check, Health::kWarn,
        fmt::format(
            "gradients go through host memory, since {}: install libnccl2, or set LOCKSTEP_NCCL=/path/to/libnccl.so.2",
            facts.nccl.problem));
  }
}

/// Returns "3 pairs by NVLink, 1 pair by one host bridge".
std::string ways_text(const std::vector<DeviceWay>& pairs) {
  std::map<std::string, int> ways;
  for (const DeviceWay& pair : pairs) ++ways[pair.way.empty() ? "an unknown route" : pair.way];
  std::vector<std::string> parts;
  for (const auto& [way, count] : ways) parts.push_back(fmt::format("{} by {}", text::counted(count, "pair"), way));
  return text::join(parts);
}

void find_obstacles(Check& check, const GpuLinkFacts& facts) {
  bool by_pcie = false;
  for (const DeviceWay& pair : facts.pairs) {
    by_pcie = by_pcie || pair.way != "NVLink";
    if (pair.obstacle.empty()) continue;
    add_finding(
        check, Health::kWarn,
        fmt::format("{} and {} cannot reach each other's memory ({}): NCCL goes through host memory, which is slower",
                    pair.one, pair.other, pair.obstacle));
  }
  if (!by_pcie && facts.cards.empty()) return;
  if (!facts.redirecting.empty()) {
    add_finding(
        check, Health::kWarn,
        fmt::format("access control (ACS) of the PCI bridge{} {} sends the traffic between GPUs and cards through the "
                    "host, or stops it: switch ACS off (setpci), or set NCCL_P2P_DISABLE=1 if collectives hang",
                    facts.redirecting.size() == 1 ? "" : "s", text::join(facts.redirecting)));
  }
  if (facts.iommu_translates) {
    add_finding(check, Health::kWarn,
                "the IOMMU translates addresses of devices, so GPUs may not reach each other: boot with iommu=pt, or "
                "set NCCL_P2P_DISABLE=1 if collectives hang");
  }
}

}  // namespace

Check check_gpu_links(const GpuLinkFacts& facts) {
  Check check{.name = "GPU links", .value = ways_text(facts.pairs)};
  for (const DeviceWay& card : facts.cards) {
    check.value += fmt::format("{}{} near {} ({})", check.value.empty() ? "" : "; ", card.one, card.other, card.way);
  }
  if (!facts.is_acs_known) check.value += "; only root can see whether ACS is on";
  find_obstacles(check, facts);
  return check;
}

Check check_gpus(const GpuFacts& facts) {
  Check check{.name = "GPUs"};
  if (facts.gpus.empty()) {
    check.value = facts.devices == 0 ? "none" : fmt::format("{} in /dev: {}", facts.devices, facts.problem);
    if (facts.devices > 0) {
      add_finding(check, Health::kBad,
                  "the driver's library and its kernel module must both be installed, in the same version: run "
                  "nvidia-smi to check; start a container with --gpus all");
      if (facts.obstacle.lack != cuda::Lack::kDriver) find_obstacle(check, facts);
    }
    return check;
  }
  check.value = gpus_text(facts);
  if (!facts.hidden_by.empty()) {
    check.value += ", hidden";
    add_finding(check, Health::kWarn, fmt::format("{} hides the GPUs: ranks compute on the CPU", facts.hidden_by));
  }
  find_obstacle(check, facts);
  for (const GpuMemory& gpu : facts.gpus) {
    if (gpu.used <= gpu.total / 10) continue;
    add_finding(check, Health::kWarn,
                fmt::format("GPU {} has {} of {} in use: lockstep inspect gpu lists the processes", gpu.index,
                            text::bytes(gpu.used), text::bytes(gpu.total)));
  }
  return check;
}

Check check_disk(const DiskFacts& facts) {
  Check check{.name = "disk", .value = fmt::format("{} free in {}", text::bytes(facts.free), facts.folder)};
  if (!facts.kind.empty()) check.value += fmt::format(" ({})", facts.kind);
  if (facts.bytes_per_s >= 0) check.value += fmt::format(", writes {}", rate(facts.bytes_per_s));
  if (facts.sync_ms >= 0) check.value += fmt::format(", fsync {:.3g} ms", facts.sync_ms);
  if (!facts.problem.empty()) {
    check.value += ": " + facts.problem;
    add_finding(check, Health::kWarn, "a run cannot write here: choose another folder with --run-dir");
  }
  if (facts.free < 5 * kGiga) {
    add_finding(
        check, facts.free < 100 * kMega ? Health::kBad : Health::kWarn,
        "checkpoints need room: remove old runs, lower checkpoint.keep_last, or choose another disk with --run-dir");
  }
  if (facts.sync_ms > kSlowSync || (facts.bytes_per_s >= 0 && facts.bytes_per_s < kSlowDisk)) {
    add_finding(check, Health::kWarn,
                "saving takes long; steps do not wait for it, but the end of a run does: choose another disk with "
                "--run-dir, or save fewer checkpoints");
  }
  return check;
}

Check check_all_reduce(const AllReduceFacts& facts) {
  Check check{.name = "all-reduce"};
  if (!facts.skipped.empty()) {
    check.value = "not measured: " + facts.skipped;
    return check;
  }
  if (!facts.problem.empty()) {
    check.value = facts.problem;
    add_finding(check, Health::kBad,
                fmt::format("run it on its own: lockstep bench all-reduce --nproc-per-node {}", facts.ranks));
    return check;
  }
  check.value = fmt::format("{} ranks over {}: 4 KiB in {:.0f} us, 4 MiB at {}", facts.ranks, facts.backend,
                            facts.small_us, rate(facts.large_bytes_per_s));
  if (facts.small_us > kSlowAllReduce) {
    add_finding(check, Health::kWarn,
                "ranks wait for a core in each collective: other programs use this host's cores, or there are more "
                "ranks than cores");
  }
  return check;
}

}  // namespace lockstep::view
