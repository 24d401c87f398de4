// SPDX-License-Identifier: Apache-2.0
// Writes synthetic sets to disk: images and their captions. Independent of models and training. No torch header.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "common/set_files.h"

namespace lockstep::captioning {

enum class CaptionFormat {
  kText,  ///< captions.txt: FILE#NUMBER<TAB>CAPTION
  kCoco,  ///< captions.json
};

/// Parses "text" or "coco". Throws: UsageError for any other value.
[[nodiscard]] CaptionFormat parse_caption_format(const std::string& name);

struct GenerateOptions {
  std::filesystem::path out;  ///< created if missing; must be empty
  std::int64_t count = 0;
  std::uint64_t seed = 0;
  std::int64_t size = 128;  ///< side of an image in pixels
  CaptionFormat format = CaptionFormat::kText;
  std::int64_t threads = 0;  ///< 0 means one per processor, or fewer if the system limits them; the bytes are the same
};

/// Writes images/<index>.png and then the captions, kSceneCaptions for each. The same options give the same bytes. A
/// longer set begins with the images and captions of a shorter one, which are the same as in "scenes:COUNT:SEED".
/// Throws: UsageError if an option is out of range or `out` is not empty; IoError if a file cannot be written.
void generate_captioned_scenes(const GenerateOptions& options, const common::IndexProgress& progress = nullptr);

}  // namespace lockstep::captioning
