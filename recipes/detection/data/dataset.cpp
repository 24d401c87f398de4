// SPDX-License-Identifier: Apache-2.0
// Checks sources before training, and builds the training and test sets from them.
#include "detection/data/dataset.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "common/scene_set.h"
#include "detection/data/dataset_augment.h"
#include "detection/data/scene_source.h"
#include "lockstep/base/error.h"
#include "lockstep/base/log.h"
#include "lockstep/base/text.h"
#include "lockstep/data/augment/resize.h"
#include "lockstep/data/sources/coco.h"
#include "lockstep/data/sources/held_out.h"
#include "lockstep/data/sources/image_files.h"
#include "lockstep/data/sources/voc.h"

namespace lockstep::detection {
namespace {

/// The objects of an image; reads the image only if the source cannot provide them otherwise.
std::vector<Object> objects_of(const ImageSource& source, std::int64_t index) {
  if (const auto* part = dynamic_cast<const ImageSubset*>(&source))
    return objects_of(part->whole(), part->in_whole(index));
  if (const auto* coco = dynamic_cast<const CocoImages*>(&source)) return coco->objects(index);
  if (const auto* voc = dynamic_cast<const VocImages*>(&source)) return voc->objects(index);
  return source.get(index).objects;
}

/// The image's size according to the source; 0 x 0 if it does not state one.
ImageSize stated_size(const ImageSource& source, std::int64_t index) {
  if (const auto* part = dynamic_cast<const ImageSubset*>(&source))
    return stated_size(part->whole(), part->in_whole(index));
  if (const auto* coco = dynamic_cast<const CocoImages*>(&source)) return coco->stated_size(index);
  if (const auto* voc = dynamic_cast<const VocImages*>(&source)) return voc->stated_size(index);
  return {};
}

Box cut(const Box& box, ImageSize size) {
  const auto width = static_cast<float>(size.width);
  const auto height = static_cast<float>(size.height);
  return {std::clamp(box.x1, 0.0F, width), std::clamp(box.y1, 0.0F, height), std::clamp(box.x2, 0.0F, width),
          std::clamp(box.y2, 0.0F, height)};
}

bool has_area(const Box& box) { return box.x2 > box.x1 && box.y2 > box.y1; }

/// A source whose images are checked against their annotations; for training, with only the learnable objects.
class CheckedSource final : public ImageSource {
 public:
  CheckedSource(std::shared_ptr<const ImageSource> inner, bool training)
      : inner_(std::move(inner)), training_(training) {}

  [[nodiscard]] std::int64_t size() const override { return inner_->size(); }
  [[nodiscard]] std::string describe(std::int64_t index) const override { return inner_->describe(index); }
  [[nodiscard]] const std::vector<std::string>& class_names() const override { return inner_->class_names(); }

  [[nodiscard]] AnnotatedImage get(std::int64_t index) const override {
    AnnotatedImage picture = inner_->get(index);
    const ImageSize size = picture.pixels.size();
    const ImageSize stated = stated_size(*inner_, index);
    if (stated != ImageSize{} && stated != size) {
      throw DataError(fmt::format("{} is {} x {} pixels, but its annotations say {} x {}", describe(index), size.width,
                                  size.height, stated.width, stated.height),
                      "boxes would be in the wrong place: fix the annotations or the image");
    }
    if (!training_) return picture;
    for (Object& object : picture.objects) object.box = cut(object.box, size);
    std::erase_if(picture.objects, [](const Object& object) { return object.crowd || !has_area(object.box); });
    return picture;
  }

 private:
  std::shared_ptr<const ImageSource> inner_;
  bool training_;
};

/// Counts the faults in the objects of a source.
class Survey {
 public:
  Survey(const ImageSource& source, std::int64_t classes) : source_(source), classes_(classes) {}

  void run() {
    for (std::int64_t i = 0; i < source_.size(); ++i) {
      const std::vector<Object> objects = objects_of(source_, i);
      const ImageSize size = stated_size(source_, i);
      for (std::size_t k = 0; k < objects.size(); ++k) look(i, k, objects[k], size);
    }
  }

  [[nodiscard]] std::int64_t crowds() const noexcept { return crowds_; }
  [[nodiscard]] std::int64_t empty() const noexcept { return empty_; }
  [[nodiscard]] const std::string& first() const noexcept { return first_; }
  /// True if there is an object to learn.
  [[nodiscard]] bool any() const noexcept { return !learnt_.empty(); }
  /// The labels of the classes without a learnable object.
  [[nodiscard]] std::vector<std::int64_t> missing() const {
    std::vector<std::int64_t> labels;
    for (std::int64_t label = 0; label < classes_; ++label) {
      if (!learnt_.contains(label)) labels.push_back(label);
    }
    return labels;
  }

 private:
  void look(std::int64_t index, std::size_t at, const Object& object, ImageSize size) {
    const auto where = [&] { return fmt::format("object {} of {}", at, source_.describe(index)); };
    if (object.label < 0 || object.label >= classes_) {
      throw DataError(fmt::format("{} has class {}, but there are {} classes", where(), object.label, classes_),
                      fmt::format("classes are numbered 0 .. {}", classes_ - 1));
    }
    if (object.crowd) {
      ++crowds_;
      return;
    }
    const Box seen = size == ImageSize{} ? object.box : cut(object.box, size);
    if (has_area(seen)) {
      learnt_.insert(object.label);
      return;
    }
    if (empty_++ == 0) {
      first_ = fmt::format("{}, from ({:g}, {:g}) to ({:g}, {:g})", where(), object.box.x1, object.box.y1,
                           object.box.x2, object.box.y2);
    }
  }

  const ImageSource& source_;
  std::int64_t classes_;
  std::int64_t crowds_ = 0;
  std::int64_t empty_ = 0;
  std::string first_;
  std::set<std::int64_t> learnt_;
};

/// Warns of classes without objects: a name may be misspelt, or may be that of a parent of other classes.
void warn_of_missing_classes(const Survey& survey, const std::vector<std::string>& names, const std::string& path) {
  constexpr std::size_t kMost = 10;
  std::vector<std::string> words;
  for (const std::int64_t label : survey.missing()) {
    const bool named = label < std::ssize(names);
    words.push_back(named ? fmt::format("{} ({})", label, names[static_cast<std::size_t>(label)])
                          : fmt::format("{}", label));
  }
  if (words.empty()) return;
  const std::size_t count = words.size();
  if (count > kMost) {
    words.resize(kMost);
    words.emplace_back("...");
  }
  log::warn("{}: no box has {} {}: {} will never be found", path, count == 1 ? "class" : "one of the classes",
            text::join(words), count == 1 ? "it" : "they");
}

/// Reports a set without any object to learn or to find. Throws: DataError if the set is for training.
void judge_boxes(const Survey& survey, const std::string& path, bool training) {
  if (survey.any()) return;
  const bool none = survey.empty() + survey.crowds() == 0;
  if (training)
    throw none ? no_boxes(path) : DataError(fmt::format("all boxes of {} are crowds or have no area", path));
  log::note("{} has no box to find: without one, the average precision is -1", path);
}

std::shared_ptr<const ImageSource> part_of(const std::shared_ptr<const ImageSource>& whole,
                                           const DatasetOptions& options) {
  if (options.part == SetPart::kAll) return whole;
  HeldOut parts = hold_out(*whole, options.test_fraction, options.split_seed);
  const bool test = options.part == SetPart::kTest;
  log::note("{}: {} of {} images are for {}", options.source.path, test ? parts.held_out.size() : parts.rest.size(),
            whole->size(), test ? "the test" : "training");
  return std::make_shared<ImageSubset>(whole, std::move(test ? parts.held_out : parts.rest));
}

DetectionSet open_checked(const DatasetOptions& options, bool training) {
  const std::shared_ptr<const ImageSource> whole = open_pictures(options);
  const std::int64_t classes = options.classes > 0 ? options.classes : count_classes(*whole);
  const std::shared_ptr<const ImageSource> source = part_of(whole, options);
  if (classes == 0) {
    if (training) throw no_boxes(options.source.path);
    throw UsageError(fmt::format("{} names no classes", options.source.path),
                     "set the number of classes: num_classes=N");
  }
  Survey survey(*source, classes);
  survey.run();
  const std::string first = survey.empty() > 0 ? fmt::format("; the first such box: {}", survey.first()) : "";
  if (training && survey.empty() + survey.crowds() > 0) {
    log::note("{}: {} without area in the image and {} are excluded from training{}", options.source.path,
              text::counted(survey.empty(), "box", "boxes"), text::counted(survey.crowds(), "crowd"), first);
  } else if (survey.empty() > 0) {
    log::note("{}: {} boxes have no area in the image and count as never found{}", options.source.path, survey.empty(),
              first);
  }
  judge_boxes(survey, options.source.path, training);
  if (training) warn_of_missing_classes(survey, source->class_names(), options.source.path);
  DetectionSet set;
  set.class_names = source->class_names();
  if (const auto* coco = dynamic_cast<const CocoImages*>(whole.get())) set.category_ids = coco->category_ids();
  set.source = std::make_shared<CheckedSource>(source, training);
  set.dropped = training ? survey.empty() + survey.crowds() : 0;
  return set;
}

class TrainingSet final : public Dataset {
 public:
  TrainingSet(std::shared_ptr<const ImageSource> source, const AugmentOptions& options)
      : source_(std::move(source)), augment_(options, source_) {}

  [[nodiscard]] std::int64_t size() const override { return source_->size(); }
  [[nodiscard]] std::string describe(std::int64_t index) const override { return source_->describe(index); }
  Sample get(std::int64_t index, SampleContext& context) override {
    auto image = std::make_shared<AnnotatedImage>(source_->get(index));
    augment_(*image, context);
    Sample sample;
    sample.extra = Unsized(std::move(image));
    return sample;
  }

 private:
  std::shared_ptr<const ImageSource> source_;
  const Augmenter augment_;
};

class TestSet final : public Dataset {
 public:
  TestSet(std::shared_ptr<const ImageSource> source, std::int64_t side) : source_(std::move(source)), side_(side) {}

  [[nodiscard]] std::int64_t size() const override { return source_->size(); }
  [[nodiscard]] std::string describe(std::int64_t index) const override { return source_->describe(index); }
  Sample get(std::int64_t index, SampleContext& context) override {
    AnnotatedImage image = source_->get(index);
    Sample truth;
    DetectionTarget{.centered = true}(image, context, truth);
    image.objects.clear();
    Resize{.size = {side_, side_}}(image);
    Sample sample = ToTensor{}(image, context);
    sample.extra = std::move(truth.extra);
    return sample;
  }

 private:
  std::shared_ptr<const ImageSource> source_;
  std::int64_t side_;
};

}  // namespace

std::shared_ptr<const ImageSource> open_pictures(const DatasetOptions& options) {
  if (options.opened) return options.opened;
  const std::string& path = options.source.path;
  return common::names_scenes(path) ? make_scene_source(path, options.side) : open_source(options.source);
}

DataError no_boxes(const std::string& path) {
  return DataError(fmt::format("{} has no boxes", path),
                   "detection reads boxes from COCO (the JSON file of instances, with data.train_images), Pascal VOC "
                   "(JPEGImages/ and Annotations/), a JSON list of files with \"boxes\", and tar shards");
}

std::int64_t count_classes(const ImageSource& source) {
  if (!source.class_names().empty()) return std::ssize(source.class_names());
  std::int64_t classes = 0;
  for (std::int64_t i = 0; i < source.size(); ++i) {
    for (const Object& object : objects_of(source, i)) classes = std::max(classes, object.label + 1);
  }
  return classes;
}

std::shared_ptr<Dataset> picture_files(std::vector<std::filesystem::path> files, std::int64_t side) {
  return std::make_shared<TestSet>(std::make_shared<ImageFiles>(ImageFiles::of(std::move(files))), side);
}

DetectionSet open_training_set(const DatasetOptions& options, const AugmentOptions& augment) {
  DetectionSet set = open_checked(options, true);
  set.dataset = std::make_shared<TrainingSet>(set.source, augment);
  return set;
}

DetectionSet open_test_set(const DatasetOptions& options) {
  if (options.side <= 0)
    throw UsageError(fmt::format("the image size is {} pixels; it must be at least 1", options.side));
  DetectionSet set = open_checked(options, false);
  set.dataset = std::make_shared<TestSet>(set.source, options.side);
  return set;
}

}  // namespace lockstep::detection
