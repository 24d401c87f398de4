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

/// Returns what two devices have in common: "one PCIe switch", "one host bridge", "one socket", "two sockets"; empty:
/// unknown. It is a pure function.
[[nodiscard]] std::string way_between(const PciPlace& one, const PciPlace& other);

/// Returns whether a bridge sends requests of peers upstream (ACS), by the bytes of its configuration; none: it is
/// cut short, since only root may read all of it. It is a pure function.
[[nodiscard]] std::optional<bool> redirects_peers(std::string_view configuration);

/// Returns what lies between the GPUs and beside them, by the kernel's files in `sys`. None: there is one GPU at most,
/// and no InfiniBand or RoCE card beside it.
[[nodiscard]] std::optional<view::GpuLinkFacts> read_gpu_links(const GpuPlaces& gpus, const std::filesystem::path& sys);

}  // namespace lockstep::launch
