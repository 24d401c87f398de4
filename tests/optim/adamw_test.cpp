// SPDX-License-Identifier: Apache-2.0
#include "lockstep/optim/adamw.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <ATen/Parallel.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "lockstep/tensor/random.h"
#include "tensor/golden.h"

namespace lockstep {
namespace adamw_test {

using ::testing::HasSubstr;
using Json = nlohmann::json;

AdamWOptions options_of(const Json& golden) {
  const Json& o = golden.at("options");
  return {.lr = o.at("lr"), .betas = o.at("betas"), .eps = o.at("eps"), .weight_decay = o.at("weight_decay")};
}

NamedTensors start_of(const Json& golden, at::ScalarType dtype, at::MemoryFormat format) {
  NamedTensors parameters;
  for (const auto& [name, dumped] : golden.at("start").items()) {
    at::Tensor value = test::to_tensor(dumped).to(dtype);
    if (value.dim() == 4) value = value.contiguous(format);
    parameters.emplace_back(name, value.requires_grad_());
  }
  return parameters;
}

void set_grads(const NamedTensors& parameters, const Json& grads) {
  for (const auto& [name, value] : parameters) {
    value.mutable_grad() =
        grads.contains(name) ? test::to_tensor(grads.at(name)).to(value.scalar_type()) : at::Tensor();
  }
}

/// The largest relative difference to PyTorch after each of its steps.
double worst_difference(at::ScalarType dtype, at::MemoryFormat format) {
  const Json golden = test::read_golden("optim/golden/adamw.json");
  const NamedTensors parameters = start_of(golden, dtype, format);
  AdamW optimizer(parameters, options_of(golden));
  double worst = 0;
  for (const Json& step : golden.at("steps")) {
    set_grads(parameters, step.at("grads"));
    optimizer.step();
    for (const auto& [name, value] : parameters) {
      worst = std::max(worst, test::relative_difference(value, test::to_tensor(step.at("after").at(name)), 1e-3));
    }
  }
  const StateDict state = optimizer.state_dict();
  for (const auto& [name, dumped] : golden.at("state").items()) {
    if (dumped.is_object()) {
      worst = std::max(worst,
                       test::relative_difference(std::get<at::Tensor>(state.at(name)), test::to_tensor(dumped), 1e-12));
    } else if (dumped != 5) {
      EXPECT_EQ(std::get<std::int64_t>(state.at(name)), dumped.get<std::int64_t>()) << name;
    }
  }
  return worst;
}

TEST(AdamW, TakesPyTorchsStepsFused) { EXPECT_LT(worst_difference(at::kFloat, at::MemoryFormat::Contiguous), 1e-6); }

TEST(AdamW, TakesPyTorchsStepsOnChannelsLastWeights) {
  EXPECT_LT(worst_difference(at::kFloat, at::MemoryFormat::ChannelsLast), 1e-6);
}

TEST(AdamW, TakesPyTorchsStepsWithPlainOperations) {
  EXPECT_LT(worst_difference(at::kDouble, at::MemoryFormat::Contiguous), 1e-6);
}

TEST(AdamW, GivesAnElementTheSameBitsWhereverItLies) {
  seed_all(3);
  constexpr std::int64_t kCount = 1003;
  const at::Tensor start = at::randn({kCount});
  const at::Tensor grad = at::randn({kCount});
  const auto updated = [&](std::int64_t begin, std::int64_t count) {
    const at::Tensor value = start.narrow(0, begin, count).clone();
    AdamW optimizer(NamedTensors{{"w", value}});
    for (int step = 0; step < 3; ++step) {
      value.mutable_grad() = grad.narrow(0, begin, count).clone();
      optimizer.step();
    }
    return value.detach();
  };
  const at::Tensor whole = updated(0, kCount);
  EXPECT_FALSE(whole.equal(start));
  for (const std::int64_t begin : {1, 7, 900}) {
    EXPECT_TRUE(updated(begin, 103).equal(whole.narrow(0, begin, 103))) << begin;
  }
}

TEST(AdamW, GivesTheSameBitsOnTwoThreads) {
  seed_all(4);
  const at::Tensor one = at::randn({300'001});
  const at::Tensor two = one.clone();
  one.mutable_grad() = at::randn({300'001});
  two.mutable_grad() = one.grad();
  const int threads = at::get_num_threads();
  at::set_num_threads(1);
  AdamW(NamedTensors{{"w", one}}).step();
  at::set_num_threads(2);
  AdamW(NamedTensors{{"w", two}}).step();
  at::set_num_threads(threads);
  EXPECT_TRUE(one.equal(two));
}

TEST(AdamW, ScalesGradientsOnTheWayIn) {
  const at::Tensor a = at::ones({33});
  const at::Tensor b = at::ones({33});
  AdamW scaled(NamedTensors{{"w", a}});
  AdamW plain(NamedTensors{{"w", b}});
  a.mutable_grad() = at::ones({33}).mul_(4);
  b.mutable_grad() = at::ones({33});
  scaled.step(0.25);
  plain.step();
  EXPECT_TRUE(a.equal(b));
  EXPECT_EQ(std::get<at::Tensor>(scaled.state_dict().at("w.exp_avg"))[0].item<float>(), 0.1F);
}

TEST(AdamW, LeavesExcludedParametersUndecayed) {
  const at::Tensor decayed = at::ones({4});
  const at::Tensor kept = at::ones({4});
  AdamW optimizer(NamedTensors{{"w", decayed}, {"norm", kept}},
                  {.lr = 0.1, .weight_decay = 0.5, .no_decay = [](const std::string& name) { return name == "norm"; }});
  for (const auto& item : optimizer.parameters()) item.second.mutable_grad() = at::zeros({4});
  optimizer.step();
  EXPECT_FLOAT_EQ(decayed[0].item<float>(), 0.95F);
  EXPECT_FLOAT_EQ(kept[0].item<float>(), 1.0F);
}

TEST(AdamW, GoesOnFromSavedStateWithTheSameBits) {
  seed_all(5);
  const at::Tensor a = at::randn({50});
  const at::Tensor b = a.clone();
  AdamW first(NamedTensors{{"w", a}});
  AdamW second(NamedTensors{{"w", b}});
  const at::Tensor grad = at::randn({50});
  a.mutable_grad() = grad;
  first.step();
  StateDict saved;
  for (const auto& [name, value] : first.state_dict()) {
    const auto* tensor = std::get_if<at::Tensor>(&value);
    saved.emplace(name, tensor != nullptr ? StateValue(tensor->clone()) : value);
  }
  b.copy_(a);
  second.load_state_dict(saved);
  b.mutable_grad() = grad;
  first.step();
  second.step();
  EXPECT_EQ(second.steps(), 2);
  EXPECT_TRUE(a.equal(b));
}

TEST(AdamW, RefusesStateOfAnotherModel) {
  AdamW optimizer(NamedTensors{{"w", at::ones({2})}});
  StateDict state = optimizer.state_dict();
  state.erase("w.exp_avg");
  EXPECT_THROW(optimizer.load_state_dict(state), DataError);
  state = optimizer.state_dict();
  state.erase("step");
  EXPECT_THROW(optimizer.load_state_dict(state), DataError);
  state = optimizer.state_dict();
  state.emplace("v.exp_avg", at::ones({2}));
  EXPECT_THROW(optimizer.load_state_dict(state), DataError);
}

TEST(AdamW, RefusesOptionsAndTypesThatMakeNoSense) {
  const NamedTensors one{{"w", at::ones({2})}};
  EXPECT_THROW(AdamW(one, {.lr = -1}), UsageError);
  EXPECT_THROW(AdamW(one, {.betas = {1.0, 0.9}}), UsageError);
  EXPECT_THROW(AdamW(one).set_lr(std::nan("")), UsageError);
  try {
    AdamW optimizer(NamedTensors{{"half", at::ones({2}, at::kBFloat16)}});
    ADD_FAILURE() << "took bfloat16 weights";
  } catch (const UsageError& error) {
    EXPECT_THAT(error.message(), HasSubstr("'half'"));
  }
}

TEST(AdamW, ZeroGradDropsOrZeroes) {
  const at::Tensor w = at::ones({2});
  AdamW optimizer(NamedTensors{{"w", w}});
  const at::Tensor grad = at::ones({2});
  w.mutable_grad() = grad;
  optimizer.zero_grad(/*set_to_none=*/false);
  EXPECT_TRUE(grad.equal(at::zeros({2})));
  EXPECT_TRUE(w.grad().is_same(grad));
  optimizer.zero_grad();
  EXPECT_FALSE(w.grad().defined());
}

}  // namespace adamw_test
}  // namespace lockstep
