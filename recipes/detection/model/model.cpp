// SPDX-License-Identifier: Apache-2.0
#include "detection/model/model.h"

#include <ATen/ops/argsort.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/topk.h>
#include <fmt/format.h>

#include <algorithm>

#include "detection/model/backbone.h"
#include "detection/model/box.h"
#include "detection/model/decoder.h"
#include "detection/model/denoising.h"
#include "detection/model/encoder.h"
#include "lockstep/base/error.h"

namespace lockstep::detection {
namespace {

void check(const ModelOptions& options) {
  if (options.stages.size() < 3) {
    throw UsageError(fmt::format("the backbone has {} stages; three scales need at least 3", options.stages.size()));
  }
  if (options.heads < 1 || options.hidden % options.heads != 0 || options.hidden % 4 != 0) {
    throw UsageError(fmt::format("hidden is {} with {} heads: it must be a multiple of both 4 and the number of heads",
                                 options.hidden, options.heads));
  }
  if (options.reg_max < 4 || options.reg_max % 2 != 0) {
    throw UsageError(fmt::format("reg_max is {}; it must be even and at least 4", options.reg_max));
  }
  if (options.classes < 1 || options.queries < 1 || options.decoder_layers < 1) {
    throw UsageError(fmt::format("there must be at least one class, query and decoder layer, not {}, {} and {}",
                                 options.classes, options.queries, options.decoder_layers));
  }
  if (options.denoising == 1 || options.denoising < 0) {
    throw UsageError(fmt::format(
        "denoising is {}; it must be 0 (none) or at least 2 (one object with its negative box)", options.denoising));
  }
}

}  // namespace

std::int64_t ModelOptions::coarsest_stride() const { return std::int64_t{4} << (stages.size() - 1); }

class Detector::Parts {
 public:
  std::shared_ptr<Backbone> backbone;
  std::shared_ptr<Encoder> encoder;
  std::shared_ptr<Decoder> decoder;
};

Detector::Detector(const ModelOptions& options) : options_(options), parts_(std::make_unique<Parts>()) {
  check(options);
  parts_->backbone = register_module("backbone", std::make_shared<Backbone>(options));
  parts_->encoder = register_module("encoder", std::make_shared<Encoder>(options));
  parts_->decoder = register_module("decoder", std::make_shared<Decoder>(options));
}

Detector::~Detector() = default;

Outputs Detector::forward(const at::Tensor& images_BCHW, const Targets* targets) {
  const std::int64_t stride = options_.coarsest_stride();
  const std::int64_t height = images_BCHW.size(2);
  const std::int64_t width = images_BCHW.size(3);
  if (height % stride != 0 || width % stride != 0) {
    throw UsageError(fmt::format("images have {} x {} pixels; sides must be multiples of {}", width, height, stride));
  }
  // For each position of the coarsest scale, the finest scale has 16 and the middle one 4.
  const std::int64_t positions = 21 * (height / stride) * (width / stride);
  if (positions < options_.queries) {
    throw UsageError(fmt::format("images of {} x {} pixels have only {} positions for {} queries", width, height,
                                 positions, options_.queries));
  }
  const std::vector<at::Tensor> scales = parts_->encoder->forward(parts_->backbone->forward(images_BCHW));
  if (targets == nullptr || !is_training() || options_.denoising == 0) return parts_->decoder->forward(scales, nullptr);
  const Denoising denoising = make_denoising(*targets, images_BCHW.size(0),
                                             {.slots = options_.denoising,
                                              .queries = options_.queries,
                                              .classes = options_.classes,
                                              .label_noise = options_.label_noise,
                                              .box_noise = options_.box_noise});
  return parts_->decoder->forward(scales, &denoising);
}

std::vector<Found> decode(const Outputs& outputs, std::int64_t count) {
  const at::Tensor logits = outputs.at("logits");
  const at::Tensor last = logits.select(0, logits.size(0) - 1).detach().to(at::kFloat).cpu();
  const at::Tensor boxes = outputs.at("boxes").select(0, logits.size(0) - 1).detach().to(at::kFloat).cpu();
  const std::int64_t classes = last.size(2);
  const at::Tensor scores = at::sigmoid(last).flatten(1);
  const at::Tensor best = at::argsort(scores, /*stable=*/true, /*dim=*/1, /*descending=*/true)
                              .narrow(1, 0, std::min(count, scores.size(1)));
  std::vector<Found> found;
  for (std::int64_t i = 0; i < best.size(0); ++i) {
    found.push_back({.scores = scores[i].index({best[i]}),
                     .labels = best[i].remainder(classes),
                     .boxes = boxes[i].index({best[i].div(classes, "floor")})});
  }
  return found;
}

std::vector<at::Tensor> decode_together(const at::Tensor& logits, const at::Tensor& boxes, const at::Tensor& sizes,
                                        std::int64_t count) {
  const std::int64_t classes = logits.size(2);
  const auto [scores, best] =
      at::topk(at::sigmoid(logits).flatten(1), std::min(count, logits.size(1) * classes), /*dim=*/1);
  const at::Tensor queries = best.div(classes, "trunc");
  const at::Tensor corners = to_corners(boxes) * sizes.to(boxes.scalar_type()).repeat({1, 2}).unsqueeze(1);
  return {best - queries * classes, corners.gather(1, queries.unsqueeze(2).expand({-1, -1, 4})), scores};
}

}  // namespace lockstep::detection
