// SPDX-License-Identifier: Apache-2.0
// The operations that a profile counts in a step of the small captcha network, against a calculation by hand.
#include <ATen/core/ivalue.h>  // before any other torch header
#include <ATen/ops/rand.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "captcha/model/model.h"
#include "lockstep/nn/optimize.h"
#include "lockstep/observe/profiler.h"
#include "lockstep/optim/autocast.h"
#include "lockstep/train/prepare.h"
#include "support/alone.h"

namespace lockstep::captcha {
namespace captcha_profile_test {

using ::testing::IsSupersetOf;

constexpr std::int64_t kImages = 4;

struct How {
  bool fused = false;
  Amp amp = Amp::kNone;
};

view::Profile profile_of_a_step(const How& how) {
  const std::shared_ptr<torch::nn::Module> net = make_model({.type = "conv3"});
  auto& model = dynamic_cast<CaptchaNet&>(*net);
  use_channels_last(*net);
  if (how.fused) (void)nn::optimize(*net);
  const at::Tensor images = to_channels_last(at::rand({kImages, 1, 60, 160}));
  observe::Profiler profiler(testing::alone(), {.steps = 1, .warmup = 1, .parameters = named_parameters_of(*net)});
  for (int step = 0; step < 2; ++step) {
    at::Tensor out;
    {
      const Autocast autocast(at::kCPU, how.amp);
      out = model.forward(images);
    }
    out.to(at::kFloat).sum().backward();
    profiler.step();
  }
  return profiler.profile();
}

/// Multiplications of an image's forward: 3x3 convolutions of 60 x 160 pixels, halved by a pooling after each, then
/// two dense layers.
struct ByHand {
  double conv1 = 60.0 * 160 * 32 * 1 * 9;
  double conv2 = 30.0 * 80 * 64 * 32 * 9;
  double conv3 = 15.0 * 40 * 64 * 64 * 9;
  double head = 64.0 * 7 * 20 * 1024 + 1024.0 * 4 * 36;

  /// Backward has the gradient of each weight, and of each input but the images.
  [[nodiscard]] double flops_of_a_step() const {
    return 2 * static_cast<double>(kImages) * (3 * (conv1 + conv2 + conv3 + head) - conv1);
  }
};

class CaptchaProfile : public ::testing::TestWithParam<How> {};

TEST_P(CaptchaProfile, CountsTheOperationsThatACalculationByHandGives) {
  EXPECT_EQ(view::flops_of(profile_of_a_step(GetParam())), ByHand().flops_of_a_step());
}

TEST_P(CaptchaProfile, HasForwardAndBackwardOfEveryConvolutionAndDenseLayer) {
  std::vector<std::string> names;
  for (const view::LayerRow& layer : layer_table(profile_of_a_step(GetParam()))) {
    if (layer.flops == 0) continue;
    names.push_back(layer.name);
    EXPECT_GT(layer.forward_ns, 0) << layer.name;
    EXPECT_GT(layer.backward_ns, 0) << layer.name;
  }
  EXPECT_THAT(names, ::testing::ElementsAre("features.0", "features.5", "features.10", "head.0", "head.3"));
}

INSTANTIATE_TEST_SUITE_P(PlainAndFused, CaptchaProfile,
                         ::testing::Values(How{}, How{.fused = true}, How{.fused = true, .amp = Amp::kBf16}));

}  // namespace captcha_profile_test
}  // namespace lockstep::captcha
