// SPDX-License-Identifier: Apache-2.0
// The segmentation recipe's own settings, its presets, and the names that users of its origin know.
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
  AutoInt num_classes = AutoInt::automatic();  ///< auto: as many as the set has; settle() finds it out
  std::vector<std::string> class_names = {};   ///< by label, for what a person reads; empty: the set's own

  struct Sets {
    std::string labels = "scribbles";   ///< what training learns from: scribbles, or masks (every pixel)
    std::string train_split = "train";  ///< VOC: a list in ImageSets
    std::string test_split = "val";
    std::vector<ConfigMap> mask_values = {};  ///< value of a mask: class id; others are ids themselves
    std::string masks;  ///< folders in that of the set, or paths of their own; empty: the layout's
    std::string scribbles;
    std::string pseudo_labels;
    std::string distance_scribble;
    std::string distance_class;
    bool strict = true;           ///< false: pictures without a mask or map are left out and counted
    double val_fraction = 0;      ///< part of data.train's pictures that is the test set; 0: data.test is
    std::int64_t split_seed = 0;  ///< which pictures these are
  } sets;

  std::string model_type = "aspp_lorm";
  std::vector<std::string> rates;  ///< rates of the pyramid; empty: the type's
  ModelOptions model;              ///< but for what the settings above say
  LossOptions loss;
  AugmentOptions augment;

  WindowOptions eval;
  std::vector<std::string> eval_scales = {"1"};

  SegmentationConfig();
  void describe(ConfigFields& fields) override;
  void validate() const override;
  /// data.train, where val_fraction keeps a part of it for the test.
  [[nodiscard]] const std::string& test_data() const override { return sets.val_fraction > 0 ? data.train : data.test; }

  /// Learns from full masks.
  [[nodiscard]] bool full() const { return sets.labels == "masks"; }
  /// What the parts want, with all that several of them share. Throws: UsageError naming the key.
  /// A network whose loss.lorm is 0 has no LoRM.
  [[nodiscard]] ModelOptions model_options() const;
  /// Returns the options as set for scribbles; for full masks those without pseudo-labels and distances.
  [[nodiscard]] LossOptions loss_options() const;
  /// The maps that the losses want.
  [[nodiscard]] Planes planes() const;
  [[nodiscard]] WindowOptions window_options() const;
  [[nodiscard]] SetOptions set_options(const std::string& path, bool training) const;
};

/// The recipe's ready settings, compiled in from *.yml: preset name (the file's name without .yml) to its YAML text.
[[nodiscard]] std::map<std::string, std::string> presets();

/// The argument names of the origin's train.py, and what they are called here: `--layers 50 --model_type
/// res50_ASPP_lorm ...`, as options after `train segmentation` or under --set.
[[nodiscard]] std::vector<ConfigAlias> aliases();
/// Takes out what aliases() has no words for, with a note: `--model_path None`.
[[nodiscard]] ConfigTree from_origin(const ConfigTree& tree);

}  // namespace lockstep::segmentation
