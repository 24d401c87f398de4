// SPDX-License-Identifier: Apache-2.0
#include "detection/data/scene_source.h"

#include <fmt/format.h>

#include <charconv>
#include <utility>
#include <vector>

#include "detection/synthetic/scene.h"
#include "lockstep/base/error.h"

namespace lockstep::detection {
namespace {

constexpr std::string_view kPrefix = "scenes:";

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
  explicit SceneSource(const SceneSetOptions& options) : names_(kShapeNames.begin(), kShapeNames.end()) {
    for (std::int64_t i = 0; i < options.count; ++i) {
      SampleRandom random(options.seed, 0, static_cast<std::uint64_t>(i));
      const std::int64_t width = random.between(options.side, options.side);
      const std::int64_t height = random.between(options.side, options.side);
      scenes_.push_back(make_scene(width, height, random));
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

template <class Number>
Number number_of(std::string_view text, const std::string& path) {
  Number number{};
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (fault == std::errc() && end == text.data() + text.size() && number >= Number{}) return number;
  throw UsageError(fmt::format("'{}' names no scenes: '{}' is no number", path, text),
                   "write it as scenes:COUNT or scenes:COUNT:SEED, such as scenes:200:7");
}

}  // namespace

bool names_scenes(std::string_view path) noexcept { return path.starts_with(kPrefix); }

SceneSetOptions parse_scenes(const std::string& path, std::int64_t side) {
  const std::string_view rest = std::string_view(path).substr(kPrefix.size());
  const std::size_t colon = rest.find(':');
  SceneSetOptions options{.count = number_of<std::int64_t>(rest.substr(0, colon), path), .seed = 0, .side = side};
  if (colon != std::string_view::npos) options.seed = number_of<std::uint64_t>(rest.substr(colon + 1), path);
  if (options.count == 0) throw UsageError(fmt::format("'{}' is a set without pictures", path));
  return options;
}

std::shared_ptr<const ImageSource> make_scene_source(const SceneSetOptions& options) {
  return std::make_shared<SceneSource>(options);
}

}  // namespace lockstep::detection
