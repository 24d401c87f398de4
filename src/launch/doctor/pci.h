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
  std::filesystem::path path;  ///< its folder below /sys/devices, with every bridge above it; empty: unknown
  int socket = -1;             ///< the NUMA node; -1: unknown
};

/// Returns the lowest part of the way that two devices share: "one PCIe switch", "one host bridge", "one socket", "two
/// sockets"; empty: unknown. It is a pure function.
[[nodiscard]] std::string way_between(const PciPlace& one, const PciPlace& other);

/// Returns true if a bridge sends requests of peers upstream (ACS), by the bytes of its configuration; none: only root
/// may read all of them. It is a pure function.
[[nodiscard]] std::optional<bool> redirects_peers(std::string_view configuration);

/// Returns the links between the GPUs and to cards beside them, by the kernel's files in `sys`. None: there is one GPU
/// at most, and no InfiniBand or RoCE card beside it.
[[nodiscard]] std::optional<view::GpuLinkFacts> read_gpu_links(const GpuPlaces& gpus, const std::filesystem::path& sys);

}  // namespace lockstep::launch
