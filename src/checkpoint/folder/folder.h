// SPDX-License-Identifier: Apache-2.0
// Lists a "checkpoints" folder, and describes what is wrong with a checkpoint's files.
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

/// Returns the step folders, newest first. Folders that were set aside come last, latest first.
[[nodiscard]] std::vector<StepFolder> list_steps(FileSystem& files, const std::filesystem::path& folder);

/// Reads the manifest of a step folder; fails if it is missing or damaged. Throws: IoError.
[[nodiscard]] Result<Manifest> read_manifest(FileSystem& files, const std::filesystem::path& step_folder);

/// Returns "" if a file matches its entry in the manifest, else "is torn: ..." with both sizes or both hashes.
[[nodiscard]] std::string compare(const FileDigest& found, const FileDigest& expected);

/// Returns the step folder to which the checkpoint name `name` refers. If there is none, fails with the reason.
[[nodiscard]] Result<std::filesystem::path> follow_name(FileSystem& files, const std::filesystem::path& folder,
                                                        const std::string& name);

/// Returns temporary_name(name) with this process's pid and its host's mark, so that its leftovers can be found.
[[nodiscard]] std::string own_temporary_name(std::string_view name);

/// Does the same as remove_checkpoint_leftovers(), but spares the files of other hosts, whose processes may still be
/// alive.
void remove_leftovers_of_host(FileSystem& files, const std::filesystem::path& folder);

/// Does the same as prune_checkpoints(), but takes `good` as the newest finite checkpoint without searching for it.
void prune_all_but(FileSystem& files, const std::filesystem::path& folder, const Retention& retention,
                   const std::filesystem::path& good);

}  // namespace lockstep::checkpoint
