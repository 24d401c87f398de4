// SPDX-License-Identifier: Apache-2.0
// The verdict of `lockstep doctor` on a machine: facts in, findings out. Pure: module launch gathers the facts.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/base/cuda_library.h"

#pragma GCC visibility push(default)

namespace lockstep::view {

/// Processors. `quota` is the share of time that control groups allow, in cores; none: all of it.
struct CoreFacts {
  std::string name = "CPU";          ///< model name
  int online = 1;                    ///< cores that run
  int usable = 1;                    ///< by affinity: taskset, cpusets, Slurm
  std::optional<double> quota = {};  ///< in cores
};

/// Memory, in bytes. None: no limit, or unknown.
struct MemoryFacts {
  std::uint64_t total = 0;                          ///< memory of the machine
  std::uint64_t available = 0;                      ///< the memory that programs may still take
  std::optional<std::uint64_t> group_limit = {};    ///< limit of the control group
  std::uint64_t group_used = 0;                     ///< without the memory that the kernel gives back at once
  std::uint64_t swap_total = 0;                     ///< size of the swap
  std::uint64_t swap_used = 0;                      ///< swap in use
  int overcommit = 0;                               ///< vm.overcommit_memory
  std::optional<std::uint64_t> address_space = {};  ///< ulimit -v
};

/// /dev/shm, through which the ranks of a host exchange gradients. Units: bytes.
struct SharedMemoryFacts {
  bool is_there = false;   ///< it is mounted
  std::uint64_t size = 0;  ///< its size
  std::uint64_t free = 0;  ///< the unused part
};

/// Limits of this process. None: no limit.
struct LimitFacts {
  std::optional<std::uint64_t> files = {};      ///< hard: lockstep run raises the soft one to it
  std::optional<std::uint64_t> locked = {};     ///< bytes of locked memory
  std::optional<std::uint64_t> processes = {};  ///< limit of this user
  std::optional<std::uint64_t> tasks = {};      ///< limit of the control group: pids.max
  std::uint64_t tasks_used = 0;                 ///< the number of processes and threads
  bool has_infiniband = false;                  ///< there is an InfiniBand device, which needs locked memory
};

/// The port at which nodes meet if no other is given.
struct PortFacts {
  int default_port = 29500;    ///< its number
  bool is_free = true;         ///< no process listens at it
  int ephemeral_low = 32768;   ///< first port that the kernel gives away by itself
  int ephemeral_high = 60999;  ///< last such port
};

/// An address of this host.
struct InterfaceFacts {
  std::string name;          ///< "eth0"
  std::string address;       ///< numeric, IPv4 or IPv6
  bool is_loopback = false;  ///< it reaches this host only
  int megabits = 0;          ///< the speed that the link reports; 0: unknown
};

/// This host as others reach it.
struct NetworkFacts {
  std::string host_name;                         ///< the system's name of it
  std::vector<std::string> host_addresses = {};  ///< the addresses to which the name resolves
  bool has_answer = true;                        ///< the resolver answered in time
  std::vector<InterfaceFacts> interfaces = {};   ///< its addresses
  std::string outward = {};                      ///< the interface that leads out; empty: none does
  std::string interface_variable = {};           ///< LOCKSTEP_SOCKET_IFNAME or GLOO_SOCKET_IFNAME, which is set
  std::string named_interface = {};              ///< the first that it names
  std::vector<std::string> fabric_ports = {};    ///< active ports of InfiniBand and RoCE, "mlx5_0:1"
  std::string wire = {};                         ///< LOCKSTEP_WIRE
};

/// The clock that measures times, and its agreement with others.
struct ClockFacts {
  std::string source = {};                   ///< "tsc"; empty: unknown
  double reading_ns = 0;                     ///< the time of one reading
  std::optional<bool> is_synchronised = {};  ///< by NTP or PTP; none: unknown
  double error_s = 0;                        ///< the largest error that the kernel assumes
};

/// A GPU and its memory. Units: bytes.
struct GpuMemory {
  int index = 0;            ///< as nvidia-smi counts
  std::string name;         ///< its model
  std::uint64_t used = 0;   ///< memory in use
  std::uint64_t total = 0;  ///< memory that it has
};

/// The NCCL that ranks load.
struct NcclFacts {
  std::string version = {};  ///< "2.28.9"; empty: none is found
  std::string path = {};     ///< its file
  std::string problem = {};  ///< why ranks cannot use it; empty if they can
};

/// The GPUs of this host.
struct GpuFacts {
  int devices = 0;                   ///< /dev/nvidia0 and so on
  std::vector<GpuMemory> gpus = {};  ///< by index
  std::string driver = {};           ///< version of the driver; empty: none is found
  std::string problem = {};          ///< why no GPU is listed
  cuda::Obstacle obstacle = {};      ///< why ranks cannot compute on them
  NcclFacts nccl = {};               ///< if there are GPUs
  std::string hidden_by = {};        ///< CUDA_VISIBLE_DEVICES, if it hides all
};

/// The way between two GPUs, or between a network card and the GPU nearest to it.
struct DeviceWay {
  std::string one;    ///< "GPU 0", "mlx5_0"
  std::string other;  ///< "GPU 1"
  std::string way =
      {};  ///< "NVLink", "one PCIe switch", "one host bridge", "one socket", "two sockets"; empty: unknown
  std::string obstacle = {};  ///< why they cannot reach each other's memory; empty: they can
};

/// The links between the GPUs of this host, and from them to its network cards.
struct GpuLinkFacts {
  std::vector<DeviceWay> pairs = {};          ///< each pair of GPUs
  std::vector<DeviceWay> cards = {};          ///< InfiniBand and RoCE cards
  std::vector<std::string> redirecting = {};  ///< PCI bridges above GPUs whose access control (ACS) sends peer traffic
                                              ///< through the host
  bool is_acs_known = true;                   ///< false: only root may read it
  bool iommu_translates = false;              ///< devices' addresses are the IOMMU's
};

/// Figures of this folder's disk. A time below 0 was not measured.
struct DiskFacts {
  std::string folder;        ///< the folder that was measured
  std::string kind = {};     ///< "ext4", "nfs", "tmpfs"; empty: unknown
  std::uint64_t free = 0;    ///< bytes that are left
  double bytes_per_s = -1;   ///< written and synced
  double sync_ms = -1;       ///< median of 4 KiB with fsync
  std::string problem = {};  ///< why it could not be measured
};

/// All-reduce between ranks of this host.
struct AllReduceFacts {
  int ranks = 0;                  ///< number of ranks that took part
  std::string backend = {};       ///< the backend that carried the bytes
  double small_us = -1;           ///< time for 4 KiB
  double large_bytes_per_s = -1;  ///< rate for 4 MiB
  std::string skipped = {};       ///< why nothing was measured, if that is no fault
  std::string problem = {};       ///< the failure
};

/// A fact that is none was not asked for.
struct MachineFacts {
  std::optional<CoreFacts> cores = {};                  ///< processors
  std::optional<MemoryFacts> memory = {};               ///< memory
  std::optional<SharedMemoryFacts> shared_memory = {};  ///< /dev/shm
  std::optional<LimitFacts> limits = {};                ///< limits of this process
  std::optional<PortFacts> ports = {};                  ///< the port at which nodes meet
  std::optional<NetworkFacts> network = {};             ///< names and interfaces
  std::optional<ClockFacts> clock = {};                 ///< the clock
  std::optional<GpuFacts> gpus = {};                    ///< GPUs
  std::optional<GpuLinkFacts> gpu_links = {};           ///< if there are several GPUs, or a card beside one
  std::optional<DiskFacts> disk = {};                   ///< the working directory's disk
  std::optional<AllReduceFacts> all_reduce = {};        ///< an all-reduce between ranks of this host
};

/// kOk: fit. kWarn: something will be slow or surprising. kBad: a run fails.
enum class Health : std::uint8_t { kOk, kWarn, kBad };

/// The finding on one part of the machine.
struct Check {
  std::string name;                ///< "cores", "memory"
  Health health = Health::kOk;     ///< its condition
  std::string value;               ///< with units
  std::vector<std::string> hints;  ///< one for each finding; empty if health is kOk
};

/// Returns one check or more for each fact, in the order of MachineFacts.
[[nodiscard]] std::vector<Check> check_machine(const MachineFacts& facts);

/// Returns true if a run would fail.
[[nodiscard]] bool is_any_bad(const std::vector<Check>& checks);

/// Returns the checks as lines of at most `width` columns, hints below their line. It ends with a line end.
[[nodiscard]] std::string checks_text(const std::vector<Check>& checks, int width, bool color);

/// Returns an object a line: {"check", "health": "ok"|"warn"|"bad", "value", "hints"}.
[[nodiscard]] std::string checks_json(const std::vector<Check>& checks);

}  // namespace lockstep::view

#pragma GCC visibility pop
