// SPDX-License-Identifier: Apache-2.0
// Chooses the backend of a group, with the reason: a pure function of the ranks' reports about their hosts.
#pragma once

#include <string>
#include <vector>

#include "lockstep/comm/job.h"

namespace lockstep::comm {

/// The facts that a rank reports about its host.
struct HostFacts {
  std::string id;                 ///< equal if ranks can share memory
  std::string name;               ///< for people
  std::string gpu = {};           ///< the GPU that it computes on, equal if two ranks use the same one; empty: the CPU
  std::string nccl = {};          ///< NCCL's version; empty: it has no usable NCCL
  std::string nccl_problem = {};  ///< the reason why it has none
  std::string gpu_slot = {};      ///< the GPU's place on the bus, shared by its slices (MIG); empty: not known
  bool may_share_gpu = false;     ///< another rank may compute on the same GPU
};

/// Reads LOCKSTEP_HOST_ID, else boot id, network namespace and /dev/shm device.
[[nodiscard]] HostFacts this_host();

struct BackendChoice {
  BackendKind kind = BackendKind::kLocal;
  std::string reason;  ///< one sentence for the banner
};

/// Throws: UsageError if the wanted backend is impossible.
[[nodiscard]] BackendChoice choose_backend(BackendKind wanted, const std::vector<HostFacts>& hosts);

/// Throws: ResourceError if two ranks have the same GPU, unless both may share it.
void require_gpu_each(const std::vector<HostFacts>& hosts);

/// How GPU tensors travel.
struct DeviceChoice {
  bool nccl = false;   ///< false: through host memory, by the group's backend
  std::string reason;  ///< one sentence; empty if no rank has a GPU
};

/// Chooses NCCL if every rank has its own GPU and the same NCCL; with `wanted` kNccl anything else is an error.
/// Throws: UsageError naming the ranks in the way.
[[nodiscard]] DeviceChoice choose_device_way(BackendKind wanted, const std::vector<HostFacts>& hosts);

/// Returns "shm"; "auto" for kAuto.
[[nodiscard]] const char* backend_name(BackendKind kind);

/// The name for the backend of several hosts in scripts for PyTorch.
inline constexpr const char* kOldNameOfTcp = "gloo";

/// Parses a name; kOldNameOfTcp means tcp. Throws: UsageError naming the valid words.
[[nodiscard]] BackendKind parse_backend(const std::string& text);

}  // namespace lockstep::comm
