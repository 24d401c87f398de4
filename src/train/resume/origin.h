// SPDX-License-Identifier: Apache-2.0
// The note in a run folder about the checkpoint of a different run that the run started from. Until the run saves a
// checkpoint of its own, each later start needs it. Only rank 0 calls these functions.
#pragma once

#include <filesystem>
#include <optional>

#include "lockstep/checkpoint/checkpoint.h"
#include "lockstep/train/run_folder.h"

namespace lockstep::train {

/// The note's file, such as {"path": "/runs/a/checkpoints/step-00000004"}. The path is absolute.
inline constexpr const char* kResumedFromFile = "resumed_from.json";

/// Returns the checkpoint that the run in `run` has to start from again; none if there is no note, or if the run has a
/// checkpoint of that step or a later one. `run` may be missing or empty.
/// Throws: DataError if the note names no checkpoint, or if the checkpoint is gone; IoError.
[[nodiscard]] std::optional<std::filesystem::path> unsaved_origin(const std::filesystem::path& run);

/// Writes the note if `start` is a checkpoint of a different run, and removes an older note if there is no `start`.
/// Throws: IoError.
void keep_origin(RunFolder& folder, const std::optional<Checkpoint>& start);

}  // namespace lockstep::train
