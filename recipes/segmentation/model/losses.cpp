// SPDX-License-Identifier: Apache-2.0
#include "segmentation/model/losses.h"

#include <ATen/ops/log_softmax.h>
#include <ATen/ops/upsample_bilinear2d.h>
#include <ATen/TensorOperators.h>
#include <fmt/format.h>

#include <array>

#include "lockstep/base/error.h"

namespace lockstep::segmentation {
namespace {

/// Checks labels on the CPU. Labels on a device were checked on the host when they were read (MaskedPictures); a check
/// here would have to wait for the device. Throws: DataError.
void check_labels(const at::Tensor& labels, std::int64_t classes, const char* what) {
  if (!labels.is_cpu()) return;
  const at::Tensor bad = (labels >= classes).logical_and(labels != kUnlabelled);
  if (!bad.any().item<bool>()) return;
  const at::Tensor first = bad.nonzero()[0].cpu();
  throw DataError(fmt::format("image {} of a batch has {} of class {} at row {}, column {}, but there are {} classes",
                              first[0].item<std::int64_t>(), what, labels.masked_select(bad)[0].item<int>(),
                              first[1].item<std::int64_t>(), first[2].item<std::int64_t>(), classes),
                  "labels are 0 to classes - 1, or 255 for none");
}

/// Throws: UsageError.
void check_shapes(const at::Tensor& logits, const at::Tensor& target, const Planes& planes) {
  const bool fits = logits.dim() == 4 && target.dim() == 4 && target.size(0) == logits.size(0) &&
                    target.size(1) == planes.count() && target.scalar_type() == at::kByte;
  if (fits) return;
  throw UsageError(fmt::format("logits of shape [{}] do not fit a target of shape [{}]: it must be uint8 [B, {}, H, W]",
                               fmt::join(logits.sizes(), ", "), fmt::join(target.sizes(), ", "), planes.count()));
}

/// The mean cross entropy of the labelled pixels. Shapes: logs [B, C, H, W], labels uint8 [B, H, W].
at::Tensor cross_entropy(const at::Tensor& logs, const at::Tensor& labels, double smoothing) {
  const at::Tensor known = (labels != kUnlabelled).to(logs.scalar_type());
  const at::Tensor classes = labels.masked_fill(labels == kUnlabelled, 0).to(at::kLong).unsqueeze(1);
  const at::Tensor hard = -logs.gather(1, classes).squeeze(1);
  const at::Tensor each = smoothing > 0 ? hard * (1 - smoothing) - logs.mean(1) * smoothing : hard;
  return (each * known).sum() / known.sum().clamp_min(1);
}

/// The mean of the nonzero weighted entropies. Shapes: entropy [B, H, W], distances uint8 [B, H, W].
at::Tensor distance_entropy(const at::Tensor& entropy, const at::Tensor& distances) {
  const at::Tensor each = entropy * (distances.to(entropy.scalar_type()) / 255);
  return each.sum() / each.count_nonzero().clamp_min(1);
}

void add_lorm(const Outputs& outputs, const LossOptions& options, std::vector<LossTerm>& terms) {
  const auto lorm = outputs.find("lorm");
  if (lorm != outputs.end() && options.lorm != 0) terms.push_back({"lorm", lorm->second * options.lorm});
}

}  // namespace

std::vector<LossTerm> plain_losses(const Outputs& outputs, const at::Tensor& target, const Planes& planes,
                                   const LossOptions& options) {
  const at::Tensor& small = outputs.at("logits");
  check_shapes(small, target, planes);
  const at::Tensor exact = small.scalar_type() == at::kDouble ? small : small.to(at::kFloat);
  const at::Tensor logits = at::upsample_bilinear2d(exact, {target.size(2), target.size(3)}, /*align_corners=*/true);
  const at::Tensor logs = at::log_softmax(logits, 1);
  const auto plane = [&](std::int64_t place) { return target.select(1, place); };
  std::vector<LossTerm> terms;
  const auto add_labels = [&](const char* name, std::int64_t place, double weight, double smoothing) {
    if (place < 0 || weight == 0) return;
    check_labels(plane(place), logits.size(1), name);
    terms.push_back({name, cross_entropy(logs, plane(place), smoothing) * weight});
  };
  add_labels("segmentation", Planes::labels(), options.segmentation, 0);
  add_labels("pseudo", planes.pseudo(), options.pseudo, options.label_smoothing);
  at::Tensor entropy;
  const auto add_distances = [&](const char* name, std::int64_t place, double weight) {
    if (place < 0 || weight == 0) return;
    if (!entropy.defined()) entropy = -(logs.exp() * logs).sum(1);
    terms.push_back({name, distance_entropy(entropy, plane(place)) * weight});
  };
  add_distances("distance_scribble", planes.scribble_distance(), options.distance_scribble);
  add_distances("distance_class", planes.class_distance(), options.distance_class);
  add_lorm(outputs, options, terms);
  return terms;
}

std::vector<LossTerm> losses(const Outputs& outputs, const at::Tensor& target, const Planes& planes,
                             const LossOptions& options) {
  const at::Tensor& logits = outputs.at("logits");
  const bool fits = logits.is_cpu() && target.is_cpu() && target.numel() > 0 && logits.numel() > 0 &&
                    (logits.scalar_type() == at::kFloat || logits.scalar_type() == at::kBFloat16);
  if (!fits) return plain_losses(outputs, target, planes, options);
  check_shapes(logits, target, planes);
  struct Term {
    const char* name;
    std::int64_t place;
    double weight;
  };
  // In the order of LossMap.
  const std::array<Term, kLossMaps> parts = {
      {{"segmentation", Planes::labels(), options.segmentation},
       {"pseudo", planes.pseudo(), options.pseudo},
       {"distance_scribble", planes.scribble_distance(), options.distance_scribble},
       {"distance_class", planes.class_distance(), options.distance_class}}};
  FusedMaps maps{.target = target, .places = {-1, -1, -1, -1}, .smoothing = options.label_smoothing};
  for (std::size_t t = 0; t < kLossMaps; ++t) {
    if (parts[t].place < 0 || parts[t].weight == 0) continue;
    maps.places[t] = parts[t].place;
    if (t <= kPseudoMap) check_labels(target.select(1, parts[t].place), logits.size(1), parts[t].name);
  }
  const at::Tensor means = fused_losses(logits, maps);
  std::vector<LossTerm> terms;
  for (std::size_t t = 0; t < kLossMaps; ++t) {
    if (maps.places[t] < 0) continue;
    terms.push_back({parts[t].name, means[static_cast<std::int64_t>(t)] * parts[t].weight});
  }
  add_lorm(outputs, options, terms);
  return terms;
}

}  // namespace lockstep::segmentation
