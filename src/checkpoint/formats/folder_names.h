// SPDX-License-Identifier: Apache-2.0
// Builds and parses the names inside a run's "checkpoints" folder. The functions are pure and do not use the disk.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace lockstep::checkpoint {

/// The name of a committed step folder, or of a step folder that was set aside.
struct StepName {
  std::int64_t step = 0;
  std::int64_t bad = 0;  ///< n in ".bad-<n>"; 0: not set aside
};

/// Returns "step-00001200".
[[nodiscard]] std::string step_name(std::int64_t step);
/// Returns "step-00001200.bad-1".
[[nodiscard]] std::string bad_name(std::int64_t step, std::int64_t n);
/// Returns ".tmp-step-00001200-h0f3a5c7e-4711": a folder that a process on the host with that mark has not committed
/// yet, or is removing; without a mark ".tmp-step-00001200-4711".
[[nodiscard]] std::string temporary_name(std::string_view name, int pid, std::string_view host = {});

/// Returns the mark of a host in such names: "h" and 8 hexadecimal digits. A pid alone is not enough, because two
/// containers may have the same pids.
[[nodiscard]] std::string host_mark(std::string_view host_name);

[[nodiscard]] std::optional<StepName> parse_step_name(std::string_view name);

/// Returns the pid of the process that created the unfinished entry `name` (".tmp-step-00001200-4711",
/// "best.tmp-4711"); none if it is not such an entry.
[[nodiscard]] std::optional<int> parse_temporary_pid(std::string_view name);
/// Returns the mark of that process's host; "" if the name has none.
[[nodiscard]] std::string_view parse_temporary_host(std::string_view name);

/// The end of a step folder's name while another folder of the same step replaces it:
/// ".tmp-step-00001200.old-h0f3a5c7e-4711".
inline constexpr std::string_view kOldSuffix = ".old";
/// Returns the "step-00001200" of such a name; none if `name` is not one.
[[nodiscard]] std::optional<std::string> parse_old_name(std::string_view name);

/// Returns true if `name` has only letters, digits, '_' and '-', and does not begin with "step-": it can name a state
/// or a checkpoint.
[[nodiscard]] bool is_plain_word(std::string_view name);

/// Returns true if `name` has only letters, digits, '_', '-' and '.', and does not begin with '.': it cannot lead out
/// of its folder.
[[nodiscard]] bool is_plain_file_name(std::string_view name);

/// The file of a state, or of a part of it.
struct StateFile {
  std::string state;
  int part = 1;  ///< counted from 1
  int parts = 1;
};

/// Returns "model.safetensors", or "model.part-2-of-4.safetensors" if there are several parts.
[[nodiscard]] std::string state_file_name(std::string_view state, int part, int parts);

/// Parses the name of a state's file. Returns none for the name of a text file.
[[nodiscard]] std::optional<StateFile> parse_state_file_name(std::string_view name);

}  // namespace lockstep::checkpoint
