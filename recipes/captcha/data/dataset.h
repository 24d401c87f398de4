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

/// Returns the classes of a file's label, its name up to `label_end` or its extension, as indices into `characters`.
/// Throws: DataError naming the file if a character is not in `characters` or the length differs.
[[nodiscard]] std::vector<std::int64_t> label_of(const std::filesystem::path& file, const Labels& labels,
                                                 const std::string& characters);

/// Opens all .png and .jpg files in `folder`: data 1HW float32 in 0..1, target L int64. It reads every label and the
/// size of the first image, so that a problem common to all files is reported before training. Throws: the DataErrors
/// of list_files() and label_of(), and DataError if the first image, or, in get(), any image, is damaged or has a
/// different size.
[[nodiscard]] std::shared_ptr<Dataset> open_dataset(const std::filesystem::path& folder, const Labels& labels,
                                                    const std::string& characters);

/// Returns the error for an image whose size does not match the model; `remedy` says how to change the settings to
/// match.
[[nodiscard]] DataError other_size(const std::filesystem::path& file, ImageSize size, const Labels& labels,
                                   const std::string& remedy);

/// Returns the options that the recipe reads images with.
[[nodiscard]] ImageFolderOptions image_options(const Labels& labels);

}  // namespace lockstep::captcha
