// SPDX-License-Identifier: Apache-2.0
#include "segmentation/model/heads.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/dropout.h>
#include <fmt/format.h>
#include <torch/nn/init.h>

#include "lockstep/base/error.h"
#include "lockstep/nn/resize.h"

namespace lockstep::segmentation {
namespace {

constexpr std::int64_t kDecoderWidth = 256;
constexpr std::int64_t kLowWidth = 48;

nn::Conv2d convolution(const ConvShape& shape) {
  nn::Conv2d conv(torch::nn::Conv2dOptions(shape.in, shape.out, shape.kernel)
                      .padding(shape.kernel / 2 * shape.dilation)
                      .dilation(shape.dilation)
                      .bias(false));
  torch::nn::init::kaiming_normal_(conv->weight, 0, torch::kFanIn, torch::kReLU);
  return conv;
}

}  // namespace

ConvNormReLU::ConvNormReLU(const ConvShape& shape)
    : conv_(register_module("conv", convolution(shape))),
      bn_(register_module("bn", nn::BatchNormReLU2d(torch::nn::BatchNormOptions(shape.out)))) {}

at::Tensor ConvNormReLU::forward(const at::Tensor& x) { return bn_->forward(conv_->forward(x)); }

bool ConvNormReLU::is_synced() const { return bn_->statistics_sync() && bn_->statistics_sync()->replicas() > 1; }

Pyramid::Pyramid(const ASPPOptions& options) {
  const auto add = [&](std::int64_t kernel, std::int64_t dilation) {
    const ConvShape shape{.in = options.in, .out = options.width, .kernel = kernel, .dilation = dilation};
    branches_.push_back(
        register_module(fmt::format("branch{}", branches_.size()), std::make_shared<ConvNormReLU>(shape)));
  };
  add(1, 1);
  for (const std::int64_t rate : options.rates) add(3, rate);
  pooled_ =
      register_module("pooled", std::make_shared<ConvNormReLU>(ConvShape{.in = options.in, .out = options.width}));
  out_channels_ = static_cast<std::int64_t>(branches_.size() + 1) * options.width;
}

at::Tensor Pyramid::forward(const at::Tensor& x) {
  if (is_training() && x.size(0) < 2 && !pooled_->is_synced()) {
    throw UsageError(fmt::format("batch norm after the pyramid's image pooling needs more than one value per channel, "
                                 "but a batch of {} has only one",
                                 x.size(0)),
                     "set batch_size to at least 2, drop_last if the last batch has only one image, or sync_batchnorm "
                     "with several replicas");
  }
  std::vector<at::Tensor> all;
  for (const auto& branch : branches_) all.push_back(branch->forward(x));
  const at::Tensor mean = pooled_->forward(x.mean({2, 3}, /*keepdim=*/true));
  // In the memory format of the other branches; otherwise cat() would copy them all into a different format.
  all.push_back(mean.expand({x.size(0), mean.size(1), x.size(2), x.size(3)}).contiguous(x.suggest_memory_format()));
  return at::cat(all, 1);
}

ClassWidthHead::ClassWidthHead(std::int64_t in, std::int64_t classes, const std::vector<std::int64_t>& rates)
    : pyramid_(register_module("pyramid",
                               std::make_shared<Pyramid>(ASPPOptions{.in = in, .width = classes, .rates = rates}))),
      conv_(register_module("conv", convolution({.in = pyramid_->out_channels(), .out = classes}))),
      bn_(register_module("bn", nn::BatchNorm2d(classes))) {}

at::Tensor ClassWidthHead::forward(const at::Tensor& /*low*/, const at::Tensor& high) {
  return bn_->forward(conv_->forward(pyramid_->forward(high)));
}

DecoderHead::DecoderHead(const DecoderOptions& options)
    : pyramid_(register_module("pyramid", std::make_shared<Pyramid>(ASPPOptions{
                                              .in = options.high, .width = kDecoderWidth, .rates = options.rates}))),
      project_(register_module(
          "project", std::make_shared<ConvNormReLU>(ConvShape{.in = pyramid_->out_channels(), .out = kDecoderWidth}))),
      dropout_(options.dropout),
      low_(register_module("low", std::make_shared<ConvNormReLU>(ConvShape{.in = options.low, .out = kLowWidth}))),
      first_(register_module("first", std::make_shared<ConvNormReLU>(ConvShape{
                                          .in = kDecoderWidth + kLowWidth, .out = kDecoderWidth, .kernel = 3}))),
      second_(register_module(
          "second", std::make_shared<ConvNormReLU>(ConvShape{.in = kDecoderWidth, .out = kDecoderWidth, .kernel = 3}))),
      classifier_(
          register_module("classifier", nn::Conv2d(torch::nn::Conv2dOptions(kDecoderWidth, options.classes, 1)))) {}

at::Tensor DecoderHead::forward(const at::Tensor& low, const at::Tensor& high) {
  const at::Tensor wide = at::dropout(project_->forward(pyramid_->forward(high)), dropout_, is_training());
  const at::Tensor enlarged = nn::resize_bilinear(wide, {low.size(2), low.size(3)}, /*align_corners=*/true);
  const at::Tensor both = at::cat({enlarged, low_->forward(low).to(enlarged.scalar_type())}, 1);
  return classifier_->forward(second_->forward(first_->forward(both)));
}

}  // namespace lockstep::segmentation
