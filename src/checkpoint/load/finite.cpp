// SPDX-License-Identifier: Apache-2.0
// Checks that a committed checkpoint's values are finite, reading its files in blocks.
#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "checkpoint/folder/folder.h"
#include "checkpoint/formats/finite_rule.h"
#include "checkpoint/formats/read_file.h"
#include "checkpoint/formats/safetensors_file.h"
#include "checkpoint/formats/safetensors_header.h"
#include "lockstep/base/error.h"
#include "lockstep/base/log.h"
#include "lockstep/checkpoint/inspect.h"

namespace lockstep {

namespace fs = std::filesystem;
using namespace checkpoint;  // NOLINT(google-build-using-namespace): this file is of that namespace

namespace {

constexpr std::size_t kLookedAtBlock = 256U << 10U;  // small enough for a core's cache

/// The file that holds a state, or part of one.
struct OpenState {
  std::string state;
  std::unique_ptr<ReadableFile> file;
  SafetensorsHeader header;
};

NotFiniteCount count_in(const OpenState& state, const TensorEntry& entry, const FileBytes& block) {
  NotFiniteCount found;
  for (std::uint64_t at = entry.begin; at < entry.end; at += kLookedAtBlock) {
    const std::size_t piece = std::min<std::uint64_t>(kLookedAtBlock, entry.end - at);
    state.file->read(state.header.data_start + at, block.data.get(), piece);
    found += count_not_finite(entry.dtype, block.data.get(), piece);
  }
  return found;
}

std::vector<OpenState> open_states(FileSystem& files, const fs::path& step_folder) {
  const auto manifest = read_manifest(files, step_folder);
  if (!manifest) throw DataError(manifest.error());
  std::vector<OpenState> states;
  for (const auto& [name, digest] : manifest->files) {
    const auto file_name = parse_state_file_name(name);
    if (!file_name || !FiniteRule::looks_at(file_name->state)) continue;
    const fs::path path = step_folder / name;
    auto file = files.open(path);
    SafetensorsHeader header = read_header(*file, path.string());
    states.push_back({file_name->state, std::move(file), std::move(header)});
  }
  return states;
}

}  // namespace

std::string not_finite_in(FileSystem& files, const fs::path& step_folder) {
  const std::vector<OpenState> states = open_states(files, step_folder);
  FiniteRule rule;
  for (const OpenState& open : states) {
    for (const TensorEntry& entry : open.header.tensors) {
      if (is_floating(entry.dtype)) rule.add(open.state, entry.name);
    }
  }
  const FileBytes block = allocate_bytes(kLookedAtBlock);
  NotFiniteWords words;
  for (const OpenState& open : states) {
    for (const TensorEntry& entry : open.header.tensors) {
      if (!is_floating(entry.dtype)) continue;
      const NotFiniteCount found = count_in(open, entry, block);
      const auto elements = static_cast<std::int64_t>((entry.end - entry.begin) / dtype_bytes(entry.dtype));
      if (rule.is_spoilt(open.state, entry.name, found)) words.add(open.state, entry.name, found, elements);
    }
  }
  return words.text();
}

std::optional<fs::path> find_newest_finite(FileSystem& files, const fs::path& folder,
                                           std::optional<std::int64_t> before) {
  for (const StepFolder& step : list_steps(files, folder)) {
    if (step.name.bad != 0 || (before && step.name.step >= *before)) continue;
    try {
      if (verify_checkpoint(files, step.path).ok() && not_finite_in(files, step.path).empty()) return step.path;
    } catch (const Error& error) {  // the checkpoint is torn, or cannot be read from the disk
      log::debug("{}", error.what());
    }
  }
  return std::nullopt;
}

}  // namespace lockstep
