// SPDX-License-Identifier: Apache-2.0
// The detection recipe's own settings, under the names that users of its origin know or that say what they do.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "detection/data/dataset.h"
#include "detection/dfine/options.h"
#include "detection/model/criterion.h"
#include "detection/model/model.h"
#include "lockstep/train/train_config.h"

namespace lockstep::detection {

struct DetectionConfig final : TrainConfig {
  AutoInt num_classes = AutoInt::automatic();  ///< auto: as many as the set has; settle() finds it out
  std::vector<std::string> class_names = {};   ///< by label, for what a person reads; empty: the set's own
  std::int64_t image_size = 160;               ///< pixels of the network's picture, each way

  struct Sets {
    std::string kind = "auto";  ///< kind of both sets: a layout that open_source() knows
    std::string train_images;   ///< COCO: the pictures' folder; empty: beside the JSON file
    std::string test_images;
    std::string train_split;  ///< VOC: a list in ImageSets
    std::string test_split;
    double val_fraction = 0;      ///< part of data.train's pictures that is the test set; 0: data.test is
    std::int64_t split_seed = 0;  ///< which pictures these are
    /// The data's own names of the classes, by label: settle() puts them here. Pascal VOC's labels follow a given list.
    std::vector<std::string> class_names;
    bool remap = true;   ///< COCO: labels are 0 .. n - 1 in the order of the category ids; false: they are the ids
    bool strict = true;  ///< false: entries without a good picture or box are left out and counted
  } sets;

  std::vector<std::string> policy = {"4", "29", "50"};  ///< augment.policy
  AugmentOptions augment;                               ///< but for what the settings above say

  std::vector<std::string> stem;  ///< model.stem
  std::vector<ConfigMap> stages_of_backbone;
  std::vector<std::string> points;
  std::string network = "lockstep";  ///< model.type: lockstep (model), dfine (published)
  ModelOptions model;                ///< but for what the settings above say
  std::vector<std::string> published_points;
  dfine::Options published;  ///< but for what the settings above say
  CriterionOptions criterion;

  DetectionConfig();
  void describe(ConfigFields& fields) override;
  void validate() const override;
  /// data.train, where val_fraction keeps a part of it for the test.
  [[nodiscard]] const std::string& test_data() const override { return sets.val_fraction > 0 ? data.train : data.test; }

  /// What the parts want, with all that several of them share. Throws: UsageError naming the key.
  [[nodiscard]] ModelOptions model_options() const;
  [[nodiscard]] dfine::Options published_options() const;
  /// True where the network is the published one, of dfine/.
  [[nodiscard]] bool is_published() const { return network == "dfine"; }
  /// Pixels that a side of a picture has to be a multiple of.
  [[nodiscard]] std::int64_t coarsest_stride() const;
  [[nodiscard]] CriterionOptions criterion_options() const;
  [[nodiscard]] AugmentOptions augment_options() const;
  [[nodiscard]] DatasetOptions set_options(const std::string& path, bool training) const;
};

}  // namespace lockstep::detection
