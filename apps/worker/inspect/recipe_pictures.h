// SPDX-License-Identifier: Apache-2.0
// A set as a recipe's settings mean it, and what these settings would have to say of it.
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
  std::vector<std::string> remarks = {};  ///< what training would refuse, each once, with what to do
};

/// Captchas with the texts in their names, masks with the values of data.mask_values as classes; other recipes' sets as
/// they are. Lifetime: `config` outlives the source.
[[nodiscard]] RecipePictures as_recipe_reads(std::shared_ptr<ImageSource> source, const TrainConfig& config);

/// What masks hold that is no class id, such as 0 and 255: a remark with the setting that says what it means. Empty:
/// nothing. Pure function.
[[nodiscard]] std::string remark_on_masks(const Survey& survey);

/// The same pictures, with 255 as a value like others, so that a sheet shows it.
void show_all_values(AnnotatedImage& picture);

}  // namespace lockstep::worker
