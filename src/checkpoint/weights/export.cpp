// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

#include "checkpoint/weights/weight_files.h"
#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/checkpoint/interop.h"
#include "lockstep/checkpoint/safetensors.h"
#include "lockstep/checkpoint/weights.h"

namespace lockstep {

namespace fs = std::filesystem;
using namespace checkpoint;  // NOLINT(google-build-using-namespace): this file is of that namespace

namespace {

enum class ExportFormat { kSafetensors, kTorch };

ExportFormat format_of(const fs::path& to) {
  const std::string ending = to.extension().string();
  if (ending == ".safetensors") return ExportFormat::kSafetensors;
  if (ending == ".pth" || ending == ".pt") return ExportFormat::kTorch;
  throw UsageError(fmt::format("{}: the extension selects the format, and this one is unknown", to.string()),
                   "use the extension .safetensors, .pth or .pt");
}

/// Returns only the tensors, because model.load_state_dict() does not accept other values.
StateDict weights_to_export(const std::string& source, const ExportOptions& options, FileSystem& files) {
  // A flat file has no states: its tensors are the model.
  const bool whole_file = is_weight_file(files, source) && options.state == ExportOptions{}.state;
  const Weights weights = load_weights(source, {whole_file ? "" : options.state}, files);
  StateDict state;
  for (const auto& [name, value] : weights.tensors) state.emplace(options.prefix + name, value);
  return state;
}

TorchValue all_states(const std::string& source, const std::string& prefix, FileSystem& files) {
  const Checkpoint checkpoint = load_checkpoint(source, files);
  TorchDict states;
  for (const std::string& name : checkpoint.names()) {
    TorchDict entries;
    for (const auto& [entry, value] : checkpoint.state(name)) {
      const bool is_weight = std::holds_alternative<at::Tensor>(value) && (name == "model" || name == "ema");
      entries.emplace_back((is_weight ? prefix : "") + entry,
                           std::visit([](const auto& any) { return TorchValue{any}; }, value));
    }
    states.emplace_back(name, TorchValue{std::move(entries)});
  }
  states.emplace_back("step", TorchValue{checkpoint.step()});
  return {std::move(states)};
}

std::int64_t count_tensors(const TorchValue& value) {
  if (value.dict() == nullptr) return std::holds_alternative<at::Tensor>(value.value) ? 1 : 0;
  std::int64_t count = 0;
  for (const auto& [key, entry] : *value.dict()) count += count_tensors(entry);
  return count;
}

/// Writes a file next to `to` and renames it, so that an existing file stays until the new one is complete.
template <class Write>
void replace_file(FileSystem& files, const fs::path& to, const Write& write) {
  const fs::path temporary = to.string() + fmt::format(".tmp-{}", ::getpid());
  try {
    write(temporary);
    files.rename(temporary, to);
  } catch (const Error&) {
    try {
      files.remove(temporary);
    } catch (const Error&) {  // the first error is the one to report
    }
    throw;
  }
  files.sync_folder(to.parent_path().empty() ? fs::path(".") : to.parent_path());
}

}  // namespace

std::int64_t export_torch_file(const fs::path& to, const TorchValue& value, FileSystem& files) {
  replace_file(files, to, [&](const fs::path& path) { write_torch_file(files, path, value); });
  return count_tensors(value);
}

std::int64_t export_weights(const std::string& source, const fs::path& to, const ExportOptions& options,
                            FileSystem& files) {
  const ExportFormat format = format_of(to);
  if (options.state == "all") {
    if (format == ExportFormat::kSafetensors) {
      throw UsageError("a .safetensors file holds one state", "select one with --state, or write a .pth file");
    }
    return export_torch_file(to, all_states(source, options.prefix, files), files);
  }
  const StateDict state = weights_to_export(source, options, files);
  if (format == ExportFormat::kTorch) return export_torch_file(to, to_torch_value(state), files);
  replace_file(files, to, [&](const fs::path& path) {
    (void)write_safetensors(files, path, state, {{"format", "pt"}});  // transformers requires it
  });
  return static_cast<std::int64_t>(state.size());
}

}  // namespace lockstep
