// SPDX-License-Identifier: Apache-2.0
// Finds the state that has a model's weights in a file.
#include "lockstep/checkpoint/weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "checkpoint/weights/weight_files.h"
#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/checkpoint/checkpoint.h"

namespace lockstep {

using namespace checkpoint;  // NOLINT(google-build-using-namespace): this file is of that namespace

namespace {

constexpr int kMostStateDepth = 3;  // "ema.module", "checkpoint.model.state_dict"

/// The keys of states, in search order.
constexpr std::array<std::string_view, 6> kStateKeys{"ema", "model", "state_dict", "model_state_dict", "module", "net"};

bool holds_tensors(const TorchDict& dict) {
  return std::any_of(dict.begin(), dict.end(),
                     [](const auto& entry) { return std::holds_alternative<at::Tensor>(entry.second.value); });
}

/// A dict of tensors, and its path from the top.
struct FoundState {
  const TorchDict* dict = nullptr;
  std::string path;
};

std::string joined_path(const std::string& before, std::string_view key) {
  return before.empty() ? std::string(key) : before + "." + std::string(key);
}

std::optional<FoundState> find_state(const TorchValue& value, const std::string& path, int depth);

std::optional<FoundState> find_below(const TorchValue& value, std::string_view key, const std::string& path,
                                     int depth) {
  const TorchValue* below = value.find(key);
  return below == nullptr ? std::nullopt : find_state(*below, joined_path(path, key), depth + 1);
}

/// Returns true if every tensor of `all` is in `part`. A leading "module." in the names does not matter.
bool is_whole(const FoundState& part, const FoundState& all) {
  const StateDict some = tensors_of(*part.dict);
  const StateDict wanted = tensors_of(*all.dict);
  return std::all_of(wanted.begin(), wanted.end(), [&some](const auto& entry) { return some.count(entry.first) != 0; });
}

/// Finds the model that an `ema` in the same dict is the average of.
std::optional<FoundState> model_below(const TorchValue& value, const std::string& path, int depth) {
  for (const std::string_view key : kStateKeys) {
    if (key == "ema") continue;
    if (auto found = find_below(value, key, path, depth)) return found;
  }
  return std::nullopt;
}

std::optional<FoundState> find_state(const TorchValue& value, const std::string& path, int depth) {
  if (value.dict() == nullptr || depth > kMostStateDepth) return std::nullopt;
  for (const std::string_view key : kStateKeys) {
    const auto found = find_below(value, key, path, depth);
    if (!found) continue;
    const auto model = key == "ema" ? model_below(value, path, depth) : std::nullopt;
    if (!model || is_whole(*found, *model)) return found;
  }
  return holds_tensors(*value.dict()) ? std::optional(FoundState{value.dict(), path}) : std::nullopt;
}

/// Returns the value at the path "a.b"; a key may itself contain dots.
const TorchValue* follow_path(const TorchValue& value, std::string_view path) {
  if (const TorchValue* found = value.find(path)) return found;
  for (std::size_t dot = path.find('.'); dot != path.npos; dot = path.find('.', dot + 1)) {
    const TorchValue* below = value.find(path.substr(0, dot));
    const TorchValue* found = below == nullptr ? nullptr : follow_path(*below, path.substr(dot + 1));
    if (found != nullptr) return found;
  }
  return nullptr;
}

/// Returns the keys that hold tensors, at any depth.
std::vector<std::string> states_in(const TorchValue& value) {
  std::vector<std::string> names;
  if (value.dict() == nullptr) return names;
  for (const auto& [key, entry] : *value.dict()) {
    const auto* name = std::get_if<std::string>(&key);
    if (name != nullptr && entry.dict() != nullptr) names.push_back(*name);
  }
  return names;
}

DataError no_weights(const std::string& file, const std::string& fault, const TorchValue& value) {
  const auto names = states_in(value);
  return DataError(
      fmt::format("{}: {}", file, fault),
      names.empty() ? "" : fmt::format("select one as {}:STATE; available states: {}", file, text::join(names)));
}

Weights weights_of_checkpoint(const Checkpoint& checkpoint, const std::string& from) {
  TorchDict states;
  for (const std::string& name : checkpoint.names()) {
    const bool wanted = from.empty() ? name == "ema" || name == "model" : from == name;
    if (wanted) states.emplace_back(name, to_torch_value(checkpoint.state(name)));
  }
  if (states.empty()) {
    const std::string wanted = from.empty() ? "model" : from;
    throw DataError(fmt::format("{} has no state '{}'{}", checkpoint.path().string(), wanted,
                                text::did_you_mean(wanted, checkpoint.names())),
                    "it has " + text::join(checkpoint.names()));
  }
  return pick_weights({std::move(states)}, checkpoint.path().string(), {from});
}

}  // namespace

Weights pick_weights(const TorchValue& value, const std::string& file, const WeightsOptions& options) {
  const TorchValue* start = options.from.empty() ? &value : follow_path(value, options.from);
  if (start == nullptr) throw no_weights(file, fmt::format("there is no state '{}'", options.from), value);
  const auto found = find_state(*start, options.from, 0);
  if (!found) {
    const std::string place = options.from.empty() ? "it" : fmt::format("'{}'", options.from);
    throw no_weights(file, fmt::format("{} holds no named tensors", place), value);
  }
  return {tensors_of(*found->dict), found->path.empty() ? file : fmt::format("{}, {}", file, found->path)};
}

Weights load_weights(const std::string& source, const WeightsOptions& options, FileSystem& files) {
  std::string path = source;
  std::string from = options.from;
  const auto colon = source.rfind(':');
  if (from.empty() && colon != std::string::npos && !files.exists(source) &&
      is_weight_file(files, source.substr(0, colon))) {
    path = source.substr(0, colon);
    from = source.substr(colon + 1);
  }
  if (is_weight_file(files, path)) return pick_weights(read_weight_file(files, path), path, {from});
  return weights_of_checkpoint(load_checkpoint(path, files), from);
}

}  // namespace lockstep
