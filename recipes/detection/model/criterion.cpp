// SPDX-License-Identifier: Apache-2.0
#include "detection/model/criterion.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <ATen/TensorOperators.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>

#include "detection/model/box.h"
#include "detection/model/dense.h"
#include "detection/model/losses.h"
#include "detection/model/rows.h"
#include "detection/model/sent.h"
#include "lockstep/base/error.h"

namespace lockstep::detection {
namespace {

/// In a family's ddf, the weights of the mean over its matched predictions and of the mean over the others.
struct Balance {
  double matched = 0;  ///< square root of a count
  double others = 0;
};

/// Sets of predictions of one shape: first the decoder's layers, then the sets with boxes but no distributions.
struct Family {
  std::vector<std::string> suffixes;  ///< suffixes of the sets' terms
  at::Tensor logits;                  ///< [S, B, Q, C]
  at::Tensor boxes;                   ///< [S, B, Q, 4]
  at::Tensor corners;                 ///< [L, B, Q, 4 R]
  at::Tensor refs;                    ///< [B, Q, 4]
  FamilyPairs pairs;
  float class_divisor = 1;
  float box_divisor = 1;
  std::optional<Balance> balance = std::nullopt;  ///< if empty, computed from the family's own counts

  [[nodiscard]] std::int64_t layers() const { return pairs.layers; }
  [[nodiscard]] std::int64_t sets() const { return pairs.sets; }
};

at::Tensor joined(const Outputs& outputs, const std::string& prefix, const std::string& what) {
  std::vector<at::Tensor> parts;
  for (const char* part : {"", "pre_", "enc_"}) {
    const auto found = outputs.find(prefix + part + what);
    if (found != outputs.end()) parts.push_back(at_least_float(found->second));
  }
  return at::cat(parts, 0);
}

/// Returns `family` with the sizes in `pairs` filled in.
Family sized(Family family, std::int64_t layers) {
  family.pairs.layers = layers;
  family.pairs.sets = family.logits.size(0);
  family.pairs.images = family.logits.size(1);
  family.pairs.queries = family.logits.size(2);
  family.pairs.classes = family.logits.size(3);
  return family;
}

Family dense_family(const Outputs& outputs) {
  return sized({.suffixes = {"_dense"},
                .logits = at_least_float(outputs.at("dense_logits")),
                .boxes = at_least_float(outputs.at("dense_boxes"))},
               0);
}

Family family(const Outputs& outputs, const std::string& prefix) {
  const std::int64_t layers = outputs.at(prefix + "logits").size(0);
  Family all = sized({.suffixes = {},
                      .logits = joined(outputs, prefix, "logits"),
                      .boxes = joined(outputs, prefix, "boxes"),
                      .corners = at_least_float(outputs.at(prefix + "corners")),
                      .refs = at_least_float(outputs.at(prefix + "refs"))},
                     layers);
  const bool denoising = !prefix.empty();
  for (std::int64_t i = 0; i < layers; ++i) {
    const bool last = i + 1 == layers;
    all.suffixes.push_back(denoising ? fmt::format("_dn_{}", i) : last ? "" : fmt::format("_aux_{}", i));
  }
  if (outputs.contains(prefix + "pre_logits")) all.suffixes.push_back(denoising ? "_dn_pre" : "_pre");
  if (outputs.contains(prefix + "enc_logits")) all.suffixes.push_back("_enc_0");
  if (denoising) all.pairs.weight = outputs.at("dn_weight").to(at::kFloat).contiguous();
  return all;
}

/// The predictions of all sets, set by set, [S * B * Q, X].
at::Tensor flat(const at::Tensor& tensor) { return tensor.reshape({-1, tensor.size(-1)}); }

/// Concatenates the families' tensors along `dim`; families without the tensor are skipped.
at::Tensor side_by_side(const std::vector<Family>& families, at::Tensor Family::*what, std::int64_t dim) {
  std::vector<at::Tensor> parts;
  for (const Family& one : families) {
    if ((one.*what).defined()) parts.push_back(one.*what);
  }
  return at::cat(parts, dim);
}

/// The constants for the ddf of a family.
struct Teaching {
  at::Tensor matched;  ///< [P, B * Q]
  at::Tensor others;   ///< [P, B * Q]
  at::Tensor shares;  ///< [5, P]: divisor and factor of the sum over matched predictions, divisor and factor of the sum
                      ///< over the others, and the divisor of both
};

at::Tensor shares_of(const TeachingMasks& masks, const std::optional<Balance>& balance, at::ScalarType type) {
  const auto numbers = [&](const auto& number, const std::vector<double>& counts) {
    std::vector<double> all;
    for (const double count : counts) all.push_back(number(count));
    return at::tensor(all, at::kDouble).to(type);
  };
  const auto at_least_one = [](double count) { return std::max(count, 1.0); };
  const auto weight = [&](double Balance::*part) {
    return [&balance, part](double count) { return balance ? (*balance).*part : std::sqrt(count); };
  };
  const at::Tensor matched = numbers(weight(&Balance::matched), masks.matched_count);
  const at::Tensor others = numbers(weight(&Balance::others), masks.other_count);
  return at::stack({numbers(at_least_one, masks.matched_count), matched, numbers(at_least_one, masks.other_count),
                    others, (matched + others).clamp_min(1)});
}

/// The constants of a batch, computed by the host and sent to the device.
struct Known {
  Rows rows;
  at::Tensor bins;
  at::Tensor factors;               ///< factor of each term
  at::Tensor divisors;              ///< divisor of each term
  std::vector<at::Tensor> weights;  ///< [B, Q] for each family; undefined means all 1
  std::vector<Teaching> teachings;  ///< constants of the families that have students
};

/// Computes all terms into one tensor: classes, L1 and overlaps of all sets, distributions of all layers, ddf of all
/// students, each in the order of the families.
class Losses {
 public:
  Losses(const std::vector<Family>& families, const CriterionOptions& options, const PaddedTargets& targets)
      : families_(families), options_(options), places_(places_of(pairs())), known_(send(targets)) {}

  std::vector<LossTerm> terms() const {
    const std::vector<at::Tensor> values = (sums() * known_.factors / known_.divisors).unbind(0);
    std::vector<LossTerm> terms;
    for (std::size_t i = 0; i < families_.size(); ++i) {
      for (std::int64_t set = 0; set < families_[i].sets(); ++set) {
        for (const auto& [name, at] : terms_of(i, set)) {
          terms.push_back({.name = name + families_[i].suffixes.at(static_cast<std::size_t>(set)),
                           .value = values[static_cast<std::size_t>(at)]});
        }
      }
    }
    return terms;
  }

 private:
  [[nodiscard]] std::vector<FamilyPairs> pairs() const {
    std::vector<FamilyPairs> all;
    for (const Family& one : families_) all.push_back(one.pairs);
    return all;
  }
  [[nodiscard]] at::TensorOptions numbers() const { return families_.front().logits.options(); }

  /// Returns the names of a set's terms, without its suffix, and their indices in sums().
  [[nodiscard]] std::vector<std::pair<std::string, std::int64_t>> terms_of(std::size_t family, std::int64_t set) const {
    const Place& first = places_[family];
    const std::int64_t sets = places_.back().set;
    std::vector<std::pair<std::string, std::int64_t>> terms = {{options_.classification, first.set + set},
                                                               {"bbox", sets + first.set + set},
                                                               {"giou", 2 * sets + first.set + set}};
    if (set < families_[family].layers()) terms.emplace_back("fgl", 3 * sets + first.layer + set);
    // Each earlier family has one layer that is not a student.
    const std::int64_t student = first.layer - static_cast<std::int64_t>(family) + set;
    if (set + 1 < families_[family].layers()) terms.emplace_back("ddf", 3 * sets + places_.back().layer + student);
    return terms;
  }

  [[nodiscard]] Known send(const PaddedTargets& targets) const;
  void put_scales(std::vector<double>& factors, std::vector<double>& divisors) const;
  [[nodiscard]] at::Tensor sums() const;
  [[nodiscard]] std::vector<at::Tensor> class_sums(const at::Tensor& iou) const;
  [[nodiscard]] std::vector<at::Tensor> class_losses(const at::Tensor& quality, const at::Tensor& positive) const;
  [[nodiscard]] at::Tensor fgl(const at::Tensor& corners, const at::Tensor& iou) const;
  [[nodiscard]] std::vector<at::Tensor> ddf(const at::Tensor& corners, const at::Tensor& iou) const;

  const std::vector<Family>& families_;
  const CriterionOptions& options_;
  std::vector<Place> places_;
  Known known_;
};

/// Appends the factor and the divisor of each term, in the order of sums().
void Losses::put_scales(std::vector<double>& factors, std::vector<double>& divisors) const {
  const auto put = [&](double factor, double divisor, std::int64_t times) {
    factors.insert(factors.end(), static_cast<std::size_t>(times), factor);
    divisors.insert(divisors.end(), static_cast<std::size_t>(times), divisor);
  };
  for (const Family& one : families_) put(options_.class_weight, one.class_divisor, one.sets());
  for (const Family& one : families_) put(options_.bbox_weight, one.box_divisor, one.sets());
  for (const Family& one : families_) put(options_.giou_weight, one.box_divisor, one.sets());
  for (const Family& one : families_) put(options_.fgl_weight, one.box_divisor, one.layers());
  for (const Family& one : families_) put(options_.ddf_weight, 1, std::max<std::int64_t>(one.layers() - 1, 0));
}

Known Losses::send(const PaddedTargets& targets) const {
  const at::ScalarType type = families_.front().logits.scalar_type();
  Known known{.rows = rows_of(pairs(), targets)};
  Rows& rows = known.rows;
  std::vector<double> factors;
  std::vector<double> divisors;
  put_scales(factors, divisors);
  const auto reg_max = families_.front().corners.size(-1) / 4 - 1;
  std::vector<at::Tensor> host = {
      rows.box,
      rows.logit,
      rows.corner,
      rows.ref,
      rows.sum,
      rows.object.to(type),
      rows.weight.to(type),
      bin_distances({.reg_max = reg_max, .reg_scale = options_.reg_scale, .up = options_.up}).to(type),
      at::tensor(factors, at::kDouble).to(type),
      at::tensor(divisors, at::kDouble).to(type)};
  for (const Family& one : families_) {
    if (one.pairs.weight.defined()) host.push_back(one.pairs.weight.to(type));
    if (one.layers() < 2) continue;
    const TeachingMasks masks = teaching_masks(one.pairs);
    host.insert(host.end(), {masks.matched.to(type), masks.others.to(type), shares_of(masks, one.balance, type)});
  }
  const std::vector<at::Tensor> there = sent(host, families_.front().logits.device());
  auto next = there.begin();
  for (at::Tensor* one : {&rows.box, &rows.logit, &rows.corner, &rows.ref, &rows.sum, &rows.object, &rows.weight,
                          &known.bins, &known.factors, &known.divisors}) {
    *one = *next++;
  }
  for (const Family& one : families_) {
    known.weights.push_back(one.pairs.weight.defined() ? *next++ : at::Tensor());
    if (one.layers() < 2) continue;
    Teaching teaching;
    for (at::Tensor* part : {&teaching.matched, &teaching.others, &teaching.shares}) *part = *next++;
    known.teachings.push_back(teaching);
  }
  return known;
}

at::Tensor Losses::sums() const {
  const Rows& rows = known_.rows;
  std::vector<at::Tensor> all_boxes;
  for (const Family& one : families_) all_boxes.push_back(flat(one.boxes));
  const at::Tensor boxes = at::cat(all_boxes);
  const at::Tensor predicted = boxes.index_select(0, rows.box);
  const Overlap both = overlap(to_corners(predicted, options_.as_published), to_corners(rows.object));
  const at::Tensor iou = both.iou.detach();
  const at::Tensor corners = side_by_side(families_, &Family::corners, 2);
  const at::Tensor values = at::cat({bbox_loss(predicted, rows.object), 1 - both.giou, fgl(corners, iou)});
  std::vector<at::Tensor> all = class_sums(iou);
  all.push_back(at::zeros({2 * places_.back().set + places_.back().layer}, values.options())
                    .index_add(0, rows.sum, values * rows.weight));
  for (const at::Tensor& one : ddf(corners, iou)) all.push_back(one);
  return at::cat(all);
}

/// Returns, for each family, the class loss of each set, summed over all predictions.
std::vector<at::Tensor> Losses::class_sums(const at::Tensor& iou) const {
  const Rows& rows = known_.rows;
  // One more element than there are logits: pairs that are excluded from the class loss write to it.
  const at::Tensor quality = at::zeros({places_.back().logit + 1}, numbers());
  const at::Tensor positive = at::zeros({places_.back().logit + 1}, numbers());
  quality.index_put_({rows.logit}, iou);
  positive.index_fill_(0, rows.logit, 1);
  const std::vector<at::Tensor> losses = class_losses(quality, positive);
  std::vector<at::Tensor> sums;
  for (std::size_t i = 0; i < families_.size(); ++i) {
    at::Tensor loss = losses[i].sum(-1);
    if (known_.weights[i].defined()) loss = loss * known_.weights[i];
    sums.push_back(loss.sum({1, 2}));
  }
  return sums;
}

/// The loss of each logit, by family. `quality` and `positive` hold all families' logits and one more element.
std::vector<at::Tensor> Losses::class_losses(const at::Tensor& quality, const at::Tensor& positive) const {
  const ClassLossOptions options{
      .matchability = options_.classification == "mal", .alpha = options_.alpha, .gamma = options_.gamma};
  const auto part = [&](const at::Tensor& values, std::size_t i) {
    const at::Tensor& logits = families_[i].logits;
    return values.narrow(0, places_[i].logit, logits.numel()).view(logits.sizes());
  };
  std::vector<at::Tensor> losses;
  if (quality.is_cpu()) {
    // On a CPU, pow() rounds differently at different positions in its vectors, so each family gets its own call.
    for (std::size_t i = 0; i < families_.size(); ++i) {
      losses.push_back(class_loss(families_[i].logits, part(quality, i), part(positive, i), options));
    }
    return losses;
  }
  std::vector<at::Tensor> flat_logits;
  for (const Family& one : families_) flat_logits.push_back(one.logits.flatten());
  const at::Tensor logits = at::cat(flat_logits);
  const std::int64_t count = logits.numel();
  const at::Tensor all = class_loss(logits, quality.narrow(0, 0, count), positive.narrow(0, 0, count), options);
  std::vector<std::int64_t> counts;
  for (const Family& one : families_) counts.push_back(one.logits.numel());
  const std::vector<at::Tensor> parts = all.split_with_sizes(counts);
  for (std::size_t i = 0; i < families_.size(); ++i) losses.push_back(parts[i].view(families_[i].logits.sizes()));
  return losses;
}

/// The fgl loss of each row of the decoder's layers.
at::Tensor Losses::fgl(const at::Tensor& corners, const at::Tensor& iou) const {
  const Rows& rows = known_.rows;
  const at::Tensor refs = flat(side_by_side(families_, &Family::refs, 1)).index_select(0, rows.ref);
  const SideBins sides = side_bins(refs, rows.object.narrow(0, 0, rows.layers), known_.bins, options_.reg_scale);
  return fgl_loss(flat(corners).index_select(0, rows.corner), sides, iou.narrow(0, 0, rows.layers));
}

/// The ddf loss of the decoder's layers except the last, which teaches the others. A matched prediction is weighted by
/// its IoU, any other prediction by the last layer's confidence in it. The means over matched and other predictions are
/// weighted by the balance, or by the square roots of the counts if there is none, so that the many others do not
/// dominate the few matched ones.
std::vector<at::Tensor> Losses::ddf(const at::Tensor& corners, const at::Tensor& iou) const {
  const Rows& rows = known_.rows;
  const std::int64_t students = corners.size(0) - 1;
  if (students == 0) return {};
  const at::Tensor loss = ddf_loss(corners.narrow(0, 0, students), corners[students], options_.temperature);
  std::vector<at::Tensor> sure;
  for (const Family& one : families_) {
    if (one.layers() > 0) sure.push_back(std::get<0>(one.logits[students].detach().sigmoid().max(-1)));
  }
  const at::Tensor weight = at::cat(sure, 1).expand(loss.sizes()).contiguous();
  weight.view({-1}).index_put_({rows.corner.narrow(0, 0, rows.students)}, iou.narrow(0, 0, rows.students));
  const at::Tensor weighted = loss * weight;
  std::vector<at::Tensor> all;
  for (std::size_t i = 0; i < known_.teachings.size(); ++i) {
    const Teaching& teaching = known_.teachings[i];
    const at::Tensor own =
        weighted.narrow(2, places_[i].query, families_[i].pairs.queries).reshape(teaching.matched.sizes());
    const at::Tensor matched_mean = (own * teaching.matched).sum(1) / teaching.shares[0];
    const at::Tensor other_mean = (own * teaching.others).sum(1) / teaching.shares[2];
    all.push_back((matched_mean * teaching.shares[1] + other_mean * teaching.shares[3]) / teaching.shares[4]);
  }
  return all;
}

/// The matches of denoising, which need no matching: each slot restores its own object.
Matches denoising_matches(const at::Tensor& index_BD) {
  const at::Tensor index = index_BD.contiguous();
  Matches matches(static_cast<std::size_t>(index.size(0)));
  const auto* objects = index.data_ptr<std::int64_t>();
  for (std::int64_t i = 0; i < index.numel(); ++i) {
    if (objects[i] < 0) continue;
    matches[static_cast<std::size_t>(i / index.size(1))].push_back({.query = i % index.size(1), .object = objects[i]});
  }
  return matches;
}

std::int64_t pair_count(const Matches& matches) {
  std::int64_t count = 0;
  for (const Pairs& pairs : matches) count += static_cast<std::int64_t>(pairs.size());
  return count;
}

Balance balance_of(const Matches& united, const Family& queries) {
  const auto matched = static_cast<double>(pair_count(united));
  const double others = static_cast<double>(queries.pairs.images * queries.pairs.queries) - matched;
  return {.matched = std::sqrt(matched), .others = std::sqrt(others)};
}

void check(const CriterionOptions& options) {
  if (options.classification == "mal" || options.classification == "vfl") return;
  throw UsageError(fmt::format("the classification loss is '{}'; it must be mal or vfl", options.classification));
}

/// The number of objects that the denoising slots restore, each counted by its weight.
float rebuilt_of(const Outputs& outputs) {
  if (!outputs.contains("dn_logits")) return 0;
  const at::Tensor sum = (outputs.at("dn_weight") * (outputs.at("dn_index") >= 0)).sum().to(at::kFloat);
  return *sum.data_ptr<float>();
}

/// The mean of each count over the replicas, but at least 1: boxes, united pairs, denoising boxes and dense positions.
std::vector<float> mean_counts(std::vector<float> counts, const Reduce& reduce) {
  counts.push_back(1);
  const at::Tensor all = at::tensor(counts);
  if (reduce) reduce(all);
  const at::Tensor means = (all / all[-1]).clamp_min(1);
  return {means.data_ptr<float>(), means.data_ptr<float>() + means.numel()};
}

}  // namespace

std::vector<LossTerm> criterion(const Outputs& outputs, const Targets& targets, const CriterionOptions& options,
                                const Reduce& reduce) {
  check(options);
  std::vector<Family> families = {family(outputs, "")};
  PaddedTargets padded = pad(targets, families[0].pairs.classes, families[0].logits.device());
  padded.boxes = padded.boxes.to(families[0].boxes.scalar_type());
  std::vector<std::string> names = families[0].suffixes;
  for (std::string& name : names) name = "predictions" + name;
  const std::vector<Matches> own = match(families[0].logits, families[0].boxes, padded, options.matcher, names);
  const Matches united = unite(own);
  const bool dense = outputs.contains("dense_logits");
  const Matches around = dense ? dense_matches(outputs.at("dense_sizes"), padded) : Matches();
  const std::vector<float> counts =
      mean_counts({static_cast<float>(padded.total()), static_cast<float>(pair_count(united)), rebuilt_of(outputs),
                   static_cast<float>(pair_count(around))},
                  reduce);

  const auto of_set = [&](std::int64_t set) -> const Matches& { return own[static_cast<std::size_t>(set)]; };
  const auto always = [](const Matches& matches) {
    return [&matches](std::int64_t) -> const Matches& { return matches; };
  };
  families[0].pairs.of_boxes = of_set;
  families[0].class_divisor = families[0].box_divisor = counts[0];
  if (options.union_matching) {
    families[0].pairs.of_classes = of_set;
    families[0].pairs.of_boxes = always(united);
    families[0].box_divisor = counts[1];
  }
  Matches known;
  if (outputs.contains("dn_logits")) {
    known = denoising_matches(outputs.at("dn_index"));
    Family& slots = families.emplace_back(family(outputs, "dn_"));
    slots.pairs.of_boxes = always(known);
    slots.class_divisor = slots.box_divisor = counts[2];
    if (options.as_published) slots.balance = balance_of(united, families[0]);
  }
  if (dense) {
    Family& positions = families.emplace_back(dense_family(outputs));
    positions.pairs.of_boxes = always(around);
    positions.class_divisor = positions.box_divisor = counts[3];
  }
  return Losses(families, options, padded).terms();
}

at::Tensor sum(const std::vector<LossTerm>& terms) {
  std::vector<at::Tensor> values;
  for (const LossTerm& term : terms) values.push_back(term.value);
  return at::stack(values).sum();
}

}  // namespace lockstep::detection
