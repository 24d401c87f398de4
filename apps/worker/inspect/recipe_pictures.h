// SPDX-License-Identifier: Apache-2.0
// A set as a recipe's settings read it, and the settings that it would need.
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
  std::vector<std::string> remarks = {};  ///< faults that training would refuse, each once, with the remedy
};

/// Captchas with the texts in their names, masks with the values of data.mask_values as classes; other recipes' sets as
/// they are. Lifetime: `config` outlives the source.
[[nodiscard]] RecipePictures as_recipe_reads(std::shared_ptr<ImageSource> source, const TrainConfig& config);

/// A remark on mask values that are not class ids, such as 0 and 255, with the setting that maps them; empty: none.
/// Pure function.
[[nodiscard]] std::string remark_on_masks(const Survey& survey);

/// Makes 255 a value like others, so that a sheet shows it.
void show_all_values(AnnotatedImage& picture);

}  // namespace lockstep::worker
