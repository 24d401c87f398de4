// SPDX-License-Identifier: Apache-2.0
// The background, shapes and noise of a scene.
#include "segmentation/synthetic/scene.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

#include "common/sketch.h"

namespace lockstep::segmentation {
namespace {

using Sketch = common::Sketch<double>;
using Tint = Sketch::Tint;

double tint_distance(const Tint& a, const Tint& b) {
  double sum = 0;
  for (std::size_t i = 0; i < 3; ++i) sum += (a[i] - b[i]) * (a[i] - b[i]);
  return std::sqrt(sum);
}

/// A colour that can be distinguished from `other`.
Tint tint_apart(const Tint& other, double least, SampleRandom& random) {
  Tint tint = Sketch::random_tint(random);
  for (int tries = 0; tries < 40 && tint_distance(tint, other) < least; ++tries) tint = Sketch::random_tint(random);
  return tint;
}

/// An object of one of kSceneClasses.
struct Figure {
  std::uint8_t kind = 1;
  double x = 0;
  double y = 0;
  double radius = 0;
  double cosine = 1;
  double sine = 0;
  Tint fill{};
  Tint mark{};
  double period = 8;  ///< period of the pattern in pixels

  [[nodiscard]] bool holds(double u, double v) const {
    const double from_middle = std::hypot(u, v);
    switch (kind) {
      case 1:
        return from_middle <= radius;
      case 2:
        return std::max(std::abs(u), std::abs(v)) <= 0.82 * radius;
      case 3:
        return v <= 0.55 * radius && v >= std::sqrt(3.0) * std::abs(u) - 1.1 * radius;
      default:
        return from_middle <= radius && from_middle >= 0.5 * radius;
    }
  }
  /// 1 if the pattern has its second colour here, otherwise 0; shadings also have values in between.
  [[nodiscard]] double share_of_mark(double u, double v) const {
    const auto cell = [&](double at) { return at / period - std::floor(at / period); };
    switch (kind) {
      case 1:
        return std::hypot(cell(u) - 0.5, cell(v) - 0.5) < 0.3 ? 1.0 : 0.0;
      case 2:
        return cell(v) < 0.5 ? 1.0 : 0.0;
      case 3:
        return (cell(u) < 0.5) == (cell(v) < 0.5) ? 1.0 : 0.0;
      default:
        return 0.5 + 0.5 * u / radius;
    }
  }
};

Figure random_figure(ImageSize size, const Tint& ground, SampleRandom& random) {
  const auto width = static_cast<double>(size.width);
  const auto height = static_cast<double>(size.height);
  Figure figure;
  figure.kind = static_cast<std::uint8_t>(1 + random.below(kSceneClasses.size() - 1));
  figure.x = random.uniform(0.08, 0.92) * width;
  figure.y = random.uniform(0.08, 0.92) * height;
  figure.radius = 0.5 * random.uniform(0.15, 0.45) * std::min(width, height);
  const double angle = random.uniform(0.0, 2.0 * std::numbers::pi);
  figure.cosine = std::cos(angle);
  figure.sine = std::sin(angle);
  figure.fill = tint_apart(ground, 90, random);
  figure.mark = tint_apart(figure.fill, 70, random);
  figure.period = random.uniform(5.0, 9.0);
  return figure;
}

constexpr std::array<Tint, kSceneClasses.size()> kTintOfFew = {
    {{40, 40, 40}, {215, 70, 70}, {70, 190, 70}, {80, 110, 225}, {225, 215, 80}}};

/// A large figure in a lighter or darker tint of its class's colour.
Figure easy_figure(ImageSize size, SampleRandom& random) {
  Figure figure = random_figure(size, kTintOfFew[0], random);
  figure.radius = 0.5 * random.uniform(0.35, 0.55) * static_cast<double>(std::min(size.width, size.height));
  const double light = random.uniform(-30.0, 30.0);
  for (std::size_t i = 0; i < 3; ++i) figure.fill[i] = kTintOfFew.at(figure.kind)[i] + light;
  for (std::size_t i = 0; i < 3; ++i) figure.mark[i] = figure.fill[i] - 25;
  return figure;
}

/// The image under construction and its mask.
class ScenePainter : public Sketch {
 public:
  explicit ScenePainter(ImageSize size) : Sketch(size), mask_{size, 1, std::vector<std::uint8_t>(tints().size())} {}

  void paint_plain(const Tint& ground) { std::ranges::fill(tints(), ground); }

  /// Paints a gradient between two colours, with soft patches of other colours.
  void paint_ground(const Tint& ground, SampleRandom& random) {
    const Tint other = tint_apart(ground, 30, random);
    struct Patch {
      double x, y, radius;
      Tint tint;
    };
    std::vector<Patch> patches;
    for (int i = 0; i < 4; ++i) {
      patches.push_back({random.uniform(0.0, static_cast<double>(size().width)),
                         random.uniform(0.0, static_cast<double>(size().height)),
                         random.uniform(0.1, 0.3) * static_cast<double>(size().width), random_tint(random)});
    }
    for (std::int64_t y = 0; y < size().height; ++y) {
      for (std::int64_t x = 0; x < size().width; ++x) {
        Tint tint =
            mixed(ground, other, 0.4 * static_cast<double>(x + y) / static_cast<double>(size().width + size().height));
        for (const Patch& patch : patches) {
          const double far =
              std::hypot(static_cast<double>(x) - patch.x, static_cast<double>(y) - patch.y) / patch.radius;
          if (far < 2.0) tint = mixed(tint, patch.tint, 0.3 * std::exp(-far * far));
        }
        at(x, y) = tint;
      }
    }
  }

  void paint(const Figure& figure) {
    each_near(figure.x, figure.y, 1.3 * figure.radius, [&](std::size_t at, double dx, double dy) {
      const double u = figure.cosine * dx + figure.sine * dy;
      const double v = figure.cosine * dy - figure.sine * dx;
      if (!figure.holds(u, v)) return;
      tints()[at] = mixed(figure.fill, figure.mark, figure.share_of_mark(u, v));
      mask_.pixels[at] = figure.kind;
    });
  }

  Scene done(double noise, SampleRandom& random) {
    add_noise(noise, random);
    return {rounded(), std::move(mask_)};
  }

 private:
  static Tint mixed(const Tint& a, const Tint& b, double share) {
    return {std::lerp(a[0], b[0], share), std::lerp(a[1], b[1], share), std::lerp(a[2], b[2], share)};
  }

  Image mask_;
};

}  // namespace

Scene make_scene(std::uint64_t seed, std::int64_t index, ImageSize size, SceneObjects objects) {
  common::require_scene_size(size);
  SampleRandom random(seed, 0, static_cast<std::uint64_t>(index));
  ScenePainter painter(size);
  if (objects == SceneObjects::kFew) {
    const double grey = random.uniform(20.0, 60.0);
    painter.paint_plain({grey, grey, grey});
    for (std::int64_t left = random.between(1, 3); left > 0; --left) painter.paint(easy_figure(size, random));
    return painter.done(8.0, random);
  }
  const Tint ground = Sketch::random_tint(random);
  painter.paint_ground(ground, random);
  const std::int64_t count = random.between(2, 6);
  for (std::int64_t i = 0; i < count; ++i) painter.paint(random_figure(size, ground, random));
  return painter.done(random.uniform(8.0, 30.0), random);
}

}  // namespace lockstep::segmentation
