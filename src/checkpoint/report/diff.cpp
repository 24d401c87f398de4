// SPDX-License-Identifier: Apache-2.0
#include "lockstep/checkpoint/diff.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>
#include <set>
#include <type_traits>

#include "checkpoint/formats/entry_text.h"
#include "checkpoint/formats/state_hash.h"
#include "lockstep/base/error.h"

namespace lockstep::checkpoint {
namespace {

// Compares two tensors: first bit by bit, then by distances that a reader can interpret.

template <class T>
using BitsOf = std::conditional_t<sizeof(T) == 1, std::uint8_t,
                                  std::conditional_t<sizeof(T) == 2, std::uint16_t,
                                                     std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>>>;

template <class T>
BitsOf<T> bits_of(const T& value) {
  BitsOf<T> bits = 0;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

std::uint64_t distance(std::int64_t x, std::int64_t y) {
  const auto larger = static_cast<std::uint64_t>(std::max(x, y));
  return larger - static_cast<std::uint64_t>(std::min(x, y));  // modulo 2^64, so the result always fits
}

/// Returns the position of a finite float among all values of its type: neighbours differ by 1, and -0 and 0 are equal.
template <class T>
std::int64_t place_of(const T& value) {
  constexpr BitsOf<T> kMagnitude = std::numeric_limits<BitsOf<T>>::max() >> 1U;
  const BitsOf<T> bits = bits_of(value);
  const auto magnitude = static_cast<std::int64_t>(bits & kMagnitude);
  return bits > kMagnitude ? -magnitude : magnitude;
}

template <class T>
void measure_pair(const T& x, const T& y, TensorDifference& out) {
  if constexpr (std::is_integral_v<T>) {
    out.largest_absolute =
        std::max(out.largest_absolute,
                 static_cast<double>(distance(static_cast<std::int64_t>(x), static_cast<std::int64_t>(y))));
  } else {
    const auto wide_x = static_cast<double>(x);
    const auto wide_y = static_cast<double>(y);
    if (!std::isfinite(wide_x) || !std::isfinite(wide_y)) {
      ++out.non_finite;
      return;
    }
    const double apart = std::min(std::abs(wide_x - wide_y), std::numeric_limits<double>::max());  // may overflow
    out.largest_absolute = std::max(out.largest_absolute, apart);
    out.largest_ulps = std::max(out.largest_ulps.value_or(0), distance(place_of(x), place_of(y)));
  }
}

template <class T>
double finite_magnitude(const T& value) {
  const double magnitude = std::abs(static_cast<double>(value));
  return std::isfinite(magnitude) ? magnitude : 0;
}

template <class T>
TensorDifference measure(const at::Tensor& a, const at::Tensor& b) {
  const auto* x = static_cast<const T*>(a.data_ptr());
  const auto* y = static_cast<const T*>(b.data_ptr());
  TensorDifference out;
  out.elements = a.numel();
  double largest = 0;
  for (std::int64_t i = 0; i < out.elements; ++i) {
    largest = std::max({largest, finite_magnitude(x[i]), finite_magnitude(y[i])});
    if (bits_of(x[i]) == bits_of(y[i])) continue;
    ++out.differing;
    measure_pair(x[i], y[i], out);
  }
  if (largest > 0) out.largest_relative = out.largest_absolute / largest;
  return out;
}

TensorDifference measure_any(const at::Tensor& a, const at::Tensor& b) {
  switch (a.scalar_type()) {
    case at::kDouble:
      return measure<double>(a, b);
    case at::kFloat:
      return measure<float>(a, b);
    case at::kHalf:
      return measure<at::Half>(a, b);
    case at::kBFloat16:
      return measure<at::BFloat16>(a, b);
    case at::kLong:
      return measure<std::int64_t>(a, b);
    case at::kInt:
      return measure<std::int32_t>(a, b);
    case at::kShort:
      return measure<std::int16_t>(a, b);
    case at::kChar:
      return measure<std::int8_t>(a, b);
    case at::kByte:
    case at::kBool:
      return measure<std::uint8_t>(a, b);
    default:
      throw InternalError("a checkpoint holds a type that safetensors lacks");
  }
}

/// Compares two tensors; returns none if all bits are equal. Both are row-major on the CPU and have the same dtype and
/// shape. The caller sets `name` and `type` of the result.
std::optional<TensorDifference> compare_tensors(const at::Tensor& a, const at::Tensor& b) {
  if (a.numel() == 0 || std::memcmp(a.data_ptr(), b.data_ptr(), a.nbytes()) == 0) return std::nullopt;
  return measure_any(a, b);
}

}  // namespace
}  // namespace lockstep::checkpoint

namespace lockstep {

using namespace checkpoint;  // NOLINT(google-build-using-namespace): this file is of that namespace

namespace {

std::set<std::string> either(const std::vector<std::string>& a, const std::vector<std::string>& b) {
  std::set<std::string> all(a.begin(), a.end());
  all.insert(b.begin(), b.end());
  return all;
}

/// Returns both texts, which differ, in full. If one of them is missing, returns only the size of the other.
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
  if (!x.kernel_variables.empty() && !y.kernel_variables.empty()) {
    compare("kernel variables", x.kernel_variables, y.kernel_variables);
  }
  for (const std::string& file : either(a.text_files(), b.text_files())) {
    const auto text_a = a.text(file);
    const auto text_b = b.text(file);
    if (text_a != text_b) meta.push_back(diff_text(file, text_a, text_b));
  }
  return meta;
}

/// Compares an entry that both sides have.
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

/// Sorts the tensors, worst first. They arrive in name order, and equally bad tensors keep it.
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
