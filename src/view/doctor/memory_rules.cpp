// SPDX-License-Identifier: Apache-2.0
// Rules for processors, memory and limits.
#include <fmt/format.h>

#include <algorithm>

#include "lockstep/base/text.h"
#include "view/doctor/rules.h"

namespace lockstep::view {
namespace {

constexpr std::uint64_t kUnlimited = ~std::uint64_t{0};

std::string count_text(const std::optional<std::uint64_t>& count) {
  return count ? text::thousands(static_cast<std::int64_t>(*count)) : "unlimited";
}

/// Returns the number of tasks that the control group still allows.
std::uint64_t tasks_left(const LimitFacts& facts) {
  if (!facts.tasks) return kUnlimited;
  return *facts.tasks > facts.tasks_used ? *facts.tasks - facts.tasks_used : 0;
}

}  // namespace

Check check_cores(const CoreFacts& facts) {
  Check check{.name = "cores", .value = fmt::format("{} ({})", text::counted(facts.usable, "core"), facts.name)};
  if (facts.usable < facts.online) check.value += fmt::format(", of {} by affinity", facts.online);
  if (!facts.quota) return check;
  check.value += fmt::format(", quota {:.2g}", *facts.quota);
  // Schedulers round whole cores down a little.
  if (*facts.quota > facts.usable - 0.05) return check;
  add_finding(
      check, Health::kWarn,
      fmt::format("the control group allows {:.2g} of the {} that programs see, and throttles their threads: start at "
                  "most {} threads (--nproc-per-node, OMP_NUM_THREADS), or raise the quota (--cpus of a container)",
                  *facts.quota, text::counted(facts.usable, "core"), std::max(1, static_cast<int>(*facts.quota))));
  return check;
}

Check check_memory(const MemoryFacts& facts) {
  const std::uint64_t limit = facts.group_limit ? std::min(*facts.group_limit, facts.total) : facts.total;
  const std::uint64_t in_group = facts.group_used < limit ? limit - facts.group_used : 0;
  const std::uint64_t free = facts.group_limit ? std::min(facts.available, in_group) : facts.available;
  Check check{.name = "memory", .value = fmt::format("{} free of {}", text::bytes(free), text::bytes(facts.total))};
  if (limit < facts.total) check.value += fmt::format(", control group limit {}", text::bytes(limit));
  if (free < 200 * kMega) {
    add_finding(check, Health::kBad,
                "one rank alone needs about 200 MB: end other programs, or raise the container's memory");
  } else if (free < kGiga) {
    add_finding(check, Health::kWarn, "only a few batches fit: end other programs, or raise the container's memory");
  }
  if (facts.address_space && *facts.address_space < 8 * kGiga) {
    add_finding(
        check, Health::kWarn,
        fmt::format(
            "ulimit -v allows {} of address space, but libraries reserve several times what they use: raise the limit",
            text::bytes(*facts.address_space)));
  }
  if (facts.overcommit == 2) {
    add_finding(check, Health::kWarn,
                "vm.overcommit_memory is 2: memory that is only reserved counts as used, and CUDA and libtorch reserve "
                "a lot: run sysctl vm.overcommit_memory=0");
  }
  return check;
}

Check check_swap(const MemoryFacts& facts) {
  Check check{.name = "swap", .value = "none"};
  if (facts.swap_total == 0) return check;
  check.value = fmt::format("{} used of {}", text::bytes(facts.swap_used), text::bytes(facts.swap_total));
  if (facts.swap_used > facts.swap_total / 4 && facts.swap_used > kGiga) {
    add_finding(
        check, Health::kWarn,
        "programs on this host are being swapped out, and a swapped-out rank is late in every step: use less memory");
  }
  return check;
}

Check check_shared_memory(const SharedMemoryFacts& facts) {
  Check check{.name = "/dev/shm"};
  if (!facts.is_there) {
    check.value = "missing";
    add_finding(check, Health::kWarn,
                "Lockstep's own ranks do not need it, but NCCL and Python's loaders do: mount a tmpfs there");
    return check;
  }
  check.value = fmt::format("{} free of {}", text::bytes(facts.free), text::bytes(facts.size));
  if (facts.free < 500 * kMega) {
    add_finding(check, Health::kWarn,
                "NCCL and Python's loaders need more (Lockstep's own ranks do not use it): run docker with "
                "--shm-size=1g or --ipc=host");
  }
  return check;
}

Check check_limits(const LimitFacts& facts) {
  Check check{
      .name = "limits",
      .value = fmt::format("{} open files, {} processes", count_text(facts.files), count_text(facts.processes))};
  if (facts.tasks) check.value += fmt::format(", {} of {} tasks", facts.tasks_used, count_text(facts.tasks));
  check.value += fmt::format(", locked memory {}", facts.locked ? text::bytes(*facts.locked) : "unlimited");
  const std::uint64_t files = facts.files.value_or(kUnlimited);
  if (files < 4096) {
    add_finding(
        check, files < 128 ? Health::kBad : Health::kWarn,
        "raise the hard limit on open files: ulimit -Hn, LimitNOFILE= of a service, --ulimit nofile= of a container");
  }
  // A rank with loader workers, BLAS and a device has about 50 threads.
  const std::uint64_t tasks = std::min(facts.processes.value_or(kUnlimited), tasks_left(facts));
  if (tasks < 1000) {
    add_finding(check, tasks < 100 ? Health::kBad : Health::kWarn,
                fmt::format("{} processes and threads are left, and a rank has about 50: raise ulimit -u, TasksMax= of "
                            "a service, or --pids-limit of a container",
                            tasks));
  }
  if (facts.has_infiniband && facts.locked && *facts.locked < 64 * kGiga) {
    add_finding(check, Health::kWarn,
                "InfiniBand registers memory, which must be locked: set ulimit -l unlimited, or LimitMEMLOCK=infinity "
                "of a service");
  }
  return check;
}

}  // namespace lockstep::view
