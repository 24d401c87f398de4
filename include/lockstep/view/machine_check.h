// SPDX-License-Identifier: Apache-2.0
// What `lockstep doctor` thinks of a machine: facts in, findings out. Pure: module launch gathers the facts.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#pragma GCC visibility push(default)

namespace lockstep::view {

/// Processors. `quota` is the share of time that control groups allow, in cores; none: all of it.
struct CoreFacts {
  std::string name = "CPU";
  int online = 1;
  int usable = 1;  ///< by affinity: taskset, cpusets, Slurm
  std::optional<double> quota = {};
};

/// Memory, in bytes. None: no limit, or unknown.
struct MemoryFacts {
  std::uint64_t total = 0;
  std::uint64_t available = 0;
  std::optional<std::uint64_t> group_limit = {};
  std::uint64_t group_used = 0;  ///< without what the kernel gives back at once
  std::uint64_t swap_total = 0;
  std::uint64_t swap_used = 0;
  int overcommit = 0;                               ///< vm.overcommit_memory
  std::optional<std::uint64_t> address_space = {};  ///< ulimit -v
};

struct SharedMemoryFacts {
  bool is_there = false;
  std::uint64_t size = 0;
  std::uint64_t free = 0;
};

/// Limits of this process. None: no limit.
struct LimitFacts {
  std::optional<std::uint64_t> files = {};      ///< hard: lockstep run raises the soft one to it
  std::optional<std::uint64_t> locked = {};     ///< bytes of locked memory
  std::optional<std::uint64_t> processes = {};  ///< of this user
  std::optional<std::uint64_t> tasks = {};      ///< of the control group: pids.max
  std::uint64_t tasks_used = 0;
  bool has_infiniband = false;
};

struct PortFacts {
  int default_port = 29500;
  bool is_free = true;
  int ephemeral_low = 32768;
  int ephemeral_high = 60999;
};

/// An address of this host.
struct InterfaceFacts {
  std::string name;
  std::string address;
  bool is_loopback = false;
  int megabits = 0;  ///< what the link says of its speed; 0: unknown
};

struct NetworkFacts {
  std::string host_name;
  std::vector<std::string> host_addresses = {};  ///< what the name resolves to
  bool has_answer = true;                        ///< the resolver answered in time
  std::vector<InterfaceFacts> interfaces = {};
  std::string outward = {};         ///< the interface that leads out; empty: none does
  std::string gloo_interface = {};  ///< GLOO_SOCKET_IFNAME
};

struct ClockFacts {
  std::string source = {};  ///< "tsc"; empty: unknown
  double reading_ns = 0;    ///< what one reading costs
  std::optional<bool> is_synchronised = {};
  double error_s = 0;  ///< the largest error that the kernel assumes
};

struct GpuMemory {
  int index = 0;
  std::string name;
  std::uint64_t used = 0;
  std::uint64_t total = 0;
};

struct GpuFacts {
  int devices = 0;  ///< /dev/nvidia0 and so on
  std::vector<GpuMemory> gpus = {};
  std::string driver = {};
  std::string problem = {};    ///< why no GPU is listed
  std::string nccl = {};       ///< version; empty: no library is found
  std::string hidden_by = {};  ///< CUDA_VISIBLE_DEVICES where it hides all
};

/// Figures of this folder's disk. A time below 0 was not measured.
struct DiskFacts {
  std::string folder;
  std::string kind = {};  ///< "ext4", "nfs", "tmpfs"; empty: unknown
  std::uint64_t free = 0;
  double bytes_per_s = -1;   ///< written and synced
  double sync_ms = -1;       ///< median of 4 KiB with fsync
  std::string problem = {};  ///< why it could not be measured
};

/// All-reduce between ranks of this host.
struct AllReduceFacts {
  int ranks = 0;
  std::string backend = {};
  double small_us = -1;           ///< of 4 KiB
  double large_bytes_per_s = -1;  ///< of 4 MiB
  std::string skipped = {};       ///< why nothing was measured, which is no fault
  std::string problem = {};       ///< how it failed
};

/// Facts that are none were not asked for.
struct MachineFacts {
  std::optional<CoreFacts> cores = {};
  std::optional<MemoryFacts> memory = {};
  std::optional<SharedMemoryFacts> shared_memory = {};
  std::optional<LimitFacts> limits = {};
  std::optional<PortFacts> ports = {};
  std::optional<NetworkFacts> network = {};
  std::optional<ClockFacts> clock = {};
  std::optional<GpuFacts> gpus = {};
  std::optional<DiskFacts> disk = {};
  std::optional<AllReduceFacts> all_reduce = {};
};

/// kWarn: something will be slow or surprising. kBad: a run fails.
enum class Health : std::uint8_t { kOk, kWarn, kBad };

struct Check {
  std::string name;
  Health health = Health::kOk;
  std::string value;               ///< with units
  std::vector<std::string> hints;  ///< one for each finding; empty where health is kOk
};

/// Returns one check or more for each fact, in the order of MachineFacts.
[[nodiscard]] std::vector<Check> check_machine(const MachineFacts& facts);

[[nodiscard]] bool is_any_bad(const std::vector<Check>& checks);

/// Returns the checks as lines of at most `width` columns, hints below their line. It ends with a line end.
[[nodiscard]] std::string checks_text(const std::vector<Check>& checks, int width, bool color);

/// Returns an object a line: {"check", "health": "ok"|"warn"|"bad", "value", "hints"}.
[[nodiscard]] std::string checks_json(const std::vector<Check>& checks);

}  // namespace lockstep::view

#pragma GCC visibility pop
