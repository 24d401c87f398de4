// SPDX-License-Identifier: Apache-2.0
#include "detection/model/criterion.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <ATen/TensorOperators.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>

#include "detection/model/box.h"
#include "detection/model/dense.h"
#include "detection/model/losses.h"
#include "lockstep/base/error.h"

namespace lockstep::detection {
namespace {

/// Sets of predictions of the same shape: the decoder's layers first, then those that have boxes without distributions.
struct Family {
  std::vector<std::string> suffixes;  ///< suffixes of the sets' terms
  std::int64_t layers = 0;
  at::Tensor logits;   ///< [S, B, Q, C]
  at::Tensor boxes;    ///< [S, B, Q, 4]
  at::Tensor corners;  ///< [L, B, Q, 4 R]
  at::Tensor refs;     ///< [B, Q, 4]
  at::Tensor weight;   ///< [B, Q], or undefined: all 1

  [[nodiscard]] std::int64_t sets() const { return logits.size(0); }
  [[nodiscard]] std::int64_t queries() const { return logits.size(2); }
  [[nodiscard]] std::int64_t images() const { return logits.size(1); }
};

/// The matched predictions of a family, by set.
struct Rows {
  at::Tensor set;              ///< [M]
  at::Tensor flat;             ///< [M]: among all sets' predictions
  at::Tensor within;           ///< [M]: among one set's
  at::Tensor labels;           ///< [M]
  at::Tensor boxes;            ///< [M, 4]
  std::int64_t of_layers = 0;  ///< how many belong to decoder layers: they come first

  [[nodiscard]] Rows first(std::int64_t count) const {
    return {.set = set.narrow(0, 0, count),
            .flat = flat.narrow(0, 0, count),
            .within = within.narrow(0, 0, count),
            .labels = labels.narrow(0, 0, count),
            .boxes = boxes.narrow(0, 0, count),
            .of_layers = std::min(count, of_layers)};
  }
};

at::Tensor joined(const Outputs& outputs, const std::string& prefix, const std::string& what) {
  std::vector<at::Tensor> parts;
  for (const char* part : {"", "pre_", "enc_"}) {
    const auto found = outputs.find(prefix + part + what);
    if (found != outputs.end()) parts.push_back(at_least_float(found->second));
  }
  return at::cat(parts, 0);
}

Family dense_family(const Outputs& outputs) {
  return {.suffixes = {"_dense"},
          .logits = at_least_float(outputs.at("dense_logits")),
          .boxes = at_least_float(outputs.at("dense_boxes"))};
}

Family family(const Outputs& outputs, const std::string& prefix) {
  Family all{.layers = outputs.at(prefix + "logits").size(0),
             .logits = joined(outputs, prefix, "logits"),
             .boxes = joined(outputs, prefix, "boxes"),
             .corners = at_least_float(outputs.at(prefix + "corners")),
             .refs = at_least_float(outputs.at(prefix + "refs"))};
  const bool denoising = !prefix.empty();
  for (std::int64_t i = 0; i < all.layers; ++i) {
    const bool last = i + 1 == all.layers;
    all.suffixes.push_back(denoising ? fmt::format("_dn_{}", i) : last ? "" : fmt::format("_aux_{}", i));
  }
  if (outputs.contains(prefix + "pre_logits")) all.suffixes.push_back(denoising ? "_dn_pre" : "_pre");
  if (outputs.contains(prefix + "enc_logits")) all.suffixes.push_back("_enc_0");
  if (denoising) all.weight = outputs.at("dn_weight").to(all.logits.scalar_type());
  return all;
}

/// `matches_of(set)` are the pairs of a set.
template <class MatchesOf>
Rows rows_of(const Family& family, const PaddedTargets& targets, MatchesOf matches_of) {
  std::vector<std::int64_t> set_of;
  std::vector<std::int64_t> within;
  std::vector<std::int64_t> object;
  Rows rows;
  const std::int64_t stride = targets.labels.size(1);
  for (std::int64_t set = 0; set < family.sets(); ++set) {
    const Matches& matches = matches_of(static_cast<std::size_t>(set));
    for (std::size_t image = 0; image < matches.size(); ++image) {
      for (const Pair& pair : matches[image]) {
        set_of.push_back(set);
        within.push_back(static_cast<std::int64_t>(image) * family.queries() + pair.query);
        object.push_back(static_cast<std::int64_t>(image) * stride + pair.object);
      }
    }
    if (set + 1 == family.layers) rows.of_layers = static_cast<std::int64_t>(set_of.size());
  }
  const at::Device device = family.logits.device();
  const at::Tensor objects = at::tensor(object, at::kLong).to(device);
  rows.set = at::tensor(set_of, at::kLong).to(device);
  rows.within = at::tensor(within, at::kLong).to(device);
  rows.flat = rows.set * (family.images() * family.queries()) + rows.within;
  rows.labels = targets.labels.flatten().index_select(0, objects);
  rows.boxes = targets.boxes.flatten(0, 1).index_select(0, objects);
  return rows;
}

/// One set's predictions after another, [S * B * Q, X].
at::Tensor flat(const at::Tensor& of) { return of.reshape({-1, of.size(-1)}); }

/// How the ddf of a family weights the mean over its matched predictions and that over the others.
struct Balance {
  at::Tensor matched;  ///< root of a count
  at::Tensor others;
};

/// The losses of a family, [S] or as many sets as have the loss.
class FamilyLoss {
 public:
  FamilyLoss(const Family& of, const CriterionOptions& options) : family_(of), options_(options) {}

  /// The sum over all predictions of a set.
  [[nodiscard]] at::Tensor classes(const Rows& rows) const {
    const at::Tensor quality = at::zeros_like(family_.logits);
    const at::Tensor positive = at::zeros_like(family_.logits);
    const at::Tensor at_class = rows.flat * family_.logits.size(3) + rows.labels;
    quality.view({-1}).index_put_({at_class}, iou_of(rows));
    positive.view({-1}).index_fill_(0, at_class, 1);
    at::Tensor loss =
        class_loss(family_.logits, quality, positive,
                   {.matchability = options_.classification == "mal", .alpha = options_.alpha, .gamma = options_.gamma})
            .sum(-1);
    if (family_.weight.defined()) loss = loss * family_.weight;
    return loss.sum({1, 2});
  }

  struct Boxes {
    at::Tensor bbox;
    at::Tensor giou;
  };
  [[nodiscard]] Boxes boxes(const Rows& rows) const {
    const at::Tensor mine = flat(family_.boxes).index_select(0, rows.flat);
    const at::Tensor giou = overlap_of(mine, rows).giou;
    return {.bbox = by_set(bbox_loss(mine, rows.boxes), rows, family_.sets()),
            .giou = by_set(1 - giou, rows, family_.sets())};
  }

  /// Computes the loss of the decoder's layers.
  [[nodiscard]] at::Tensor fgl(const Rows& all) const {
    const Rows rows = all.first(all.of_layers);
    const std::int64_t reg_max = family_.corners.size(-1) / 4 - 1;
    const at::Tensor bins = bin_distances({.reg_max = reg_max, .reg_scale = options_.reg_scale, .up = options_.up})
                                .to(rows.boxes.device(), rows.boxes.scalar_type());
    const SideBins sides =
        side_bins(flat(family_.refs).index_select(0, rows.within), rows.boxes, bins, options_.reg_scale);
    const at::Tensor mine = flat(family_.corners).index_select(0, rows.flat);
    return by_set(fgl_loss(mine, sides, iou_of(rows)), rows, family_.layers);
  }

  /// Computes the loss of the decoder's layers except the last, which teaches the others. A prediction's weight is its
  /// IoU where it is matched, and else how sure the last layer is of it.
  [[nodiscard]] at::Tensor ddf(const Rows& all, const Balance& balance) const {
    const std::int64_t pupils = family_.layers - 1;
    const std::int64_t count = family_.images() * family_.queries();
    const Rows rows = all.first((all.set < pupils).sum().item<std::int64_t>());
    const at::Tensor teacher = family_.corners[pupils];
    const at::Tensor loss = ddf_loss(family_.corners.narrow(0, 0, pupils), teacher, options_.temperature).flatten(1);
    const at::Tensor sure = std::get<0>(family_.logits[pupils].detach().sigmoid().max(-1)).flatten();
    at::Tensor weight = sure.expand({pupils, count}).clone();
    weight.view({-1}).index_put_({rows.flat}, iou_of(rows));
    const at::Tensor matched = at::zeros_like(weight);
    matched.view({-1}).index_fill_(0, rows.flat, 1);
    at::Tensor there = at::ones_like(weight);
    if (family_.weight.defined()) there = (family_.weight.flatten() > 0).to(weight.scalar_type()).expand_as(weight);
    return balanced(loss * weight, matched * there, (1 - matched) * there, balance);
  }

 private:
  [[nodiscard]] Overlap overlap_of(const at::Tensor& mine, const Rows& rows) const {
    return overlap(to_corners(mine, options_.as_published), to_corners(rows.boxes));
  }

  [[nodiscard]] at::Tensor iou_of(const Rows& rows) const {
    const at::NoGradGuard guard;
    return overlap_of(flat(family_.boxes.detach()).index_select(0, rows.flat), rows).iou;
  }

  /// [M] to the sums of each set.
  [[nodiscard]] at::Tensor by_set(const at::Tensor& values, const Rows& rows, std::int64_t sets) const {
    at::Tensor sums = at::zeros({sets}, values.options());
    if (family_.weight.defined()) {
      return sums.index_add(0, rows.set, values * family_.weight.flatten().index_select(0, rows.within));
    }
    return sums.index_add(0, rows.set, values);
  }

  /// Mean over matched and mean over other predictions, by `balance`, else by the roots of how many there are, so that
  /// the many others do not drown the few.
  [[nodiscard]] static at::Tensor balanced(const at::Tensor& loss, const at::Tensor& matched, const at::Tensor& others,
                                           const Balance& balance) {
    const at::Tensor matched_count = matched.sum(1);
    const at::Tensor other_count = others.sum(1);
    const at::Tensor matched_mean = (loss * matched).sum(1) / matched_count.clamp_min(1);
    const at::Tensor other_mean = (loss * others).sum(1) / other_count.clamp_min(1);
    const bool given = balance.matched.defined();
    const at::Tensor a = given ? balance.matched : matched_count.sqrt();
    const at::Tensor b = given ? balance.others : other_count.sqrt();
    return (matched_mean * a + other_mean * b) / (a + b).clamp_min(1);
  }

  const Family& family_;
  const CriterionOptions& options_;
};

/// What sums over rows are divided by, and how means are weighted.
struct Divisors {
  at::Tensor classes;
  at::Tensor boxes;
  Balance balance = {};
};

std::vector<LossTerm> terms_of(const Family& family, const CriterionOptions& options, const Rows& for_class,
                               const Rows& for_box, const Divisors& by) {
  std::vector<LossTerm> terms;
  const FamilyLoss loss(family, options);
  const std::int64_t reg_max = family.corners.size(-1) / 4 - 1;
  const at::Tensor bins =
      bin_distances({.reg_max = reg_max, .reg_scale = options.reg_scale, .up = options.up}).to(family.logits.device());
  const FamilyLoss::Boxes boxes = loss.boxes(for_box);
  std::vector<std::pair<const char*, std::vector<at::Tensor>>> kinds;
  const auto add = [&](const char* name, const at::Tensor& values) { kinds.emplace_back(name, values.unbind(0)); };
  add(options.classification.c_str(), loss.classes(for_class) * options.class_weight / by.classes);
  add("bbox", boxes.bbox * options.bbox_weight / by.boxes);
  add("giou", boxes.giou * options.giou_weight / by.boxes);
  if (family.layers > 0) add("fgl", loss.fgl(for_box) * options.fgl_weight / by.boxes);
  if (family.layers > 1) add("ddf", loss.ddf(for_box, by.balance) * options.ddf_weight);
  for (std::size_t set = 0; set < family.suffixes.size(); ++set) {
    for (const auto& [name, values] : kinds) {
      if (set < values.size()) terms.push_back({.name = name + family.suffixes[set], .value = values[set]});
    }
  }
  return terms;
}

void append(std::vector<LossTerm>& terms, std::vector<LossTerm> more) {
  terms.insert(terms.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
}

/// What the slots of denoising are to rebuild is known.
Matches denoising_matches(const at::Tensor& index_BD) {
  const at::Tensor index = index_BD.cpu().contiguous();
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
  const double matched = static_cast<double>(pair_count(united));
  const double others = static_cast<double>(queries.images() * queries.queries()) - matched;
  const at::Tensor roots = at::tensor({std::sqrt(matched), std::sqrt(others)}, queries.logits.options());
  return {.matched = roots[0], .others = roots[1]};
}

void check(const CriterionOptions& options) {
  if (options.classification == "mal" || options.classification == "vfl") return;
  throw UsageError(fmt::format("the classification loss is '{}'; valid are mal and vfl", options.classification));
}

/// Means over the replicas, at least 1: boxes, united pairs, boxes of denoising, positions of dense supervision.
std::vector<at::Tensor> mean_counts(std::vector<float> counts, const at::Device& device, const Reduce& reduce) {
  counts.push_back(1);
  const at::Tensor all = at::tensor(counts);
  if (reduce) reduce(all);
  const at::Tensor means = (all / all[-1]).clamp_min(1).to(device);
  return means.unbind(0);
}

}  // namespace

std::vector<LossTerm> criterion(const Outputs& outputs, const Targets& targets, const CriterionOptions& options,
                                const Reduce& reduce) {
  check(options);
  const Family queries = family(outputs, "");
  const at::Device device = queries.logits.device();
  PaddedTargets padded = pad(targets, queries.logits.size(3), device);
  padded.boxes = padded.boxes.to(queries.boxes.scalar_type());
  std::vector<std::string> names = queries.suffixes;
  for (std::string& name : names) name = "predictions" + name;
  const std::vector<Matches> matches = match(queries.logits, queries.boxes, padded, options.matcher, names);
  const Matches united = unite(matches);
  const bool denoising = outputs.contains("dn_logits");
  const float rebuilt =
      denoising ? (outputs.at("dn_weight") * (outputs.at("dn_index").to(device) >= 0)).sum().item<float>() : 0.0F;
  const bool dense = outputs.contains("dense_logits");
  const Matches around = dense ? dense_matches(outputs.at("dense_sizes"), padded) : Matches();
  const auto counts = mean_counts({static_cast<float>(padded.total()), static_cast<float>(pair_count(united)), rebuilt,
                                   static_cast<float>(pair_count(around))},
                                  device, reduce);

  const Rows own = rows_of(queries, padded, [&](std::size_t set) -> const Matches& { return matches[set]; });
  const Rows shared = rows_of(queries, padded, [&](std::size_t) -> const Matches& { return united; });
  const bool unite_boxes = options.union_matching;
  std::vector<LossTerm> terms = terms_of(queries, options, own, unite_boxes ? shared : own,
                                         {.classes = counts[0], .boxes = unite_boxes ? counts[1] : counts[0]});
  if (denoising) {
    const Family slots = family(outputs, "dn_");
    const Matches known = denoising_matches(outputs.at("dn_index"));
    const Rows rows = rows_of(slots, padded, [&](std::size_t) -> const Matches& { return known; });
    append(terms, terms_of(slots, options, rows, rows,
                           {.classes = counts[2],
                            .boxes = counts[2],
                            .balance = options.as_published ? balance_of(united, queries) : Balance()}));
  }
  if (dense) {
    const Family positions = dense_family(outputs);
    const Rows rows = rows_of(positions, padded, [&](std::size_t) -> const Matches& { return around; });
    append(terms, terms_of(positions, options, rows, rows, {.classes = counts[3], .boxes = counts[3]}));
  }
  return terms;
}

at::Tensor sum(const std::vector<LossTerm>& terms) {
  std::vector<at::Tensor> values;
  for (const LossTerm& term : terms) values.push_back(term.value);
  return at::stack(values).sum();
}

}  // namespace lockstep::detection
