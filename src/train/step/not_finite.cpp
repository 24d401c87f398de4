// SPDX-License-Identifier: Apache-2.0
#include "train/step/not_finite.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/isfinite.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "lockstep/base/text.h"

namespace lockstep::train {

std::string non_finite_gradients(const NamedTensors& parameters) {
  std::string first;
  std::int64_t bad = 0;
  std::int64_t trained = 0;
  for (const auto& [name, parameter] : parameters) {
    const at::Tensor& gradient = parameter.grad();
    if (!gradient.defined()) continue;
    ++trained;
    const std::int64_t count = gradient.numel() - at::isfinite(gradient).sum().item<std::int64_t>();
    if (count > 0 && bad++ == 0) first = fmt::format("{} ({} of {} elements)", name, count, gradient.numel());
  }
  if (bad > 1) first += fmt::format(" and {} more of {} parameters", bad - 1, trained);
  return first;
}

LateNorms::LateNorms(const at::Tensor& norms, const NamedTensors& parameters) : norms_(norms) {
  for (const auto& [name, parameter] : parameters) {
    if (parameter.grad().defined()) names_.push_back(&name);
  }
}

std::string LateNorms::non_finite() const {
  if (names_.empty()) return "";
  const at::Tensor norms = norms_.get().to(at::kDouble);
  const auto* norm = norms.data_ptr<double>();
  std::string first;
  std::int64_t bad = 0;
  for (const std::string* name : names_) {
    if (!std::isfinite(*norm++) && bad++ == 0) first = *name;
  }
  if (bad > 1) first += fmt::format(" and {} more of {} parameters", bad - 1, names_.size());
  return first;
}

std::string ranks_with_bad_loss(const std::vector<std::vector<std::int64_t>>& replicas) {
  std::vector<std::string> ranks;
  for (std::size_t rank = 0; rank < replicas.size(); ++rank) {
    if (replicas[rank].empty()) continue;
    std::vector<std::string> numbers;
    for (const std::int64_t replica : replicas[rank]) numbers.push_back(std::to_string(replica));
    ranks.push_back(fmt::format("rank {} (replica{} {})", rank, numbers.size() == 1 ? "" : "s", text::join(numbers)));
  }
  if (ranks.empty()) return "";
  if (ranks.size() == replicas.size() && ranks.size() > 1) return "on every rank";
  return "on " + text::join(ranks);
}

std::string some_samples(const std::vector<std::string>& names) {
  constexpr std::size_t kShown = 4;
  const auto end = names.begin() + static_cast<std::ptrdiff_t>(std::min(kShown, names.size()));
  const std::vector<std::string> shown(names.begin(), end);
  return text::join(shown) + (names.size() > kShown ? fmt::format(" and {} more", names.size() - kShown) : "");
}

std::optional<double> NormWatch::add(double norm) {
  std::optional<double> ratio;
  if (norms_.size() >= kFewest) {
    std::vector<double> sorted(norms_.begin(), norms_.end());
    const auto middle = sorted.begin() + static_cast<std::ptrdiff_t>(sorted.size() / 2);
    std::nth_element(sorted.begin(), middle, sorted.end());
    if (norm > kOutlier * *middle && *middle > 0) ratio = norm / *middle;
  }
  norms_.push_back(norm);
  if (norms_.size() > kKept) norms_.pop_front();
  return ratio;
}

std::string largest_gradient(const NamedTensors& parameters) {
  std::string largest;
  double most = 0;
  double sum = 0;
  for (const auto& [name, parameter] : parameters) {
    if (!parameter.grad().defined()) continue;
    const double squared = parameter.grad().to(at::kDouble).pow(2).sum().item<double>();
    sum += squared;
    if (squared <= most) continue;
    most = squared;
    largest = name;
  }
  return largest.empty() ? "" : fmt::format("{} accounts for {:.0f} % of it", largest, 100 * most / sum);
}

}  // namespace lockstep::train
