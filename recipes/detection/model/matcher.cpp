// SPDX-License-Identifier: Apache-2.0
#include "detection/model/matcher.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/log.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/zeros.h>
#include <ATen/TensorOperators.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <span>

#include "detection/model/assignment.h"
#include "detection/model/box.h"
#include "detection/model/sent.h"
#include "lockstep/base/error.h"

namespace lockstep::detection {

std::int64_t PaddedTargets::total() const noexcept {
  return std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
}

namespace {

/// The elements of a CPU tensor.
template <class Number>
std::span<const Number> numbers_of(const at::Tensor& contiguous) {
  return {contiguous.data_ptr<Number>(), static_cast<std::size_t>(contiguous.numel())};
}

void check_labels(std::span<const std::int64_t> labels, std::int64_t classes, std::int64_t id) {
  if (labels.empty()) return;
  const auto [lowest, highest] = std::ranges::minmax(labels);
  if (lowest >= 0 && highest < classes) return;
  throw DataError(fmt::format("image {} has an object of class {}, but the network has classes 0 to {}", id,
                              lowest < 0 ? lowest : highest, classes - 1),
                  "set the number of classes to match the data");
}

}  // namespace

PaddedTargets pad(const Targets& targets, std::int64_t classes, const at::Device& device) {
  PaddedTargets padded;
  std::int64_t most = 1;
  for (const Detections& objects : targets) {
    padded.counts.push_back(objects.labels.numel());
    most = std::max(most, padded.counts.back());
  }
  const auto images = static_cast<std::int64_t>(targets.size());
  padded.host_boxes = at::full({images, most, 4}, 0.5, at::kFloat);
  padded.host_labels = at::zeros({images, most}, at::kLong);
  for (std::int64_t i = 0; i < images; ++i) {
    const Detections& objects = targets[static_cast<std::size_t>(i)];
    const at::Tensor labels = objects.labels.to(at::kLong).contiguous();
    const at::Tensor boxes = objects.boxes.to(at::kFloat).contiguous().view({labels.numel(), 4});
    check_labels(numbers_of<std::int64_t>(labels), classes, objects.id);
    if (labels.numel() == 0) continue;
    std::ranges::copy(numbers_of<float>(boxes), padded.host_boxes.data_ptr<float>() + i * most * 4);
    std::ranges::copy(numbers_of<std::int64_t>(labels), padded.host_labels.data_ptr<std::int64_t>() + i * most);
  }
  const std::vector<at::Tensor> there = sent({padded.host_boxes, padded.host_labels}, device);
  padded.boxes = there[0];
  padded.labels = there[1];
  return padded;
}

namespace {

/// The cost [S, B, Q, N] of each target's class for each query.
at::Tensor class_costs(const at::Tensor& logits, const at::Tensor& labels, const MatcherOptions& options) {
  constexpr double kLeast = 1e-8;
  const at::Tensor p = at::sigmoid(logits);
  const at::Tensor not_p = 1 - p;
  const at::Tensor yes = -options.alpha * not_p.pow(options.gamma) * at::log(p + kLeast);
  const at::Tensor no = -(1 - options.alpha) * p.pow(options.gamma) * at::log(not_p + kLeast);
  const std::int64_t count = labels.size(1);
  return (yes - no).gather(
      3, labels.view({1, labels.size(0), 1, count}).expand({logits.size(0), labels.size(0), logits.size(2), count}));
}

at::Tensor costs_of(const at::Tensor& logits, const at::Tensor& boxes, const PaddedTargets& targets,
                    const MatcherOptions& options) {
  const at::Tensor queries = boxes.unsqueeze(3);
  const at::Tensor objects = targets.boxes.unsqueeze(1).unsqueeze(0);
  const at::Tensor distance = (queries - objects).abs().sum(-1);
  const at::Tensor giou = overlap(to_corners(queries, options.clamp_sizes), to_corners(objects)).giou;
  return options.class_weight * class_costs(logits, targets.labels, options) + options.bbox_weight * distance -
         options.giou_weight * giou;
}

[[noreturn]] void complain(const at::Tensor& logits, const at::Tensor& boxes, const std::vector<std::string>& names) {
  for (std::int64_t set = 0; set < logits.size(0); ++set) {
    for (std::int64_t image = 0; image < logits.size(1); ++image) {
      const bool bad_logits = !at::isfinite(logits[set][image]).all().item<bool>();
      const bool bad_boxes = !at::isfinite(boxes[set][image]).all().item<bool>();
      if (!bad_logits && !bad_boxes) continue;
      throw DataError(fmt::format("the network's {} {} are not finite, first in image {} of the batch",
                                  names[static_cast<std::size_t>(set)], bad_logits ? "logits" : "boxes", image),
                      "try a lower learning rate, or check the batch");
    }
  }
  throw DataError("a matching cost is not finite although all predictions are", "look for boxes with NaN coordinates");
}

/// The pairs of one image, from its costs [Q, N]; the first `count` columns are objects.
Pairs pairs_of(std::span<const float> costs, std::int64_t queries, std::int64_t stride, std::int64_t count) {
  std::vector<float> by_object(static_cast<std::size_t>(queries * count));
  for (std::int64_t object = 0; object < count; ++object) {
    for (std::int64_t query = 0; query < queries; ++query) {
      by_object[static_cast<std::size_t>(object * queries + query)] =
          costs[static_cast<std::size_t>(query * stride + object)];
    }
  }
  const Assignment found = assign(by_object, count, queries);
  Pairs pairs;
  for (std::int64_t object = 0; object < count; ++object) {
    const std::int64_t query = found.column_of[static_cast<std::size_t>(object)];
    if (query >= 0) pairs.push_back({.query = query, .object = object});
  }
  std::ranges::sort(pairs, {}, &Pair::query);
  return pairs;
}

}  // namespace

std::vector<Matches> match(const at::Tensor& logits, const at::Tensor& boxes, const PaddedTargets& targets,
                           const MatcherOptions& options, const std::vector<std::string>& names) {
  const at::NoGradGuard guard;
  const at::Tensor costs = costs_of(logits.detach(), boxes.detach(), targets, options).to(at::kFloat);
  // An infinite logit has a finite cost, and the costs cover only the objects' classes, so all logits are checked here.
  const at::Tensor whole = (logits.detach() * 0).sum().to(at::kFloat).view({1});
  const at::Tensor read = at::cat({costs.flatten(), whole}).cpu();
  const auto numbers = numbers_of<float>(read);
  if (!std::ranges::all_of(numbers, [](float number) { return std::isfinite(number); })) {
    complain(logits, boxes, names);
  }
  const std::int64_t images = costs.size(1);
  const std::int64_t queries = costs.size(2);
  const std::int64_t stride = costs.size(3);
  const auto area = static_cast<std::size_t>(queries * stride);
  std::vector<Matches> all(static_cast<std::size_t>(costs.size(0)));
  for (std::size_t set = 0; set < all.size(); ++set) {
    for (std::size_t image = 0; image < static_cast<std::size_t>(images); ++image) {
      const std::size_t first = (set * static_cast<std::size_t>(images) + image) * area;
      all[set].push_back(pairs_of(numbers.subspan(first, area), queries, stride, targets.counts[image]));
    }
  }
  return all;
}

namespace {

Pairs unite_image(const std::vector<Matches>& sets, std::size_t image) {
  std::map<std::pair<std::int64_t, std::int64_t>, int> times;
  for (const Matches& set : sets) {
    for (const Pair& pair : set[image]) ++times[{pair.query, pair.object}];
  }
  Pairs pairs;
  int most = 0;
  for (const auto& [pair, count] : times) {
    if (!pairs.empty() && pairs.back().query == pair.first) {
      if (count > most) pairs.back().object = pair.second;
      most = std::max(most, count);
    } else {
      pairs.push_back({.query = pair.first, .object = pair.second});
      most = count;
    }
  }
  return pairs;
}

}  // namespace

Matches unite(const std::vector<Matches>& sets) {
  Matches all;
  for (std::size_t image = 0; !sets.empty() && image < sets.front().size(); ++image) {
    all.push_back(unite_image(sets, image));
  }
  return all;
}

}  // namespace lockstep::detection
