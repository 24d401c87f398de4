// SPDX-License-Identifier: Apache-2.0
// The kernel's view of the PCI bus between GPUs and network cards.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "lockstep/launch/gpus.h"
#include "lockstep/view/machine_check.h"

namespace lockstep::launch {

/// A device on the bus.
struct PciPlace {
  std::filesystem::path path;  ///< its folder below /sys/devices, with every bridge above it; empty if unknown
  int socket = -1;             ///< the NUMA node; -1 if unknown
};

/// Returns the lowest level that the paths of two devices share: "one PCIe switch", "one host bridge", "one socket",
/// "two sockets"; empty if unknown. Pure function.
[[nodiscard]] std::string way_between(const PciPlace& one, const PciPlace& other);

/// Returns true if a bridge sends peer-to-peer requests upstream (ACS), according to its configuration bytes; none if
/// unknown, since only root may read all of the bytes. Pure function.
[[nodiscard]] std::optional<bool> redirects_peers(std::string_view configuration);

/// Returns the links between the GPUs and to nearby network cards, from the kernel's files in `sys`. None if there is
/// at most one GPU and no InfiniBand or RoCE card near it.
[[nodiscard]] std::optional<view::GpuLinkFacts> read_gpu_links(const GpuPlaces& gpus, const std::filesystem::path& sys);

}  // namespace lockstep::launch
