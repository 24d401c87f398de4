// SPDX-License-Identifier: Apache-2.0
// NLVR (Suhr et al., A Corpus of Natural Language for Visual Reasoning, 2017) as a set of captions. No torch header.
#pragma once

#include <filesystem>
#include <string>

#include "captioning/data/caption_files.h"

namespace lockstep::captioning {

/// Whether a file begins as NLVR's do: a JSON object with "sentence" and "identifier" on its first line.
[[nodiscard]] bool is_nlvr(const std::filesystem::path& file);

/// NAME.json: a JSON object a line. Each has a sentence, an identifier SENTENCE-PICTURE and a label; the picture is
/// DIRECTORY/NAME-IDENTIFIER-0.png. A sentence that is true of its picture is its caption. The same sentence was asked
/// of up to four pictures, most of which look alike, so that a split keeps the pictures of a sentence together: "test"
/// has every fifth sentence by number, "train" the others. Pictures without a true sentence are left out and counted.
/// Throws: DataError naming the line where it is no JSON or lacks a field; UsageError where `split` is something else.
[[nodiscard]] CaptionTable read_nlvr(const std::filesystem::path& file, const std::string& split);

}  // namespace lockstep::captioning
