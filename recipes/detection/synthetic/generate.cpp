// SPDX-License-Identifier: Apache-2.0
// Threads and files of the synthetic scenes. Picture i depends on (seed, i) and the sides alone.
#include "detection/synthetic/generate.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <iterator>
#include <vector>

#include "common/set_files.h"
#include "lockstep/base/error.h"
#include "lockstep/base/file_system.h"
#include "lockstep/base/number.h"

namespace lockstep::detection {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kProgressEvery = 64;  // pictures
constexpr std::int64_t kLeastSide = 64;      // pixels: 30 objects still find their places
constexpr std::int64_t kMostSide = 2048;

void check(const GenerateOptions& options) {
  const auto within = [](const char* name, std::int64_t value, std::int64_t low, std::int64_t high) {
    if (value < low || value > high) {
      throw UsageError(fmt::format("generate detection: {} is {}, must be {} .. {}", name, value, low, high));
    }
  };
  within("count", options.count, 1, 10'000'000);
  within("size", options.size.least, kLeastSide, kMostSide);
  within("size", options.size.most, options.size.least, kMostSide);
  within("threads", options.threads, 0, 1024);
}

void open_folder(const fs::path& folder) {
  std::error_code fault;
  if (fs::exists(folder, fault) && !fs::is_directory(folder, fault)) {
    throw UsageError(fmt::format("{} is no folder", folder.string()));
  }
  for (const char* name : {"annotations.json", "images"}) {
    if (!fs::exists(folder / name, fault)) continue;
    throw UsageError(fmt::format("folder {} already holds a set ({}): two would mix", folder.string(), name),
                     "give another folder, or remove it first");
  }
  FileSystem::system().make_folder(folder / "images");
}

/// What is left of a scene once its picture is written.
struct Marks {
  std::int64_t width = 0;
  std::int64_t height = 0;
  std::vector<SceneObject> objects;
};

std::string file_name(std::int64_t index) { return fmt::format("images/{:06}.png", index); }

std::string box_text(const Extent& box) {
  // Outwards to hundredths of a pixel, so that the box still holds the shape.
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

SideRange parse_sides(const std::string& text) {
  const auto number = [&](const char* begin, const char* end) {
    std::int64_t value = 0;
    const auto read = std::from_chars(begin, end, value);
    if (read.ec != std::errc() || read.ptr != end || value < kLeastSide || value > kMostSide) {
      throw UsageError(fmt::format("size '{}' is none", text),
                       fmt::format("a side, or a range such as 128-192, of {} .. {} pixels", kLeastSide, kMostSide));
    }
    return value;
  };
  const char* end = text.data() + text.size();
  const std::size_t dash = text.find('-');
  const SideRange range = dash == std::string::npos
                              ? SideRange{number(text.data(), end), number(text.data(), end)}
                              : SideRange{number(text.data(), text.data() + dash), number(text.data() + dash + 1, end)};
  if (range.most < range.least) throw UsageError(fmt::format("size '{}' runs backwards", text), "for example 128-192");
  return range;
}

void generate_scenes(const GenerateOptions& options, const GenerateProgress& progress) {
  check(options);
  open_folder(options.out);
  std::vector<Marks> marks(static_cast<std::size_t>(options.count));  // each thread writes its own elements
  const auto draw = [&](std::int64_t index) { marks[static_cast<std::size_t>(index)] = draw_one(options, index); };
  common::IndexLoop loop{.count = options.count, .threads = options.threads, .make_worker = [&] { return draw; }};
  loop.report_every = kProgressEvery;
  if (progress) loop.progress = [&](std::int64_t done, std::int64_t) { progress(done); };
  common::run_indices(loop);
  write_file_atomically(FileSystem::system(), options.out / "annotations.json", coco_json(options, marks));
  if (progress) progress(options.count);
}

}  // namespace lockstep::detection
