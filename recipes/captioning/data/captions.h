// SPDX-License-Identifier: Apache-2.0
// Reads, selects and checks a set's images and captions before training. No torch header.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace lockstep::captioning {

/// An image (or its features) with its captions.
struct CaptionedImage {
  std::string id;                     ///< COCO's number, or the file name without folder and extension
  std::string file;                   ///< the image or the .npz; empty for a scene drawn in memory
  std::vector<std::string> captions;  ///< at least one, as in the file
};

/// The path of a set, and which part of it to use.
struct SetOptions {
  /// A folder with captions.txt or captions.json; either file itself; an NLVR folder (dev.json or another NAME.json,
  /// and images/); or "scenes:COUNT" or "scenes:COUNT:SEED": images drawn in memory (scene.h). Text: one
  /// FILE<TAB>CAPTION or FILE#NUMBER<TAB>CAPTION per line (Flickr8k's). JSON: COCO's captions, or Karpathy's, in which
  /// the images contain their sentences.
  std::string path;
  /// Karpathy's split (train also includes its restval); for NLVR, train (four out of five images) or test. Empty: all.
  std::string split = {};
  /// A file with the ids to use, in that order: one per line, or a JSON object mapping ids to paths of images or
  /// features, relative to `images` or `features`. Empty for all images with captions.
  std::string ids = {};
  std::string images = {};     ///< folder of images, absolute or relative to path's folder; if empty, images/ in path's
                               ///< folder, or that folder itself
  std::string features = {};   ///< folder of ID.npz with `feat` [L, D]: the set then has features instead of images
  bool allow_outside = false;  ///< file names may point outside these folders (name_inside())
  std::int64_t feature_width = 0;       ///< required D of each file; 0 means the D of the first
  std::int64_t max_features = -1;       ///< number of rows to use, from the first; -1 means all
  std::int64_t max_words = 16;          ///< longer captions are truncated to this many words; 1 .. 1000
  std::int64_t captions_per_image = 5;  ///< captions per training sample; see CaptionDataset
  std::int64_t height = 128;  ///< height in pixels of scaled images, 1 .. 8192, or of drawn scenes, 32 .. 4096
  std::int64_t width = 128;
  std::int64_t min_word_count = 1;  ///< minimum count of a word for Vocabulary::of()
};

/// Returns the set's images, in the order of the file or of `ids`. Notes count everything skipped (images without a
/// caption or without a true sentence). Image and feature files must exist but are not opened.
/// Throws: DataError naming the file and the line or id if a caption is empty or not UTF-8, an id occurs twice, JSON is
///         broken, an id has no captions, no image or no features (all counted, the first named), or nothing is left.
///         UsageError if options are out of range or exclude each other. IoError if a folder is not readable.
[[nodiscard]] std::vector<CaptionedImage> read_captions(const SetOptions& options);

}  // namespace lockstep::captioning
