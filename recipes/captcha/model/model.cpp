// SPDX-License-Identifier: Apache-2.0
#include "captcha/model/model.h"

#include <fmt/format.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/pooling.h>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/nn/batch_norm.h"
#include "lockstep/nn/norm_act.h"

namespace lockstep::captcha {
namespace {

namespace nn = torch::nn;

constexpr std::int64_t kHidden = 1024;
constexpr double kDropout = 0.5;

nn::Conv2d conv3x3(std::int64_t in, std::int64_t out) { return nn::Conv2d(nn::Conv2dOptions(in, out, 3).padding(1)); }

nn::ReLU relu() { return nn::ReLU(nn::ReLUOptions().inplace(true)); }

void add_conv(nn::Sequential& features, std::int64_t in, std::int64_t out) {
  features->push_back(conv3x3(in, out));
  features->push_back(lockstep::nn::BatchNorm2d(out));
  features->push_back(relu());
}

void add_pool(nn::Sequential& features) { features->push_back(nn::MaxPool2d(2)); }

nn::Sequential conv7_features() {
  nn::Sequential features;
  add_conv(features, 1, 32);
  add_pool(features);
  add_conv(features, 32, 64);
  add_conv(features, 64, 64);
  add_pool(features);
  add_conv(features, 64, 128);
  add_conv(features, 128, 128);
  add_conv(features, 128, 128);
  add_pool(features);
  add_conv(features, 128, 128);
  return features;
}

nn::Sequential conv3_features() {
  nn::Sequential features;
  std::int64_t in = 1;
  for (const std::int64_t out : {32, 64, 64}) {
    features->push_back(conv3x3(in, out));
    features->push_back(lockstep::nn::BatchNorm2d(out));
    features->push_back(nn::Dropout(kDropout));
    features->push_back(relu());
    add_pool(features);
    in = out;
  }
  return features;
}

class ConvNet final : public CaptchaNet {
 public:
  ConvNet(nn::Sequential features, std::int64_t channels, const ModelOptions& options)
      : features_(register_module("features", std::move(features))) {
    const std::int64_t flat = channels * (options.height / 8) * (options.width / 8);
    head_ = register_module("head", nn::Sequential(nn::Linear(flat, kHidden), nn::Dropout(kDropout), relu(),
                                                   nn::Linear(kHidden, options.length * options.classes)));
  }

  at::Tensor forward(const at::Tensor& images_N1HW) override {
    return head_->forward(lockstep::nn::forward_layers(*features_, images_N1HW).flatten(1));
  }

 private:
  nn::Sequential features_;
  nn::Sequential head_{nullptr};
};

}  // namespace

std::shared_ptr<CaptchaNet> make_model(const ModelOptions& options) {
  if (options.height < 8 || options.width < 8) {
    throw UsageError(fmt::format("images of {}x{} pixels are too small: three pooling layers need at least 8x8",
                                 options.width, options.height));
  }
  if (options.type == "conv7") return std::make_shared<ConvNet>(conv7_features(), 128, options);
  if (options.type == "conv3") return std::make_shared<ConvNet>(conv3_features(), 64, options);
  throw UsageError(fmt::format("model.type is '{}'; it must be conv7 or conv3{}", options.type,
                               text::did_you_mean(options.type, {"conv7", "conv3"})));
}

}  // namespace lockstep::captcha
