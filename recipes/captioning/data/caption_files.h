// SPDX-License-Identifier: Apache-2.0
// The files in which captions come: plain text, COCO's JSON, Karpathy's and NLVR's. Foreign bytes: every fault names
// the file and the line, or the id. No torch header.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "captioning/data/captions.h"

namespace lockstep::captioning {

/// What a file says. CaptionedImage::file is as it stands there, relative to a folder of pictures.
struct CaptionTable {
  std::vector<CaptionedImage> images;  ///< in the order of the file; each has a caption, and its id is its own
  std::vector<std::string> notes;      ///< what was left out
};

/// The id of a picture that has no number: its name without folder and .png, .jpg, .jpeg or .npz.
[[nodiscard]] std::string id_of_file(const std::string& file);

/// FILE<TAB>CAPTION or FILE#NUMBER<TAB>CAPTION a line; empty lines are passed over. A # after which anything but digits
/// stands is part of the file's name. Throws: DataError naming the line where there is no tab, nothing before it, no
/// caption or no UTF-8, FILE#NUMBER stands twice, or two files have one id; naming the file where it holds nothing.
[[nodiscard]] CaptionTable read_caption_text(const std::filesystem::path& file);
/// The same of a file's bytes, as the others below: `file` is for messages.
[[nodiscard]] CaptionTable parse_caption_text(std::string_view text, const std::filesystem::path& file);

/// COCO's {"images": [...], "annotations": [...]}, or Karpathy's {"images": [{"sentences": [...]}]}, of which `split`
/// chooses. Pictures without a caption are left out and counted. Throws: DataError naming the line where it is no JSON
/// or no UTF-8, the id where a field is missing, a caption is empty or belongs to no picture, or an id stands twice;
/// naming the splits that there are where there is none called `split`.
[[nodiscard]] CaptionTable read_caption_json(const std::filesystem::path& file, const std::string& split);
[[nodiscard]] CaptionTable parse_caption_json(std::string_view text, const std::filesystem::path& file,
                                              const std::string& split);

/// A list of ids, and where the file of each is, if it says so.
struct IdList {
  std::vector<std::string> ids;
  std::vector<std::string> files;  ///< empty, or one for each id
};

/// One id a line, or a JSON object from ids to paths. Throws: DataError naming the file where it is empty, an id
/// stands twice or a path is none.
[[nodiscard]] IdList read_ids(const std::filesystem::path& file);
[[nodiscard]] IdList parse_ids(std::string_view bytes, const std::filesystem::path& file);

/// Throws: DataError naming the first line that is no UTF-8.
void require_utf8(std::string_view bytes, const std::filesystem::path& file);

/// Refuses a caption that is none: its words would take gigabytes. `where` begins the message. Throws: DataError.
void require_short(std::string_view caption, const std::string& where);

/// The text of a file, converted where its byte order mark says UTF-16; other bytes as they are, for require_utf8().
/// Throws: DataError where the file is missing; IoError.
[[nodiscard]] std::string file_text(const std::filesystem::path& file);

/// Whether a file begins as those of NLVR (Suhr et al., A Corpus of Natural Language for Visual Reasoning, 2017) do: a
/// JSON object with "sentence" and "identifier" on its first line.
[[nodiscard]] bool is_nlvr(const std::filesystem::path& file);

/// NAME.json: a JSON object a line. Each has a sentence, an identifier SENTENCE-PICTURE and a label; the picture is
/// DIRECTORY/NAME-IDENTIFIER-0.png. A sentence that is true of its picture is its caption. The same sentence was asked
/// of up to four pictures, most of which look alike, so that a split keeps the pictures of a sentence together: "test"
/// has every fifth sentence by number, "train" the others. Pictures without a true sentence are left out and counted.
/// Throws: DataError naming the line if it is no JSON or lacks a field; UsageError for another `split`.
[[nodiscard]] CaptionTable read_nlvr(const std::filesystem::path& file, const std::string& split);

}  // namespace lockstep::captioning
