// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <array>
#include <optional>

#include "checkpoint/formats/folder_names.h"
#include "checkpoint/weights/weight_files.h"
#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/checkpoint/interop.h"
#include "lockstep/checkpoint/weights.h"

namespace lockstep {

using namespace checkpoint;  // NOLINT(google-build-using-namespace): this file is of that namespace

namespace {

constexpr const char* kEmaUpdates = "ema.updates";  // the name in EMA::state_dict()
constexpr std::array<std::string_view, 5> kModelKeys{"model", "model_state_dict", "state_dict", "module", "net"};

/// Returns a plain value as an entry of a state; none for lists, dicts and None.
std::optional<StateValue> plain_value(const TorchValue& value) {
  if (const auto* flag = std::get_if<bool>(&value.value)) return *flag;
  if (const auto* integer = std::get_if<std::int64_t>(&value.value)) return *integer;
  if (const auto* real = std::get_if<double>(&value.value)) return *real;
  if (const auto* text = std::get_if<std::string>(&value.value)) return *text;
  return std::nullopt;
}

/// Returns a readable name for the kind of a skipped value.
std::string kind_of(const TorchValue& value) {
  if (const auto* dict = value.dict()) return fmt::format("a dict of {}", dict->size());
  if (const auto* list = std::get_if<TorchList>(&value.value)) return fmt::format("a list of {}", list->size());
  return std::holds_alternative<at::Tensor>(value.value) ? "a tensor" : "None";
}

/// Returns the number of updates of an average, which PyTorch's AveragedModel has as a tensor; 0 if it is not there.
std::int64_t updates_of(const TorchValue& ema) {
  if (const TorchValue* updates = ema.find("updates")) {
    const auto* count = std::get_if<std::int64_t>(&updates->value);
    return count == nullptr ? 0 : *count;
  }
  const TorchValue* averaged = ema.find(kAveragedCount);
  const auto* count = averaged == nullptr ? nullptr : std::get_if<at::Tensor>(&averaged->value);
  const bool is_count = count != nullptr && count->numel() == 1 && count->scalar_type() == at::kLong;
  return is_count ? count->item<std::int64_t>() : 0;
}

StateDict average_state(const TorchValue& ema, const std::string& file) {
  StateDict state = pick_weights(ema, file).tensors;
  state[kEmaUpdates] = updates_of(ema);
  return state;
}

/// Imports the value of one key other than the model's.
void import_entry(const std::string& key, const TorchValue& value, const std::string& file, ImportedStates& imported) {
  if (const auto plain = plain_value(value)) {
    imported.states["values"][key] = *plain;
  } else if (key == "ema" && value.dict() != nullptr) {
    imported.states["ema"] = average_state(value, file);
  } else if (key == "optimizer" || key == "optimizer_state_dict") {
    imported.left_out.push_back(key + ": PyTorch keeps it by position, not by name");
  } else {
    imported.left_out.push_back(fmt::format("{}: {}", key, kind_of(value)));
  }
}

}  // namespace

TorchValue read_any_file(FileSystem& files, const std::filesystem::path& path) {
  if (!is_weight_file(files, path)) {
    throw DataError(fmt::format("{} is not a file", path.string()), "pass a .pth, .pt or .safetensors file");
  }
  return read_weight_file(files, path);
}

ImportedStates import_states(const TorchValue& content, const std::string& file) {
  ImportedStates imported;
  std::string_view model_key;
  for (const std::string_view key : kModelKeys) {
    const TorchValue* found = content.find(key);
    if (found == nullptr || found->dict() == nullptr) continue;
    model_key = key;
    break;
  }
  imported.states["model"] =
      model_key.empty() ? pick_weights(content, file).tensors : pick_weights(*content.find(model_key), file).tensors;
  for (const auto& [key, value] : *content.dict()) {
    const auto* name = std::get_if<std::string>(&key);
    const bool is_weight = std::holds_alternative<at::Tensor>(value.value) && model_key.empty();
    if (is_weight || (name != nullptr && *name == model_key)) continue;
    const std::string word = name != nullptr ? *name : fmt::format("{}", std::get<std::int64_t>(key));
    import_entry(word, value, file, imported);
  }
  return imported;
}

}  // namespace lockstep
