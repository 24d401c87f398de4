// SPDX-License-Identifier: Apache-2.0
#include "segmentation/synthetic/generate.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>

#include "lockstep/base/error.h"
#include "lockstep/base/file_system.h"
#include "segmentation/synthetic/scene.h"

namespace lockstep::segmentation {
namespace {

constexpr std::int64_t kLeastSide = 32;  // pixels
constexpr std::int64_t kMostSide = 4096;
constexpr std::uint64_t kSizeStream = 0x73697a6573000000;  // apart from the scene's own

std::int64_t pictures_of_val(const GenerateOptions& options) {
  return std::llround(options.val_share * static_cast<double>(options.count));
}

void check_generate(const GenerateOptions& options) {
  if (options.count < 2 || options.count > 10'000'000) {
    throw UsageError(fmt::format("generate segmentation: count is {}, must be 2 .. 10000000", options.count));
  }
  if (!(options.val_share >= 0 && options.val_share < 1)) {
    throw UsageError(fmt::format("generate segmentation: val-share is {}, must be 0 .. 1, below 1", options.val_share));
  }
  if (pictures_of_val(options) >= options.count) {
    throw UsageError(fmt::format("generate segmentation: val-share {} of {} pictures leaves none to train",
                                 options.val_share, options.count),
                     "draw more pictures, or give a smaller share");
  }
  if (options.size.least < kLeastSide || options.size.most > kMostSide || options.size.most < options.size.least) {
    throw UsageError(fmt::format("generate segmentation: sides of {} .. {} pixels, must be within {} .. {}",
                                 options.size.least, options.size.most, kLeastSide, kMostSide));
  }
}

std::string scene_name(std::int64_t index) { return fmt::format("{:06}", index); }

void write_scene(const GenerateOptions& options, const VocFolders& folders, std::int64_t index) {
  SampleRandom sides(options.seed ^ kSizeStream, 0, static_cast<std::uint64_t>(index));
  const std::int64_t width = sides.between(options.size.least, options.size.most);
  const std::int64_t height = sides.between(options.size.least, options.size.most);
  const Scene scene = make_scene(options.seed, index, {width, height});
  WeakOptions weak = options.weak;
  weak.seed = options.seed;
  const WeakLabels labels = derive_weak_labels(scene.picture, numbers_of(scene.mask), Numbers::kClasses, weak, index);
  const std::string name = scene_name(index);
  write_map(scene.picture, folders.pictures() / (name + ".png"));
  write_map(scene.mask, folders.masks() / (name + ".png"));
  folders.write(labels, name);
}

std::string list_of(std::int64_t begin, std::int64_t end) {
  std::string text;
  for (std::int64_t i = begin; i < end; ++i) text += scene_name(i) + "\n";
  return text;
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
  const char* first_end = dash == std::string::npos ? end : text.data() + dash;
  SideRange range{number(text.data(), first_end), 0};
  range.most = dash == std::string::npos ? range.least : number(first_end + 1, end);
  if (range.most < range.least) throw UsageError(fmt::format("size '{}' runs backwards", text), "for example 128-192");
  return range;
}

void VocFolders::make() const {
  make_empty_folder(root);
  for (const auto& folder : {pictures(), masks(), scribbles(), pseudo_labels(), scribble_distances(), class_distances(),
                             list("").parent_path()}) {
    FileSystem::system().make_folder(folder);
  }
}

void VocFolders::write(const WeakLabels& labels, const std::string& name) const {
  write_map(labels.scribbles, scribbles() / (name + ".png"));
  write_map(labels.pseudo_labels, pseudo_labels() / (name + ".png"));
  write_map(labels.scribble_distances, scribble_distances() / (name + ".png"));
  write_map(labels.class_distances, class_distances() / (name + ".png"));
}

GeneratedSet generate_set(const GenerateOptions& options, const WriteProgress& progress) {
  check_generate(options);
  const VocFolders folders{options.out};
  folders.make();
  run_indices(
      options.count, options.threads, [&](std::int64_t index) { write_scene(options, folders, index); }, progress);
  const std::int64_t val = pictures_of_val(options);
  const std::int64_t train = options.count - val;
  write_file_atomically(FileSystem::system(), folders.list("train"), list_of(0, train));
  if (val > 0) write_file_atomically(FileSystem::system(), folders.list("val"), list_of(train, options.count));
  return {.train = train, .val = val};
}

}  // namespace lockstep::segmentation
