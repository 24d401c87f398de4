// SPDX-License-Identifier: Apache-2.0
// The detection recipe's own settings, under the names that users of its origin know or that say what they do;
// its presets; files of the origin as such settings.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "detection/data/dataset.h"
#include "detection/dfine/options.h"
#include "detection/model/criterion.h"
#include "detection/model/model.h"
#include "lockstep/base/config.h"
#include "lockstep/train/config_alias.h"
#include "lockstep/train/train_config.h"

namespace lockstep::detection {

/// The network of model.type, and what else depends on which one it is.
struct NetworkChoice {
  std::int64_t coarsest_stride = 0;  ///< pixels that a side of a picture has to be a multiple of
  double reg_scale = 0;
  double up = 0;
  bool as_published = false;  ///< losses and matches
  std::function<std::string()> name;
  std::function<std::shared_ptr<torch::nn::Module>()> make;
  /// Of weights from elsewhere; may be empty, as the next one.
  std::function<std::vector<std::string>(StateDict&, const NamedTensors&)> fit_weights = {};
  std::function<void(torch::nn::Module&)> fuse = {};  ///< what only training needs apart
};

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
  [[nodiscard]] NetworkChoice network_choice() const;
  [[nodiscard]] CriterionOptions criterion_options() const;
  [[nodiscard]] AugmentOptions augment_options() const;
  [[nodiscard]] DatasetOptions set_options(const std::string& path, bool training) const;
};

/// The recipe's ready settings, compiled in from *.yml: preset name (the file's name without .yml) to its YAML text.
[[nodiscard]] std::map<std::string, std::string> presets();

/// The words of the recipe's origin (D-FINE, DEIM) that mean something by themselves, and what they are called here.
[[nodiscard]] std::vector<ConfigAlias> aliases();

/// What several keys of a D-FINE or DEIM file say only together: operations on pictures, losses, the schedule that
/// counts, the backbone's name. Returns `tree` with these keys replaced by those of the recipe; every value keeps its
/// file and line. A key of the recipe that the tree has already stays, unless the origin's was typed and it was not.
/// Throws: UsageError naming file and line of what has no counterpart.
[[nodiscard]] ConfigTree from_origin(const ConfigTree& tree);

/// Adds the published network's settings, dfine.backbone and so on, to `fields`. `points`: the text of Options::points.
void describe_dfine(ConfigFields& fields, dfine::Options& options, std::vector<std::string>& points);

}  // namespace lockstep::detection
