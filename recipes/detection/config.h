// SPDX-License-Identifier: Apache-2.0
// The detection recipe's own settings, named as its origin's users know them or by what they do; its presets; and files
// of the origin read as such settings.
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

/// The network of model.type, and the settings that depend on it.
struct NetworkChoice {
  std::int64_t coarsest_stride = 0;  ///< the number of pixels that the sides of a picture must be a multiple of
  double reg_scale = 0;
  double up = 0;
  bool as_published = false;  ///< losses and matches
  std::function<std::string()> name;
  std::function<std::shared_ptr<torch::nn::Module>()> make;
  /// For weights from elsewhere; may be empty, like fuse.
  std::function<std::vector<std::string>(StateDict&, const NamedTensors&)> fit_weights = {};
  std::function<void(torch::nn::Module&)> fuse = {};  ///< drops the layers that only training needs
};

struct DetectionConfig final : TrainConfig {
  AutoInt num_classes = AutoInt::automatic();  ///< auto: settle() sets the number of classes of the set
  std::vector<std::string> class_names = {};   ///< by label, for readers; empty: the set's own names
  std::int64_t image_size = 160;               ///< pixels of the network's picture, each way

  struct Sets {
    std::string kind = "auto";  ///< layout of both sets, as in open_source()
    std::string train_images;   ///< COCO: the folder of the pictures; empty: beside the JSON file
    std::string test_images;
    std::string train_split;  ///< VOC: a list in ImageSets
    std::string test_split;
    double val_fraction = 0;      ///< share of data.train's pictures used as the test set; 0: the test set is data.test
    std::int64_t split_seed = 0;  ///< chooses these pictures
    /// The data's own names of the classes, by label, stored by settle(). Pascal VOC's labels follow a given list.
    std::vector<std::string> class_names;
    bool remap = true;   ///< COCO: labels are 0 .. n - 1 in the order of the category ids; false: they are the ids
    bool strict = true;  ///< false: entries with a bad picture or box are left out and counted
  } sets;

  std::vector<std::string> policy = {"4", "29", "50"};  ///< augment.policy
  AugmentOptions augment;                               ///< without the settings above

  std::vector<std::string> stem;  ///< model.stem
  std::vector<ConfigMap> stages_of_backbone;
  std::vector<std::string> points;
  std::string network = "lockstep";  ///< model.type: lockstep (model), dfine (published)
  ModelOptions model;                ///< without the settings above
  std::vector<std::string> published_points;
  dfine::Options published;  ///< without the settings above
  CriterionOptions criterion;

  DetectionConfig();
  void describe(ConfigFields& fields) override;
  void validate() const override;
  /// data.train if val_fraction keeps a part of it for the test.
  [[nodiscard]] const std::string& test_data() const override { return sets.val_fraction > 0 ? data.train : data.test; }

  /// The options of the parts, including those that several parts share. Throws: UsageError naming the key.
  [[nodiscard]] ModelOptions model_options() const;
  [[nodiscard]] dfine::Options published_options() const;
  [[nodiscard]] NetworkChoice network_choice() const;
  [[nodiscard]] CriterionOptions criterion_options() const;
  [[nodiscard]] AugmentOptions augment_options() const;
  [[nodiscard]] DatasetOptions set_options(const std::string& path, bool training) const;
};

/// The recipe's presets, compiled in from *.yml: preset name (the file's name without .yml) to its YAML text.
[[nodiscard]] std::map<std::string, std::string> presets();

/// The words of the recipe's origin (D-FINE, DEIM) that each translate alone, and their names here.
[[nodiscard]] std::vector<ConfigAlias> aliases();

/// Translates keys of a D-FINE or DEIM file that only have a meaning together: operations on pictures, losses, the
/// schedule in use, the backbone's name. Returns `tree` with the recipe's keys instead; every value keeps its file and
/// line. A key of the recipe stays, unless it came from a file and the origin's key from the command line.
/// Throws: UsageError naming file and line of an entry without a counterpart.
[[nodiscard]] ConfigTree from_origin(const ConfigTree& tree);

/// Adds the published network's settings, dfine.backbone and so on, to `fields`. `points`: the text of Options::points.
void describe_dfine(ConfigFields& fields, dfine::Options& options, std::vector<std::string>& points);

}  // namespace lockstep::detection
