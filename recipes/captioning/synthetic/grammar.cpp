// SPDX-License-Identifier: Apache-2.0
// A speaker has habits (which synonyms to use, whether to mention sizes), chooses a sentence form, and fills it in.
#include "captioning/synthetic/scene.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <string_view>

#include "lockstep/data/sample_random.h"

namespace lockstep::captioning {
namespace {

constexpr std::array<std::string_view, kShapeColors> kColorWords{"red",    "green",  "blue", "yellow",
                                                                 "orange", "purple", "white"};
constexpr std::array<std::string_view, kGroundColors> kGroundWords{"black", "gray", "brown", "pink"};
constexpr std::array<std::string_view, 5> kNumberWords{"no", "one", "two", "three", "four"};
constexpr std::int64_t kLeastWords = 4;
constexpr std::int64_t kMostWords = 14;
constexpr int kTries = 40;

/// The shapes that one phrase names: a single one, or a pair.
struct Thing {
  std::vector<const SceneShape*> shapes;

  [[nodiscard]] const SceneShape& first() const { return *shapes.front(); }
  [[nodiscard]] bool single() const { return shapes.size() == 1; }
};

std::vector<Thing> things_of(const Scene& scene) {
  std::vector<Thing> things;
  for (const SceneShape& shape : scene.shapes) {
    const auto same = std::ranges::find_if(things, [&](const Thing& thing) {
      return thing.first().kind == shape.kind && thing.first().color == shape.color;
    });
    if (same == things.end()) {
      things.push_back({{&shape}});
    } else {
      same->shapes.push_back(&shape);
    }
  }
  return things;
}

/// Returns -1 if all shapes of `a` are before all of `b` along an axis, 1 if they are after, otherwise 0.
int order_along(const Thing& a, const Thing& b, std::int64_t SceneShape::*axis) {
  int order = 2;
  for (const SceneShape* one : a.shapes) {
    for (const SceneShape* other : b.shapes) {
      const std::int64_t gap = one->*axis - other->*axis;
      const int sign = gap < 0 ? -1 : (gap > 0 ? 1 : 0);
      if (order != 2 && order != sign) return 0;
      order = sign;
    }
  }
  return order;
}

bool are_neighbours(const Thing& a, const Thing& b) {
  return a.single() && b.single() && a.first().row == b.first().row &&
         std::abs(a.first().column - b.first().column) == 1;
}

std::int64_t words_in(const std::string& text) { return 1 + std::ranges::count(text, ' '); }

class Speaker {
 public:
  Speaker(const Scene& scene, const std::vector<Thing>& things, SampleRandom& random)
      : scene_(scene), things_(things), random_(random) {}

  std::string say() {
    choose_things();
    const double form = random_.uniform();
    if (form < 0.5) return say_relation();
    if (form < 0.65) return say_list();
    if (form < 0.83) return say_places();
    return say_number();
  }

 private:
  /// "a red circle above a blue square with a green star in the corner"
  std::string say_relation() {
    const std::string relation = relation_of(*one_, *two_);
    if (relation.empty()) return say_list();
    const std::string middle = relation + " " + phrase(*two_);
    std::string text;
    const double form = random_.uniform();
    if (form < 0.1) {
      text = middle + be(*one_) + phrase(*one_);
    } else if (form < 0.5) {
      text = phrase(*one_) + be(*one_) + middle;
    } else if (form < 0.7) {
      text = "there" + be(*one_) + phrase(*one_) + " " + middle;
    } else {
      text = phrase(*one_) + " " + middle;
    }
    if (three_ != nullptr && random_.chance(0.4)) return text + third();
    return text + maybe_ground(0.15);
  }

  std::string third() {
    std::string text = (random_.chance(0.5) ? " with " : " and ") + phrase(*three_);
    if (three_->single() && random_.chance(0.5)) text += " " + place(three_->first());
    return text;
  }

  std::string say_list() {
    std::string text = phrase(*one_);
    if (three_ != nullptr && random_.chance(0.75))
      text += ", " + phrase(*two_) + " and " + phrase(*three_);
    else
      text += " and " + phrase(*two_);
    if (random_.chance(0.3)) text = "there" + be(*one_) + text;
    return text + maybe_ground(0.3);
  }

  std::string say_places() {
    if (!one_->single()) return say_list();
    std::string text = phrase(*one_) + (random_.chance(0.4) ? be(*one_) : " ") + place(one_->first());
    if (!two_->single() || random_.chance(0.2)) return text + maybe_ground(0.5);
    return text + " and " + phrase(*two_) + " " + place(two_->first());
  }

  /// A caption that fits many scenes and says little. There are only a few ways to phrase it, so it occurs more often
  /// than any detailed caption. A network that prefers likely captions will produce it, as networks do for photographs.
  std::string say_number() {
    std::string text(kNumberWords[scene_.shapes.size()]);
    if (random_.chance(0.35)) text = (random_.chance(0.5) ? "a picture of " : "a picture with ") + text;
    text += " shapes" + maybe_ground(0.6);
    if (random_.chance(0.6)) {
      text += " with " + phrase(*one_);
      if (one_->single()) text += " " + place(one_->first());
    }
    return text;
  }

  /// Chooses the shapes to name: the first is usually the most noticeable, the second any other one.
  void choose_things() {
    const std::size_t count = things_.size();
    std::size_t first = random_.chance(0.75) ? 0 : random_.below(count);
    std::size_t second = random_.chance(0.6) ? (first == 0 ? 1 : 0) : random_.below(count);
    if (second == first) second = (first + 1) % count;
    one_ = &things_[first];
    two_ = &things_[second];
    three_ = nullptr;
    for (std::size_t i = 0; i < count && three_ == nullptr; ++i) {
      if (i != first && i != second) three_ = &things_[i];
    }
  }

  [[nodiscard]] std::string phrase(const Thing& thing) const {
    std::string words;
    if (sizes_) words = size_word(thing);
    if (!hides_color(thing)) words += std::string(color_word(thing)) + " ";
    words += noun(thing);
    if (!thing.single()) return std::string(kNumberWords[thing.shapes.size()]) + " " + words;
    return (words.starts_with('o') ? "an " : "a ") + words;
  }

  /// Returns "big ", or "" if the sizes differ or are unremarkable.
  [[nodiscard]] std::string size_word(const Thing& thing) const {
    const ShapeSize size = thing.first().size;
    if (size == ShapeSize::kMedium) return "";
    for (const SceneShape* shape : thing.shapes) {
      if (shape->size != size) return "";
    }
    if (size == ShapeSize::kBig) return large_ ? "large " : "big ";
    return little_ ? "little " : "small ";
  }

  static std::string_view color_word(const Thing& thing) {
    return kColorWords[static_cast<std::size_t>(thing.first().color)];
  }

  /// True if the speaker omits a colour that is not needed to distinguish the thing.
  [[nodiscard]] bool hides_color(const Thing& thing) const {
    return terse_ && std::ranges::count_if(
                         things_, [&](const Thing& other) { return other.first().kind == thing.first().kind; }) == 1;
  }

  [[nodiscard]] std::string noun(const Thing& thing) const {
    const bool many = !thing.single();
    switch (thing.first().kind) {
      case ShapeKind::kCircle:
        return std::string(disc_ ? "disc" : "circle") + (many ? "s" : "");
      case ShapeKind::kSquare:
        return box_ ? (many ? "boxes" : "box") : (many ? "squares" : "square");
      case ShapeKind::kTriangle:
        return many ? "triangles" : "triangle";
      case ShapeKind::kStar:
        return many ? "stars" : "star";
      case ShapeKind::kCross:
        return many ? "crosses" : "cross";
      case ShapeKind::kRing:
        return many ? "rings" : "ring";
    }
    return "shape";
  }

  static std::string be(const Thing& thing) { return thing.single() ? " is " : " are "; }

  /// The position of `a` relative to `b`, or "" if they are mixed.
  std::string relation_of(const Thing& a, const Thing& b) {
    const int across = order_along(a, b, &SceneShape::column);
    const int down = order_along(a, b, &SceneShape::row);
    if (across == 0 && down == 0) return "";
    if (are_neighbours(a, b) && random_.chance(0.2)) return random_.chance(0.6) ? "next to" : "beside";
    if (down != 0 && (across == 0 || random_.chance(0.5))) {
      if (down < 0) return over_ ? "over" : "above";
      return under_ ? "under" : "below";
    }
    const std::string side = across < 0 ? "left of" : "right of";
    return (side_form_ == 0 ? "" : (side_form_ == 1 ? "on the " : "to the ")) + side;
  }

  /// "in the upper left corner", "on the right", "at the top", "in the middle".
  [[nodiscard]] std::string place(const SceneShape& shape) const {
    const bool corner = shape.column != 1 && shape.row != 1;
    const std::string across = shape.column == 0 ? "left" : "right";
    const std::string edge = shape.row == 0 ? "top" : "bottom";
    if (corner) {
      if (top_) return "in the " + edge + " " + across + " corner";
      return std::string("in the ") + (shape.row == 0 ? "upper " : "lower ") + across + " corner";
    }
    if (shape.column != 1) return "on the " + across + (side_ ? " side" : "");
    if (shape.row != 1) return "at the " + edge;
    return center_ ? "in the center" : "in the middle";
  }

  std::string maybe_ground(double share) {
    if (!random_.chance(share)) return "";
    const std::string color(kGroundWords[static_cast<std::size_t>(scene_.ground)]);
    return random_.chance(0.7) ? " on a " + color + " background" : " on " + color;
  }

  const Scene& scene_;
  const std::vector<Thing>& things_;
  SampleRandom& random_;
  const Thing* one_ = nullptr;
  const Thing* two_ = nullptr;
  const Thing* three_ = nullptr;  ///< nullptr if there are only two shapes
  // Habits.
  const bool sizes_ = random_.chance(0.4);
  const bool terse_ = random_.chance(0.07);
  const bool large_ = random_.chance(0.4);
  const bool little_ = random_.chance(0.2);
  const bool disc_ = random_.chance(0.25);
  const bool box_ = random_.chance(0.15);
  const bool over_ = random_.chance(0.2);
  const bool under_ = random_.chance(0.4);
  const bool top_ = random_.chance(0.5);
  const bool side_ = random_.chance(0.4);
  const bool center_ = random_.chance(0.4);
  const std::uint64_t side_form_ = random_.below(4);
};

}  // namespace

std::vector<std::string> scene_captions(const Scene& scene) {
  SampleRandom random(scene.captions);
  const std::vector<Thing> things = things_of(scene);
  std::vector<std::string> captions;
  while (captions.size() < kSceneCaptions) {
    std::string text;
    for (int tries = 0; tries < kTries; ++tries) {
      text = Speaker(scene, things, random).say();
      const std::int64_t words = words_in(text);
      const bool fits = words >= kLeastWords && words <= kMostWords;
      if (fits && std::ranges::find(captions, text) == captions.end()) break;
    }
    captions.push_back(std::move(text));
  }
  return captions;
}

}  // namespace lockstep::captioning
