// SPDX-License-Identifier: Apache-2.0
// The network: a ResNet with dilated stages, a head and, in training, LoRM. The names of the backbone are torchvision's
// ("layer1.0.conv1.weight"); the head's names begin with "aspp.", LoRM's names with "lorm.".
#pragma once

#include <ATen/core/ivalue.h>  // before any other torch header

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/resnet.h"
#include "lockstep/train/task.h"
#include "segmentation/model/heads.h"
#include "segmentation/model/lorm.h"

namespace lockstep::segmentation {

enum class ModelType {
  kAsppLorm,          ///< the pyramid with one channel per class, with LoRM
  kDeepLabV2,         ///< kAsppLorm without LoRM
  kDeepLabV3Plus,     ///< a pyramid of 256 channels and a decoder
  kDeepLabV3PlusLorm  ///< kDeepLabV3Plus with LoRM
};

/// Converts "aspp_lorm", "deeplabv2", "deeplabv3p" and "deeplabv3p_lorm" to types and back.
/// Throws: UsageError listing the names.
[[nodiscard]] ModelType model_type_from_name(std::string_view name);
[[nodiscard]] std::string to_string(ModelType type);
[[nodiscard]] bool has_lorm(ModelType type);
[[nodiscard]] bool has_decoder(ModelType type);

struct ModelOptions {
  ModelType type = ModelType::kAsppLorm;
  std::int64_t classes = 21;  ///< number of classes, including the background, class 0
  common::ResNetOptions backbone{
      .layers = 50, .output_stride = 8, .stride_in_1x1 = true, .multi_grid = true, .ceil_pool = true};
  /// Dilations of the pyramid. Empty means 6, 12, 18 with the decoder, otherwise 12, 18, 24.
  std::vector<std::int64_t> rates = {};
  double dropout = 0.5;  ///< dropout of the decoder's head
};

/// The network. Throws: UsageError for invalid sizes.
class Segmenter final : public common::ResNet {
 public:
  explicit Segmenter(const ModelOptions& options);

  /// Returns "logits": [B, classes, h, w] at the features' size (with a decoder, at stride 4), to be upsampled with
  /// align_corners. In training with LoRM, also "lorm", its loss, a scalar.
  ///
  /// Shapes: images float [B, 3, H, W]; labels uint8 [B, H, W], undefined without LoRM or in evaluation.
  /// Throws: UsageError in training if LoRM has no labels, and for a batch of one image (Pyramid).
  Outputs forward(const at::Tensor& images, const at::Tensor& labels = {});
  [[nodiscard]] const ModelOptions& options() const noexcept { return options_; }

 private:
  ModelOptions options_;
  std::shared_ptr<Head> head_;
  std::shared_ptr<Lorm> lorm_;
};

}  // namespace lockstep::segmentation
