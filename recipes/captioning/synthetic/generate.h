// SPDX-License-Identifier: Apache-2.0
// Synthetic sets on the disk: pictures and what is said about them. Knows nothing of models or training.
// No torch header.
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

/// "text" or "coco". Throws: UsageError for anything else.
[[nodiscard]] CaptionFormat parse_caption_format(const std::string& name);

struct GenerateOptions {
  std::filesystem::path out;  ///< made where missing; must be empty
  std::int64_t count = 0;
  std::uint64_t seed = 0;
  std::int64_t size = 128;  ///< pixels a side
  CaptionFormat format = CaptionFormat::kText;
  std::int64_t threads = 0;  ///< 0: one per processor; fewer where the machine gives no more. Changes no byte
};

/// Writes images/<index>.png and then the captions, kSceneCaptions of each. The same options give the same bytes; a
/// longer set begins with the pictures and captions of a shorter one, and they are those of "scenes:COUNT:SEED".
/// Throws: UsageError where an option is out of range or `out` is not empty; IoError where a file cannot be written.
void generate_captioned_scenes(const GenerateOptions& options, const common::IndexProgress& progress = nullptr);

}  // namespace lockstep::captioning
