// SPDX-License-Identifier: Apache-2.0
// Captcha images from a folder: the label is in the file name.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "captcha/data/labels.h"
#include "lockstep/base/error.h"
#include "lockstep/data/image_folder.h"

namespace lockstep::captcha {

/// The classes of a file's label, as places in `characters`: the file name up to `label_end`, or up to its extension.
/// Throws: DataError naming the file where a character is not in `characters` or the length is another.
[[nodiscard]] std::vector<std::int64_t> label_of(const std::filesystem::path& file, const Labels& labels,
                                                 const std::string& characters);

/// All .png and .jpg files of `folder`: data 1HW float32 in 0..1, target L int64. Every label is read at once, and the
/// size of the first image, so that what is wrong with all is an error before training starts. Throws: DataError as
/// list_files(), label_of(); where the first image has another size; from get: where an image is torn or has one.
[[nodiscard]] std::shared_ptr<Dataset> open_dataset(const std::filesystem::path& folder, const Labels& labels,
                                                    const std::string& characters);

/// An image of another size than the model reads; `how` says what to do with the settings that would fit it.
[[nodiscard]] DataError other_size(const std::filesystem::path& file, ImageSize size, const Labels& labels,
                                   const std::string& how);

/// The options with which the recipe reads any image.
[[nodiscard]] ImageFolderOptions image_options(const Labels& labels);

}  // namespace lockstep::captcha
