// SPDX-License-Identifier: Apache-2.0
// Pictures with label maps for training and for evaluation: which files belong together, which are good, what is done
// to a picture, and how samples become a batch.
#pragma once

#include <ATen/core/ivalue.h>  // before any other torch header: Clang cannot compile 1.13 as C++20 otherwise
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

/// What the labels of training samples are.
enum class Supervision {
  kFull,       ///< full masks
  kScribbles,  ///< lines; kUnlabelled elsewhere
};

/// Where a set lies and what is wanted of it. Folders are looked for under the names of VOC and of plain folders:
/// pictures `JPEGImages`, `images`; masks `SegmentationClassAug`, `SegmentationClass`, `masks`, `instances`; scribbles
/// `pascal_2012_scribble`, `scribbles`; pseudo-labels `bmp_pseudolabel`, `pseudo_labels`; distances to scribbles
/// `distance_map`, `distance_scribble`; to borders of the pseudo-labels `distance_pseudo`, `distance_class`. Maps are
/// PNGs (.png in any case) named as their picture: gray or with a palette, of 8 bits, a class id for each pixel. In a
/// folder named `instances` they may have 16 bits, and anything but 0 is class 1.
struct SetOptions {
  std::string path;  ///< a folder, or "scenes:COUNT:SEED": pictures drawn in memory (scene_source.h), with all maps
  /// ImageSets/SegmentationAug/<split>.txt or ImageSets/Segmentation/<split>.txt, names one a line; without a folder
  /// ImageSets: every picture of the folder, or of the folder <split> in it. Empty: train for training, else val.
  std::string split = {};
  Supervision supervision = Supervision::kFull;  ///< supervision of training sets
  std::string masks = {};                        ///< another folder, relative to `path`, or absolute; so the others
  MaskValues mask_values = plain_mask_values();  ///< values of full masks, except for instances
  std::string scribbles = {};
  std::string pseudo_labels = {};
  std::string scribble_distances = {};
  std::string class_distances = {};
  std::int64_t classes = 2;       ///< with the background: ids have to be below it, or kUnlabelled
  Planes planes = {};             ///< planes of training samples
  bool strict = true;             ///< false: pictures without one of their maps are left out and counted in a note
  double test_fraction = 0;       ///< part of the files' pictures that is the test set (hold_out()); 0: all are
  std::uint64_t split_seed = 0;   ///< of that part
  std::int64_t scene_side = 128;  ///< pixels of pictures that are drawn in memory, each way
};

/// What a set says of its classes.
struct SetClasses {
  std::vector<std::string> names = {};  ///< by id; empty: it names none
  std::int64_t count = 0;  ///< number of names, else `SetOptions::classes`, else one more than the largest id, at least
                           ///< two
};

/// The classes of a training set. Names are those of `classes.txt` (a name a line) or `labelmap.txt` (as CVAT writes
/// it: name:colour:parts:actions) in the set's folder or the one above, background and foreground of a folder
/// `instances`, and those of scenes. Cost: with neither names nor a number every map of labels is read. Throws:
/// DataError as open_training_set().
[[nodiscard]] SetClasses classes_of(const SetOptions& options);

/// What training does to a picture and its maps, all together: scaled, turned, cut, blurred, mirrored.
struct AugmentOptions {
  std::int64_t crop = 465;  ///< pixels of a sample, each way
  double scale_min = 0.5;   ///< share of the picture's own size; the factor is drawn uniformly
  double scale_max = 2.0;
  double rotate_degrees = 10.0;  ///< either way
  double rotate_prob = 0.5;
  double blur_prob = 0.5;  ///< Gaussian of 5 x 5 pixels
  double flip_prob = 0.5;
  double photometric_prob = 0.0;  ///< probability of each change of light and colour (PhotometricDistort)
};

struct SegmentationSet {
  std::shared_ptr<Dataset> dataset;
  /// What the samples are made of, by index; AnnotatedImage::maps are the planes' maps in their order (of a test set:
  /// the masks).
  std::shared_ptr<const ImageSource> source;
  std::vector<std::string> notes;  ///< all that was left out or is odd, as it was said when the set was opened
};

/// Samples for training: data float32 [3, crop, crop], normalised with ImageNet's mean and deviation; target uint8
/// [planes.count(), crop, crop]. What lies outside of the picture is of ImageNet's mean colour, kUnlabelled, and 0 in
/// distance maps. Distance maps keep their values when they are scaled.
/// Read when opened: all label maps of up to 1,000 pictures, every n-th of a larger set so that as many are read.
/// Notes, each with a count and the first file: pictures that were left out (strict = false), maps in which nothing is
/// labelled, pictures of 16 bits (their upper 8 are used), two files of one name (strict = false: the first is used).
/// Of a larger set, the first such map and the first such picture that were not read when it was opened are noted when
/// they are met, once each.
/// A warning and a note name the classes that no pixel is of, and the values that were seen.
/// Thread-safe: the data set. Throws: DataError naming the values where there is no more than one class in all maps;
/// DataError naming the file where maps or pictures are missing (all counted), a name has two files, a list is empty or
/// names a picture twice, a map has another size than its picture, a class id is unknown, a class map has 16 bits, or a
/// file is torn; what was not read at first throws from get. UsageError where options are out of range.
[[nodiscard]] SegmentationSet open_training_set(const SetOptions& options, const AugmentOptions& augment);

/// The truth about a picture: Sample::extra of a test set.
struct EvalPicture {
  at::Tensor mask;   ///< uint8 [H, W]
  std::string name;  ///< the picture's file
};

/// Whole pictures with their full masks, whatever `supervision` says: data float32 [3, H, W], normalised as above;
/// Sample::extra: EvalPicture.
/// Throws: as above.
[[nodiscard]] SegmentationSet open_test_set(const SetOptions& options);

/// Makes a batch of either set's samples. Training: stacked. Test: data [B, 3, maxH, maxW], 0 at the right and below
/// smaller pictures; Batch::extra: std::vector<EvalPicture>. Thread-safe: yes.
[[nodiscard]] Collate collate();

}  // namespace lockstep::segmentation
