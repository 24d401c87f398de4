// SPDX-License-Identifier: Apache-2.0
// Which backend carries a group's bytes, and why: a pure function of what the ranks say of their hosts.
#pragma once

#include <string>
#include <vector>

#include "lockstep/comm/job.h"

namespace lockstep::comm {

/// The facts that a rank reports about its host.
struct HostFacts {
  std::string id;         ///< equal where ranks can share memory
  std::string name;       ///< for people
  std::string gpu = {};   ///< the GPU that it computes on, equal where two ranks use the same one; empty: the CPU
  std::string nccl = {};  ///< NCCL's version; empty: it has none that can be used
  std::string nccl_problem = {};  ///< why it has none
  std::string gpu_slot = {};  ///< the GPU's place on the bus, which slices of it (MIG) have in common; empty: not known
  bool may_share_gpu = false;  ///< another rank may compute on the same GPU
};

/// Reads LOCKSTEP_HOST_ID, else boot id, network namespace and /dev/shm device.
[[nodiscard]] HostFacts this_host();

struct BackendChoice {
  BackendKind kind = BackendKind::kLocal;
  std::string reason;  ///< one sentence for the banner
};

/// Throws: UsageError where the wanted backend is impossible.
[[nodiscard]] BackendChoice choose_backend(BackendKind wanted, const std::vector<HostFacts>& hosts);

/// Throws: ResourceError where two ranks have the same GPU, unless both may share it.
void require_gpu_each(const std::vector<HostFacts>& hosts);

/// Says how the tensors of GPUs travel.
struct DeviceChoice {
  bool nccl = false;   ///< false: through host memory, by the group's backend
  std::string reason;  ///< one sentence; empty where no rank has a GPU
};

/// Chooses NCCL where every rank has its own GPU and the same NCCL; with `wanted` kNccl anything else is an error.
/// Throws: UsageError that names the ranks in the way.
[[nodiscard]] DeviceChoice choose_device_way(BackendKind wanted, const std::vector<HostFacts>& hosts);

/// Returns "shm"; "auto" for kAuto.
[[nodiscard]] const char* backend_name(BackendKind kind);

/// What users of PyTorch's scripts type for the backend of several hosts.
inline constexpr const char* kOldNameOfTcp = "gloo";

/// Parses a name; kOldNameOfTcp means tcp. Throws: UsageError naming the valid words.
[[nodiscard]] BackendKind parse_backend(const std::string& text);

}  // namespace lockstep::comm
