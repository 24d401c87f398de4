// SPDX-License-Identifier: Apache-2.0
#include "lockstep/checkpoint/diff.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>

#include "checkpoint/formats/entry_text.h"
#include "checkpoint/formats/state_hash.h"
#include "checkpoint/report/compare_tensors.h"

namespace lockstep {

using namespace checkpoint;  // NOLINT(google-build-using-namespace): this file is of that namespace

namespace {

std::set<std::string> either(const std::vector<std::string>& a, const std::vector<std::string>& b) {
  std::set<std::string> all(a.begin(), a.end());
  all.insert(b.begin(), b.end());
  return all;
}

/// Shows two texts that differ, whole; where a side has none, the size of the other is shown.
ValueDifference diff_text(const std::string& file, const std::optional<std::string>& a,
                          const std::optional<std::string>& b) {
  if (a && b) return {file, *a, *b};
  const auto in_words = [](const auto& text) { return text ? fmt::format("{} bytes", text->size()) : "none"; };
  return {file, in_words(a), in_words(b)};
}

std::vector<ValueDifference> diff_meta(const Checkpoint& a, const Checkpoint& b) {
  std::vector<ValueDifference> meta;
  const auto compare = [&meta](const std::string& name, const auto& x, const auto& y) {
    if (x != y) meta.push_back({name, fmt::format("{}", x), fmt::format("{}", y)});
  };
  const Manifest& x = a.manifest();
  const Manifest& y = b.manifest();
  compare("step", x.meta.step, y.meta.step);
  compare("replicas", x.meta.replicas, y.meta.replicas);
  compare("threads", x.meta.threads, y.meta.threads);
  compare("configuration", x.meta.configuration_hash, y.meta.configuration_hash);
  compare("libtorch", x.libtorch, y.libtorch);
  compare("instruction set", x.instruction_set, y.instruction_set);
  if (!x.blas.empty() && !y.blas.empty()) compare("matrix products", x.blas, y.blas);
  for (const std::string& file : either(a.text_files(), b.text_files())) {
    const auto text_a = a.text(file);
    const auto text_b = b.text(file);
    if (text_a != text_b) meta.push_back(diff_text(file, text_a, text_b));
  }
  return meta;
}

/// Compares an entry that both have.
void diff_entry(const std::string& name, const StateValue& a, const StateValue& b, CheckpointDiff& diff) {
  const auto* left = std::get_if<at::Tensor>(&a);
  const auto* right = std::get_if<at::Tensor>(&b);
  const std::string text_a = entry_text(a);
  const std::string text_b = entry_text(b);
  if (left == nullptr && right == nullptr) {
    if (text_a != text_b) diff.values.push_back({name, text_a, text_b});
    return;
  }
  if (left == nullptr || right == nullptr || text_a != text_b) {
    diff.types.push_back({name, text_a, text_b});
    return;
  }
  auto difference = compare_tensors(*left, *right);
  if (!difference) return;
  difference->name = name;
  difference->type = text_a;
  diff.tensors.push_back(std::move(*difference));
}

void diff_state(const std::string& name, const StateDict& a, const StateDict& b, CheckpointDiff& diff) {
  const std::string prefix = name + "/";
  for (const auto& [entry, value] : a) {
    const std::string full = prefix + entry;
    ++diff.entries;
    if (const auto other = b.find(entry); other != b.end()) {
      diff_entry(full, value, other->second, diff);
    } else {
      diff.only_in_a.push_back(full);
    }
  }
  for (const auto& [entry, value] : b) {
    if (a.count(entry) != 0) continue;
    ++diff.entries;
    diff.only_in_b.push_back(prefix + entry);
  }
}

/// Tensors come in name order, which is kept among equals.
void sort_worst_first(std::vector<TensorDifference>& tensors) {
  std::stable_sort(tensors.begin(), tensors.end(), [](const TensorDifference& x, const TensorDifference& y) {
    if ((x.non_finite > 0) != (y.non_finite > 0)) return x.non_finite > 0;
    return x.largest_relative > y.largest_relative;
  });
}

}  // namespace

std::int64_t CheckpointDiff::differing() const {
  return static_cast<std::int64_t>(only_in_a.size() + only_in_b.size() + types.size() + values.size() + tensors.size());
}

CheckpointDiff diff_checkpoints(const Checkpoint& a, const Checkpoint& b) {
  CheckpointDiff diff;
  diff.path_a = a.path();
  diff.path_b = b.path();
  diff.meta = diff_meta(a, b);
  StateHash hash_a;
  StateHash hash_b;
  for (const std::string& name : either(a.names(), b.names())) {
    const StateDict left = a.has(name) ? a.state(name) : StateDict();
    const StateDict right = b.has(name) ? b.state(name) : StateDict();
    hash_a.add(name, left);
    hash_b.add(name, right);
    diff_state(name, left, right, diff);
  }
  diff.digest_a = hash_a.hex();
  diff.digest_b = hash_b.hex();
  sort_worst_first(diff.tensors);
  return diff;
}

}  // namespace lockstep
