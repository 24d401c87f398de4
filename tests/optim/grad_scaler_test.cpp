// SPDX-License-Identifier: Apache-2.0
// Mixed precision: the loss scaler, and autocast.
#include <ATen/core/grad_mode.h>
#include <ATen/ops/conv2d.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/sparse_coo_tensor.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <ATen/record_function.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string_view>

#include "lockstep/base/error.h"
#include "lockstep/optim/adamw.h"
#include "lockstep/optim/autocast.h"
#include "lockstep/optim/grad_scaler.h"
#include "lockstep/tensor/random.h"
#include "optim/unscale_kernel.h"
#include "tensor/golden.h"

namespace lockstep {
namespace grad_scaler_test {

using ::testing::HasSubstr;
using Json = nlohmann::json;

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

/// A single one-element weight, with the steps of a training loop.
struct Loop {
  at::Tensor weight = at::ones({1}).requires_grad_();
  AdamW optimizer = AdamW(NamedTensors{{"weight", weight}}, {.lr = 0.1});
  GradScaler scaler;

  explicit Loop(GradScalerOptions options = {}) : scaler(std::move(options)) {}

  /// Runs backward on a loss whose unscaled gradient is `gradient`.
  void backward(double gradient) {
    optimizer.zero_grad();
    scaler.scale(weight.mul(gradient).sum()).backward();
  }
  bool iterate(double gradient) {
    backward(gradient);
    const bool stepped = scaler.step(optimizer);
    scaler.update();
    return stepped;
  }
};

template <class Error = UsageError, class Call>
std::string message_of(const Call& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.message();
  }
  return "no error";
}

std::int64_t tracker_of(const GradScaler& scaler) {
  return std::get<std::int64_t>(scaler.state_dict().at("_growth_tracker"));
}

GradScalerOptions options_of(const Json& golden) {
  const Json& options = golden.at("options");
  return {.init_scale = options.at("init_scale"),
          .growth_factor = options.at("growth_factor"),
          .backoff_factor = options.at("backoff_factor"),
          .growth_interval = options.at("growth_interval")};
}

/// The two weights of the golden file, each with its optimizer.
struct Golden {
  struct Part {
    at::Tensor weight;
    std::unique_ptr<AdamW> optimizer;
  };
  std::map<std::string, Part> parts;
  std::unique_ptr<GradScaler> scaler;

  explicit Golden(const Json& json) : scaler(std::make_unique<GradScaler>(options_of(json))) {
    for (const auto& [name, dumped] : json.at("start").items()) {
      const at::Tensor weight = test::to_tensor(dumped).requires_grad_();
      parts[name] = {weight, std::make_unique<AdamW>(NamedTensors{{name, weight}}, AdamWOptions{.lr = 1e-2})};
    }
    // The first loss creates the scale.
    EXPECT_EQ(scaler->scale(at::ones({})).item<float>(), json.at("options").at("init_scale").get<float>());
  }

  void iterate(const Json& what) {
    if (what.contains("grow_at")) grow_at(what.at("grow_at"));
    if (what.contains("reload")) reload();
    for (const auto& [name, dumped] : what.at("plain").items()) step(name, what, test::to_tensor(dumped));
    if (what.contains("new_scale")) {
      scaler->update(what.at("new_scale").get<double>());
    } else {
      scaler->update();
    }
  }

 private:
  void grow_at(std::int64_t interval) {
    StateDict state = scaler->state_dict();
    state["growth_interval"] = interval;
    scaler->load_state_dict(state);
  }

  void reload() {
    const StateDict state = scaler->state_dict();
    scaler = std::make_unique<GradScaler>();
    scaler->load_state_dict(state);
    EXPECT_EQ(scaler->scale(at::ones({})).item<double>(), std::get<double>(state.at("scale")));
  }

  void step(const std::string& name, const Json& what, const at::Tensor& plain) {
    Part& part = parts.at(name);
    at::Tensor grad = plain.mul(scaler->get_scale());
    const bool bad = what.at("bad").contains(name);
    if (bad) grad.view({-1})[1].fill_(std::stod(what.at("bad").at(name).get<std::string>()));
    part.weight.mutable_grad() = grad;
    if (what.contains("unscale")) scaler->unscale_(*part.optimizer);
    EXPECT_EQ(scaler->step(*part.optimizer), !bad);
  }
};

/// The addresses of the factors that a call multiplies by: a recorded graph reads them there.
template <class Call>
std::vector<const void*> factors_of(const Call& call) {
  static std::vector<const void*> found;
  found.clear();
  const auto note = [](const at::RecordFunction& function) -> std::unique_ptr<at::ObserverContext> {
    if (std::string_view(function.name()) != "aten::mul") return nullptr;
    const c10::IValue& factor = function.inputs().at(1);
    found.push_back(factor.isTensor() ? factor.toTensor().data_ptr() : nullptr);
    return nullptr;
  };
  const auto handle = at::addThreadLocalCallback(at::RecordFunctionCallback(note).needsInputs(true));
  call();
  at::removeCallback(handle);
  return found;
}

TEST(GradScaler, MultipliesByATensorThatStaysWhereItIsWhateverTheScaleBecomes) {
  GradScaler scaler({.init_scale = 4, .growth_interval = 1});
  AdamW optimizer(NamedTensors{{"weight", at::ones({1}).requires_grad_()}}, {.lr = 0.1});
  at::Tensor scaled;
  const auto scale = [&] { scaled = scaler.scale(at::ones({1})); };
  const std::vector<const void*> first = factors_of(scale);
  ASSERT_EQ(first.size(), 1U);
  EXPECT_NE(first.at(0), nullptr) << "a number of the host would be recorded as it is";
  (void)scaler.step(optimizer);
  scaler.update();
  const StateDict saved = scaler.state_dict();
  EXPECT_EQ(factors_of(scale), first);
  EXPECT_EQ(scaled.item<float>(), 8);
  scaler.update(2);
  scaler.load_state_dict(saved);
  EXPECT_EQ(factors_of(scale), first);
  EXPECT_EQ(scaled.item<float>(), 8);
}

TEST(GradScaler, HasPyTorchsScaleTrackerAndWeightsInEachIteration) {
  const Json json = test::read_golden("optim/golden/grad_scaler.json");
  Golden golden(json);
  int number = 0;
  for (const Json& what : json.at("iterations")) {
    golden.iterate(what);
    const StateDict state = golden.scaler->state_dict();
    const Json& wanted = what.at("state");
    ASSERT_EQ(state.size(), wanted.size());
    for (const auto& [key, value] : wanted.items()) {
      if (value.is_number_integer()) {
        EXPECT_EQ(std::get<std::int64_t>(state.at(key)), value.get<std::int64_t>()) << key << " after " << number;
      } else {
        EXPECT_EQ(std::get<double>(state.at(key)), value.get<double>()) << key << " after " << number;
      }
    }
    for (const auto& [name, part] : golden.parts) {
      EXPECT_LT(test::relative_difference(part.weight, test::to_tensor(what.at("weights").at(name)), 1e-3), 1e-6);
    }
    ++number;
  }
  EXPECT_EQ(number, 33);
}

TEST(GradScaler, StartsWithPyTorchsDefaults) {
  const StateDict state = GradScaler().state_dict();
  EXPECT_EQ(std::get<double>(state.at("scale")), 65536);
  EXPECT_EQ(std::get<double>(state.at("growth_factor")), 2);
  EXPECT_EQ(std::get<double>(state.at("backoff_factor")), 0.5);
  EXPECT_EQ(std::get<std::int64_t>(state.at("growth_interval")), 2000);
  EXPECT_EQ(std::get<std::int64_t>(state.at("_growth_tracker")), 0);
}

TEST(GradScaler, UnscalesToTheGradientWithoutIt) {
  Loop loop;
  loop.backward(0.25);
  EXPECT_EQ(loop.weight.grad().item<float>(), 0.25F * 65536);
  loop.scaler.unscale_(loop.optimizer);
  EXPECT_EQ(loop.weight.grad().item<float>(), 0.25F);
}

TEST(GradScaler, LeavesTheWeightsAndTheOptimizersStepsAloneWhereAGradientIsNotFinite) {
  for (const double bad : {kInf, -kInf, kNan}) {
    Loop loop;
    EXPECT_FALSE(loop.iterate(bad));
    EXPECT_EQ(loop.weight.item<float>(), 1);
    EXPECT_EQ(loop.optimizer.steps(), 0);
    EXPECT_EQ(loop.scaler.get_scale(), 32768);
    EXPECT_TRUE(loop.iterate(1));
    EXPECT_NE(loop.weight.item<float>(), 1);
  }
}

TEST(GradScaler, AnOverflowOfTheScaledLossIsFoundToo) {
  Loop loop({.init_scale = 1e30});
  EXPECT_FALSE(loop.iterate(1e20));
  EXPECT_TRUE(std::isfinite(loop.weight.item<float>()));
}

TEST(GradScaler, NeverGrowsToAScaleThatFloatCannotHold) {
  Loop loop({.init_scale = 3e38, .growth_interval = 1});
  EXPECT_TRUE(loop.iterate(0));
  EXPECT_EQ(loop.scaler.get_scale(), static_cast<double>(3e38F));
  EXPECT_EQ(tracker_of(loop.scaler), 0);
}

TEST(GradScaler, PassesTheClippingFactorOn) {
  // AdamW is invariant to the scale of its gradients, except for eps: a large eps exposes it.
  const auto weight_after = [](double grad_scale) {
    const at::Tensor weight = at::ones({1}).requires_grad_();
    AdamW optimizer(NamedTensors{{"weight", weight}}, {.lr = 0.1, .eps = 1});
    GradScaler scaler;
    scaler.scale(weight.sum()).backward();
    scaler.step(optimizer, grad_scale);
    return weight.item<float>();
  };
  EXPECT_GT(weight_after(0.5), weight_after(1));
}

TEST(GradScaler, RefusesCallsInAnotherOrder) {
  Loop loop;
  EXPECT_THAT(message_of([&] { loop.scaler.unscale_(loop.optimizer); }),
              HasSubstr("unscale_ was called before scale()"));
  EXPECT_THAT(message_of([&] { loop.scaler.step(loop.optimizer); }), HasSubstr("step was called before scale()"));
  EXPECT_THAT(message_of([&] { loop.scaler.update(); }), HasSubstr("update was called before scale()"));
  loop.backward(1);
  EXPECT_THAT(message_of([&] { loop.scaler.update(); }), HasSubstr("before any gradient was checked"));
  loop.scaler.unscale_(loop.optimizer);
  EXPECT_THAT(message_of([&] { loop.scaler.unscale_(loop.optimizer); }), HasSubstr("already been called"));
  loop.scaler.step(loop.optimizer);
  EXPECT_THAT(message_of([&] { loop.scaler.unscale_(loop.optimizer); }), HasSubstr("being called after step()"));
  EXPECT_THAT(message_of([&] { loop.scaler.step(loop.optimizer); }), HasSubstr("step() has already been called"));
  loop.scaler.update();
  EXPECT_TRUE(loop.iterate(1));
}

TEST(GradScaler, RefusesOptionsOutOfRangeAndFloat16Gradients) {
  EXPECT_THAT(message_of([] { GradScaler scaler({.growth_factor = 1}); }), HasSubstr("growth_factor is 1"));
  EXPECT_THAT(message_of([] { GradScaler scaler({.backoff_factor = 1}); }), HasSubstr("backoff_factor is 1"));
  EXPECT_THAT(message_of([] { GradScaler scaler({.growth_interval = 0}); }), HasSubstr("growth_interval is 0"));
  EXPECT_THAT(message_of([] { GradScaler scaler({.init_scale = 1e39}); }), HasSubstr("init_scale is 1e+39"));
  Loop loop;
  loop.backward(1);
  const at::Tensor half = at::zeros({1}, at::kHalf).requires_grad_();
  half.mutable_grad() = at::zeros({1}, at::kHalf);

  class HalfOptimizer final : public Optimizer {
   public:
    explicit HalfOptimizer(NamedTensors parameters) : parameters_(std::move(parameters)) {}
    void step(double) override {}
    void set_lr(double) override {}
    [[nodiscard]] double lr() const override { return 0; }
    [[nodiscard]] std::int64_t steps() const override { return 0; }
    [[nodiscard]] const NamedTensors& parameters() const override { return parameters_; }
    [[nodiscard]] StateDict state_dict() const override { return {}; }
    void load_state_dict(const StateDict&) override {}

   private:
    NamedTensors parameters_;
  };
  HalfOptimizer optimizer({{"half", half}});
  EXPECT_THAT(message_of([&] { loop.scaler.step(optimizer); }), HasSubstr("gradient of 'half' is float16"));
}

TEST(GradScaler, DisabledItDoesNothingAndSteps) {
  Loop loop({.growth_factor = 0, .enabled = false});
  loop.backward(3);
  EXPECT_EQ(loop.weight.grad().item<float>(), 3);
  loop.scaler.unscale_(loop.optimizer);
  EXPECT_TRUE(loop.scaler.step(loop.optimizer));
  loop.scaler.update();
  EXPECT_NE(loop.weight.item<float>(), 1);
  EXPECT_EQ(loop.scaler.get_scale(), 1);
  EXPECT_TRUE(loop.scaler.state_dict().empty());
  EXPECT_NO_THROW(loop.scaler.load_state_dict({}));
}

TEST(GradScaler, AnotherRanksInfinityIsItsOwn) {
  bool elsewhere = true;
  Loop loop({.combine = [&elsewhere](const at::Tensor& found_inf) {
    EXPECT_EQ(found_inf.item<float>(), 0);
    if (elsewhere) found_inf.fill_(1);
  }});
  EXPECT_FALSE(loop.iterate(1));
  EXPECT_EQ(loop.scaler.get_scale(), 32768);
  elsewhere = false;
  EXPECT_TRUE(loop.iterate(1));
}

TEST(GradScaler, LooksOnlyAtTheGradientsThatItIsGiven) {
  const at::Tensor weight = at::ones({4}).requires_grad_();
  AdamW optimizer(NamedTensors{{"weight", weight}});
  GradScaler scaler;
  scaler.scale(weight.mul(at::tensor({1.0, 2.0, kInf, kNan})).sum()).backward();
  scaler.unscale_(optimizer, {weight.grad().narrow(0, 0, 2)});
  EXPECT_EQ(weight.grad()[1].item<float>(), 2);
  EXPECT_TRUE(scaler.step(optimizer));
}

TEST(GradScaler, LoadsNothingOfAStateThatCannotBe) {
  Loop loop;
  StateDict state = loop.scaler.state_dict();
  state["scale"] = 8.0;
  state["_growth_tracker"] = std::int64_t{2000};
  EXPECT_THAT(message_of<DataError>([&] { loop.scaler.load_state_dict(state); }), HasSubstr("_growth_tracker"));
  EXPECT_EQ(loop.scaler.get_scale(), 65536);
  state.erase("_growth_tracker");
  EXPECT_THAT(message_of<DataError>([&] { loop.scaler.load_state_dict(state); }), HasSubstr("_growth_tracker"));
  state["_growth_tracker"] = std::int64_t{7};
  state["steps"] = std::int64_t{1};
  EXPECT_THAT(message_of<DataError>([&] { loop.scaler.load_state_dict(state); }), HasSubstr("'steps'"));
  state.erase("steps");
  loop.scaler.load_state_dict(state);
  EXPECT_EQ(loop.scaler.get_scale(), 8);
  EXPECT_EQ(tracker_of(loop.scaler), 7);
}

/// Gradients of any dtype and layout, unscaled by a scaler with scale 4.
bool unscales(const at::Tensor& gradient) {
  AdamW optimizer(NamedTensors{{"weight", at::zeros({1}).requires_grad_()}});
  GradScaler scaler({.init_scale = 4});
  (void)scaler.scale(at::ones({}));
  scaler.unscale_(optimizer, {gradient});
  return scaler.step(optimizer);
}

TEST(GradScaler, TakesGradientsOfAnyLayoutAndType) {
  for (const at::ScalarType dtype : {at::kFloat, at::kDouble, at::kBFloat16}) {
    const at::Tensor plain = at::full({2, 3, 4, 5}, 8.0, dtype);
    for (const at::Tensor& gradient :
         {plain.clone(), plain.clone().contiguous(at::MemoryFormat::ChannelsLast), plain.clone().slice(3, 0, 5, 2)}) {
      EXPECT_TRUE(unscales(gradient));
      EXPECT_TRUE(gradient.eq(2).all().item<bool>()) << gradient.strides() << dtype;
      gradient[1][2][3][1].fill_(kNan);
      EXPECT_FALSE(unscales(gradient)) << gradient.strides() << dtype;
    }
  }
  EXPECT_TRUE(unscales(at::empty({0})));
}

TEST(GradScaler, ChangesGradientsSoThatABackwardWhichNeedsTheOldOnesThrows) {
  for (const at::ScalarType dtype : {at::kFloat, at::kDouble}) {
    const at::Tensor factor = at::ones({3}, dtype).requires_grad_();
    const at::Tensor gradient = at::full({3}, 8.0, dtype);
    const at::Tensor penalty = factor.mul(gradient).sum();
    EXPECT_TRUE(unscales(gradient));
    EXPECT_THROW(penalty.backward(), c10::Error) << dtype;
  }
}

TEST(UnscaleKernel, FindsABadElementAtEveryPositionAndLength) {
  for (const std::int64_t count : {1, 2, 15, 16, 17, 33, 64, 100}) {
    for (std::int64_t at = 0; at < count; ++at) {
      for (const double bad : {kInf, -kInf, kNan}) {
        std::vector<float> values(static_cast<std::size_t>(count), 3e38F);
        EXPECT_TRUE(optim::unscale_finite(values.data(), count, 0.5F));
        values[static_cast<std::size_t>(at)] = static_cast<float>(bad);
        EXPECT_FALSE(optim::unscale_finite(values.data(), count, 0.5F)) << count << " " << at;
      }
    }
  }
}

TEST(UnscaleKernel, MultipliesEachElementAndNoneBeyond) {
  seed_all(3);
  for (const std::int64_t count : {0, 1, 7, 16, 31, 100}) {
    const at::Tensor values = at::randn({count + 1});
    const at::Tensor wanted = values.mul(0.37F);
    const auto beyond = values[count].item<float>();
    EXPECT_TRUE(optim::unscale_finite(values.data_ptr<float>(), count, 0.37F));
    EXPECT_TRUE(values.narrow(0, 0, count).equal(wanted.narrow(0, 0, count)));
    EXPECT_EQ(values[count].item<float>(), beyond);
  }
}

constexpr auto kCpu = c10::DeviceType::CPU;

at::Tensor weight() { return at::ones({4, 3, 3, 3}).mul_(0.125).requires_grad_(); }

double output_sum(const at::Tensor& w) {
  return at::conv2d(at::ones({1, 3, 8, 8}), w).to(at::kDouble).sum().item<double>();
}

void double_in_place(const at::Tensor& w) {
  const at::NoGradGuard no_grad;
  w.mul_(2);
}

TEST(Autocast, ComputesInBf16UntilItEnds) {
  const at::Tensor w = at::ones({2, 2});
  {
    const Autocast autocast(kCpu, Amp::kBf16);
    EXPECT_EQ(at::linear(at::ones({1, 2}), w).scalar_type(), at::kBFloat16);
  }
  EXPECT_EQ(at::linear(at::ones({1, 2}), w).scalar_type(), at::kFloat);
}

TEST(Autocast, NestsAndBringsBackTheOuterState) {
  const at::Tensor w = at::ones({2, 2});
  const Autocast outer(kCpu, Amp::kBf16);
  {
    const Autocast inner(kCpu, Amp::kNone);
    EXPECT_EQ(at::linear(at::ones({1, 2}), w).scalar_type(), at::kFloat);
  }
  EXPECT_EQ(at::linear(at::ones({1, 2}), w).scalar_type(), at::kBFloat16);
}

TEST(Autocast, SeesAWeightThatChangesInTheRegion) {
  const at::Tensor w = weight();
  const Autocast autocast(kCpu, Amp::kBf16);
  const double before = output_sum(w);
  double_in_place(w);
  EXPECT_EQ(output_sum(w), 2 * before);
}

TEST(Autocast, WithItsWeightCacheStartsEveryRegionAnew) {
  const at::Tensor w = weight();
  double before = 0;
  for (int region = 0; region < 2; ++region) {
    const Autocast autocast(kCpu, Amp::kBf16, {.weight_cache = true});
    const double now = output_sum(w);
    if (region == 1) {
      EXPECT_EQ(now, 2 * before);
    }
    before = now;
    double_in_place(w);
  }
}

TEST(Autocast, KeepsTheGradientAfterAPlainNoGradForward) {
  const at::Tensor w = weight();
  const Autocast autocast(kCpu, Amp::kBf16);
  {
    const at::NoGradGuard no_grad;
    (void)output_sum(w);
  }
  at::conv2d(at::ones({1, 3, 8, 8}), w).sum().backward();
  ASSERT_TRUE(w.grad().defined());
  EXPECT_GT(w.grad().sum().item<double>(), 0);
}

TEST(NoGrad, KeepsTheGradientEvenWithTheWeightCache) {
  const at::Tensor w = weight();
  const Autocast autocast(kCpu, Amp::kBf16, {.weight_cache = true});
  {
    const NoGrad evaluation;
    (void)output_sum(w);
  }
  const at::Tensor out = at::conv2d(at::ones({1, 3, 8, 8}), w);
  ASSERT_TRUE(out.requires_grad());
  out.sum().backward();
  EXPECT_TRUE(w.grad().defined());
}

TEST(NoGrad, SeesAWeightThatChangedInTheRegion) {
  const at::Tensor w = weight();
  const Autocast autocast(kCpu, Amp::kBf16, {.weight_cache = true});
  const double before = output_sum(w);
  double_in_place(w);
  const NoGrad evaluation;
  EXPECT_FALSE(at::GradMode::is_enabled());
  EXPECT_EQ(output_sum(w), 2 * before);
}

TEST(Autocast, RefusesFp16OnTheCpu) { EXPECT_THROW(Autocast(kCpu, Amp::kFp16), UsageError); }

TEST(Autocast, LeavesTheStateAloneWhenItRefuses) {
  const bool cache = tensor::autocast_state(kCpu).weight_cache;
  EXPECT_THROW(Autocast(kCpu, Amp::kFp16), UsageError);
  EXPECT_FALSE(tensor::autocast_state(kCpu).enabled);
  EXPECT_EQ(tensor::autocast_state(kCpu).weight_cache, cache);
}

TEST(Amp, NamesGoBothWays) {
  for (const Amp amp : {Amp::kNone, Amp::kBf16, Amp::kFp16}) EXPECT_EQ(amp_from_name(to_string(amp)), amp);
  EXPECT_THROW((void)amp_from_name("bf61"), UsageError);
}

}  // namespace grad_scaler_test
}  // namespace lockstep
