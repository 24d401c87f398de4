// SPDX-License-Identifier: Apache-2.0
// The functions behind read_machine(): they read system facts and take measurements.
#pragma once

#include <chrono>
#include <filesystem>

#include "lockstep/base/control_group.h"
#include "lockstep/base/nccl_library.h"
#include "lockstep/view/machine_check.h"

namespace lockstep::launch {

[[nodiscard]] view::CoreFacts read_cores_facts(const GroupLimits& group);
[[nodiscard]] view::MemoryFacts read_memory_facts(const GroupLimits& group);
[[nodiscard]] view::SharedMemoryFacts read_shared_memory();
[[nodiscard]] view::LimitFacts read_limits(const GroupLimits& group);
[[nodiscard]] view::PortFacts read_ports();
/// Reads the facts about the network. Blocks: for up to two seconds if the resolver does not answer.
[[nodiscard]] view::NetworkFacts read_network();
[[nodiscard]] view::ClockFacts read_clock();
/// Reads the facts about the GPUs, and opens NCCL through `search` if there are GPUs.
[[nodiscard]] view::GpuFacts read_gpu_facts(const nccl::Search& search);
/// Reads the facts about the disk of `folder`. If `measures` is true, also measures the disk: writes up to 64 MB for at
/// most `limit`, then 4 KiB several times for at most half of `limit`. The file is unnamed, so nothing is left behind.
[[nodiscard]] view::DiskFacts read_disk(const std::filesystem::path& folder, bool measures,
                                        std::chrono::milliseconds limit);

}  // namespace lockstep::launch
