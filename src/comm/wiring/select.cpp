// SPDX-License-Identifier: Apache-2.0
#include "comm/wiring/select.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <set>

#include "comm/backends/nccl/nccl_backend.h"
#include "comm/backends/ucx/ucx.h"
#include "lockstep/base/env.h"
#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/comm/backends.h"

namespace lockstep {

std::vector<std::string> built_backends() {
  std::vector<std::string> names = {"local", "shm", "tcp"};
  const nccl::Library& nccl = comm::usable_nccl();
  if (nccl.problem.empty()) names.push_back("nccl " + nccl.version);
  if (const std::string version = comm::ucx_version(); !version.empty()) names.push_back("ucx " + version);
  return names;
}

}  // namespace lockstep

namespace lockstep::comm {

HostFacts this_host() {
  HostFacts facts;
  char name[256] = "unknown";
  gethostname(name, sizeof(name) - 1);
  facts.name = name;
  if (const auto id = env::get("LOCKSTEP_HOST_ID")) {
    facts.id = *id;
    return facts;
  }
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  struct stat network {};
  struct stat memory {};
  stat("/proc/self/ns/net", &network);
  stat("/dev/shm", &memory);
  facts.id = fmt::format("{}-{}-{}", boot, network.st_ino, memory.st_dev);
  return facts;
}

namespace {

std::string host_names(const std::vector<HostFacts>& hosts) {
  std::vector<std::string> names;
  for (const HostFacts& host : hosts) {
    if (std::find(names.begin(), names.end(), host.name) == names.end()) names.push_back(host.name);
  }
  return text::join(names);
}

}  // namespace

BackendChoice choose_backend(BackendKind wanted, const std::vector<HostFacts>& hosts) {
  const auto world = hosts.size();
  if (wanted == BackendKind::kNccl) wanted = BackendKind::kAuto;  // kNccl does not apply to the backend for host memory
  if (world == 1) return {BackendKind::kLocal, "a world of one has no other rank"};
  if (wanted == BackendKind::kLocal) {
    throw UsageError(fmt::format("the backend local supports only one rank, but this job has {}", world));
  }
  const auto stranger =
      std::find_if(hosts.begin(), hosts.end(), [&](const auto& host) { return host.id != hosts[0].id; });
  const bool one_host = stranger == hosts.end();
  if (wanted == BackendKind::kShm && !one_host) {
    throw UsageError(
        fmt::format("the backend shm needs all ranks on one host, but rank 0 is on {} and rank {} on {} (or in "
                    "another network namespace)",
                    hosts[0].name, stranger - hosts.begin(), stranger->name),
        "use --backend tcp or auto");
  }
  if (wanted == BackendKind::kShm) return {BackendKind::kShm, "asked for"};
  if (wanted == BackendKind::kAuto && one_host) {
    return {BackendKind::kShm, fmt::format("all {} ranks share the memory of {}", world, hosts[0].name)};
  }
  if (wanted == BackendKind::kTcp) return {BackendKind::kTcp, "asked for"};
  return {BackendKind::kTcp,
          fmt::format("the ranks cannot share memory: they are on several hosts ({})", host_names(hosts))};
}

namespace {

/// Returns the error for two ranks with the same GPU.
ResourceError clash(const std::vector<HostFacts>& hosts, std::size_t one, std::size_t other) {
  const HostFacts& host = hosts[one];
  std::set<std::string> gpus;
  int ranks = 0;
  for (const HostFacts& each : hosts) {
    if (each.id != host.id || each.gpu.empty()) continue;
    gpus.insert(each.gpu);
    ++ranks;
  }
  return ResourceError(
      fmt::format("ranks {} and {} on {} have the same GPU: {} ranks need one GPU each but see only {}", one, other,
                  host.name, ranks, text::counted(std::ssize(gpus), "GPU")),
      fmt::format("start {} there (--nproc-per-node {}), or give each rank its own GPU (srun "
                  "--gpus-per-task=1); or use --device cpu; LOCKSTEP_SHARE_GPUS=1 lets ranks share a GPU, for tests",
                  text::counted(std::ssize(gpus), "rank"), gpus.size()));
}

/// Returns the reason why NCCL cannot connect these two ranks; empty if it can.
std::string nccl_objection(const HostFacts& one, const HostFacts& other) {
  if (one.gpu == other.gpu) return fmt::format("share a GPU of {}, which NCCL does not allow", one.name);
  const bool is_one_slot = one.id == other.id && !one.gpu_slot.empty() && one.gpu_slot == other.gpu_slot;
  return is_one_slot ? fmt::format("have slices (MIG) of one GPU of {}, which NCCL does not connect", one.name) : "";
}

/// Returns the reason why NCCL is impossible; empty if it is possible.
UsageError nccl_objection(const std::vector<HostFacts>& hosts) {
  for (std::size_t rank = 0; rank < hosts.size(); ++rank) {
    const HostFacts& host = hosts[rank];
    if (host.gpu.empty()) {
      return UsageError(fmt::format("nccl needs GPUs, but rank {} on {} computes on the CPU", rank, host.name),
                        "use --device cuda on every rank, or --backend auto");
    }
    if (host.nccl.empty()) {
      return UsageError(fmt::format("rank {} on {} cannot use NCCL: {}", rank, host.name, host.nccl_problem),
                        "install libnccl2 (or pip's nvidia-nccl), or set LOCKSTEP_NCCL=/path/to/libnccl.so.2");
    }
    if (host.nccl != hosts[0].nccl) {
      return UsageError(
          fmt::format("rank 0 has NCCL {} and rank {} on {} has {}", hosts[0].nccl, rank, host.name, host.nccl),
          "make every host load the same libnccl.so.2");
    }
    for (std::size_t other = 0; other < rank; ++other) {
      const std::string objection = nccl_objection(host, hosts[other]);
      if (objection.empty()) continue;
      return UsageError(fmt::format("ranks {} and {} {}", other, rank, objection),
                        "start one rank per GPU, or use --backend shm");
    }
  }
  return UsageError("");
}

}  // namespace

void require_gpu_each(const std::vector<HostFacts>& hosts) {
  for (std::size_t rank = 0; rank < hosts.size(); ++rank) {
    if (hosts[rank].gpu.empty()) continue;
    for (std::size_t other = 0; other < rank; ++other) {
      const bool may_share = hosts[rank].may_share_gpu && hosts[other].may_share_gpu;
      if (hosts[rank].gpu == hosts[other].gpu && !may_share) throw clash(hosts, other, rank);
    }
  }
}

DeviceChoice choose_device_way(BackendKind wanted, const std::vector<HostFacts>& hosts) {
  const bool on_cpu = std::all_of(hosts.begin(), hosts.end(), [](const HostFacts& host) { return host.gpu.empty(); });
  if (on_cpu && wanted != BackendKind::kNccl) return {};
  const UsageError objection = nccl_objection(hosts);
  const bool possible = objection.message().empty();
  if (wanted == BackendKind::kNccl) {
    if (!possible) throw objection;
    return {true, "asked for"};
  }
  if (hosts.size() == 1) return {false, "a world of one has no other rank"};
  if (wanted != BackendKind::kAuto) return {false, "asked for"};
  if (!possible) return {false, objection.message()};
  return {true, "every rank has its own GPU"};
}

const char* backend_name(BackendKind kind) {
  switch (kind) {
    case BackendKind::kLocal:
      return "local";
    case BackendKind::kShm:
      return "shm";
    case BackendKind::kTcp:
      return "tcp";
    case BackendKind::kNccl:
      return "nccl";
    case BackendKind::kAuto:
      break;
  }
  return "auto";
}

BackendKind parse_backend(const std::string& text) {
  const std::vector<BackendKind> kinds = {BackendKind::kAuto, BackendKind::kLocal, BackendKind::kShm, BackendKind::kTcp,
                                          BackendKind::kNccl};
  if (text == kOldNameOfTcp) return BackendKind::kTcp;
  std::vector<std::string> names;
  for (const BackendKind kind : kinds) {
    if (text == backend_name(kind)) return kind;
    names.emplace_back(backend_name(kind));
  }
  throw UsageError(fmt::format("there is no backend '{}'{}: valid values are {}", text, text::did_you_mean(text, names),
                               text::join(names)));
}

}  // namespace lockstep::comm
