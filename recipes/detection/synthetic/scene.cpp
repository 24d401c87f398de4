// SPDX-License-Identifier: Apache-2.0
// Places the objects of a scene and paints them over each other. A map of the topmost object at each pixel determines
// the positions available to objects.
#include "detection/synthetic/scene.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <optional>

#include "detection/synthetic/scene_paint.h"
#include "lockstep/base/error.h"
#include "lockstep/base/text.h"

namespace lockstep::detection {
namespace {

constexpr double kEmpty = 0.1;          // fraction of scenes without objects
constexpr double kWithCrowd = 1.0 / 6;  // fraction of the other scenes that have a crowd
constexpr double kLeastShare = 0.001;   // minimum fraction of the image for an object
constexpr double kMostShare = 0.2;      // maximum fraction
constexpr double kLeastArea = 26;       // pixels: smaller objects cannot be distinguished
constexpr double kBudget = 0.45;        // fraction of the image that all objects together may cover
constexpr double kOverlap = 0.36;       // fraction of objects meant to cover another object; some cannot be placed
constexpr double kLeastVisible = 0.5;   // fraction of an object that must be visible
constexpr double kLeastHidden = 0.06;   // minimum covered fraction for an object to count as covered
constexpr double kMargin = 1.5;         // pixels between objects that do not overlap
constexpr double kStandOut = 90;        // minimum distance between colours
constexpr double kStandOutSmall = 120;  // minimum distance between colours for objects of fewer than kSmall pixels
constexpr double kSmall = 120;          // pixels
constexpr double kLeastLined = 150;     // area in pixels below which objects have no outline
constexpr double kLeastHollow = 350;    // area in pixels below which objects are not hollow
constexpr int kTries = 60;              // attempts to place an object
constexpr double kLeastOfFew = 0.05;    // minimum fraction of the image for an object of kFew
constexpr double kMostOfFew = 0.15;     // maximum fraction
constexpr std::size_t kKindsOfFew = 3;  // number of kinds in kFew (the first kinds)

struct Placed {
  Outline outline;
  Paint paint;
  SceneObject object;
  std::int64_t pixels = 0;  // pixels that it covers at least half of
  std::int64_t hidden = 0;
  bool in_crowd = false;
};

Shape any_shape(double area, std::size_t kinds, SampleRandom& random) {
  Shape shape;
  shape.kind = static_cast<ShapeKind>(random.below(kinds));
  shape.area = area;
  shape.degrees = random.uniform(0, 360);
  shape.stretch = std::exp(random.uniform(-0.15, 0.15));
  return shape;
}

class Layout {
 public:
  Layout(ImageSize size, SceneObjects objects, SampleRandom& random)
      : canvas_(size),
        plain_(objects == SceneObjects::kFew),
        random_(random),
        owner_(static_cast<std::size_t>(size.width * size.height), kNobody),
        ground_(canvas_.paint_ground(random)) {}

  void add_crowd();
  void add_objects(std::int64_t count);
  void add_few();
  Scene finish();

 private:
  static constexpr std::int16_t kNobody = -1;
  enum class Which { kAll, kOwned };

  [[nodiscard]] std::vector<double> draw_areas(std::int64_t count);
  [[nodiscard]] Paint any_paint(const Shape& shape, std::optional<std::size_t> over);
  [[nodiscard]] bool is_inside(const Extent& extent) const;
  [[nodiscard]] bool is_free(const Outline& outline) const;
  [[nodiscard]] bool covers_well(const Outline& outline, std::size_t target) const;
  [[nodiscard]] std::optional<Outline> find_free(Shape& shape);
  [[nodiscard]] std::optional<Outline> find_over(Shape& shape, std::size_t target);
  [[nodiscard]] std::optional<std::size_t> choose_target(double area);
  void add_object(double area);
  void place(const Shape& shape, Outline outline, std::optional<std::size_t> over);
  template <class Visit>
  void each_pixel(Which which, const Outline& outline, double reach, const Visit& visit) const;

  ScenePixels canvas_;
  bool plain_;  // draw no lines and no hollow shapes
  const double pixels_ = static_cast<double>(canvas_.size().width * canvas_.size().height);
  SampleRandom& random_;
  std::vector<std::int16_t> owner_;  // index of the topmost object at each pixel
  std::array<Ink, 2> ground_;
  std::vector<Placed> placed_;
  std::vector<SceneObject> crowds_;
};

/// Calls visit(index in owner_) for the pixels up to `reach` away from the outline, until it returns false. kOwned
/// skips pixels without an object before the distance is computed, since that takes most of the time for a scene.
template <class Visit>
void Layout::each_pixel(Which which, const Outline& outline, double reach, const Visit& visit) const {
  const Extent& extent = outline.extent();
  const auto low = [&](double value) { return std::max<std::int64_t>(static_cast<std::int64_t>(value - reach), 0); };
  const auto high = [&](double value, std::int64_t end) {
    return std::min(static_cast<std::int64_t>(std::ceil(value + reach)), end);
  };
  for (std::int64_t y = low(extent.y1); y < high(extent.y2, canvas_.size().height); ++y) {
    for (std::int64_t x = low(extent.x1); x < high(extent.x2, canvas_.size().width); ++x) {
      const auto at = static_cast<std::size_t>(y * canvas_.size().width + x);
      if (which == Which::kOwned && owner_[at] == kNobody) continue;
      const double distance = outline.distance(static_cast<double>(x) + 0.5, static_cast<double>(y) + 0.5);
      if (distance <= reach && !visit(at)) return;
    }
  }
}

std::vector<double> Layout::draw_areas(std::int64_t count) {
  const double least = std::max(kLeastShare * pixels_, kLeastArea);
  double left = kBudget * pixels_;
  std::vector<double> areas;
  for (std::int64_t i = 0; i < count; ++i) {
    const double most = std::max(std::min(kMostShare * pixels_, left / 2), 2 * least);
    areas.push_back(least * std::pow(most / least, std::pow(random_.uniform(), 0.8)));
    left -= areas.back();
  }
  // Large objects tend to be placed first, but not always, so that sometimes a larger object covers a smaller one.
  std::vector<std::pair<double, double>> keyed;
  for (const double area : areas) keyed.emplace_back(area * std::exp(random_.uniform(-1.2, 1.2)), area);
  std::ranges::sort(keyed, std::greater<>());
  std::ranges::transform(keyed, areas.begin(), [](const auto& pair) { return pair.second; });
  return areas;
}

Paint Layout::any_paint(const Shape& shape, std::optional<std::size_t> over) {
  std::vector<Ink> below(ground_.begin(), ground_.end());
  if (over) {
    const Paint& other = placed_[*over].paint;
    below.push_back(other.fill);
    if (other.edge) below.push_back(*other.edge);
  }
  Paint paint;
  paint.fill = ink_apart_from(below, shape.area < kSmall ? kStandOutSmall : kStandOut, random_);
  const double side = std::sqrt(shape.area);
  paint.shade_x = random_.uniform(-20, 20) / side;
  paint.shade_y = random_.uniform(-20, 20) / side;
  if (plain_) return paint;
  // A hollow circle would look like a ring.
  const bool round = shape.kind == ShapeKind::kCircle || shape.kind == ShapeKind::kRing;
  if (!round && shape.area >= kLeastHollow && random_.chance(0.3)) {
    paint.hollow = true;
    paint.edge_width = std::max(1.8, side * random_.uniform(0.07, 0.11));
  } else if (shape.kind != ShapeKind::kRing && shape.area >= kLeastLined && random_.chance(0.35)) {
    paint.edge = ink_apart_from(below, kStandOut, random_);
    paint.edge_width = std::max(1.0, side * random_.uniform(0.05, 0.09));
  }
  return paint;
}

bool Layout::is_inside(const Extent& extent) const {
  return extent.x1 >= 1 && extent.y1 >= 1 && extent.x2 <= static_cast<double>(canvas_.size().width - 1) &&
         extent.y2 <= static_cast<double>(canvas_.size().height - 1);
}

bool Layout::is_free(const Outline& outline) const {
  bool free = true;
  each_pixel(Which::kOwned, outline, kMargin, [&](std::size_t /*at*/) { return free = false; });
  return free;
}

bool Layout::covers_well(const Outline& outline, std::size_t target) const {
  bool alone = true;
  std::int64_t hidden = 0;
  each_pixel(Which::kOwned, outline, 0, [&](std::size_t at) {
    ++hidden;
    return alone = owner_[at] == static_cast<std::int16_t>(target);
  });
  const double share = static_cast<double>(hidden) / static_cast<double>(placed_[target].pixels);
  return alone && share >= kLeastHidden && share <= 1 - kLeastVisible;
}

std::optional<Outline> Layout::find_free(Shape& shape) {
  for (int i = 0; i < kTries; ++i) {
    shape.x = random_.uniform(0, static_cast<double>(canvas_.size().width));
    shape.y = random_.uniform(0, static_cast<double>(canvas_.size().height));
    Outline outline(shape);
    if (is_inside(outline.extent()) && is_free(outline)) return outline;
  }
  return std::nullopt;
}

std::optional<Outline> Layout::find_over(Shape& shape, std::size_t target) {
  const Extent& below = placed_[target].outline.extent();
  const double reach = (std::hypot(below.x2 - below.x1, below.y2 - below.y1) + 2 * std::sqrt(shape.area)) / 2;
  for (int i = 0; i < kTries; ++i) {
    const double angle = random_.uniform(0, 2 * std::numbers::pi);
    const double away = random_.uniform(0.1, 1) * reach;
    shape.x = (below.x1 + below.x2) / 2 + away * std::cos(angle);
    shape.y = (below.y1 + below.y2) / 2 + away * std::sin(angle);
    Outline outline(shape);
    if (is_inside(outline.extent()) && covers_well(outline, target)) return outline;
  }
  return std::nullopt;
}

std::optional<std::size_t> Layout::choose_target(double area) {
  std::vector<std::size_t> targets;
  for (std::size_t i = 0; i < placed_.size(); ++i) {
    const bool fits = placed_[i].pixels >= 2 * static_cast<std::int64_t>(kLeastArea) &&
                      area <= 4 * static_cast<double>(placed_[i].pixels);
    if (!placed_[i].in_crowd && placed_[i].hidden == 0 && fits) targets.push_back(i);
  }
  if (targets.empty()) return std::nullopt;
  return targets[random_.below(targets.size())];
}

void Layout::place(const Shape& shape, Outline outline, std::optional<std::size_t> over) {
  const auto index = static_cast<std::int16_t>(placed_.size());
  Placed placed{.outline = std::move(outline), .paint = any_paint(shape, over), .object = {.kind = shape.kind}};
  each_pixel(Which::kAll, placed.outline, 0, [&](std::size_t at) {
    if (owner_[at] != kNobody) ++placed_[static_cast<std::size_t>(owner_[at])].hidden;
    owner_[at] = index;
    ++placed.pixels;
    return true;
  });
  canvas_.paint(placed.outline, placed.paint);
  placed.object.box = placed.outline.extent();
  placed.object.area = covered_area(placed.outline, placed.paint);
  placed_.push_back(std::move(placed));
}

void Layout::add_object(double area) {
  Shape shape = any_shape(area, kShapeNames.size(), random_);
  if (random_.chance(kOverlap)) {
    const auto target = choose_target(area);
    auto outline = target ? find_over(shape, *target) : std::nullopt;
    if (outline) return place(shape, *std::move(outline), target);
  }
  const double least = std::max(kLeastShare * pixels_, kLeastArea);
  for (auto outline = find_free(shape);; outline = find_free(shape)) {
    if (outline) return place(shape, *std::move(outline), std::nullopt);
    if (shape.area == least) return;
    shape.area = std::max(shape.area / 2, least);
  }
}

void Layout::add_objects(std::int64_t count) {
  for (const double area : draw_areas(count)) add_object(area);
}

void Layout::add_few() {
  for (std::int64_t left = random_.between(1, 3); left > 0; --left) {
    Shape shape = any_shape(random_.uniform(kLeastOfFew, kMostOfFew) * pixels_, kKindsOfFew, random_);
    if (auto outline = find_free(shape)) place(shape, *std::move(outline), std::nullopt);
  }
}

void Layout::add_crowd() {
  const double side = random_.uniform(24, 40);
  const double x = random_.uniform(2, static_cast<double>(canvas_.size().width) - side - 2);
  const double y = random_.uniform(2, static_cast<double>(canvas_.size().height) - side - 2);
  const auto kind = static_cast<ShapeKind>(random_.below(kShapeNames.size()));
  const std::int64_t members = random_.between(8, 14);
  constexpr double kFar = 1e9;
  SceneObject crowd{.kind = kind, .box = {kFar, kFar, -kFar, -kFar}, .crowd = true};
  for (std::int64_t i = 0; i < members; ++i) {
    Shape shape = any_shape(random_.uniform(kLeastArea, 2 * kLeastArea), kShapeNames.size(), random_);
    shape.kind = kind;
    shape.x = x + random_.uniform(0.1, 0.9) * side;
    shape.y = y + random_.uniform(0.1, 0.9) * side;
    Outline outline(shape);
    if (!is_inside(outline.extent())) continue;
    const Extent box = outline.extent();
    crowd.box = {std::min(crowd.box.x1, box.x1), std::min(crowd.box.y1, box.y1), std::max(crowd.box.x2, box.x2),
                 std::max(crowd.box.y2, box.y2)};
    place(shape, std::move(outline), std::nullopt);
    placed_.back().in_crowd = true;
  }
  for (const Placed& member : placed_) crowd.area += static_cast<double>(member.pixels - member.hidden);
  crowds_.push_back(crowd);
}

Scene Layout::finish() {
  std::vector<SceneObject> objects = std::move(crowds_);
  for (Placed& placed : placed_) {
    if (placed.in_crowd) continue;
    placed.object.visible = 1 - static_cast<double>(placed.hidden) / static_cast<double>(placed.pixels);
    objects.push_back(placed.object);
  }
  canvas_.add_normal_noise(random_.uniform(1, 6), random_);
  return {.width = canvas_.size().width,
          .height = canvas_.size().height,
          .pixels = canvas_.rounded().pixels,
          .objects = std::move(objects)};
}

}  // namespace

SceneObjects parse_scene_objects(const std::string& name) {
  if (name == "many") return SceneObjects::kMany;
  if (name == "few") return SceneObjects::kFew;
  throw UsageError(
      fmt::format("scenes have few or many objects, not '{}'{}", name, text::did_you_mean(name, {"few", "many"})));
}

std::span<const std::string_view> kinds_in(SceneObjects objects) noexcept {
  const std::span<const std::string_view> all(kShapeNames);
  return objects == SceneObjects::kFew ? all.first(kKindsOfFew) : all;
}

Scene make_scene(std::int64_t width, std::int64_t height, SceneObjects objects, SampleRandom& random) {
  Layout layout({width, height}, objects, random);
  if (objects == SceneObjects::kFew) {
    layout.add_few();
    return layout.finish();
  }
  if (random.chance(kEmpty)) return layout.finish();
  std::int64_t count = random.between(5, 30);
  if (random.chance(kWithCrowd)) {
    layout.add_crowd();
    --count;
  }
  layout.add_objects(count);
  return layout.finish();
}

}  // namespace lockstep::detection
