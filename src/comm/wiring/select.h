// SPDX-License-Identifier: Apache-2.0
// Chooses the backend of a group, with the reason, as a pure function of the ranks' reports about their hosts.
#pragma once

#include <string>
#include <vector>

#include "lockstep/comm/job.h"

namespace lockstep::comm {

/// The facts that a rank reports about its host.
struct HostFacts {
  std::string id;                 ///< host id: equal for two ranks that can share memory
  std::string name;               ///< host name for messages
  std::string gpu = {};           ///< id of its GPU, equal for two ranks on the same GPU; empty for the CPU
  std::string nccl = {};          ///< NCCL's version; empty if the rank has no usable NCCL
  std::string nccl_problem = {};  ///< reason why the rank has no usable NCCL
  std::string gpu_slot = {};      ///< the GPU's PCI address, shared by its slices (MIG); empty if unknown
  bool may_share_gpu = false;     ///< another rank may compute on the same GPU
};

/// Returns this host's facts. The id is LOCKSTEP_HOST_ID, otherwise built from boot id, network namespace and /dev/shm
/// device.
[[nodiscard]] HostFacts this_host();

struct BackendChoice {
  BackendKind kind = BackendKind::kLocal;
  std::string reason;  ///< reason in one sentence, for the banner
};

/// Throws: UsageError if the wanted backend is impossible.
[[nodiscard]] BackendChoice choose_backend(BackendKind wanted, const std::vector<HostFacts>& hosts);

/// Throws: ResourceError if two ranks use the same GPU, unless both may share it.
void require_gpu_each(const std::vector<HostFacts>& hosts);

/// The choice of the transport for GPU tensors.
struct DeviceChoice {
  bool nccl = false;   ///< true for NCCL; false for the group's backend, through host memory
  std::string reason;  ///< reason in one sentence; empty if no rank has a GPU
};

/// Chooses NCCL if every rank has its own GPU and the same NCCL; with `wanted` kNccl any other result is an error.
/// Throws: UsageError naming the ranks that make NCCL impossible.
[[nodiscard]] DeviceChoice choose_device_way(BackendKind wanted, const std::vector<HostFacts>& hosts);

/// Returns "shm"; "auto" for kAuto.
[[nodiscard]] const char* backend_name(BackendKind kind);

/// PyTorch's name for the multi-host backend, which scripts written for PyTorch pass.
inline constexpr const char* kOldNameOfTcp = "gloo";

/// Parses a name; kOldNameOfTcp means tcp. Throws: UsageError naming the valid words.
[[nodiscard]] BackendKind parse_backend(const std::string& text);

}  // namespace lockstep::comm
