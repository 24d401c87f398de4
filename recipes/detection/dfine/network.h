// SPDX-License-Identifier: Apache-2.0
// The published network: modules, state dict and results match D-FINE's PyTorch code.
#pragma once

#include <ATen/core/ivalue.h>  // before any other torch header

#include <cstdint>
#include <memory>
#include <vector>

#include "detection/data/targets.h"
#include "detection/dfine/options.h"
#include "detection/model/denoising.h"
#include "detection/model/model.h"

namespace lockstep::detection::dfine {

class HgNetV2;
class HybridEncoder;
class Decoder;

/// The published network: backbone, encoder and decoder. It has Detector's outputs except the dense predictions.
///
/// Thread-safe: no; it caches the positions and anchors for the last image size.
class Network final : public DetectionNetwork {
 public:
  /// Throws: UsageError for inconsistent sizes.
  explicit Network(const Options& options);
  ~Network() override;

  Outputs forward(const at::Tensor& images_BCHW, const Targets* targets) override;
  /// Like forward(), but with the given denoising slots; null if none.
  Outputs forward_with(const at::Tensor& images_BCHW, const Denoising* denoising);

  [[nodiscard]] const Options& options() const noexcept { return options_; }

 private:
  Options options_;
  std::shared_ptr<HgNetV2> backbone_;
  std::shared_ptr<HybridEncoder> encoder_;
  std::shared_ptr<Decoder> decoder_;
};

}  // namespace lockstep::detection::dfine
