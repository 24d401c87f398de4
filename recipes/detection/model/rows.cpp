// SPDX-License-Identifier: Apache-2.0
#include "detection/model/rows.h"

#include <ATen/ops/ones.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include <algorithm>

namespace lockstep::detection {
namespace {

class Collector {
 public:
  Collector(const std::vector<FamilyPairs>& families, const PaddedTargets& targets)
      : families_(families), targets_(targets), places_(places_of(families)) {}

  Rows rows() {
    Rows rows;
    for (const FamilyPairs& one : families_) add_sets(one, 0, one.layers - 1);
    rows.students = count();
    for (const FamilyPairs& one : families_) add_sets(one, std::max<std::int64_t>(one.layers - 1, 0), one.layers);
    rows.layers = count();
    for (const FamilyPairs& one : families_) add_sets(one, one.layers, one.sets);
    for (const FamilyPairs& one : families_) add_classes(one);
    rows.box = at::tensor(box_, at::kLong);
    rows.object = at::tensor(object_, at::kFloat).view({-1, 4});
    rows.logit = at::tensor(logit_, at::kLong);
    rows.corner = at::tensor(corner_, at::kLong);
    rows.ref = at::tensor(ref_, at::kLong);
    put_sums(rows);
    return rows;
  }

 private:
  [[nodiscard]] std::int64_t count() const { return static_cast<std::int64_t>(box_.size()); }
  [[nodiscard]] const Place& place(const FamilyPairs& family) const {
    return places_[static_cast<std::size_t>(&family - families_.data())];
  }

  /// Calls `take(row, image, pair)` for each pair; `row` is the prediction's index within its set.
  template <class Take>
  static void each_pair(const FamilyPairs& family, const Matches& matches, const Take& take) {
    for (std::size_t image = 0; image < matches.size(); ++image) {
      for (const Pair& pair : matches[image]) {
        take(static_cast<std::int64_t>(image) * family.queries + pair.query, static_cast<std::int64_t>(image), pair);
      }
    }
  }

  void add(const FamilyPairs& family, std::int64_t row, std::int64_t object, bool learns_class) {
    const Place& first = place(family);
    const float* box = targets_.host_boxes.data_ptr<float>() + 4 * object;
    box_.push_back(first.box + row);
    object_.insert(object_.end(), box, box + 4);
    const std::int64_t label = targets_.host_labels.data_ptr<std::int64_t>()[object];
    logit_.push_back(learns_class ? first.logit + row * family.classes + label : places_.back().logit);
  }

  void add_sets(const FamilyPairs& family, std::int64_t begin, std::int64_t end) {
    const Place& first = place(family);
    const std::int64_t all_queries = places_.back().query;
    const std::int64_t stride = targets_.host_labels.size(1);
    for (std::int64_t set = begin; set < end; ++set) {
      each_pair(family, family.of_boxes(set), [&](std::int64_t row, std::int64_t image, const Pair& pair) {
        add(family, set * family.images * family.queries + row, image * stride + pair.object,
            family.of_classes == nullptr);
        set_.push_back(first.set + set);
        weight_.push_back(family.weight.defined() ? family.weight.data_ptr<float>()[row] : 1);
        if (set >= family.layers) return;
        ref_.push_back(image * all_queries + first.query + pair.query);
        corner_.push_back(set * family.images * all_queries + ref_.back());
        layer_.push_back(first.layer + set);
      });
    }
  }

  void add_classes(const FamilyPairs& family) {
    if (family.of_classes == nullptr) return;
    const std::int64_t stride = targets_.host_labels.size(1);
    for (std::int64_t set = 0; set < family.sets; ++set) {
      each_pair(family, family.of_classes(set), [&](std::int64_t row, std::int64_t image, const Pair& pair) {
        add(family, set * family.images * family.queries + row, image * stride + pair.object, true);
        set_.push_back(place(family).set + set);
        weight_.push_back(0);
      });
    }
  }

  void put_sums(Rows& rows) const {
    const std::int64_t sets = places_.back().set;
    std::vector<std::int64_t> sum = set_;
    for (const std::int64_t set : set_) sum.push_back(sets + set);
    for (const std::int64_t layer : layer_) sum.push_back(2 * sets + layer);
    std::vector<float> weight = weight_;
    weight.insert(weight.end(), weight_.begin(), weight_.end());
    weight.insert(weight.end(), weight_.begin(), weight_.begin() + static_cast<std::ptrdiff_t>(layer_.size()));
    rows.sum = at::tensor(sum, at::kLong);
    rows.weight = at::tensor(weight, at::kFloat);
  }

  const std::vector<FamilyPairs>& families_;
  const PaddedTargets& targets_;
  std::vector<Place> places_;
  std::vector<std::int64_t> box_;
  std::vector<float> object_;
  std::vector<std::int64_t> logit_;
  std::vector<std::int64_t> corner_;
  std::vector<std::int64_t> ref_;
  std::vector<std::int64_t> set_;
  std::vector<std::int64_t> layer_;
  std::vector<float> weight_;
};

}  // namespace

std::vector<Place> places_of(const std::vector<FamilyPairs>& families) {
  std::vector<Place> places = {{}};
  for (const FamilyPairs& one : families) {
    Place next = places.back();
    next.box += one.sets * one.images * one.queries;
    next.logit += one.sets * one.images * one.queries * one.classes;
    next.query += one.layers > 0 ? one.queries : 0;
    next.set += one.sets;
    next.layer += one.layers;
    places.push_back(next);
  }
  return places;
}

Rows rows_of(const std::vector<FamilyPairs>& families, const PaddedTargets& targets) {
  return Collector(families, targets).rows();
}

TeachingMasks teaching_masks(const FamilyPairs& family) {
  const std::int64_t students = family.layers - 1;
  const std::int64_t count = family.images * family.queries;
  TeachingMasks masks{.matched = at::zeros({students, count}), .others = at::zeros({students, count})};
  for (std::int64_t set = 0; set < students; ++set) {
    float* matched = masks.matched.data_ptr<float>() + set * count;
    float* others = masks.others.data_ptr<float>() + set * count;
    const Matches& matches = family.of_boxes(set);
    for (std::size_t image = 0; image < matches.size(); ++image) {
      for (const Pair& pair : matches[image])
        matched[static_cast<std::int64_t>(image) * family.queries + pair.query] = 1;
    }
    for (std::int64_t i = 0; i < count; ++i) {
      const bool there = !family.weight.defined() || family.weight.data_ptr<float>()[i] > 0;
      others[i] = there && matched[i] == 0 ? 1.0F : 0.0F;
      if (!there) matched[i] = 0;
    }
    masks.matched_count.push_back(std::count(matched, matched + count, 1.0F));
    masks.other_count.push_back(std::count(others, others + count, 1.0F));
  }
  return masks;
}

}  // namespace lockstep::detection
