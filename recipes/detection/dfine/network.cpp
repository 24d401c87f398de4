// SPDX-License-Identifier: Apache-2.0
#include "detection/dfine/network.h"

#include <fmt/format.h>

#include "detection/dfine/backbone.h"
#include "detection/dfine/decoder.h"
#include "detection/dfine/encoder.h"
#include "lockstep/base/error.h"

namespace lockstep::detection::dfine {
namespace {

void check_pictures(const at::Tensor& images_BCHW, const Options& options) {
  const std::int64_t height = images_BCHW.size(2);
  const std::int64_t width = images_BCHW.size(3);
  if (height % kCoarsestStride != 0 || width % kCoarsestStride != 0) {
    throw UsageError(
        fmt::format("images have {} x {} pixels; sides must be multiples of {}", width, height, kCoarsestStride));
  }
  std::int64_t positions = 0;
  for (std::int64_t i = 0; i < options.levels; ++i) {
    const std::int64_t stride = kCoarsestStride >> i;
    positions += (height / stride) * (width / stride);
  }
  if (positions < options.queries) {
    throw UsageError(fmt::format("images of {} x {} pixels have only {} positions for {} queries", width, height,
                                 positions, options.queries));
  }
}

DenoisingOptions denoising_of(const Options& options) {
  return {.slots = 2 * options.denoising,
          .queries = options.queries,
          .classes = options.classes,
          .label_noise = options.label_noise,
          .box_noise = options.box_noise};
}

}  // namespace

Network::Network(const Options& options) : options_(options) {
  check(options);
  backbone_ = register_module("backbone", std::make_shared<HgNetV2>(options));
  encoder_ = register_module("encoder", std::make_shared<HybridEncoder>(options));
  decoder_ = register_module("decoder", std::make_shared<Decoder>(options));
}

Network::~Network() = default;

Outputs Network::forward_with(const at::Tensor& images_BCHW, const Denoising* denoising) {
  check_pictures(images_BCHW, options_);
  return decoder_->forward(encoder_->forward(backbone_->forward(images_BCHW)), denoising);
}

Outputs Network::forward(const at::Tensor& images_BCHW, const Targets* targets) {
  if (targets == nullptr || !is_training() || options_.denoising == 0) return forward_with(images_BCHW, nullptr);
  const Denoising denoising = make_denoising(*targets, images_BCHW.size(0), denoising_of(options_));
  return forward_with(images_BCHW, &denoising);
}

}  // namespace lockstep::detection::dfine
