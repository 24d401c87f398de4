// SPDX-License-Identifier: Apache-2.0
// Data sets of images with label maps, for training and evaluation: finds and checks the files, augments the images,
// and collates samples into batches.
#pragma once

#include <ATen/core/ivalue.h>  // before any other torch header: otherwise Clang cannot compile libtorch 1.13
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/data/collate.h"
#include "lockstep/data/dataset.h"
#include "lockstep/data/picture.h"
#include "segmentation/data/label_file.h"
#include "segmentation/synthetic/planes.h"

namespace lockstep::segmentation {

/// The labels of training samples.
enum class Supervision {
  kFull,       ///< full masks
  kScribbles,  ///< lines with a class; kUnlabelled elsewhere
};

/// The path of a set, and the maps to use. Folders are found by the names that VOC and plain sets use: images
/// `JPEGImages`, `images`; masks `SegmentationClassAug`, `SegmentationClass`, `masks`, `instances`; scribbles
/// `pascal_2012_scribble`, `scribbles`; pseudo-labels `bmp_pseudolabel`, `pseudo_labels`; distances to scribbles
/// `distance_map`, `distance_scribble`; distances to borders of the pseudo-labels `distance_pseudo`, `distance_class`.
/// Maps are PNGs (.png in any case) named like their image: gray or palette, 8-bit, with a class id for each pixel. In
/// a folder named `instances` they may have 16 bits, and any value except 0 is class 1.
struct SetOptions {
  std::string path;  ///< a folder, or "scenes:COUNT:SEED": images drawn in memory (scene_source.h), with all maps
  /// ImageSets/SegmentationAug/<split>.txt or ImageSets/Segmentation/<split>.txt, one name per line. Without a folder
  /// ImageSets, every image of the folder, or of the folder <split> in it. Empty means train for training, otherwise
  /// val.
  std::string split = {};
  Supervision supervision = Supervision::kFull;  ///< labels of training sets
  std::string masks = {};  ///< folder, relative to `path` or absolute; if empty, found by name; likewise below
  MaskValues mask_values = plain_mask_values();  ///< class ids for the values of full masks, except for instances
  /// The values in `mask_values` that a user has listed. If there are any, other values except 0 and 255 are an error
  /// while the number of classes is unknown.
  std::vector<std::uint8_t> listed_values = {};
  std::string scribbles = {};
  std::string pseudo_labels = {};
  std::string scribble_distances = {};
  std::string class_distances = {};
  std::int64_t classes = 2;       ///< number of classes, including the background: ids are below it, or kUnlabelled
  Planes planes = {};             ///< planes of training samples
  bool strict = true;             ///< if false, images without one of their maps are skipped and counted in a note
  double test_fraction = 0;       ///< fraction of the files' images in the test set (hold_out()); 0 means all of them
  std::uint64_t split_seed = 0;   ///< seed for choosing the test set
  std::int64_t scene_side = 128;  ///< width and height in pixels of images drawn in memory
};

/// The classes that a set names.
struct SetClasses {
  std::vector<std::string> names = {};  ///< names by id; empty if the set has no names
  std::int64_t count = 0;  ///< number of names, else `SetOptions::classes`, else the largest id plus one, at least two
};

/// Returns the classes of a training set. The names come from `classes.txt` (one name per line) or `labelmap.txt`
/// (CVAT's name:colour:parts:actions) in the set's folder or the one above; a folder `instances` has background and
/// foreground, and scenes have their own names. Cost: without names or a number, every label map is read.
/// Throws: the DataErrors of open_training_set().
[[nodiscard]] SetClasses classes_of(const SetOptions& options);

/// Augmentation of an image together with its maps: scaled, rotated, cropped, blurred, mirrored.
struct AugmentOptions {
  std::int64_t crop = 465;  ///< width and height of a sample in pixels
  double scale_min = 0.5;   ///< smallest scale factor; factors are drawn uniformly
  double scale_max = 2.0;
  double rotate_degrees = 10.0;  ///< largest rotation, in either direction
  double rotate_prob = 0.5;
  double blur_prob = 0.5;  ///< probability of a Gaussian blur of 5 x 5 pixels
  double flip_prob = 0.5;
  double photometric_prob = 0.0;  ///< probability of each lighting and colour change (PhotometricDistort)
};

struct SegmentationSet {
  std::shared_ptr<Dataset> dataset;
  /// The source of the samples, by index; AnnotatedImage::maps has the planes' maps in the order of the planes (in a
  /// test set: the masks).
  std::shared_ptr<const ImageSource> source;
  std::vector<std::string> notes;  ///< notes on everything skipped or unusual, logged when the set was opened
};

/// Samples for training: data float32 [3, crop, crop], normalised with ImageNet's mean and standard deviation; target
/// uint8 [planes.count(), crop, crop]. Outside the image, the colour is ImageNet's mean, labels are kUnlabelled, and
/// distance maps are 0. Distance maps keep their values when they are scaled. Opening a set reads the label maps of up
/// to 1,000 images: all of them, or every n-th of a larger set. Notes, each with a count and the first file: skipped
/// images (strict = false), maps without labels, 16-bit images (their upper 8 bits are used), two files with the same
/// name (strict = false: the first is used). In a larger set, the first such map and image not read at opening get a
/// note when they are read. If classes have no pixels, a warning and a note name them and the values that occur in the
/// maps.
/// Thread-safe: yes, for the data set.
/// Throws: DataError naming the values if all maps hold at most one class; DataError naming the file if maps or
///         images are missing (all counted), a name has two files, a list is empty or names an image twice, a map
///         differs in size from its image, a class id is unknown, a class map has 16 bits, or a file is damaged (for
///         files that opening does not read: from get); UsageError if options are out of range.
[[nodiscard]] SegmentationSet open_training_set(const SetOptions& options, const AugmentOptions& augment);

/// The ground truth of an image: Sample::extra of a test set.
struct EvalPicture {
  at::Tensor mask;   ///< uint8 [H, W]
  std::string name;  ///< the image's file
};

/// Whole images with their full masks, for any `supervision`: data float32 [3, H, W], normalised as above;
/// Sample::extra: EvalPicture.
/// Throws: anything open_training_set() throws.
[[nodiscard]] SegmentationSet open_test_set(const SetOptions& options);

/// Builds a batch from either set's samples. Training: stacked. Test: data [B, 3, maxH, maxW], with smaller images
/// zero-padded on the right and bottom; Batch::extra: std::vector<EvalPicture>. Thread-safe: yes.
[[nodiscard]] Collate collate();

}  // namespace lockstep::segmentation
