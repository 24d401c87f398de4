// SPDX-License-Identifier: Apache-2.0
// Threads and files for the synthetic scenes. Image i depends only on (seed, i) and the side lengths.
#include "detection/synthetic/generate.h"

#include <fmt/format.h>

#include <cmath>
#include <iterator>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/base/file_system.h"
#include "lockstep/base/number.h"

namespace lockstep::detection {
namespace {

namespace fs = std::filesystem;

void check(const GenerateOptions& options) {
  common::require_within("detection: count", options.count, 1, 10'000'000);
  common::require_within("detection: size", options.size.least, kSides.least, kSides.most);
  common::require_within("detection: size", options.size.most, options.size.least, kSides.most);
  common::require_within("detection: threads", options.threads, 0, 1024);
}

void open_folder(const fs::path& folder) {
  common::refuse_file(folder);
  std::error_code fault;
  for (const char* name : {"annotations.json", "images"}) {
    if (!fs::exists(folder / name, fault)) continue;
    throw UsageError(
        fmt::format("folder {} already contains a data set ({}): the two would be mixed", folder.string(), name),
        "choose another folder, or remove this one first");
  }
  FileSystem::system().make_folder(folder / "images");
}

/// The annotations of a scene, kept after its image is written.
struct Marks {
  std::int64_t width = 0;
  std::int64_t height = 0;
  std::vector<SceneObject> objects;
};

std::string file_name(std::int64_t index) { return fmt::format("images/{:06}.png", index); }

std::string box_text(const Extent& box) {
  // Rounds outwards to hundredths of a pixel, so that the box still contains the shape.
  const double x = std::floor(box.x1 * 100) / 100;
  const double y = std::floor(box.y1 * 100) / 100;
  return fmt::format("[{:.2f}, {:.2f}, {:.2f}, {:.2f}]", x, y, std::ceil((box.x2 - x) * 100) / 100,
                     std::ceil((box.y2 - y) * 100) / 100);
}

std::string coco_json(const GenerateOptions& options, const std::vector<Marks>& scenes) {
  std::string text;
  const auto out = std::back_inserter(text);
  fmt::format_to(out, "{{\n\"info\": {{\"description\": \"synthetic shapes\", \"seed\": {}}},\n\"categories\": [",
                 options.seed);
  const auto names = kinds_in(options.objects);
  for (std::size_t i = 0; i < names.size(); ++i) {
    fmt::format_to(out, "{}\n{{\"id\": {}, \"name\": \"{}\"}}", i == 0 ? "" : ",", i + 1, names[i]);
  }
  text += "\n],\n\"images\": [";
  for (std::size_t i = 0; i < scenes.size(); ++i) {
    fmt::format_to(out, "{}\n{{\"id\": {}, \"file_name\": \"{}\", \"width\": {}, \"height\": {}}}", i == 0 ? "" : ",",
                   i + 1, file_name(static_cast<std::int64_t>(i)), scenes[i].width, scenes[i].height);
  }
  text += "\n],\n\"annotations\": [";
  std::int64_t id = 0;
  for (std::size_t i = 0; i < scenes.size(); ++i) {
    for (const SceneObject& object : scenes[i].objects) {
      fmt::format_to(out,
                     "{}\n{{\"id\": {}, \"image_id\": {}, \"category_id\": {}, \"bbox\": {}, \"area\": {}, "
                     "\"iscrowd\": {}}}",
                     id == 0 ? "" : ",", id + 1, i + 1, static_cast<int>(object.kind) + 1, box_text(object.box),
                     text::json_number(object.area, 1), object.crowd ? 1 : 0);
      ++id;
    }
  }
  text += "\n]\n}\n";
  return text;
}

Marks draw_one(const GenerateOptions& options, std::int64_t index) {
  SampleRandom random(options.seed, 0, static_cast<std::uint64_t>(index));
  const std::int64_t width = random.between(options.size.least, options.size.most);
  const std::int64_t height = random.between(options.size.least, options.size.most);
  Scene scene = make_scene(width, height, options.objects, random);
  PixelView pixels{.owner = nullptr, .data = scene.pixels.data()};
  pixels.size = {width, height};
  common::write_set_picture(pixels, options.out / file_name(index));
  return {width, height, std::move(scene.objects)};
}

}  // namespace

void generate_scenes(const GenerateOptions& options, const common::IndexProgress& progress) {
  check(options);
  open_folder(options.out);
  std::vector<Marks> marks(static_cast<std::size_t>(options.count));  // each thread writes its own elements
  const auto draw = [&](std::int64_t index) { marks[static_cast<std::size_t>(index)] = draw_one(options, index); };
  common::run_indices(options.count, options.threads, draw, progress);
  write_file_atomically(FileSystem::system(), options.out / "annotations.json", coco_json(options, marks));
}

}  // namespace lockstep::detection
