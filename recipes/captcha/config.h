// SPDX-License-Identifier: Apache-2.0
// The captcha recipe's own settings (image and label format, network) and its presets.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "captcha/data/labels.h"
#include "lockstep/train/train_config.h"

namespace lockstep::captcha {

struct CaptchaConfig final : TrainConfig {
  Labels labels;
  std::string model_type = "conv7";

  CaptchaConfig();
  void describe(ConfigFields& fields) override;
  void validate() const override;

  /// Returns the charset with its ranges written out: "0-9A-C" is "0123456789ABC". Throws: UsageError.
  [[nodiscard]] std::string characters() const;
};

/// Returns the recipe's presets, compiled in from *.yml: the YAML text of each, keyed by file name without .yml.
[[nodiscard]] std::map<std::string, std::string> presets();

}  // namespace lockstep::captcha
