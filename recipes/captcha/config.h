// SPDX-License-Identifier: Apache-2.0
// The captcha recipe's own settings: what an image and a label look like, and which network reads them.
#pragma once

#include <cstdint>
#include <string>

#include "lockstep/train/train_config.h"

namespace lockstep::captcha {

struct CaptchaConfig final : TrainConfig {
  struct Labels {
    std::string charset = "0-9A-Z";  ///< ranges and single characters; its order is the order of the classes
    std::int64_t length = 4;         ///< characters per image
    std::int64_t width = 160;        ///< pixels
    std::int64_t height = 60;        ///< pixels
    std::string label_end = "_";     ///< a file's label is its name up to here, or up to its extension
  } labels;
  std::string model_type = "conv7";

  CaptchaConfig();
  void describe(ConfigFields& fields) override;
  void validate() const override;

  /// The charset with its ranges written out: "0-9A-C" is "0123456789ABC". Throws: UsageError.
  [[nodiscard]] std::string characters() const;
};

}  // namespace lockstep::captcha
