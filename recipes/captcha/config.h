// SPDX-License-Identifier: Apache-2.0
// The captcha recipe's own settings: what an image and a label look like, and which network reads them.
#pragma once

#include <cstdint>
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

  /// The charset with its ranges written out: "0-9A-C" is "0123456789ABC". Throws: UsageError.
  [[nodiscard]] std::string characters() const;
};

}  // namespace lockstep::captcha
