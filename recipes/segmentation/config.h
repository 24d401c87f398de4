// SPDX-License-Identifier: Apache-2.0
// The segmentation recipe's own settings, its presets, and the option names of the original code.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "lockstep/train/config_alias.h"
#include "lockstep/train/train_config.h"
#include "segmentation/data/dataset.h"
#include "segmentation/model/losses.h"
#include "segmentation/model/model.h"
#include "segmentation/model/windows.h"
#include "segmentation/synthetic/planes.h"

namespace lockstep::segmentation {

struct SegmentationConfig final : TrainConfig {
  AutoInt num_classes = AutoInt::automatic();  ///< if auto, settle() takes the number of classes from the set
  std::vector<std::string> class_names = {};   ///< names for reports, by label; if empty, the set's own names

  struct Sets {
    std::string labels = "scribbles";   ///< training labels: scribbles, or masks (every pixel)
    std::string train_split = "train";  ///< VOC: name of a list in ImageSets
    std::string test_split = "val";
    std::vector<ConfigMap> mask_values = {};  ///< maps from mask value to class id; other values are ids themselves
    std::string masks;  ///< folder relative to the set, or absolute; if empty, found by name; likewise below
    std::string scribbles;
    std::string pseudo_labels;
    std::string distance_scribble;
    std::string distance_class;
    bool strict = true;           ///< if false, images without a mask or map are skipped and counted
    double val_fraction = 0;      ///< fraction of data.train's images used as the test set; if 0, data.test is used
    std::int64_t split_seed = 0;  ///< seed for choosing these images
  } sets;

  std::string model_type = "aspp_lorm";
  std::vector<std::string> rates;  ///< dilations of the pyramid; if empty, those of the model type
  ModelOptions model;              ///< the other settings of the network
  LossOptions loss;
  AugmentOptions augment;

  WindowOptions eval;
  std::vector<std::string> eval_scales = {"1"};

  SegmentationConfig();
  void describe(ConfigFields& fields) override;
  void validate() const override;
  /// Returns data.train if val_fraction holds out part of it for testing, otherwise data.test.
  [[nodiscard]] const std::string& test_data() const override { return sets.val_fraction > 0 ? data.train : data.test; }

  /// True if training uses full masks.
  [[nodiscard]] bool full() const { return sets.labels == "masks"; }
  /// The options of the network, including those it shares with other parts. Throws: UsageError naming the key. With a
  /// loss.lorm of 0 the network has no LoRM.
  [[nodiscard]] ModelOptions model_options() const;
  /// Returns the options as set; for training with full masks, without the pseudo-label and distance terms.
  [[nodiscard]] LossOptions loss_options() const;
  /// The maps that the losses need.
  [[nodiscard]] Planes planes() const;
  [[nodiscard]] WindowOptions window_options() const;
  [[nodiscard]] SetOptions set_options(const std::string& path, bool training) const;
};

/// The recipe's presets, compiled in from *.yml: the YAML text of each, keyed by file name without .yml.
[[nodiscard]] std::map<std::string, std::string> presets();

/// The arguments of the original train.py and their names here: `--layers 50 --model_type res50_ASPP_lorm ...`, as
/// options after `train segmentation` or under --set.
[[nodiscard]] std::vector<ConfigAlias> aliases();
/// Removes an entry that aliases() cannot translate, with a note: `--model_path None`.
[[nodiscard]] ConfigTree from_origin(const ConfigTree& tree);

}  // namespace lockstep::segmentation
