// SPDX-License-Identifier: Apache-2.0
#include "detection/data/scene_source.h"

#include <fmt/format.h>

#include <utility>
#include <vector>

#include "common/scene_set.h"
#include "detection/synthetic/scene.h"

namespace lockstep::detection {
namespace {

Object object_of(const SceneObject& object) {
  const Extent& box = object.box;
  return {.box = {static_cast<float>(box.x1), static_cast<float>(box.y1), static_cast<float>(box.x2),
                  static_cast<float>(box.y2)},
          .label = static_cast<std::int64_t>(object.kind),
          .crowd = object.crowd,
          .area = static_cast<float>(object.area),
          .points = {},
          .mask = {}};
}

class SceneSource final : public ImageSource {
 public:
  SceneSource(const common::SceneSet& set, std::int64_t side) {
    const SceneObjects objects = set.few ? SceneObjects::kFew : SceneObjects::kMany;
    for (const std::string_view name : kinds_in(objects)) names_.emplace_back(name);
    for (std::int64_t i = 0; i < set.count; ++i) {
      SampleRandom random(set.seed, 0, static_cast<std::uint64_t>(i));
      const std::int64_t width = random.between(side, side);
      const std::int64_t height = random.between(side, side);
      scenes_.push_back(make_scene(width, height, objects, random));
    }
  }

  [[nodiscard]] std::int64_t size() const override { return std::ssize(scenes_); }
  [[nodiscard]] std::string describe(std::int64_t index) const override { return fmt::format("scene {}", index); }
  [[nodiscard]] const std::vector<std::string>& class_names() const override { return names_; }

  [[nodiscard]] AnnotatedImage get(std::int64_t index) const override {
    const Scene& scene = scenes_.at(static_cast<std::size_t>(index));
    AnnotatedImage picture;
    picture.pixels = Image{.size = {scene.width, scene.height}, .channels = 3, .pixels = scene.pixels};
    for (const SceneObject& object : scene.objects) picture.objects.push_back(object_of(object));
    picture.id = index + 1;
    picture.name = describe(index);
    return picture;
  }

 private:
  std::vector<std::string> names_;
  std::vector<Scene> scenes_;
};

}  // namespace

std::shared_ptr<const ImageSource> make_scene_source(const std::string& path, std::int64_t side) {
  return std::make_shared<SceneSource>(common::parse_scene_set(path), side);
}

}  // namespace lockstep::detection
