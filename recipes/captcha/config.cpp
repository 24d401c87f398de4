// SPDX-License-Identifier: Apache-2.0
#include "captcha/config.h"

#include <fmt/format.h>

#include "captcha/synthetic/generate.h"
#include "lockstep/base/error.h"

namespace lockstep::captcha {

CaptchaConfig::CaptchaConfig() {
  amp = "bf16";
  optimizer = {.type = "adamw", .lr = 6e-4, .weight_decay = 1e-4, .lr_scaling = "none"};
  schedule = {.type = "cosine", .warmup_epochs = 0.5, .min_lr = 1e-6};
}

void CaptchaConfig::describe(ConfigFields& fields) {
  TrainConfig::describe(fields);
  fields.at("data.allow_outside").unused = "a data set consists of the files of one folder, not of a list";
  fields.add("data.charset", &labels.charset, "the characters that labels may contain: ranges and single characters");
  fields.add("data.length", &labels.length, "characters per image").in({1, 1000}, "characters");
  fields.add("data.width", &labels.width, "image width in pixels; three pooling layers need at least 8")
      .in({8, 16'384}, "pixels");
  fields.add("data.height", &labels.height, "image height in pixels; three pooling layers need at least 8")
      .in({8, 16'384}, "pixels");
  fields.add("data.label_end", &labels.label_end, "the label is the file name up to this string");
  fields.add("model.type", &model_type, "conv7: 7 convolutions; conv3: 3 convolutions", {"conv7", "conv3"});
}

void CaptchaConfig::validate() const {
  TrainConfig::validate();
  (void)characters();
}

std::string CaptchaConfig::characters() const { return expand_charset(labels.charset); }

}  // namespace lockstep::captcha
