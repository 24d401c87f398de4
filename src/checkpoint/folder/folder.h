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
#include "lockstep/checkpoint/manifest.h"

namespace lockstep::checkpoint {

inline constexpr std::string_view kStateSuffix = ".safetensors";

/// A step folder that is there.
struct StepFolder {
  std::filesystem::path path;
  StepName name;
};

/// The newest first; those put aside come after all others, the latest first.
[[nodiscard]] std::vector<StepFolder> list_steps(FileSystem& files, const std::filesystem::path& folder);

/// The manifest of a step folder; fails where it is missing or damaged. Throws: IoError.
[[nodiscard]] Result<Manifest> read_manifest(FileSystem& files, const std::filesystem::path& step_folder);

/// "" where a file's content is what the manifest says, else "is torn: ..." with both sizes or both hashes.
[[nodiscard]] std::string compare(const FileDigest& found, const FileDigest& expected);

/// The step folder to which the content of a named checkpoint's file leads; fails with the reason.
[[nodiscard]] Result<std::filesystem::path> follow_name(FileSystem& files, const std::filesystem::path& folder,
                                                        const std::string& name);

}  // namespace lockstep::checkpoint
