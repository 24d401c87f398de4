// SPDX-License-Identifier: Apache-2.0
// Data sets of images with boxes, for training and evaluation: checks the sources, augments the images by epoch, and
// collates samples into batches.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "detection/data/targets.h"
#include "lockstep/base/error.h"
#include "lockstep/data/collate.h"
#include "lockstep/data/dataset.h"
#include "lockstep/data/sources/open_source.h"

namespace lockstep::detection {

/// Augmentation during training. Strong operations are Mosaic, MixUp, PhotometricDistort, ZoomOut and IoUCrop;
/// HorizontalFlip runs in every epoch. Source: DEIM's policy and defaults.
struct AugmentOptions {
  /// Epochs e0 <= e1 <= e2. Before e0: no strong operations. From e0 to e1: all strong operations, but ZoomOut and
  /// IoUCrop only on images that are not mosaics. From e1 to e2: all except Mosaic and MixUp. From e2 (stage 2): none.
  std::array<std::int64_t, 3> policy{4, 29, 50};
  double mosaic_prob = 0.5;
  double mixup_prob = 0.5;
  double photometric_prob = 0.5;
  double zoom_out_prob = 0.5;
  double iou_crop_prob = 0.8;
  double flip_prob = 0.5;
  double zoom_out_max = 4.0;      ///< maximum side of the canvas, relative to the image's
  double iou_crop_min = 0.3;      ///< minimum side of a crop, relative to the image's
  std::int64_t mosaic_side = 0;   ///< shorter side, in pixels, of an image in a mosaic; 0 means half of `base_size`
  double mosaic_min_scale = 0.5;  ///< smallest scale of the whole mosaic
  double mosaic_max_scale = 1.5;  ///<
  double mosaic_degrees = 10.0;
  double mosaic_translate = 0.1;
  double min_box = 1.0;               ///< in pixels at the network's size; smaller boxes are dropped
  std::int64_t base_size = 160;       ///< side in pixels of the network's input
  std::int64_t base_size_repeat = 0;  ///< how often scales_of() lists base_size; if 0, every batch has base_size
  std::int64_t divisor = 32;          ///< divisor of all sizes: the coarsest stride
};

/// Sizes from about 3/4 to 5/4 of the base, with the base itself listed `repeat` times.
/// Throws: UsageError if a number is not positive or the base is not a multiple of the divisor.
/// Source: D-FINE's generate_scales(640, 3): 480 .. 608, 640 three times, 800 .. 672, with 32 as the divisor.
[[nodiscard]] std::vector<std::int64_t> scales_of(std::int64_t base, std::int64_t repeat, std::int64_t divisor);

/// The width and height in pixels of a batch's images. It depends only on seed, epoch and step, so it is the same on
/// all ranks and replicas. From policy[2] on, it is base_size.
[[nodiscard]] std::int64_t batch_side(const AugmentOptions& options, const BatchContext& context);

/// A part of a set split by hold_out().
enum class SetPart { kAll, kTraining, kTest };

struct DatasetOptions {
  SourceOptions source;                                 ///< "scenes:200:7" means synthetic images (scene_source.h)
  std::int64_t classes = 0;                             ///< number of classes; 0 means as many as the source names
  std::int64_t side = 160;                              ///< side in pixels of the network's input in evaluation
  std::shared_ptr<const ImageSource> opened = nullptr;  ///< `source` if it is already open, before the split
  SetPart part = SetPart::kAll;
  double test_fraction = 0;
  std::uint64_t split_seed = 0;
};

/// Opens all images of a set, unchanged, whatever `part` is.
/// Throws: anything open_source() throws; UsageError if scenes come without a number.
[[nodiscard]] std::shared_ptr<const ImageSource> open_pictures(const DatasetOptions& options);

/// The error of a training set without boxes; its hint names the layouts that have boxes.
[[nodiscard]] DataError no_boxes(const std::string& path);

/// The number of classes that a set names; if it names none, its largest label plus 1, or 0 if it has no objects.
/// Throws: DataError naming the image if one cannot be read.
[[nodiscard]] std::int64_t count_classes(const ImageSource& source);

struct DetectionSet {
  std::shared_ptr<Dataset> dataset;
  std::vector<std::string> class_names;       ///< names by label; may be empty
  std::vector<std::int64_t> category_ids;     ///< COCO's id of each label; empty means labels are ids
  std::shared_ptr<const ImageSource> source;  ///< the source of the samples, by index
  std::int64_t dropped = 0;  ///< number of crowds and boxes without area, which are excluded from training
};

/// Opens the images of a source, for a loader with collate_of(). Boxes are clipped to the image. Crowds and boxes
/// without area are excluded, and one note counts them and names the first. A warning names the classes without any
/// box. A sample's image, in Sample::extra, still has its original size: collate_of() resizes it once.
/// Throws: DataError naming file and object if a label is not below `classes`; from get(), if an image is damaged or
///         its annotations state another size; anything open_source() throws; UsageError if options are inconsistent.
[[nodiscard]] DetectionSet open_training_set(const DatasetOptions& options, const AugmentOptions& augment);

/// Like open_training_set(), but for evaluation: keeps every object. Sample::data: float32, 3 x side x side, in 0 .. 1,
/// stretched to a square. Sample::extra: Detections with boxes as centre and size in 0 .. 1; areas are in pixels of the
/// original image, whose size is also included: evaluators need both. Throws: anything open_training_set() throws.
[[nodiscard]] DetectionSet open_test_set(const DatasetOptions& options);

/// Opens images without annotations, like open_test_set().
[[nodiscard]] std::shared_ptr<Dataset> picture_files(std::vector<std::filesystem::path> files, std::int64_t side);

/// Builds a batch from either set's samples: stacks the data, and sets Batch::extra to Targets. Training images get the
/// size of batch_side(). Thread-safe: yes.
[[nodiscard]] Collate collate_of(const AugmentOptions& options);

}  // namespace lockstep::detection
