// SPDX-License-Identifier: Apache-2.0
// What stands in a "checkpoints" folder, and what is wrong with a file of a checkpoint, in words.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/formats/folder_names.h"
#include "lockstep/base/file_system.h"
#include "lockstep/base/result.h"
#include "lockstep/checkpoint/checkpoint.h"
#include "lockstep/checkpoint/manifest.h"

namespace lockstep::checkpoint {

inline constexpr std::string_view kStateSuffix = ".safetensors";

/// An existing step folder.
struct StepFolder {
  std::filesystem::path path;
  StepName name;
};

/// Returns the newest first; folders that were put aside come last, the latest first.
[[nodiscard]] std::vector<StepFolder> list_steps(FileSystem& files, const std::filesystem::path& folder);

/// Reads the manifest of a step folder; fails where it is missing or damaged. Throws: IoError.
[[nodiscard]] Result<Manifest> read_manifest(FileSystem& files, const std::filesystem::path& step_folder);

/// Returns "" where a file's content matches the manifest, else "is torn: ..." with both sizes or both hashes.
[[nodiscard]] std::string compare(const FileDigest& found, const FileDigest& expected);

/// Returns the step folder to which a named checkpoint's file refers; fails with the reason.
[[nodiscard]] Result<std::filesystem::path> follow_name(FileSystem& files, const std::filesystem::path& folder,
                                                        const std::string& name);

/// Names this process in what it leaves if it dies: temporary_name(name, pid, host_mark of its host).
[[nodiscard]] std::string own_temporary_name(std::string_view name);

/// Does the same as remove_checkpoint_leftovers(), and spares those of other hosts, whose processes may live.
void remove_leftovers_of_host(FileSystem& files, const std::filesystem::path& folder);

/// Does the same as prune_checkpoints() without looking for the newest finite one: that is `good`, and it stays.
void prune_all_but(FileSystem& files, const std::filesystem::path& folder, const Retention& retention,
                   const std::filesystem::path& good);

}  // namespace lockstep::checkpoint
