// SPDX-License-Identifier: Apache-2.0
// From options to files to data sets, and from samples to batches.
#include "segmentation/dataset.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/log.h"
#include "lockstep/data/augment/to_tensor.h"
#include "segmentation/dataset_augment.h"
#include "segmentation/masked_pictures.h"
#include "segmentation/scene_source.h"
#include "segmentation/set_folders.h"

namespace lockstep::segmentation {
namespace {

constexpr std::int64_t kSurveyed = 1000;  // pictures whose maps are read when a set is opened

void check_set_options(const SetOptions& options) {
  if (options.classes < 2 || options.classes > 255) {
    throw UsageError(fmt::format("a set of {} classes; with the background there are 2 .. 255", options.classes));
  }
}

/// The roles of a training sample's maps in the order of its planes, and the folders that were given for them.
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

SegmentationSet open_files(const SetOptions& options, const FileListOptions& wanted) {
  FileList list = list_files(options.path, wanted);
  MaskedPicturesOptions pictures{.meanings = {}, .classes = options.classes};
  for (std::size_t i = 0; i < wanted.roles.size(); ++i) {
    pictures.meanings.push_back(meaning_of(wanted.roles[i], list.folders[i]));
  }
  if (pictures.meanings.front() == MapMeaning::kInstances) pictures.class_names = {"background", "foreground"};
  const auto source = std::make_shared<MaskedPictures>(std::move(list.samples), std::move(pictures));
  SegmentationSet set;
  set.notes = std::move(list.notes);
  for (std::string& note : source->survey(kSurveyed)) {
    set.notes.push_back(fmt::format("{}: {}", options.path, note));
  }
  for (const std::string& note : set.notes) log::note("{}", note);
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

}  // namespace

SegmentationSet open_training_set(const SetOptions& options, const AugmentOptions& augment) {
  check_set_options(options);
  SegmentationSet set;
  if (names_scenes(options.path)) {
    set.source = make_scene_source(options, true);
  } else {
    set = open_files(options, files_of_training(options));
  }
  set.dataset = std::make_shared<TrainingSet>(set.source, augment, options.planes.count());
  return set;
}

SegmentationSet open_test_set(const SetOptions& options) {
  check_set_options(options);
  SegmentationSet set;
  if (names_scenes(options.path)) {
    set.source = make_scene_source(options, false);
  } else {
    set = open_files(options, files_of_test(options));
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
