// SPDX-License-Identifier: Apache-2.0
// Finds the files for the options, builds data sets from them, and collates samples into batches.
#include "segmentation/data/dataset.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "common/scene_set.h"
#include "lockstep/base/error.h"
#include "lockstep/base/log.h"
#include "lockstep/base/option_words.h"
#include "lockstep/base/text.h"
#include "lockstep/data/augment/to_tensor.h"
#include "lockstep/data/sources/held_out.h"
#include "lockstep/data/sources/image_files.h"
#include "lockstep/data/sources/mask_folders.h"
#include "segmentation/data/dataset_augment.h"
#include "segmentation/data/label_file.h"
#include "segmentation/data/masked_pictures.h"
#include "segmentation/data/scene_source.h"
#include "segmentation/data/set_folders.h"
#include "segmentation/synthetic/scene.h"

namespace lockstep::segmentation {
namespace {

constexpr std::int64_t kSurveyed = 1000;  // images whose maps are read when a set is opened

void check_set_options(const SetOptions& options) {
  if (options.classes == 0) {
    throw UsageError("num_classes is auto, but the data has not been read", "set a number, or call settle() first");
  }
  if (options.classes < 2 || options.classes > 255) {
    throw UsageError(
        fmt::format("a set of {} classes; there must be 2 .. 255, including the background", options.classes));
  }
}

/// The roles of a training sample's maps, in the order of its planes, and the folders given for them.
FileListOptions files_of_training(const SetOptions& options) {
  FileListOptions files{.split = options.split.empty() ? "train" : options.split, .roles = {}, .overrides = {}};
  const auto add = [&](bool wanted, Role role, const std::string& folder) {
    if (!wanted) return;
    files.roles.push_back(role);
    files.overrides.push_back(folder);
  };
  const bool full = options.supervision == Supervision::kFull;
  add(full, Role::kMasks, options.masks);
  add(!full, Role::kScribbles, options.scribbles);
  add(options.planes.pseudo_labels, Role::kPseudoLabels, options.pseudo_labels);
  add(options.planes.scribble_distances, Role::kScribbleDistances, options.scribble_distances);
  add(options.planes.class_distances, Role::kClassDistances, options.class_distances);
  files.strict = options.strict;
  return files;
}

FileListOptions files_of_test(const SetOptions& options) {
  return {.split = options.split.empty() ? "val" : options.split,
          .roles = {Role::kMasks},
          .overrides = {options.masks},
          .strict = options.strict};
}

MapMeaning meaning_of(Role role, const std::filesystem::path& folder) {
  if (role == Role::kScribbleDistances || role == Role::kClassDistances) return MapMeaning::kWeights;
  return holds_instances(folder) ? MapMeaning::kInstances : MapMeaning::kClasses;
}

std::vector<std::string> names_of_classes(const std::filesystem::path& root, MapMeaning meaning) {
  std::vector<std::string> names = mask_class_names(root);
  if (names.empty() && meaning == MapMeaning::kInstances) names = {"background", "foreground"};
  return names;
}

/// True if the maps of the first role are class masks, whose values may be mapped to ids.
bool takes_mask_values(const FileListOptions& wanted, MapMeaning meaning) {
  return wanted.roles.front() == Role::kMasks && meaning == MapMeaning::kClasses;
}

std::string class_in_words(std::int64_t id, const std::vector<std::string>& names) {
  return id < std::ssize(names) ? fmt::format("{} ({})", id, names[static_cast<std::size_t>(id)]) : std::to_string(id);
}

/// Throws: DataError naming the values if the set has at most one class, so there is nothing to learn.
void require_two_classes(const SeenValues& seen, const SetOptions& options, bool masks) {
  const auto found = std::ranges::count(seen.classes, true);
  if (found > 1 || !seen.all) return;
  const bool ignored = seen.values[kUnlabelled] && (!masks || options.mask_values[kUnlabelled] == kUnlabelled);
  throw DataError(
      fmt::format("{}: the labels of all {} images contain only the {} {}{}: there is nothing to distinguish",
                  options.path, seen.looked_at, std::ranges::count(seen.values, true) == 1 ? "value" : "values",
                  seen.text(), ignored ? ", and 255 means that a pixel has no class" : ""),
      masks && ignored ? "if 255 is a class, set: " + setting_words("data.mask_values='{0: 0, 255: 1}'")
                       : "labels are class ids, 0, 1, ...; lockstep inspect data shows them");
}

/// Returns an empty string if every class has a pixel.
std::string missing_classes(const SeenValues& seen, const SetOptions& options, const std::vector<std::string>& names) {
  std::vector<std::string> missing;
  for (std::int64_t id = 0; id < options.classes; ++id) {
    if (!seen.classes[static_cast<std::size_t>(id)]) missing.push_back(class_in_words(id, names));
  }
  if (missing.empty()) return "";
  return fmt::format("{}: no pixel has {} {} in the labels of the {} images checked, which contain {}", options.path,
                     missing.size() == 1 ? "class" : "the classes", text::join(missing), seen.looked_at, seen.text());
}

void judge_classes(const MaskedPictures& source, const SetOptions& options, bool masks, SegmentationSet& set) {
  require_two_classes(source.seen(), options, masks);
  const std::string missing = missing_classes(source.seen(), options, source.class_names());
  if (missing.empty()) return;
  log::warn("{}", missing);
  set.notes.push_back(missing);
}

/// Keeps only the training part of the samples, or only the test part.
void keep_part(std::vector<SampleFiles>& samples, const SetOptions& options, bool training) {
  if (options.test_fraction == 0) return;
  std::vector<std::filesystem::path> pictures;
  for (const SampleFiles& sample : samples) pictures.push_back(sample.picture);
  const HeldOut parts = hold_out(ImageFiles::of(std::move(pictures)), options.test_fraction, options.split_seed);
  const std::vector<std::int64_t>& indices = training ? parts.rest : parts.held_out;
  log::note("{}: {} of {} images are for {}", options.path, indices.size(), samples.size(),
            training ? "training" : "the test");
  std::vector<SampleFiles> kept;
  for (const std::int64_t index : indices) kept.push_back(std::move(samples[static_cast<std::size_t>(index)]));
  samples = std::move(kept);
}

SegmentationSet open_files(const SetOptions& options, const FileListOptions& wanted, bool training) {
  FileList list = list_files(options.path, wanted);
  keep_part(list.samples, options, training);
  MaskedPicturesOptions pictures{.meanings = {}, .classes = options.classes};
  for (std::size_t i = 0; i < wanted.roles.size(); ++i) {
    pictures.meanings.push_back(meaning_of(wanted.roles[i], list.folders[i]));
  }
  const bool masks = takes_mask_values(wanted, pictures.meanings.front());
  if (masks) pictures.values = options.mask_values;
  pictures.class_names = names_of_classes(root_of(options.path, wanted.split), pictures.meanings.front());
  const auto source = std::make_shared<MaskedPictures>(std::move(list.samples), std::move(pictures));
  SegmentationSet set;
  set.notes = std::move(list.notes);
  for (std::string& note : source->survey(kSurveyed)) {
    set.notes.push_back(fmt::format("{}: {}", options.path, note));
  }
  for (const std::string& note : set.notes) log::note("{}", note);
  if (training) judge_classes(*source, options, masks, set);
  set.source = source;
  return set;
}

void copy_planes(const AnnotatedImage& image, std::uint8_t* to) {
  for (const LabelMap& map : image.maps) to = std::ranges::copy(map.image.pixels, to).out;
}

class TrainingSet final : public FixedShapeDataset {
 public:
  TrainingSet(std::shared_ptr<const ImageSource> source, const AugmentOptions& augment, std::int64_t planes)
      : source_(std::move(source)),
        augment_(augment),
        spec_{.data_shape = {3, augment.crop, augment.crop},
              .target_shape = {planes, augment.crop, augment.crop},
              .target_type = c10::ScalarType::Byte} {}

  [[nodiscard]] std::int64_t size() const override { return source_->size(); }
  [[nodiscard]] std::string describe(std::int64_t index) const override { return source_->describe(index); }
  [[nodiscard]] SampleSpec spec() const override { return spec_; }
  void get_into(std::int64_t index, SampleContext& context, SampleSlot slot) override {
    AnnotatedImage image = source_->get(index);
    augment_(image, context.random);
    context.slot = slot;
    context.spec = &spec_;
    (void)ToTensor{.normalize = Normalize{}}(image, context);
    copy_planes(image, slot.target_as<std::uint8_t>());
  }

 private:
  std::shared_ptr<const ImageSource> source_;
  const Augmenter augment_;
  const SampleSpec spec_;
};

class TestSet final : public Dataset {
 public:
  explicit TestSet(std::shared_ptr<const ImageSource> source) : source_(std::move(source)) {}

  [[nodiscard]] std::int64_t size() const override { return source_->size(); }
  [[nodiscard]] std::string describe(std::int64_t index) const override { return source_->describe(index); }
  Sample get(std::int64_t index, SampleContext& context) override {
    AnnotatedImage image = source_->get(index);
    const ImageSize size = image.pixels.size();
    EvalPicture truth{at::empty({size.height, size.width}, c10::ScalarType::Byte), image.name};
    copy_planes(image, truth.mask.data_ptr<std::uint8_t>());
    Sample sample = ToTensor{.normalize = Normalize{}}(image, context);
    sample.extra = std::move(truth);
    return sample;
  }

 private:
  std::shared_ptr<const ImageSource> source_;
};

Batch stacked_batch(const std::vector<Sample>& samples) {
  std::vector<at::Tensor> data;
  std::vector<at::Tensor> targets;
  for (const Sample& sample : samples) {
    data.push_back(sample.data);
    targets.push_back(sample.target);
  }
  Batch batch;
  batch.data = at::stack(data);
  batch.target = at::stack(targets);
  return batch;
}

Batch padded_batch(std::vector<Sample>& samples) {
  std::int64_t height = 0;
  std::int64_t width = 0;
  for (const Sample& sample : samples) {
    height = std::max(height, sample.data.size(1));
    width = std::max(width, sample.data.size(2));
  }
  Batch batch;
  std::vector<EvalPicture> truths;
  batch.data = at::zeros({std::ssize(samples), 3, height, width}, c10::ScalarType::Float);
  for (std::int64_t i = 0; i < std::ssize(samples); ++i) {
    Sample& sample = samples[static_cast<std::size_t>(i)];
    batch.data.select(0, i).narrow(1, 0, sample.data.size(1)).narrow(2, 0, sample.data.size(2)).copy_(sample.data);
    truths.push_back(std::any_cast<EvalPicture>(std::move(sample.extra)));
  }
  batch.extra = std::move(truths);
  return batch;
}

/// Throws: DataError naming file, value and number of pixels if a mask has a value that the listed values leave out.
void require_listed(const Image& map, const std::vector<std::uint8_t>& listed, const std::filesystem::path& file) {
  if (listed.empty()) return;
  const auto is_listed = [&](std::uint8_t value) {
    return value == 0 || value == kUnlabelled || std::ranges::find(listed, value) != listed.end();
  };
  const auto odd = std::ranges::find_if_not(map.pixels, is_listed);
  if (odd == map.pixels.end()) return;
  throw DataError(fmt::format("mask {} has the value {} in {}, but data.mask_values does not list it", file.string(),
                              *odd, text::counted(std::ranges::count(map.pixels, *odd), "pixel")),
                  "list the value, or set num_classes if the value is a class id");
}

}  // namespace

SetClasses classes_of(const SetOptions& options) {
  if (common::names_scenes(options.path))
    return {{kSceneClasses.begin(), kSceneClasses.end()}, std::ssize(kSceneClasses)};
  const FileListOptions wanted = files_of_training(options);
  const FileList list = list_files(options.path, wanted);
  const MapMeaning meaning = meaning_of(wanted.roles.front(), list.folders.front());
  SetClasses classes{.names = names_of_classes(root_of(options.path, wanted.split), meaning), .count = 2};
  if (!classes.names.empty()) {
    classes.count = std::ssize(classes.names);
    return classes;
  }
  if (options.classes > 0) return {.count = options.classes};
  const bool takes_values = takes_mask_values(wanted, meaning);
  const MaskValues values = takes_values ? options.mask_values : plain_mask_values();
  for (const SampleFiles& sample : list.samples) {
    const Image map = read_map(sample.maps.front(), meaning);
    if (takes_values) require_listed(map, options.listed_values, sample.maps.front());
    for (const std::uint8_t value : map.pixels) {
      const std::uint8_t id = values[value];
      if (id != kUnlabelled) classes.count = std::max<std::int64_t>(classes.count, id + 1);
    }
  }
  return classes;
}

SegmentationSet open_training_set(const SetOptions& options, const AugmentOptions& augment) {
  check_set_options(options);
  SegmentationSet set;
  if (common::names_scenes(options.path)) {
    set.source = make_scene_source(options, true);
  } else {
    set = open_files(options, files_of_training(options), true);
  }
  set.dataset = std::make_shared<TrainingSet>(set.source, augment, options.planes.count());
  return set;
}

SegmentationSet open_test_set(const SetOptions& options) {
  check_set_options(options);
  SegmentationSet set;
  if (common::names_scenes(options.path)) {
    set.source = make_scene_source(options, false);
  } else {
    set = open_files(options, files_of_test(options), false);
  }
  set.dataset = std::make_shared<TestSet>(set.source);
  return set;
}

Collate collate() {
  return [](std::vector<Sample> samples) {
    if (samples.empty()) throw InternalError("a batch without samples");
    return samples.front().target.defined() ? stacked_batch(samples) : padded_batch(samples);
  };
}

}  // namespace lockstep::segmentation
