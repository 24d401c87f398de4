// SPDX-License-Identifier: Apache-2.0
// Threads and files of the synthetic scenes. Picture i depends on (seed, i) and the sides alone.
#include "detection/synthetic/generate.h"

#include <fmt/format.h>
#include <spng.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <cmath>
#include <exception>
#include <iterator>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "detection/synthetic/scene.h"
#include "lockstep/base/error.h"
#include "lockstep/base/file_system.h"

namespace lockstep::detection {
namespace {

namespace fs = std::filesystem;

constexpr int kCompression = 4;              // fixed: it is part of the bytes
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

struct EncoderDone {
  void operator()(spng_ctx* context) const noexcept { spng_ctx_free(context); }
};
struct BufferDone {
  void operator()(void* buffer) const noexcept { std::free(buffer); }
};

void write_png(const Scene& scene, const fs::path& path) {
  const std::unique_ptr<spng_ctx, EncoderDone> context(spng_ctx_new(SPNG_CTX_ENCODER));
  spng_set_option(context.get(), SPNG_ENCODE_TO_BUFFER, 1);
  spng_set_option(context.get(), SPNG_IMG_COMPRESSION_LEVEL, kCompression);
  spng_set_option(context.get(), SPNG_FILTER_CHOICE, SPNG_FILTER_CHOICE_SUB);
  spng_ihdr header{};
  header.width = static_cast<std::uint32_t>(scene.width);
  header.height = static_cast<std::uint32_t>(scene.height);
  header.bit_depth = 8;
  header.color_type = SPNG_COLOR_TYPE_TRUECOLOR;
  spng_set_ihdr(context.get(), &header);
  int fault =
      spng_encode_image(context.get(), scene.pixels.data(), scene.pixels.size(), SPNG_FMT_PNG, SPNG_ENCODE_FINALIZE);
  std::size_t size = 0;
  const std::unique_ptr<void, BufferDone> bytes(fault == 0 ? spng_get_png_buffer(context.get(), &size, &fault)
                                                           : nullptr);
  if (fault != 0) throw InternalError(fmt::format("cannot encode {}: {}", path.string(), spng_strerror(fault)));
  FileSystem::system().create(path)->append(bytes.get(), size);
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
  for (std::size_t i = 0; i < kShapeNames.size(); ++i) {
    fmt::format_to(out, "{}\n{{\"id\": {}, \"name\": \"{}\"}}", i == 0 ? "" : ",", i + 1, kShapeNames[i]);
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
                     "{}\n{{\"id\": {}, \"image_id\": {}, \"category_id\": {}, \"bbox\": {}, \"area\": {:.1f}, "
                     "\"iscrowd\": {}}}",
                     id == 0 ? "" : ",", id + 1, i + 1, static_cast<int>(object.kind) + 1, box_text(object.box),
                     object.area, object.crowd ? 1 : 0);
      ++id;
    }
  }
  text += "\n]\n}\n";
  return text;
}

/// The threads' shared work list: the next index, the first error, the count of written pictures.
class Generation {
 public:
  Generation(const GenerateOptions& options, const GenerateProgress& progress)
      : options_(options), progress_(progress), marks_(static_cast<std::size_t>(options.count)) {}

  void run() {
    const std::int64_t wanted = options_.threads > 0 ? options_.threads : std::thread::hardware_concurrency();
    const std::int64_t count = std::clamp<std::int64_t>(wanted, 1, options_.count);
    std::vector<std::thread> helpers;
    for (std::int64_t i = 1; i < count; ++i) helpers.emplace_back([this] { draw_all(); });
    draw_all();
    for (std::thread& helper : helpers) helper.join();
    if (error_) std::rethrow_exception(error_);
    write_file_atomically(FileSystem::system(), options_.out / "annotations.json", coco_json(options_, marks_));
    if (progress_) progress_(options_.count);
  }

 private:
  void draw_all() noexcept {
    try {
      for (std::int64_t index = next_++; index < options_.count; index = next_++) {
        draw_one(index);
        report();
      }
    } catch (...) {
      const std::lock_guard lock(mutex_);
      if (!error_) error_ = std::current_exception();
      next_ = options_.count;  // the others stop
    }
  }

  void draw_one(std::int64_t index) {
    SampleRandom random(options_.seed, 0, static_cast<std::uint64_t>(index));
    const std::int64_t width = random.between(options_.size.least, options_.size.most);
    const std::int64_t height = random.between(options_.size.least, options_.size.most);
    Scene scene = make_scene(width, height, random);
    write_png(scene, options_.out / file_name(index));
    marks_[static_cast<std::size_t>(index)] = {width, height, std::move(scene.objects)};
  }

  void report() {
    const std::int64_t written = ++written_;
    if (!progress_ || written % kProgressEvery != 0) return;
    const std::lock_guard lock(mutex_);
    progress_(written);
  }

  const GenerateOptions& options_;
  const GenerateProgress& progress_;
  std::vector<Marks> marks_;  // each thread writes its own elements
  std::atomic<std::int64_t> next_{0};
  std::atomic<std::int64_t> written_{0};
  std::mutex mutex_;
  std::exception_ptr error_;
};

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
  Generation(options, progress).run();
}

}  // namespace lockstep::detection
