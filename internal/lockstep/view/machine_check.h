// SPDX-License-Identifier: Apache-2.0
// The findings of `lockstep doctor` on a machine, as pure functions of facts. The launch module gathers the facts.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/base/cuda_library.h"

#pragma GCC visibility push(default)

namespace lockstep::view {

/// The processors.
struct CoreFacts {
  std::string name = "CPU";          ///< model name
  int online = 1;                    ///< cores that are online
  int usable = 1;                    ///< cores allowed by the affinity mask (taskset, cpusets, Slurm)
  std::optional<double> quota = {};  ///< control groups' limit on CPU time, in cores; none: no limit
};

/// Memory, in bytes. None: no limit, or unknown.
struct MemoryFacts {
  std::uint64_t total = 0;                        ///< memory of the machine
  std::uint64_t available = 0;                    ///< memory that programs may still allocate
  std::optional<std::uint64_t> group_limit = {};  ///< limit of the control group
  std::uint64_t group_used = 0;  ///< memory that the control group uses, excluding caches that can be freed immediately
  std::uint64_t swap_total = 0;  ///< size of the swap
  std::uint64_t swap_used = 0;   ///< swap in use
  int overcommit = 0;            ///< vm.overcommit_memory
  std::optional<std::uint64_t> address_space = {};  ///< limit on the address space (ulimit -v)
};

/// /dev/shm, through which the ranks of a host exchange gradients. Units: bytes.
struct SharedMemoryFacts {
  bool is_there = false;   ///< true if it is mounted
  std::uint64_t size = 0;  ///< size of /dev/shm
  std::uint64_t free = 0;  ///< the unused part
};

/// Limits of this process. None: no limit.
struct LimitFacts {
  std::optional<std::uint64_t> files = {};      ///< hard limit on open files: lockstep run raises the soft limit to it
  std::optional<std::uint64_t> locked = {};     ///< limit on locked memory, in bytes
  std::optional<std::uint64_t> processes = {};  ///< limit on this user's processes
  std::optional<std::uint64_t> tasks = {};      ///< limit on the control group's tasks: pids.max
  std::uint64_t tasks_used = 0;                 ///< number of the group's processes and threads
  bool has_infiniband = false;                  ///< there is an InfiniBand device, which needs locked memory
};

/// The default port of the rendezvous between nodes.
struct PortFacts {
  int default_port = 29500;    ///< number of the port
  bool is_free = true;         ///< no process listens on it
  int ephemeral_low = 32768;   ///< first ephemeral port of the kernel
  int ephemeral_high = 60999;  ///< last ephemeral port
};

/// An address of this host.
struct InterfaceFacts {
  std::string name;          ///< the interface: "eth0"
  std::string address;       ///< numeric address, IPv4 or IPv6
  bool is_loopback = false;  ///< it reaches only this host
  int megabits = 0;          ///< the speed that the link reports; 0: unknown
};

/// The names and addresses at which other hosts reach this host.
struct NetworkFacts {
  std::string host_name;                         ///< the system's host name
  std::vector<std::string> host_addresses = {};  ///< the addresses to which the name resolves
  bool has_answer = true;                        ///< the resolver answered in time
  std::vector<InterfaceFacts> interfaces = {};   ///< addresses of this host
  std::string outward = {};                      ///< the interface of the default route; empty: there is none
  std::string interface_variable = {};  ///< the variable that is set: LOCKSTEP_SOCKET_IFNAME or GLOO_SOCKET_IFNAME
  std::string named_interface = {};     ///< the first interface in that variable
  std::vector<std::string> fabric_ports = {};  ///< active ports of InfiniBand and RoCE, "mlx5_0:1"
  std::string wire = {};                       ///< value of LOCKSTEP_WIRE
};

/// The clock that measures times, and its synchronisation with other hosts.
struct ClockFacts {
  std::string source = {};                   ///< clock source: "tsc"; empty: unknown
  double reading_ns = 0;                     ///< duration of one reading
  std::optional<bool> is_synchronised = {};  ///< synchronised by NTP or PTP; none: unknown
  double error_s = 0;                        ///< the largest error that the kernel assumes
};

/// A GPU and its memory. Units: bytes.
struct GpuMemory {
  int index = 0;            ///< its index in nvidia-smi
  std::string name;         ///< the model's name
  std::uint64_t used = 0;   ///< memory in use
  std::uint64_t total = 0;  ///< size of its memory
};

/// The NCCL that ranks load.
struct NcclFacts {
  std::string version = {};  ///< its version: "2.28.9"; empty: NCCL is not found
  std::string path = {};     ///< the library's file
  std::string problem = {};  ///< the reason why ranks cannot use it; empty: they can
};

/// The GPUs of this host.
struct GpuFacts {
  int devices = 0;                   ///< number of device files, /dev/nvidia0 and so on
  std::vector<GpuMemory> gpus = {};  ///< GPUs, by index
  std::string driver = {};           ///< version of the driver; empty: no driver is found
  std::string problem = {};          ///< the reason why no GPU is listed
  cuda::Obstacle obstacle = {};      ///< the reason why ranks cannot compute on the GPUs
  NcclFacts nccl = {};               ///< NCCL, if there are GPUs
  std::string hidden_by = {};        ///< value of CUDA_VISIBLE_DEVICES, if it hides all GPUs
};

/// The connection between two GPUs, or between a network card and its nearest GPU.
struct DeviceWay {
  std::string one;    ///< "GPU 0", "mlx5_0"
  std::string other;  ///< "GPU 1"
  std::string way =
      {};  ///< "NVLink", "one PCIe switch", "one host bridge", "one socket", "two sockets"; empty: unknown
  std::string obstacle = {};  ///< the reason why they cannot reach each other's memory; empty: they can
};

/// The links between the GPUs of this host, and from them to its network cards.
struct GpuLinkFacts {
  std::vector<DeviceWay> pairs = {};          ///< connections between all pairs of GPUs
  std::vector<DeviceWay> cards = {};          ///< connections of InfiniBand and RoCE cards
  std::vector<std::string> redirecting = {};  ///< PCI bridges above GPUs whose access control (ACS) sends peer traffic
                                              ///< through the host
  bool is_acs_known = true;                   ///< false: only root may read it
  bool iommu_translates = false;              ///< the IOMMU translates addresses that devices use
};

/// Measurements of a folder's disk. A value below 0 was not measured.
struct DiskFacts {
  std::string folder;        ///< the folder that was measured
  std::string kind = {};     ///< the file system: "ext4", "nfs", "tmpfs"; empty: unknown
  std::uint64_t free = 0;    ///< free space in bytes
  double bytes_per_s = -1;   ///< rate of writing with a sync
  double sync_ms = -1;       ///< median time of writing 4 KiB with fsync
  std::string problem = {};  ///< the reason why it could not be measured
};

/// An all-reduce between ranks of this host.
struct AllReduceFacts {
  int ranks = 0;                  ///< number of ranks that took part
  std::string backend = {};       ///< the backend that carried the bytes
  double small_us = -1;           ///< time for 4 KiB
  double large_bytes_per_s = -1;  ///< rate for 4 MiB
  std::string skipped = {};       ///< the reason why nothing was measured, if that is not a failure
  std::string problem = {};       ///< the error; empty: none
};

/// The facts about a machine. Facts that are none were not requested.
struct MachineFacts {
  std::optional<CoreFacts> cores = {};                  ///< processors
  std::optional<MemoryFacts> memory = {};               ///< memory
  std::optional<SharedMemoryFacts> shared_memory = {};  ///< /dev/shm
  std::optional<LimitFacts> limits = {};                ///< limits of this process
  std::optional<PortFacts> ports = {};                  ///< the port of the rendezvous
  std::optional<NetworkFacts> network = {};             ///< names and interfaces
  std::optional<ClockFacts> clock = {};                 ///< the clock
  std::optional<GpuFacts> gpus = {};                    ///< GPUs
  std::optional<GpuLinkFacts> gpu_links = {};           ///< links of a GPU to other GPUs and to network cards
  std::optional<DiskFacts> disk = {};                   ///< the working directory's disk
  std::optional<AllReduceFacts> all_reduce = {};        ///< an all-reduce between ranks of this host
};

/// The condition of a part. kOk: good. kWarn: something will be slow or surprising. kBad: a run would fail.
enum class Health : std::uint8_t { kOk, kWarn, kBad };

/// The finding on one part of the machine.
struct Check {
  std::string name;                ///< "cores", "memory"
  Health health = Health::kOk;     ///< the condition of the part
  std::string value;               ///< the measured value, with units
  std::vector<std::string> hints;  ///< one for each finding; empty if health is kOk
};

/// Returns one check or more for each fact, in the order of MachineFacts.
[[nodiscard]] std::vector<Check> check_machine(const MachineFacts& facts);

/// Returns true if a run would fail.
[[nodiscard]] bool is_any_bad(const std::vector<Check>& checks);

/// Returns the checks as lines of at most `width` columns, each followed by its hints. It ends with a newline.
[[nodiscard]] std::string checks_text(const std::vector<Check>& checks, int width, bool color);

/// Returns one JSON object per line: {"check", "health": "ok"|"warn"|"bad", "value", "hints"}.
[[nodiscard]] std::string checks_json(const std::vector<Check>& checks);

}  // namespace lockstep::view

#pragma GCC visibility pop
