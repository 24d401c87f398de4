// SPDX-License-Identifier: Apache-2.0
#include "segmentation/synthetic/generate.h"

#include <fmt/format.h>

#include <cmath>

#include "lockstep/base/error.h"
#include "lockstep/base/file_system.h"
#include "segmentation/synthetic/scene.h"

namespace lockstep::segmentation {
namespace {

constexpr std::uint64_t kSizeStream = 0x73697a6573000000;  // differs from the scene's own

std::int64_t pictures_of_val(const GenerateOptions& options) {
  return std::llround(options.val_share * static_cast<double>(options.count));
}

void check_generate(const GenerateOptions& options) {
  common::require_within("segmentation: count", options.count, 2, 10'000'000);
  if (!(options.val_share >= 0 && options.val_share < 1)) {
    throw UsageError(
        fmt::format("generate segmentation: val-share is {}, must be 0 or more, below 1", options.val_share));
  }
  if (pictures_of_val(options) >= options.count) {
    throw UsageError(fmt::format("generate segmentation: val-share {} of {} images leaves none for training",
                                 options.val_share, options.count),
                     "generate more images, or use a smaller share");
  }
  if (options.size.least < kSides.least || options.size.most > kSides.most || options.size.most < options.size.least) {
    throw UsageError(fmt::format("generate segmentation: sides of {} .. {} pixels, must be within {} .. {}",
                                 options.size.least, options.size.most, kSides.least, kSides.most));
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
  common::write_set_picture(scene.picture, folders.pictures() / (name + ".png"));
  common::write_set_picture(scene.mask, folders.masks() / (name + ".png"));
  folders.write(labels, name);
}

std::string list_of(std::int64_t begin, std::int64_t end) {
  std::string text;
  for (std::int64_t i = begin; i < end; ++i) text += scene_name(i) + "\n";
  return text;
}

}  // namespace

void VocFolders::make() const {
  common::make_empty_folder(root);
  for (const auto& folder : {pictures(), masks(), scribbles(), pseudo_labels(), scribble_distances(), class_distances(),
                             list("").parent_path()}) {
    FileSystem::system().make_folder(folder);
  }
}

void VocFolders::write(const WeakLabels& labels, const std::string& name) const {
  common::write_set_picture(labels.scribbles, scribbles() / (name + ".png"));
  common::write_set_picture(labels.pseudo_labels, pseudo_labels() / (name + ".png"));
  common::write_set_picture(labels.scribble_distances, scribble_distances() / (name + ".png"));
  common::write_set_picture(labels.class_distances, class_distances() / (name + ".png"));
}

GeneratedSet generate_set(const GenerateOptions& options, const common::IndexProgress& progress) {
  check_generate(options);
  const VocFolders folders{options.out};
  folders.make();
  common::run_indices(
      options.count, options.threads, [&](std::int64_t index) { write_scene(options, folders, index); }, progress);
  const std::int64_t val = pictures_of_val(options);
  const std::int64_t train = options.count - val;
  write_file_atomically(FileSystem::system(), folders.list("train"), list_of(0, train));
  if (val > 0) write_file_atomically(FileSystem::system(), folders.list("val"), list_of(train, options.count));
  return {.train = train, .val = val};
}

}  // namespace lockstep::segmentation
