// SPDX-License-Identifier: Apache-2.0
// Reads the caption file formats: plain text, and the JSON of COCO, Karpathy and NLVR. Untrusted input: every error
// names the file and the line, or the id. No torch header.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "captioning/data/captions.h"

namespace lockstep::captioning {

/// The contents of a file. CaptionedImage::file is as given in that file, relative to a folder of images.
struct CaptionTable {
  std::vector<CaptionedImage> images;  ///< images in file order; each has a caption and a unique id
  std::vector<std::string> notes;      ///< notes on everything skipped
};

/// The id of an image that has no number: the file name without its folder and without .png, .jpg, .jpeg or .npz.
[[nodiscard]] std::string id_of_file(const std::string& file);

/// Reads one FILE<TAB>CAPTION or FILE#NUMBER<TAB>CAPTION per line; empty lines are skipped. A # that is not followed
/// only by digits is part of the file name. Throws: DataError naming the line if it lacks a tab, a file or a caption,
/// is not UTF-8, repeats FILE#NUMBER, or has the id of another file; naming the file if it is empty.
[[nodiscard]] CaptionTable read_caption_text(const std::filesystem::path& file);
/// Parses the bytes of a file, as do the other parse functions below. `file` is the name to use in messages.
[[nodiscard]] CaptionTable parse_caption_text(std::string_view text, const std::filesystem::path& file);

/// Reads COCO's {"images": [...], "annotations": [...]}, or Karpathy's {"images": [{"sentences": [...]}]}, and keeps
/// the images of `split`. Images without a caption are skipped and counted. Throws: DataError naming the line if it is
/// not JSON or UTF-8, the id if a field is missing, a caption is empty or does not belong to an image, or an id occurs
/// twice; naming the existing splits if `split` is not one of them.
[[nodiscard]] CaptionTable read_caption_json(const std::filesystem::path& file, const std::string& split);
[[nodiscard]] CaptionTable parse_caption_json(std::string_view text, const std::filesystem::path& file,
                                              const std::string& split);

/// A list of ids, with each one's file if the list names files.
struct IdList {
  std::vector<std::string> ids;
  std::vector<std::string> files;  ///< empty, or one per id
};

/// Reads one id per line, or a JSON object from ids to paths. Throws: DataError naming the file if it is empty, an id
/// occurs twice or a value is not a path.
[[nodiscard]] IdList read_ids(const std::filesystem::path& file);
[[nodiscard]] IdList parse_ids(std::string_view bytes, const std::filesystem::path& file);

/// Throws: DataError naming the first line that is not UTF-8.
void require_utf8(std::string_view bytes, const std::filesystem::path& file);

/// Rejects text that is too long for a caption. The message begins with `where`. Throws: DataError.
void require_short(std::string_view caption, const std::string& where);

/// The text of a file, converted to UTF-8 if it begins with a UTF-16 byte order mark, otherwise unchanged.
/// Throws: DataError if the file is missing; IoError.
[[nodiscard]] std::string file_text(const std::filesystem::path& file);

/// True if a file begins like NLVR's (Suhr et al., A Corpus of Natural Language for Visual Reasoning, 2017): a JSON
/// object with "sentence" and "identifier" on its first line.
[[nodiscard]] bool is_nlvr(const std::filesystem::path& file);

/// Reads NAME.json: one JSON object per line, with a sentence, an identifier SENTENCE-PICTURE and a label; the image is
/// DIRECTORY/NAME-IDENTIFIER-0.png. A sentence that is true of its image is its caption. Each sentence was shown with
/// up to four images, most of which look alike, so the splits keep the images of a sentence together: "test" has every
/// fifth sentence by number, "train" all others. Images without a true sentence are skipped and counted.
/// Throws: DataError naming the line if it is not JSON or lacks a field; UsageError for another `split`.
[[nodiscard]] CaptionTable read_nlvr(const std::filesystem::path& file, const std::string& split);

}  // namespace lockstep::captioning
