// SPDX-License-Identifier: Apache-2.0
// Reads a data set as a recipe with its settings would, and suggests the settings that the set needs.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "lockstep/data/picture.h"
#include "lockstep/data/survey.h"
#include "lockstep/train/train_config.h"

namespace lockstep::worker {

struct RecipePictures {
  std::shared_ptr<ImageSource> source;
  std::vector<std::string> remarks = {};  ///< faults that training would reject, each once, with its remedy
};

/// Returns captchas with the labels in their file names, masks with their values mapped by data.mask_values, and other
/// recipes' sets unchanged. Lifetime: `config` outlives the source.
[[nodiscard]] RecipePictures as_recipe_reads(std::shared_ptr<ImageSource> source, const TrainConfig& config);

/// A remark on mask values that are not class ids, such as 0 and 255, with the setting that maps them; empty: no
/// remark. Pure function.
[[nodiscard]] std::string remark_on_masks(const Survey& survey);

/// Makes 255 a class like any other value, so that a sheet shows it.
void show_all_values(AnnotatedImage& picture);

}  // namespace lockstep::worker
