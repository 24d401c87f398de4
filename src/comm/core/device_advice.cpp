// SPDX-License-Identifier: Apache-2.0
#include "comm/core/device_advice.h"

#include <algorithm>
#include <array>
#include <vector>

namespace lockstep::comm {
namespace {

struct Row {
  std::vector<std::string_view> words;  ///< words that must all occur, in any order
  NcclAdvice advice;
};

const NcclAdvice kSameGpu = {
    "two ranks use the same GPU, which NCCL does not allow",
    "start at most one rank per GPU; each takes the GPU of its LOCAL_RANK among CUDA_VISIBLE_DEVICES"};

/// Advice for a lost connection if no rank is known to have ended: such a rank is blamed before this table is used.
const NcclAdvice kLostConnection = {
    "NCCL lost its connection to another rank, and no rank is known to have ended: most often because the network "
    "between the GPUs broke",
    "NCCL_DEBUG=INFO names the connection: check that interface or InfiniBand port on both hosts; "
    "NCCL_SOCKET_IFNAME=<interface> or NCCL_IB_DISABLE=1 works around it"};

const NcclAdvice kPeerAccess = {
    "GPUs of this host cannot reach each other's memory: the IOMMU, or access control (ACS) of the PCI bridges, "
    "prevents it",
    "NCCL_P2P_DISABLE=1 works around it through host memory; for full speed boot with iommu=pt (or intel_iommu=off) "
    "and switch ACS off"};

/// The rows go from the most specific to the most general: the first match wins.
const std::vector<Row>& table() {
  static const std::vector<Row> rows = {
      {{"Duplicate GPU detected"}, kSameGpu},
      {{"are using the same GPU"}, kSameGpu},  // since 2.30
      {{"shared memory segment"},
       {"/dev/shm is too small: NCCL keeps several MB there for each pair of GPUs",
        "use docker run --shm-size=1g (Kubernetes: an emptyDir with medium Memory on /dev/shm), or set "
        "NCCL_SHM_DISABLE=1, which is slower"}},
      {{"posix_fallocate failed"},
       {"/dev/shm is full", "free space there, make it larger (docker run --shm-size=1g), or set NCCL_SHM_DISABLE=1"}},
      {{"essage truncated"},
       {"NCCL differs between the ranks: different versions or NCCL_ settings, rarely different calls",
        "make libnccl.so.2 and all NCCL_ variables the same on every host; `lockstep inspect env` shows them"}},
      {{"driver version is insufficient"},
       {"the NVIDIA driver is older than the CUDA runtime needs",
        "update the driver, or use a build for its CUDA version"}},
      {{"NET/IB", "error 4"},
       {"the InfiniBand card could not write into GPU memory: usually access control (ACS) of the PCI bridges",
        "NCCL_NET_GDR_LEVEL=0 works around it; for full speed switch ACS off"}},
      {{"NET/IB", "error 12"},
       {"an InfiniBand peer did not answer",
        "check the fabric (ibstat), or set NCCL_IB_DISABLE=1 to use plain sockets"}},
      {{"ibv_"},
       {"a call into InfiniBand failed",
        "set NCCL_IB_DISABLE=1 to use plain sockets; in a container raise the locked-memory limit (ulimit -l "
        "unlimited); name the right card with NCCL_IB_HCA"}},
      {{"peer access is not supported"}, kPeerAccess},
      {{"peer mapping resources exhausted"}, kPeerAccess},
      {{"o socket interface found"},
       {"no network interface matches NCCL_SOCKET_IFNAME, or the container has none",
        "set NCCL_SOCKET_IFNAME=<interface> to a name that `ip -br addr` shows (a ^ before it excludes one)"}},
      {{"Address family not supported"},
       {"the container has no network", "start the container with the host's network (docker run --network host)"}},
      {{"Connect to"},
       {"a rank could not be reached at the address that NCCL chose: the interface is virtual or the wrong one, or a "
        "firewall blocks it",
        "set NCCL_SOCKET_IFNAME=<interface> on every host to an interface that all hosts can reach; open the ports "
        "between the hosts"}},
      {{"onnection closed by remote peer"}, kLostConnection},
      {{"remote process exited"}, kLostConnection},
      {{"out of memory"},
       {"a GPU's memory is full: NCCL needs a few hundred MB outside PyTorch's allocator",
        "use a smaller batch_size, or set NCCL_BUFFSIZE=1048576"}},
      {{"unhandled system error"},
       {"a system call failed inside NCCL, most often for the network interface, InfiniBand or /dev/shm",
        "NCCL_DEBUG=INFO says which; NCCL_IB_DISABLE=1 and NCCL_SOCKET_IFNAME=<interface> show whether it is the "
        "network or the memory"}},
      {{"invalid usage"}, {"NCCL was called in a way that it does not allow", "NCCL_DEBUG=WARN says which"}},
  };
  return rows;
}

}  // namespace

std::optional<NcclAdvice> nccl_advice(std::string_view log) {
  for (const Row& row : table()) {
    const bool fits = std::all_of(row.words.begin(), row.words.end(),
                                  [&](std::string_view word) { return log.find(word) != std::string_view::npos; });
    if (fits) return row.advice;
  }
  return std::nullopt;
}

NcclAdvice nccl_hang_advice() {
  return {
      "every rank has called the collective, but the GPUs do not finish it: perhaps they cannot reach each other's "
      "memory (IOMMU, ACS)",
      kPeerAccess.remedy};
}

}  // namespace lockstep::comm
