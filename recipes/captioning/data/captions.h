// SPDX-License-Identifier: Apache-2.0
// Which pictures a set has and what people say about them: read, chosen and checked before anything is trained.
// No torch header.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace lockstep::captioning {

/// A picture, or its features, and what is said about it.
struct CaptionedImage {
  std::string id;                     ///< COCO's number, or the file's name without folder and extension
  std::string file;                   ///< the picture or the .npz; empty for a scene that is drawn in memory
  std::vector<std::string> captions;  ///< as they stand in the file, one at least
};

/// Where a set lies and what is wanted of it.
struct SetOptions {
  /// A folder with captions.txt or captions.json; such a file by its own name; a folder of NLVR (dev.json or another
  /// NAME.json, and images/); or "scenes:COUNT" or "scenes:COUNT:SEED": pictures that are drawn in memory (scene.h).
  /// Text: FILE<TAB>CAPTION or FILE#NUMBER<TAB>CAPTION a line (Flickr8k's). JSON: COCO's captions, or Karpathy's, whose
  /// images hold their sentences.
  std::string path;
  /// Karpathy's split (train also takes its restval); of NLVR: train (four of five pictures) or test. Empty: all.
  std::string split = {};
  /// A file with the ids that are wanted, in their order: one a line, or a JSON object from ids to paths of pictures or
  /// features, relative to `images` or `features`. Empty: all that have captions.
  std::string ids = {};
  std::string images = {};         ///< folder of pictures, relative to path's folder or absolute; empty: images/ or it
  std::string features = {};       ///< folder of ID.npz with `feat` [L, D]: the set has features, no pictures
  bool allow_outside = false;      ///< names of files may lead out of these folders (name_inside())
  std::int64_t feature_width = 0;  ///< D that each must have; 0: that of the first
  std::int64_t max_features = -1;  ///< only the first so many rows; -1: all
  std::int64_t max_words = 16;     ///< a longer caption is cut; 1 .. 1000
  std::int64_t captions_per_image = 5;  ///< captions of a training sample; see CaptionDataset
  std::int64_t height = 128;  ///< pixels that pictures are scaled to, 1 .. 8192, or scenes drawn with, 32 .. 4096
  std::int64_t width = 128;
  std::int64_t min_word_count = 1;  ///< for Vocabulary::of
};

/// The set's pictures in the order of the file, or of `ids`. What was left out (pictures without a caption, without a
/// true sentence) is counted and said in a note. The files of pictures and features are looked for, not opened.
/// Throws: DataError naming the file and the line or id where a caption is empty or no UTF-8, an id stands twice, JSON
/// is broken, an id has no captions, no picture or no features (all counted, the first named), or nothing is left.
/// UsageError where options are out of range or exclude each other. IoError where a folder may not be looked into.
[[nodiscard]] std::vector<CaptionedImage> read_captions(const SetOptions& options);

}  // namespace lockstep::captioning
