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
  std::vector<std::string> remarks = {};  ///< errors that training would report, each listed once, with its remedy
};

/// Returns captchas with the labels from their file names, or masks whose values data.mask_values maps; returns the
/// data sets of other recipes unchanged. Lifetime: `config` outlives the source.
[[nodiscard]] RecipePictures as_recipe_reads(std::shared_ptr<ImageSource> source, const TrainConfig& config);

/// A remark on mask values that are not class ids, such as 0 and 255, which names the setting that maps them; empty: no
/// remark. Pure function.
[[nodiscard]] std::string remark_on_masks(const Survey& survey);

/// Treats 255 as a class like any other value, so that a contact sheet shows it.
void show_all_values(AnnotatedImage& picture);

}  // namespace lockstep::worker
