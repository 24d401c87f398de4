// SPDX-License-Identifier: Apache-2.0
// The two networks of the captcha recogniser. Shapes: N batch, H and W pixels, L characters, C classes per character.
#pragma once

#include <ATen/core/ivalue.h>  // before any other torch header
#include <torch/nn/module.h>

#include <cstdint>
#include <memory>
#include <string>

namespace lockstep::captcha {

struct ModelOptions {
  std::string type = "conv7";  ///< conv7, conv3
  std::int64_t height = 60;    ///< pixels, at least 8
  std::int64_t width = 160;    ///< pixels, at least 8
  std::int64_t length = 4;     ///< characters per image
  std::int64_t classes = 36;   ///< size of the charset
};

/// A network that maps images N1HW in 0..1 to logits N(L*C), character-major.
class CaptchaNet : public torch::nn::Module {
 public:
  virtual at::Tensor forward(const at::Tensor& images_N1HW) = 0;
};

/// conv7: seven 3x3 convolutions with batch norm and ReLU, three pooling layers, Linear 1024, Dropout, ReLU, Linear
/// (19,072,400 parameters for 160x60, 4 x 36). conv3: three 3x3 convolutions with batch norm, dropout, ReLU and
/// pooling, the same head (9,379,728 parameters). Throws: UsageError for an unknown type or an image too small to pool
/// three times.
[[nodiscard]] std::shared_ptr<CaptchaNet> make_model(const ModelOptions& options);

}  // namespace lockstep::captcha
