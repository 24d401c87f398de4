// SPDX-License-Identifier: Apache-2.0
// The names inside a run's "checkpoints" folder, made and read. Pure: no disk.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace lockstep::checkpoint {

/// A committed folder, or one that was put aside.
struct StepName {
  std::int64_t step = 0;
  std::int64_t bad = 0;  ///< n of ".bad-<n>"; 0: not put aside
};

/// "step-00001200".
[[nodiscard]] std::string step_name(std::int64_t step);
/// "step-00001200.bad-1".
[[nodiscard]] std::string bad_name(std::int64_t step, std::int64_t n);
/// ".tmp-step-00001200-4711": not committed yet, or not any more.
[[nodiscard]] std::string temporary_name(std::string_view name, int pid);

[[nodiscard]] std::optional<StepName> parse_step_name(std::string_view name);

/// The process that left the unfinished entry `name` behind (".tmp-step-00001200-4711", "best.tmp-4711"); none where it
/// is not of that kind.
[[nodiscard]] std::optional<int> parse_temporary_pid(std::string_view name);

/// What a step folder is called while the same step takes its place: ".tmp-step-00001200.old-4711".
[[nodiscard]] std::string old_name(std::string_view name, int pid);
/// "step-00001200" of it; none where `name` is no such name.
[[nodiscard]] std::optional<std::string> parse_old_name(std::string_view name);

/// Letters, digits, '_' and '-': fit for a state or a named checkpoint, and never mistaken for a step folder.
[[nodiscard]] bool is_plain_word(std::string_view name);

/// Letters, digits, '_', '-' and '.', not in front: stays in its folder.
[[nodiscard]] bool is_plain_file_name(std::string_view name);

/// The file of a state, or of a part of it.
struct StateFile {
  std::string state;
  int part = 1;  ///< from 1
  int parts = 1;
};

/// "model.safetensors"; "model.part-2-of-4.safetensors" where there are several.
[[nodiscard]] std::string state_file_name(std::string_view state, int part, int parts);

/// None for the name of a text.
[[nodiscard]] std::optional<StateFile> parse_state_file_name(std::string_view name);

}  // namespace lockstep::checkpoint
