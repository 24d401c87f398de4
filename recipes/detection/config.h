// SPDX-License-Identifier: Apache-2.0
// The detection recipe's own settings and presets, and the translation of the original project's files into these
// settings. A setting has either its original name or one that describes its effect.
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
  std::int64_t coarsest_stride = 0;  ///< in pixels; the sides of an image must be multiples of it
  double reg_scale = 0;
  double up = 0;
  bool as_published = false;  ///< losses and matching as in the published code
  std::function<std::string()> name;
  std::function<std::shared_ptr<torch::nn::Module>()> make;
  /// Task::fit_weights() for this network. May be empty, like fuse.
  std::function<std::vector<std::string>(StateDict&, const NamedTensors&)> fit_weights = {};
  std::function<void(torch::nn::Module&)> fuse = {};  ///< drops the layers needed only in training
};

struct DetectionConfig final : TrainConfig {
  AutoInt num_classes = AutoInt::automatic();  ///< if auto, settle() takes the number of classes from the set
  std::vector<std::string> class_names = {};   ///< class names to display, by label; if empty, the set's own names
  std::int64_t image_size = 160;               ///< side in pixels of the network's input images

  struct Sets {
    std::string kind = "auto";  ///< layout of both sets, as in open_source()
    std::string train_images;   ///< COCO: the folder of the images; if empty, the JSON file's folder
    std::string test_images;
    std::string train_split;  ///< VOC: name of a list in ImageSets
    std::string test_split;
    double val_fraction = 0;  ///< fraction of data.train's images used as the test set; if 0, the test set is data.test
    std::int64_t split_seed = 0;  ///< seed for choosing these images
    /// The data set's own class names, by label, stored by settle(). The labels of a VOC set follow this list.
    std::vector<std::string> class_names;
    bool remap = true;   ///< COCO: labels are 0 .. n - 1 in the order of the category ids; otherwise the ids themselves
    bool strict = true;  ///< if false, entries with a bad image or box are skipped and counted
  } sets;

  std::vector<std::string> policy = {"4", "29", "50"};  ///< augment.policy
  AugmentOptions augment;                               ///< the other settings of the augmentation

  std::vector<std::string> stem;  ///< model.stem
  std::vector<ConfigMap> stages_of_backbone;
  std::vector<std::string> points;
  std::string network = "lockstep";  ///< model.type: lockstep (the network in model/) or dfine (the published network)
  ModelOptions model;                ///< the other settings of the small network
  std::vector<std::string> published_points;
  dfine::Options published;  ///< the other settings of the published network
  CriterionOptions criterion;

  DetectionConfig();
  void describe(ConfigFields& fields) override;
  void validate() const override;
  /// Returns data.train if val_fraction holds out a part of it for testing.
  [[nodiscard]] const std::string& test_data() const override { return sets.val_fraction > 0 ? data.train : data.test; }

  /// The options of the network, including those it shares with other parts. Throws: UsageError naming the key.
  [[nodiscard]] ModelOptions model_options() const;
  [[nodiscard]] dfine::Options published_options() const;
  [[nodiscard]] NetworkChoice network_choice() const;
  [[nodiscard]] CriterionOptions criterion_options() const;
  [[nodiscard]] AugmentOptions augment_options() const;
  [[nodiscard]] DatasetOptions set_options(const std::string& path, bool training) const;
};

/// The recipe's presets, compiled in from *.yml: the YAML of each, by file name without .yml.
[[nodiscard]] std::map<std::string, std::string> presets();

/// The settings of the original project (D-FINE, DEIM) that can be translated one by one, and their names here.
[[nodiscard]] std::vector<ConfigAlias> aliases();

/// Translates keys of a D-FINE or DEIM file that are meaningful only in combination: image operations, losses, the
/// schedule, the backbone's name. Returns `tree` with the recipe's keys instead; every value keeps its file and line.
/// If the tree has both an original key and the recipe's own, the recipe's key wins, unless only the original key is
/// from the command line.
/// Throws: UsageError naming the file and line of an entry without a counterpart.
[[nodiscard]] ConfigTree from_origin(const ConfigTree& tree);

/// Adds the published network's settings, dfine.backbone and so on, to `fields`. `points`: the text of Options::points.
void describe_dfine(ConfigFields& fields, dfine::Options& options, std::vector<std::string>& points);

}  // namespace lockstep::detection
