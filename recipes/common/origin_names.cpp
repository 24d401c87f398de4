// SPDX-License-Identifier: Apache-2.0
#include "common/origin_names.h"

#include <ATen/ops/cat.h>
#include <fmt/format.h>

#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"

namespace lockstep::common {
namespace {

/// The parts of a name that a pattern's stars match, and the rest of the name if the pattern ends in '.'.
using Parts = std::vector<std::string>;

bool match(std::string_view pattern, std::string_view name, Parts& parts) {
  while (!pattern.empty() && pattern.front() != '*') {
    if (name.empty() || name.front() != pattern.front()) return false;
    const bool was_prefix = pattern.size() == 1 && pattern.front() == '.';
    pattern.remove_prefix(1);
    name.remove_prefix(1);
    if (was_prefix) parts.emplace_back(name);
    if (was_prefix) return true;
  }
  if (pattern.empty()) return name.empty();
  pattern.remove_prefix(1);
  const std::size_t longest = std::min(name.find('.'), name.size());
  for (std::size_t length = longest; length > 0; --length) {
    const std::size_t before = parts.size();
    parts.emplace_back(name.substr(0, length));
    if (match(pattern, name.substr(length), parts)) return true;
    parts.resize(before);
  }
  return false;
}

std::optional<Parts> parts_of(std::string_view pattern, std::string_view name) {
  Parts parts;
  if (!match(pattern, name, parts)) return std::nullopt;
  return parts;
}

std::string with_parts(std::string_view pattern, const Parts& parts) {
  std::string name;
  std::size_t next = 0;
  for (const char c : pattern) {
    if (c == '*') {
      name += parts.at(next++);
    } else {
      name += c;
    }
  }
  return pattern.ends_with('.') ? name + parts.back() : name;
}

/// Returns the names of the original entries that form one tensor here.
std::vector<std::string> all_theirs(const OriginName& row, const Parts& parts) {
  std::vector<std::string> names;
  names.reserve(row.theirs.size());
  for (const std::string& pattern : row.theirs) names.push_back(with_parts(pattern, parts));
  return names;
}

/// Returns the row whose first pattern matches `name`, with the parts that its stars match.
std::optional<std::pair<const OriginName*, Parts>> row_of(const std::vector<OriginName>& rows,
                                                          const std::string& name) {
  for (const OriginName& row : rows) {
    if (auto parts = parts_of(row.theirs.front(), name)) return std::pair{&row, std::move(*parts)};
  }
  return std::nullopt;
}

/// Joins the entries into one tensor. Throws: DataError.
at::Tensor put_together(const StateDict& weights, const std::vector<std::string>& names) {
  std::vector<at::Tensor> tensors;
  for (const std::string& name : names) {
    const auto* tensor = std::get_if<at::Tensor>(&weights.at(name));
    const bool fits = tensor != nullptr && tensor->dim() > 0 &&
                      (tensors.empty() || tensor->sizes().slice(1) == tensors.front().sizes().slice(1));
    if (!fits)
      throw DataError(
          fmt::format("{} have incompatible shapes, but must form one tensor of the model", text::join(names)));
    tensors.push_back(*tensor);
  }
  return tensors.size() == 1 ? tensors.front() : at::cat(tensors);
}

bool has_all(const StateDict& weights, const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    if (!weights.contains(name)) return false;
  }
  return true;
}

}  // namespace

OriginNames::OriginNames(std::string origin, std::vector<OriginName> rows)
    : origin_(std::move(origin)), rows_(std::move(rows)) {}

std::vector<std::string> OriginNames::take(StateDict& weights, const NamedTensors& model) const {
  std::set<std::string> mine;
  for (const auto& [name, tensor] : model) mine.insert(name);
  StateDict taken;
  std::set<std::string> used;
  std::set<std::string> dropped;
  for (const auto& [name, value] : weights) {
    if (mine.contains(name)) continue;
    const auto row = row_of(rows_, name);
    if (!row) continue;
    if (row->first->here.empty()) {
      dropped.insert(name);
      continue;
    }
    const std::vector<std::string> names = all_theirs(*row->first, row->second);
    const std::string here = with_parts(row->first->here, row->second);
    if (!mine.contains(here) || !has_all(weights, names)) continue;
    taken[here] = names.size() == 1 ? value : StateValue(put_together(weights, names));
    used.insert(names.begin(), names.end());
  }
  std::erase_if(weights,
                [&](const auto& entry) { return used.contains(entry.first) || dropped.contains(entry.first); });
  const std::size_t made = taken.size();
  weights.merge(taken);
  if (made == 0) return {};
  return {fmt::format("{} entries named as in {} became {} entries", used.size(), origin_, made)};
}

StateDict OriginNames::give(const StateDict& model) const {
  StateDict theirs;
  for (const auto& [name, value] : model) {
    std::vector<std::string> names = {name};
    for (const OriginName& row : rows_) {
      const auto parts = row.here.empty() ? std::nullopt : parts_of(row.here, name);
      if (!parts) continue;
      names = all_theirs(row, *parts);
      break;
    }
    if (names.size() == 1) {
      theirs[names.front()] = value;
      continue;
    }
    const auto pieces = std::get<at::Tensor>(value).chunk(static_cast<std::int64_t>(names.size()));
    for (std::size_t i = 0; i < names.size(); ++i) theirs[names[i]] = pieces.at(i);
  }
  return theirs;
}

}  // namespace lockstep::common
