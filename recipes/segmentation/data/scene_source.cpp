// SPDX-License-Identifier: Apache-2.0
#include "segmentation/data/scene_source.h"

#include <fmt/format.h>

#include <charconv>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/base/error.h"
#include "segmentation/synthetic/derive.h"
#include "segmentation/synthetic/map_files.h"
#include "segmentation/synthetic/scene.h"

namespace lockstep::segmentation {
namespace {

constexpr std::string_view kPrefix = "scenes:";

struct SceneNumbers {
  std::int64_t count = 0;
  std::uint64_t seed = 0;
};

template <class Number>
Number scene_number(std::string_view text, const std::string& path) {
  Number number{};
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (fault == std::errc() && end == text.data() + text.size() && number >= Number{}) return number;
  throw UsageError(fmt::format("'{}' names no scenes: '{}' is no number", path, text),
                   "write it as scenes:COUNT or scenes:COUNT:SEED, such as scenes:200:7");
}

SceneNumbers parse_scene_numbers(const std::string& path) {
  const std::string_view rest = std::string_view(path).substr(kPrefix.size());
  const std::size_t colon = rest.find(':');
  SceneNumbers numbers{.count = scene_number<std::int64_t>(rest.substr(0, colon), path)};
  if (colon != std::string_view::npos) numbers.seed = scene_number<std::uint64_t>(rest.substr(colon + 1), path);
  if (numbers.count == 0) throw UsageError(fmt::format("'{}' is a set without pictures", path));
  return numbers;
}

class SceneSource final : public ImageSource {
 public:
  SceneSource(const SetOptions& options, bool training) : names_(kSceneClasses.begin(), kSceneClasses.end()) {
    const SceneNumbers numbers = parse_scene_numbers(options.path);
    pictures_.resize(static_cast<std::size_t>(numbers.count));
    run_indices(numbers.count, 0, [&](std::int64_t index) {
      pictures_[static_cast<std::size_t>(index)] = drawn(options, training, numbers.seed, index);
    });
  }

  [[nodiscard]] std::int64_t size() const override { return std::ssize(pictures_); }
  [[nodiscard]] std::string describe(std::int64_t index) const override { return fmt::format("scene {}", index); }
  [[nodiscard]] const std::vector<std::string>& class_names() const override { return names_; }
  [[nodiscard]] AnnotatedImage get(std::int64_t index) const override {
    return pictures_.at(static_cast<std::size_t>(index));
  }

 private:
  [[nodiscard]] AnnotatedImage drawn(const SetOptions& options, bool training, std::uint64_t seed,
                                     std::int64_t index) const {
    Scene scene = make_scene(seed, index, {options.scene_side, options.scene_side});
    AnnotatedImage picture;
    picture.id = index;
    picture.name = describe(index);
    if (training) {
      add_maps(picture, scene, options, {.seed = seed});
    } else {
      picture.maps.push_back({std::move(scene.mask), kUnlabelled});
    }
    picture.pixels = std::move(scene.picture);
    return picture;
  }

  static void add_maps(AnnotatedImage& picture, Scene& scene, const SetOptions& options, const WeakOptions& weak) {
    const Planes& planes = options.planes;
    const bool full = options.supervision == Supervision::kFull;
    WeakLabels labels;
    if (!full || planes.count() > 1) {
      labels = derive_weak_labels(scene.picture, numbers_of(scene.mask), Numbers::kClasses, weak, picture.id);
    }
    picture.maps.push_back({std::move(full ? scene.mask : labels.scribbles), kUnlabelled});
    if (planes.pseudo_labels) picture.maps.push_back({std::move(labels.pseudo_labels), kUnlabelled});
    if (planes.scribble_distances) picture.maps.push_back({std::move(labels.scribble_distances), 0});
    if (planes.class_distances) picture.maps.push_back({std::move(labels.class_distances), 0});
  }

  std::vector<std::string> names_;
  std::vector<AnnotatedImage> pictures_;
};

}  // namespace

bool names_scenes(std::string_view path) noexcept { return path.starts_with(kPrefix); }

std::shared_ptr<const ImageSource> make_scene_source(const SetOptions& options, bool training) {
  if (options.classes < std::ssize(kSceneClasses)) {
    throw UsageError(fmt::format("{} classes, and scenes have {}", options.classes, kSceneClasses.size()),
                     fmt::format("set the number of classes to {}", kSceneClasses.size()));
  }
  return std::make_shared<SceneSource>(options, training);
}

}  // namespace lockstep::segmentation
