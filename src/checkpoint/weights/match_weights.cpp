// SPDX-License-Identifier: Apache-2.0
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/checkpoint/weights.h"

namespace lockstep {
namespace {

std::string shape_text(const std::vector<std::int64_t>& shape) { return fmt::format("[{}]", fmt::join(shape, ", ")); }

/// Returns a title with the count, then at most `limit` rows.
std::string match_list(const std::string& title, const std::vector<std::string>& rows, std::size_t limit) {
  if (rows.empty()) return "";
  std::string text = fmt::format("{}: {}\n", title, rows.size());
  for (std::size_t i = 0; i < std::min(limit, rows.size()); ++i) text += fmt::format("  {}\n", rows[i]);
  if (rows.size() > limit) text += fmt::format("  ... and {} more\n", rows.size() - limit);
  return text;
}

/// Returns the weights for each of the model's tensors, by the tensor's first name; null if there are none. For tied
/// weights, `weights` may use any of their names.
std::map<std::string, const at::Tensor*> entries_by_first_name(const NamedTensors& model, const StateDict& weights) {
  std::map<std::string, const at::Tensor*> entries;
  std::map<const void*, std::string> first_names;
  for (const auto& [name, tensor] : model) {
    const std::string& first = first_names.emplace(tensor.unsafeGetTensorImpl(), name).first->second;
    const at::Tensor*& entry = entries[first];
    const auto found = weights.find(name);
    if (entry == nullptr && found != weights.end()) entry = std::get_if<at::Tensor>(&found->second);
  }
  return entries;
}

DataError nothing_matches(const WeightsMatch& match, const Weights& weights) {
  std::vector<std::string> words;
  for (const std::string& name : match.missing) {
    const std::string near = text::nearest(name, match.unused);
    if (!near.empty()) words.push_back(fmt::format("'{}' (nearest in the file: '{}')", name, near));
    if (words.size() == 3) break;
  }
  if (words.empty() && !match.other_shapes.empty()) {
    const ShapeDifference& first = match.other_shapes.front();
    words.push_back(fmt::format("'{}' is {} in the model and {} in the file", first.name, shape_text(first.model),
                                shape_text(first.weights)));
  }
  if (words.empty() && !match.missing.empty() && !match.unused.empty()) {
    words.push_back(
        fmt::format("the model begins with '{}', the file with '{}'", match.missing.front(), match.unused.front()));
  }
  return DataError(fmt::format("{}: none of its {} tensors fits the model{}{}", weights.origin, weights.tensors.size(),
                               words.empty() ? "" : ": ", text::join(words)),
                   "is the file from another model? lockstep checkpoint inspect FILE lists its contents");
}

}  // namespace

WeightsMatch match_weights(const NamedTensors& model, const StateDict& weights) {
  WeightsMatch match;
  const std::map<std::string, const at::Tensor*> entries = entries_by_first_name(model, weights);
  std::set<std::string> names;
  for (const auto& [name, tensor] : model) names.insert(name);
  for (const auto& [name, tensor] : tensor::without_repeats(model)) {
    const at::Tensor* saved = entries.at(name);
    if (saved == nullptr) {
      match.missing.push_back(name);
    } else if (saved->sizes() != tensor.sizes()) {
      match.other_shapes.push_back({name, tensor.sizes().vec(), saved->sizes().vec()});
    } else {
      match.loaded.push_back(name);
      if (saved->scalar_type() != tensor.scalar_type()) match.converted.push_back(name);
    }
  }
  for (const auto& [name, value] : weights) {
    if (names.count(name) == 0) match.unused.push_back(name);
  }
  std::sort(match.loaded.begin(), match.loaded.end());
  std::sort(match.converted.begin(), match.converted.end());
  std::sort(match.missing.begin(), match.missing.end());
  std::sort(match.other_shapes.begin(), match.other_shapes.end(),
            [](const ShapeDifference& a, const ShapeDifference& b) { return a.name < b.name; });
  return match;
}

std::string to_text(const WeightsMatch& match, std::size_t limit) {
  const std::size_t all = match.loaded.size() + match.other_shapes.size() + match.missing.size();
  std::string text = fmt::format("{} of {} entries of the model are loaded", match.loaded.size(), all);
  if (!match.converted.empty())
    text += fmt::format(", {} of them converted from another dtype", match.converted.size());
  text += "\n";
  std::vector<std::string> shapes;
  for (const ShapeDifference& row : match.other_shapes) {
    shapes.push_back(
        fmt::format("{}  {} in the model, {} in the file", row.name, shape_text(row.model), shape_text(row.weights)));
  }
  text += match_list("different shape, left unchanged", shapes, limit);
  text += match_list("not in the file, left unchanged", match.missing, limit);
  text += match_list("only in the file, not used", match.unused, limit);
  return text;
}

WeightsMatch copy_weights(const NamedTensors& model, const Weights& weights) {
  if (const std::string names = tensor::differing_ties(model, weights.tensors); !names.empty()) {
    throw DataError(fmt::format("{}: {} are one tensor of the model but differ in the file", weights.origin, names),
                    "tied weights have several names and one value: is the file from another model?");
  }
  WeightsMatch match = match_weights(model, weights.tensors);
  if (match.loaded.empty()) throw nothing_matches(match, weights);
  const std::set<std::string> wanted(match.loaded.begin(), match.loaded.end());
  const at::NoGradGuard no_grad;
  const std::map<std::string, const at::Tensor*> entries = entries_by_first_name(model, weights.tensors);
  for (const auto& [name, tensor] : model) {
    if (wanted.count(name) != 0) tensor.copy_(*entries.at(name));
  }
  return match;
}

}  // namespace lockstep
