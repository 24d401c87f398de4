// SPDX-License-Identifier: Apache-2.0
#include "segmentation/data/scene_source.h"

#include <fmt/format.h>

#include <string>
#include <utility>
#include <vector>

#include "common/scene_set.h"
#include "common/set_files.h"
#include "lockstep/base/error.h"
#include "segmentation/synthetic/derive.h"
#include "segmentation/synthetic/scene.h"

namespace lockstep::segmentation {
namespace {

class SceneSource final : public ImageSource {
 public:
  SceneSource(const SetOptions& options, bool training) : names_(kSceneClasses.begin(), kSceneClasses.end()) {
    const common::SceneSet set = common::parse_scene_set(options.path);
    pictures_.resize(static_cast<std::size_t>(set.count));
    common::run_indices(set.count, 0, [&](std::int64_t index) {
      pictures_[static_cast<std::size_t>(index)] = drawn(options, training, set, index);
    });
  }

  [[nodiscard]] std::int64_t size() const override { return std::ssize(pictures_); }
  [[nodiscard]] std::string describe(std::int64_t index) const override { return fmt::format("scene {}", index); }
  [[nodiscard]] const std::vector<std::string>& class_names() const override { return names_; }
  [[nodiscard]] AnnotatedImage get(std::int64_t index) const override {
    return pictures_.at(static_cast<std::size_t>(index));
  }

 private:
  [[nodiscard]] AnnotatedImage drawn(const SetOptions& options, bool training, const common::SceneSet& set,
                                     std::int64_t index) const {
    const SceneObjects objects = set.few ? SceneObjects::kFew : SceneObjects::kMany;
    Scene scene = make_scene(set.seed, index, {options.scene_side, options.scene_side}, objects);
    AnnotatedImage picture;
    picture.id = index;
    picture.name = describe(index);
    if (training) {
      add_maps(picture, scene, options, {.seed = set.seed});
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

std::shared_ptr<const ImageSource> make_scene_source(const SetOptions& options, bool training) {
  if (options.classes < std::ssize(kSceneClasses)) {
    throw UsageError(fmt::format("{} classes, but scenes have {}", options.classes, kSceneClasses.size()),
                     fmt::format("set the number of classes to {}", kSceneClasses.size()));
  }
  return std::make_shared<SceneSource>(options, training);
}

}  // namespace lockstep::segmentation
