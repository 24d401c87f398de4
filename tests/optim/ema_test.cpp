// SPDX-License-Identifier: Apache-2.0
// The moving average against the formula in plain PyTorch, and the swap for evaluations.
#include "lockstep/optim/ema.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <stdexcept>

#include "lockstep/base/error.h"
#include "lockstep/tensor/random.h"
#include "tensor/golden.h"

namespace lockstep {
namespace ema_test {

using Json = nlohmann::json;

const Json& golden() {
  static const Json kGolden = test::read_golden("optim/golden/ema.json");
  return kGolden;
}

/// A model of the dumped entries, as parameters that require gradients, and a count of batches.
NamedTensors model_of(const Json& values, at::ScalarType dtype, bool channels_last) {
  NamedTensors model;
  for (const auto& [name, dumped] : values.items()) {
    at::Tensor value = test::to_tensor(dumped).to(dtype);
    if (channels_last && value.dim() == 4) value = value.contiguous(at::MemoryFormat::ChannelsLast);
    model.emplace_back(name, value.requires_grad_());
  }
  model.emplace_back("norm.num_batches_tracked", at::zeros({}, at::kLong));
  return model;
}

at::Tensor entry(const EMA& ema, const std::string& name) { return std::get<at::Tensor>(ema.state_dict().at(name)); }

/// The average after all dumped updates.
EMA trained(const Json& one, const NamedTensors& model) {
  const at::NoGradGuard no_grad;
  const Json& options = one.at("options");
  EMA ema(model, {.decay = options.at("decay"), .warmups = options.at("warmups")});
  for (std::size_t n = 1; n < golden().at("values").size(); ++n) {
    for (auto [name, value] : model) {
      if (value.is_floating_point()) value.copy_(test::to_tensor(golden().at("values").at(n).at(name)));
    }
    model.back().second.add_(1);
    if (options.contains("from") && n == options.at("from").get<std::size_t>()) ema.set_decay(options.at("then"));
    ema.update();
  }
  return ema;
}

TEST(Ema, HasTheBitsOfTheFormulaInPyTorchInAnyLayout) {
  for (const bool channels_last : {false, true}) {
    for (const auto& [name, one] : golden().at("cases").items()) {
      const EMA ema = trained(one, model_of(golden().at("values").at(0), at::kFloat, channels_last));
      for (const auto& [key, dumped] : one.at("after").items()) {
        EXPECT_TRUE(entry(ema, key).equal(test::to_tensor(dumped))) << name << " " << key;
      }
      EXPECT_EQ(ema.updates(), 20);
    }
  }
}

TEST(Ema, AveragesOtherFloatingTypesAndCopiesWholeNumbers) {
  const Json& one = golden().at("cases").at("changed");
  const EMA ema = trained(one, model_of(golden().at("values").at(0), at::kDouble, false));
  for (const auto& [key, dumped] : one.at("after").items()) {
    EXPECT_LT(test::relative_difference(entry(ema, key), test::to_tensor(dumped), 0.1), 1e-6) << key;
  }
  EXPECT_EQ(entry(ema, "norm.num_batches_tracked").item<std::int64_t>(), 20);
}

TEST(Ema, SwapsInPlaceAndBackWhateverHappens) {
  seed_all(1);
  const at::Tensor dense = at::randn({5000}).requires_grad_();
  const at::Tensor strided = at::randn({6, 4}).t().slice(0, 0, 4, 2);
  EMA ema(NamedTensors{{"dense", dense}, {"strided", strided}, {"none", at::zeros({0})}}, {.decay = 0.5, .warmups = 0});
  {
    const at::NoGradGuard no_grad;
    dense.add_(1);
    strided.add_(1);
  }
  ema.update();
  const at::Tensor average = entry(ema, "dense").clone();
  const at::Tensor strided_average = entry(ema, "strided").clone();
  const at::Tensor own = dense.detach().clone();
  const at::Tensor strided_own = strided.clone();
  const void* memory = dense.data_ptr();
  try {
    const EMA::Swapped averaged = ema.swap_in();
    EXPECT_TRUE(dense.equal(average));
    EXPECT_TRUE(strided.equal(strided_average));
    EXPECT_EQ(dense.data_ptr(), memory);
    EXPECT_THROW(ema.update(), UsageError);
    EXPECT_THROW((void)ema.state_dict(), UsageError);
    EXPECT_THROW((void)ema.swap_in(), UsageError);
    throw std::runtime_error("an evaluation that fails");
  } catch (const std::runtime_error&) {
  }
  EXPECT_TRUE(dense.equal(own));
  EXPECT_TRUE(strided.equal(strided_own));
  EXPECT_TRUE(entry(ema, "dense").equal(average));
  EXPECT_TRUE(entry(ema, "strided").equal(strided_average));
}

TEST(Ema, GoesOnFromItsStateWithTheSameBits) {
  seed_all(2);
  const at::Tensor value = at::randn({100});
  EMA one(NamedTensors{{"w", value}}, {.decay = 0.9, .warmups = 3});
  for (int i = 0; i < 3; ++i) one.update();
  EMA other(NamedTensors{{"w", at::zeros({100})}}, {.decay = 0.9, .warmups = 3});
  other.load_state_dict(one.state_dict());
  EXPECT_EQ(other.updates(), 3);
  EXPECT_TRUE(entry(other, "w").equal(entry(one, "w")));
  EXPECT_FALSE(entry(other, "w").is_same(entry(one, "w")));
  EXPECT_EQ(ema_state_of(one.state_dict()).model.size(), 1U);
  EXPECT_EQ(ema_state_of(one.state_dict()).updates, 3);
}

TEST(Ema, LoadsAnAverageOfTiedWeightsUnderAllTheirNames) {
  const at::Tensor shared = at::zeros({2});
  EMA ema{NamedTensors{{"embed", shared}, {"head", shared}}};
  EXPECT_EQ(ema.state_dict().size(), 2U) << "once, and the number of updates";
  const at::Tensor average = at::ones({2});
  ema.load_state_dict({{"embed", average}, {"head", average.clone()}, {"ema.updates", std::int64_t{5}}});
  const EMA::Swapped swapped = ema.swap_in();
  EXPECT_TRUE(shared.equal(average));
}

TEST(Ema, LeavesTheFirstCallsOutAlsoWhereItGoesOnFromItsState) {
  const at::Tensor value = at::ones({3});
  EMA ema(NamedTensors{{"w", value}}, {.decay = 0.5, .warmups = 0, .start = 2});
  value.zero_();
  ema.update();
  EMA other(NamedTensors{{"w", value}}, {.decay = 0.5, .warmups = 0, .start = 2});
  other.load_state_dict(ema.state_dict());
  other.update();
  EXPECT_TRUE(entry(other, "w").equal(at::ones({3})));
  EXPECT_EQ(other.updates(), 0);
  other.update();
  EXPECT_TRUE(entry(other, "w").equal(at::full({3}, 0.5)));
  EXPECT_EQ(other.updates(), 1);
}

TEST(Ema, AnotherStateIsADataErrorAndNothingIsLoaded) {
  EMA ema(NamedTensors{{"w", at::ones({3})}});
  EXPECT_THROW(ema.load_state_dict({{"w", at::zeros({3})}}), DataError);
  EXPECT_THROW(ema.load_state_dict({{"v", at::zeros({3})}, {"ema.updates", std::int64_t{1}}}), DataError);
  EXPECT_THROW(ema.load_state_dict({{"w", at::zeros({4})}, {"ema.updates", std::int64_t{1}}}), DataError);
  EXPECT_EQ(ema.updates(), 0);
  EXPECT_TRUE(entry(ema, "w").equal(at::ones({3})));
}

TEST(Ema, OptionsThatCannotBeAreUsageErrors) {
  const NamedTensors model{{"w", at::ones({3})}};
  EXPECT_THROW(EMA(model, {.decay = 1}), UsageError);
  EXPECT_THROW(EMA(model, {.decay = -0.1}), UsageError);
  EXPECT_THROW(EMA(model, {.warmups = -1}), UsageError);
  EXPECT_THROW(EMA(model, {.start = -1}), UsageError);
  EXPECT_THROW(EMA(NamedTensors{{"ema.updates", at::ones({3})}}), UsageError);
  EXPECT_THROW(EMA(model).set_decay(1), UsageError);
}

}  // namespace ema_test
}  // namespace lockstep
