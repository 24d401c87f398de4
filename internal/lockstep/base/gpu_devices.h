// SPDX-License-Identifier: Apache-2.0
// Counts GPUs by their device files and CUDA_VISIBLE_DEVICES, for programs without CUDA.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#pragma GCC visibility push(default)

namespace lockstep {

/// Returns the number of NVIDIA GPUs in `folder`, counting the device files nvidia0 and so on.
[[nodiscard]] int count_gpu_devices(const std::filesystem::path& folder = "/dev");

/// Returns how many of `devices` GPUs CUDA shows to a process whose CUDA_VISIBLE_DEVICES is `visible`; none if the
/// variable is not set. Each MIG slice counts, although CUDA shows only the first one. It is a pure function.
[[nodiscard]] int count_visible_gpus(int devices, const std::optional<std::string_view>& visible);

/// Returns the one entry of the list `visible` that the rank `local_rank` may see; entries are assigned round-robin.
/// Empty: the list shows no GPU. It is a pure function.
[[nodiscard]] std::string visible_gpu_of(std::string_view visible, int local_rank);

/// Returns true if the list names MIG slices. Each rank must then see only its own. It is a pure function.
[[nodiscard]] bool names_slices(std::string_view visible);

}  // namespace lockstep

#pragma GCC visibility pop
