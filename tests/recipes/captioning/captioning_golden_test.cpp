// SPDX-License-Identifier: Apache-2.0
// The networks and their gradients against a re-creation in PyTorch, in float64 (golden/captioning.py).
#include <ATen/core/grad_mode.h>
#include <ATen/core/ivalue.h>  // before any other torch header
#include <ATen/TensorOperators.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "captioning/model/model.h"
#include "support/fractions.h"

namespace lockstep::captioning {
namespace captioning_golden_test {

constexpr std::int64_t kWords = 11;
constexpr std::int64_t kPictures = 2;
constexpr std::int64_t kCaptions = 3;
constexpr std::int64_t kLength = 6;
using test::fractions;

at::Tensor weight_of(const std::string& name, const at::Tensor& like) {
  const at::Tensor value = fractions(name, like.sizes());
  if (like.dim() > 1) {
    return (value - 0.5) * (2 * std::sqrt(3 * static_cast<double>(like.size(0)) / static_cast<double>(like.numel())));
  }
  return name.ends_with("weight") ? value * 0.5 + 0.75 : (value - 0.5) * 0.4;
}

at::Tensor words() {
  at::Tensor all = (fractions("words", {kPictures * kCaptions, kLength}) * kWords).floor().to(at::kLong);
  all.select(1, 0).fill_(0);
  return all;
}

ModelOptions options(ModelType type) {
  ModelOptions options{.type = type,
                       .vocabulary = kWords,
                       .feature_width = 12,
                       .dim = 16,
                       .heads = 4,
                       .encoder_layers = 2,
                       .decoder_layers = 2,
                       .feed_forward = 24,
                       .dropout = 0};
  options.x_linear.word_dim = 10;
  options.x_linear.middle_dim = 3;
  return options;
}

ModelOptions with_pictures(ModelType type) {
  ModelOptions all = options(type);
  all.backbone = {.type = BackboneType::kSmall, .output_stride = 8, .width = 8};
  return all;
}

struct Case {
  std::string name;
  ModelOptions options;
  at::Tensor data;
  std::vector<std::int64_t> lengths;
};

void expect_golden(const Case& example) {
  std::ifstream file(std::string(LOCKSTEP_TEST_SOURCE_DIR) + "/tests/recipes/golden/captioning.json");
  const nlohmann::json golden = nlohmann::json::parse(file).at(example.name);
  const std::shared_ptr<Captioner> net = make_captioner(example.options);
  {
    const at::NoGradGuard guard;
    for (auto& item : net->named_parameters()) item.value().copy_(weight_of(item.key(), item.value()));
  }
  const at::Tensor data = ((example.data - 0.5) * 4).to(at::kFloat);
  const at::Tensor logs = net->log_probs(net->encode(data, example.lengths), words());
  const auto expected = golden.at("log_probs").get<std::vector<double>>();
  const at::Tensor flat = logs.detach().to(at::kDouble).flatten().contiguous();
  ASSERT_EQ(flat.numel(), static_cast<std::int64_t>(expected.size()));
  for (std::size_t i = 0; i < expected.size(); ++i) {
    ASSERT_NEAR(flat.data_ptr<double>()[i], expected[i], 2e-5) << example.name << " number " << i;
  }
  (logs * (fractions("loss", logs.sizes()) - 0.5).to(at::kFloat)).sum().backward();
  ASSERT_EQ(net->named_parameters().size(), golden.at("gradients").size()) << example.name;
  for (const auto& item : net->named_parameters()) {
    const auto facts = golden.at("gradients").at(item.key()).get<std::vector<double>>();
    const at::Tensor grad = item.value().grad().to(at::kDouble);
    EXPECT_NEAR(grad.norm().item<double>(), facts[0], 1e-4 * facts[0]) << example.name << " " << item.key();
    const at::Tensor probe = fractions(item.key() + ".probe", grad.sizes()) - 0.5;
    EXPECT_NEAR((grad * probe).sum().item<double>(), facts[1], 1e-4 * facts[0]) << example.name << " " << item.key();
  }
}

TEST(CaptioningGolden, TheTransformerIsThatOfItsFormulasOnAGridThatItsShiftedWindowsDoNotDivide) {
  ModelOptions grid = options(ModelType::kTransformer);
  grid.window = 3;
  grid.grid_height = 7;
  grid.grid_width = 5;
  expect_golden({"transformer_windows", grid, fractions("features", {kPictures, 35, 12}), {}});
}

TEST(CaptioningGolden, TheTransformerIsThatOfItsFormulasOnPictures) {
  expect_golden({"transformer_pictures",
                 with_pictures(ModelType::kTransformer),
                 fractions("pictures", {kPictures, 3, 40, 24}),
                 {}});
}

TEST(CaptioningGolden, TheXLinearNetworkIsThatOfItsFormulasOnAnyNumberOfRegions) {
  expect_golden({"x_linear_lengths", options(ModelType::kXLinear), fractions("features", {kPictures, 5, 12}), {5, 3}});
}

TEST(CaptioningGolden, TheXLinearNetworkIsThatOfItsFormulasOnPictures) {
  expect_golden(
      {"x_linear_pictures", with_pictures(ModelType::kXLinear), fractions("pictures", {kPictures, 3, 40, 24}), {}});
}

}  // namespace captioning_golden_test
}  // namespace lockstep::captioning
