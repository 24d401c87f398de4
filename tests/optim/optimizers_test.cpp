// SPDX-License-Identifier: Apache-2.0
// Optimizers against PyTorch's steps.
#include <ATen/core/ivalue.h>  // before any other torch header

#include <ATen/core/grad_mode.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <ATen/Parallel.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "lockstep/optim/adamw.h"
#include "lockstep/optim/make_optimizer.h"
#include "lockstep/tensor/random.h"
#include "tensor/golden.h"

namespace lockstep {
namespace optimizers_test {

using Json = nlohmann::json;

// All optimizers against 100 steps of PyTorch or of the papers' formulas, and the guarantees they share.

template <class T>
void take(const Json& from, const char* key, std::optional<T>& into) {
  if (from.contains(key)) into = from.at(key).get<T>();
}

OptimizerOptions options_of(const Json& dumped) {
  OptimizerOptions options;
  take(dumped, "lr", options.lr);
  take(dumped, "weight_decay", options.weight_decay);
  take(dumped, "betas", options.betas);
  take(dumped, "eps", options.eps);
  take(dumped, "momentum", options.momentum);
  take(dumped, "dampening", options.dampening);
  take(dumped, "nesterov", options.nesterov);
  take(dumped, "amsgrad", options.amsgrad);
  take(dumped, "alpha", options.alpha);
  take(dumped, "centered", options.centered);
  take(dumped, "lr_decay", options.lr_decay);
  take(dumped, "initial_accumulator_value", options.initial_accumulator_value);
  take(dumped, "trust", options.trust);
  return options;
}

const Json& golden() {
  static const Json kGolden = test::read_golden("optim/golden/optimizers.json");
  return kGolden;
}

/// The parameters' memory layout.
enum class Layout { kContiguous, kChannelsLast, kStrided };

at::Tensor laid_out(const at::Tensor& value, Layout layout) {
  if (layout == Layout::kChannelsLast && value.dim() == 4) return value.contiguous(at::MemoryFormat::ChannelsLast);
  if (layout == Layout::kStrided) {
    std::vector<std::int64_t> twice(value.sizes().begin(), value.sizes().end());
    twice.back() *= 2;
    const at::Tensor spread = at::ones(twice, value.options()).slice(value.dim() - 1, 0, twice.back(), 2);
    return spread.copy_(value);
  }
  return value;
}

NamedTensors start_of(at::ScalarType dtype, Layout layout) {
  NamedTensors parameters;
  for (const auto& [name, dumped] : golden().at("start").items()) {
    parameters.emplace_back(name, laid_out(test::to_tensor(dumped).to(dtype), layout));
  }
  return parameters;
}

void set_grads(const NamedTensors& parameters, const Json& grads, double scale) {
  for (const auto& [name, value] : parameters) {
    value.mutable_grad() =
        grads.contains(name) ? test::to_tensor(grads.at(name)).to(value.scalar_type()).mul_(1 / scale) : at::Tensor();
  }
}

struct Way {
  at::ScalarType dtype = at::kFloat;
  Layout layout = Layout::kContiguous;
  double grad_scale = 1;
  double floor = 0.1;  ///< differences are relative for values of at least this size
};

/// The largest difference from the dumped parameters.
double worst_difference(const std::string& name, const std::string& against, const Way& way) {
  const Json& one = golden().at("cases").at(name);
  const NamedTensors parameters = start_of(way.dtype, way.layout);
  const OptimizerOptions options = options_of(one.at("options"));
  const auto optimizer = make_optimizer(one.at("type").get<std::string>(), parameters, options);
  double worst = 0;
  int step = 0;
  for (const Json& grads : golden().at("grads")) {
    ++step;
    optimizer->set_lr(*options.lr * (step >= golden().at("halved_from").get<int>() ? 0.5 : 1.0));
    set_grads(parameters, grads, way.grad_scale);
    optimizer->step(way.grad_scale);
    const Json& dumps = one.at(against);
    if (!dumps.contains(std::to_string(step))) continue;
    for (const auto& [parameter, dumped] : dumps.at(std::to_string(step)).items()) {
      for (const auto& [own, value] : parameters) {
        if (own != parameter) continue;
        worst = std::max(worst, test::relative_difference(value, test::to_tensor(dumped), way.floor));
      }
    }
  }
  EXPECT_EQ(step, 100);
  return worst;
}

class OptimizerCase : public ::testing::TestWithParam<std::string> {};

/// Compares with PyTorch's steps in float32 or, if there are none, with the papers' formulas in float64, from which a
/// hundred float32 roundings drift away.
double worst_of_kernel(const std::string& name, Way way) {
  if (golden().at("cases").at(name).contains("float32")) return worst_difference(name, "float32", way);
  way.floor = 0.5;
  return worst_difference(name, "float64", way);
}

TEST_P(OptimizerCase, TakesTheReferencesStepsByItsKernel) { EXPECT_LT(worst_of_kernel(GetParam(), {}), 1e-6); }

TEST_P(OptimizerCase, TakesTheReferencesStepsOnChannelsLastWeightsAndScaledGradients) {
  EXPECT_LT(worst_of_kernel(GetParam(), {.layout = Layout::kChannelsLast, .grad_scale = 0.25}), 1e-6);
}

TEST_P(OptimizerCase, TakesTheReferencesStepsByLibtorchsOperators) {
  EXPECT_LT(worst_difference(GetParam(), "float64", {.dtype = at::kDouble, .grad_scale = 4}), 1e-6);
  EXPECT_LT(worst_difference(GetParam(), "float64", {.dtype = at::kDouble, .layout = Layout::kStrided}), 1e-6);
}

TEST_P(OptimizerCase, GivesAnElementTheSameBitsWhereverItLies) {
  const Json& one = golden().at("cases").at(GetParam());
  const std::string type = one.at("type");
  seed_all(3);
  constexpr std::int64_t kCount = 1003;
  const at::Tensor start = at::randn({kCount});
  const at::Tensor grad = at::randn({kCount});
  const auto updated = [&](std::int64_t begin, std::int64_t count) {
    const at::Tensor value = start.narrow(0, begin, count).clone();
    const auto optimizer = make_optimizer(type, {{"w", value}}, options_of(one.at("options")));
    for (int step = 0; step < 3; ++step) {
      value.mutable_grad() = grad.narrow(0, begin, count).clone();
      optimizer->step();
    }
    EXPECT_EQ(optimizer->elementwise(), type != "LAMB" && type != "LARS");
    return std::pair(value, optimizer->elementwise());
  };
  const at::Tensor whole = updated(0, kCount).first;
  EXPECT_FALSE(whole.equal(start));
  for (const std::int64_t begin : {1, 7, 900}) {
    const auto [part, elementwise] = updated(begin, 103);
    EXPECT_EQ(part.equal(whole.narrow(0, begin, 103)), elementwise) << begin;
  }
}

TEST_P(OptimizerCase, GivesTheSameBitsOnTwoThreads) {
  const Json& one = golden().at("cases").at(GetParam());
  seed_all(4);
  const at::Tensor first = at::randn({300'001});
  const at::Tensor second = first.clone();
  first.mutable_grad() = at::randn({300'001});
  second.mutable_grad() = first.grad();
  const int threads = at::get_num_threads();
  at::set_num_threads(1);
  make_optimizer(one.at("type"), {{"w", first}}, options_of(one.at("options")))->step();
  at::set_num_threads(2);
  make_optimizer(one.at("type"), {{"w", second}}, options_of(one.at("options")))->step();
  at::set_num_threads(threads);
  EXPECT_TRUE(first.equal(second));
}

TEST_P(OptimizerCase, GoesOnFromSavedStateWithTheSameBits) {
  const Json& one = golden().at("cases").at(GetParam());
  seed_all(5);
  const at::Tensor a = at::randn({50});
  const at::Tensor b = at::zeros({50});
  const auto make = [&](const at::Tensor& value) {
    return make_optimizer(one.at("type"), {{"w", value}}, options_of(one.at("options")));
  };
  const auto first = make(a);
  const auto second = make(b);
  for (int step = 0; step < 2; ++step) {
    a.mutable_grad() = at::randn({50});
    first->step();
  }
  second->load_state_dict(first->state_dict());
  b.copy_(a);
  a.mutable_grad() = at::randn({50});
  b.mutable_grad() = a.grad();
  first->step();
  second->step();
  EXPECT_EQ(second->steps(), 3);
  EXPECT_TRUE(a.equal(b));
  for (const auto& entry : second->state_dict()) {
    if (entry.first == "step") continue;
    EXPECT_EQ(entry.first.rfind("w.", 0), 0U) << entry.first;
    EXPECT_EQ(entry.first.find('.', 2), std::string::npos) << entry.first;
  }
}

std::vector<std::string> case_names() {
  std::vector<std::string> names;
  for (const auto& item : golden().at("cases").items()) names.push_back(item.key());
  return names;
}

INSTANTIATE_TEST_SUITE_P(All, OptimizerCase, ::testing::ValuesIn(case_names()),
                         [](const auto& one) { return one.param; });

TEST(Optimizers, AreMadeByTheNamesThatAreListed) {
  EXPECT_THAT(optimizer_types(),
              ::testing::ElementsAre("AdamW", "Adam", "SGD", "RMSprop", "Adagrad", "LAMB", "LARS", "Lion"));
  for (const std::string& type : optimizer_types()) {
    const at::Tensor w = at::ones({3});
    const auto optimizer = make_optimizer(type, {{"w", w}}, {});
    w.mutable_grad() = at::ones({3});
    optimizer->step();
    EXPECT_LT(w[0].item<double>(), 1) << type;
  }
  EXPECT_EQ(make_optimizer("adamw", {}, {})->steps(), 0);  // a setting may be in lower case
}

TEST(Optimizers, ChangeWeightsSoThatABackwardWhichNeedsTheOldOnesThrows) {
  for (const std::string& type : optimizer_types()) {
    for (const at::ScalarType dtype : {at::kFloat, at::kDouble}) {
      const at::Tensor w = at::ones({3}, dtype).requires_grad_();
      const at::Tensor loss = w.square().sum();
      w.mutable_grad() = at::ones({3}, dtype);
      make_optimizer(type, {{"w", w}}, {})->step();
      EXPECT_THROW(loss.backward(), c10::Error) << type << " on " << c10::toString(dtype);
    }
  }
}

TEST(Optimizers, LeaveWeightsWithoutAGradientToTheGraphsThatUseThem) {
  const at::Tensor w = at::ones({3}).requires_grad_();
  const at::Tensor loss = w.square().sum();
  make_optimizer("SGD", {{"w", w}}, {})->step();
  loss.backward();
  EXPECT_TRUE(w.grad().equal(at::ones({3}).mul(2)));
}

TEST(Optimizers, RefuseTypesAndOptionsThatTheyDoNotHave) {
  const auto message_of = [](const std::string& type, const OptimizerOptions& options) -> std::string {
    try {
      const auto made = make_optimizer(type, {{"w", at::ones({2})}}, options);
    } catch (const UsageError& error) {
      return error.message();
    }
    return "";
  };
  EXPECT_THAT(message_of("Adamx", {}), ::testing::HasSubstr("'Adamx'"));
  EXPECT_THAT(message_of("AdamW", {.momentum = 0.9}), ::testing::HasSubstr("AdamW does not have momentum"));
  EXPECT_THAT(message_of("SGD", {.betas = std::array{0.9, 0.99}}), ::testing::HasSubstr("betas"));
  EXPECT_THAT(message_of("SGD", {.nesterov = true}), ::testing::HasSubstr("nesterov"));
  EXPECT_THAT(message_of("RMSprop", {.alpha = 2}), ::testing::HasSubstr("RMSprop's alpha is 2"));
  EXPECT_THAT(message_of("Lion", {.betas = std::array{0.9, 1.0}}), ::testing::HasSubstr("second beta"));
  EXPECT_THAT(message_of("LARS", {.lr = -1}), ::testing::HasSubstr("LARS's lr is -1"));
}

}  // namespace optimizers_test

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

/// The largest relative difference from PyTorch after any of its steps.
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
    EXPECT_THAT(error.hint(), HasSubstr("this one is frozen"));
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
