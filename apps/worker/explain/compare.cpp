// SPDX-License-Identifier: Apache-2.0
#include "worker/explain/compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <string>

namespace lockstep::worker {
namespace {

using observe::OperatorValue;
using Values = std::vector<OperatorValue>;

bool same_losses(const std::vector<double>& a, const std::vector<double>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](double x, double y) {
    return x == y || (x != x && y != y);  // NaN
  });
}

/// The layer of the operator that begins at `at`. If it has none, the layer of the last operator before it, at no
/// greater depth, that has one.
std::string layer_at(const Values& values, std::size_t at) {
  int depth = values[at].depth;
  for (std::size_t i = at + 1; i-- > 0;) {
    if (values[i].end || values[i].depth > depth) continue;
    if (!values[i].layer.empty()) return values[i].layer;
    depth = values[i].depth;
  }
  return "";
}

/// The operator that computed the input of the operator that begins at `at`: the last one that ended before it in the
/// same direction, at no greater depth, and without a digest of its result. If there is none, `at` itself.
std::size_t maker_of(const Values& values, std::size_t at) {
  for (std::size_t i = at; i-- > 0;) {
    if (values[i].backward != values[at].backward) break;
    if (values[i].end && values[i].depth <= values[at].depth && values[i].digest == 0) return i;
    if (values[i].end && values[i].depth < values[at].depth) break;
  }
  return at;
}

StepDifference at_operator(const BatchRecord& a, const BatchRecord& b, std::size_t i) {
  const bool both = i < a.values.size() && i < b.values.size();
  StepDifference found{.part = Part::kForward, .replica = a.replica, .samples = a.samples};
  if (!both) {
    found.a = i < a.values.size() ? a.values[i].name : "nothing";
    found.b = i < b.values.size() ? b.values[i].name : "nothing";
    const Values& longer = i < a.values.size() ? a.values : b.values;
    found.part = longer[i].backward ? Part::kBackward : Part::kForward;
    found.layer = layer_at(longer, i);
    return found;
  }
  std::size_t at = i;
  if (a.values[i].name == b.values[i].name && !a.values[i].end) at = maker_of(a.values, i);
  found.part = a.values[at].backward ? Part::kBackward : Part::kForward;
  found.a = a.values[at].name;
  found.b = b.values[at].name;
  found.layer = layer_at(a.values, at);
  if (found.layer.empty()) found.layer = layer_at(b.values, at);
  return found;
}

/// The index of the first event that differs; the number of events if all are equal.
std::size_t first_event(const Values& a, const Values& b) {
  const auto differ = [](const OperatorValue& x, const OperatorValue& y) {
    return x.name != y.name || x.end != y.end || x.digest != y.digest;
  };
  const std::size_t common = std::min(a.size(), b.size());
  for (std::size_t i = 0; i < common; ++i) {
    if (differ(a[i], b[i])) return i;
  }
  return a.size() == b.size() ? a.size() : common;
}

/// True if both are the same sample of the data set, even if the set is in a different folder.
bool same_sample(const SampleRecord& a, const SampleRecord& b) {
  const auto file = [](const SampleRecord& sample) { return std::filesystem::path(sample.name).filename(); };
  return a.index == b.index && file(a) == file(b);
}

StepDifference in_samples(const BatchRecord& a, const BatchRecord& b) {
  StepDifference found{.part = Part::kSamples, .replica = a.replica, .samples = a.samples};
  const auto [other, in_b] =
      std::mismatch(a.samples.begin(), a.samples.end(), b.samples.begin(), b.samples.end(), same_sample);
  if (other != a.samples.end() || in_b != b.samples.end()) {
    found.a = other == a.samples.end() ? "none" : other->name;
    found.b = in_b == b.samples.end() ? "none" : in_b->name;
    return found;
  }
  if (a.data == b.data && a.target == b.target) return {};
  for (std::size_t i = 0; i < a.samples.size(); ++i) {
    if (a.samples[i].digest != b.samples[i].digest) found.changed.emplace_back(a.samples[i].name, b.samples[i].name);
  }
  found.a = found.b = found.changed.empty() ? "the targets of the batch" : found.changed.front().first;
  return found;
}

/// The names of operators that have a digest in either batch. All others only create views, and the first step of a
/// process may have more of them.
std::set<std::string> names_with_bits(const BatchRecord& a, const BatchRecord& b) {
  std::set<std::string> names;
  for (const Values* values : {&a.values, &b.values}) {
    for (const OperatorValue& value : *values) {
      if (value.digest != 0) names.insert(value.name);
    }
  }
  return names;
}

/// The batch reduced to these operators and cut off at the end of backward. Later operators copy gradients into
/// buckets, which the first step of a process does differently.
BatchRecord with_operators(BatchRecord batch, const std::set<std::string>& names) {
  const auto last =
      std::find_if(batch.values.rbegin(), batch.values.rend(), [](const auto& value) { return value.backward; });
  if (last != batch.values.rend()) batch.values.erase(last.base(), batch.values.end());
  std::erase_if(batch.values, [&](const OperatorValue& value) { return !names.contains(value.name); });
  return batch;
}

StepDifference in_operators(const BatchRecord& a, const BatchRecord& b) {
  const std::size_t event = first_event(a.values, b.values);
  return event < std::max(a.values.size(), b.values.size()) ? at_operator(a, b, event) : StepDifference{};
}

StepDifference in_batch(const BatchRecord& a, const BatchRecord& b) {
  if (a.replica != b.replica) return {.part = Part::kSamples, .a = "replica", .b = "replica"};
  StepDifference found = in_samples(a, b);
  if (found.any()) return found;
  const std::set<std::string> names = names_with_bits(a, b);
  found = in_operators(with_operators(a, names), with_operators(b, names));
  if (found.any()) return found;
  if (same_losses(a.losses, b.losses)) return {};
  return {.part = Part::kForward, .replica = a.replica, .a = "the loss", .b = "the loss", .samples = a.samples};
}

}  // namespace

std::string part_name(Part part) {
  switch (part) {
    case Part::kNone:
      return "nothing";
    case Part::kWeights:
      return "the weights before the step";
    case Part::kSamples:
      return "samples";
    case Part::kForward:
      return "forward";
    case Part::kBackward:
      return "backward";
    case Part::kGradients:
      return "gradients";
    case Part::kUpdate:
      return "update";
  }
  return "";
}

StepDifference first_difference(const StepRecord& a, const StepRecord& b) {
  if (a.weights != b.weights) return {.part = Part::kWeights};
  if (a.batches.size() != b.batches.size()) {
    return {.part = Part::kSamples,
            .a = fmt::format("{} batches", a.batches.size()),
            .b = fmt::format("{} batches", b.batches.size())};
  }
  for (std::size_t i = 0; i < a.batches.size(); ++i) {
    StepDifference found = in_batch(a.batches[i], b.batches[i]);
    if (found.any()) return found;
  }
  for (std::size_t i = 0; i < std::min(a.gradients.size(), b.gradients.size()); ++i) {
    if (a.gradients[i].digest == b.gradients[i].digest) continue;
    return {.part = Part::kGradients, .layer = a.gradients[i].name, .a = a.gradients[i].name, .b = b.gradients[i].name};
  }
  if (a.lr != b.lr) {
    return {
        .part = Part::kUpdate, .a = fmt::format("learning rate {}", a.lr), .b = fmt::format("learning rate {}", b.lr)};
  }
  if (a.digest && b.digest && a.digest->weights != b.digest->weights) {
    return {.part = Part::kUpdate, .a = "the optimizer's state or kernel", .b = "the optimizer's state or kernel"};
  }
  return {};
}

}  // namespace lockstep::worker
