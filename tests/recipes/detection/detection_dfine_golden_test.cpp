// SPDX-License-Identifier: Apache-2.0
// The published network, its losses and gradients against a re-creation in PyTorch (golden/make_dfine.py), in float64
// and, as in training, in float32.
#include <ATen/core/grad_mode.h>
#include <ATen/core/ivalue.h>  // before any other torch header
#include <ATen/ops/_unique2.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/cdist.h>
#include <ATen/ops/full.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <ATen/TensorOperators.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "detection/dfine/network.h"
#include "detection/model/criterion.h"
#include "lockstep/checkpoint/safetensors.h"
#include "lockstep/train/prepare.h"

namespace lockstep::detection {
namespace detection_dfine_golden_test {

constexpr std::int64_t kBatch = 2;
constexpr std::int64_t kObjects = 3;
constexpr std::int64_t kClasses = 80;
constexpr std::int64_t kGroups = 4;
constexpr std::int64_t kWord = 0xFFFFFFFF;

std::int64_t salt_of(const std::string& name) {
  std::uint32_t value = 2166136261U;
  for (const char byte : name) value = (value ^ static_cast<std::uint8_t>(byte)) * 16777619U;
  return static_cast<std::int64_t>(value);
}

/// See make_dfine.py.
at::Tensor fractions(const std::string& name, at::IntArrayRef shape) {
  at::Tensor hashed = at::arange(c10::multiply_integers(shape), at::kLong);
  hashed.mul_(2654435761).add_(salt_of(name) * 40503 + 12345).bitwise_and_(kWord);
  hashed.bitwise_xor_(hashed.bitwise_right_shift(15)).mul_(2246822519).bitwise_and_(kWord);
  return hashed.bitwise_right_shift_(8).to(at::kDouble).div_(1 << 24).view(shape);
}

at::Tensor value_of(const std::string& name, at::IntArrayRef shape) {
  const at::Tensor f = fractions(name, shape);
  const auto wide = [&](double gain, std::int64_t fan_in) {
    return (f - 0.5) * (2 * std::sqrt(gain / static_cast<double>(fan_in)));
  };
  if (shape.size() == 4) return wide(6, shape[1] * shape[2] * shape[3]);
  if (shape.size() == 2) return wide(3, shape[1]);
  const bool near_one = name.ends_with("running_var") || name.ends_with("weight") || name.ends_with("scale");
  return near_one ? 0.75 + 0.5 * f : (f - 0.5) * 0.4;
}

/// True for values that the network computes only from its sizes.
bool constant(const std::string& name) {
  for (const char* end :
       {".num_points_scale", ".up", ".reg_scale", ".anchors", ".valid_mask", ".num_batches_tracked"}) {
    if (name.ends_with(end)) return true;
  }
  return false;
}

dfine::Options options_of(const std::string& name) {
  dfine::Options options{.classes = kClasses,
                         .image_size = 160,
                         .use_lab = true,
                         .freeze_at = -1,
                         .freeze_norm = false,
                         .expansion = 0.5,
                         .depth_mult = 0.34,
                         .layers = 3};
  if (name == "n") {
    options.image_size = 256;
    options.levels = 2;
    options.points = {6, 6};
    options.encoder_hidden = options.hidden = 128;
    options.encoder_feedforward = options.feedforward = 512;
    options.expansion = 0.34;
    options.depth_mult = 0.5;
    options.activation = options.mlp_activation = "silu";
  } else if (name == "m") {
    options.backbone = "B2";
    options.expansion = 1;
    options.depth_mult = 0.67;
    options.layers = 4;
  } else if (name == "odd") {
    options.encoder_hidden = 96;
    options.encoder_feedforward = options.hidden = 64;
    options.feedforward = 80;
    options.layers = 4;
    options.eval_idx = -2;
    options.reg_scale = 8;
    options.use_lab = false;
    options.freeze_norm = true;
    options.queries = 100;
    options.depth_mult = 1;
  }
  return options;
}

std::string folder() {
  const char* other = std::getenv("DFINE_GOLDEN");
  return other != nullptr ? other : std::string(LOCKSTEP_TEST_SOURCE_DIR) + "/tests/recipes/golden";
}

nlohmann::json facts_of(const std::string& name) {
  std::ifstream file(folder() + "/dfine.json");
  return nlohmann::json::parse(file).at(name);
}

const std::map<std::string, at::Tensor>& golden_tensors() {
  static const auto kAll = [] {
    std::map<std::string, at::Tensor> tensors;
    for (const auto& [name, value] : read_safetensors(FileSystem::system(), folder() + "/dfine.safetensors")) {
      tensors[name] = std::get<at::Tensor>(value).to(at::kDouble);
    }
    return tensors;
  }();
  return kAll;
}

struct Batch {
  at::Tensor boxes;   ///< [B, N, 4]
  at::Tensor labels;  ///< [B, N]
};

Batch objects() {
  const at::Tensor f = fractions("objects", {kBatch, kObjects, 4});
  return {.boxes = at::cat({0.25 + 0.5 * f.narrow(2, 0, 2), 0.1 + 0.3 * f.narrow(2, 2, 2)}, 2),
          .labels = (fractions("labels", {kBatch, kObjects}) * kClasses).to(at::kLong)};
}

/// Groups of objects, with an equal number of negative boxes.
Denoising noise_of(const Batch& batch, std::int64_t queries) {
  const std::int64_t slots = 2 * kGroups * kObjects;
  const at::Tensor other = (fractions("other", {kBatch, slots}) * kClasses).to(at::kLong);
  Denoising noise{
      .labels = at::where(fractions("change", {kBatch, slots}) < 0.25, other, batch.labels.repeat({1, 2 * kGroups})),
      .boxes = batch.boxes.repeat({1, 2 * kGroups, 1}) + (fractions("noise", {kBatch, slots, 4}) - 0.5) * 0.08,
      .mask = at::zeros({kBatch, 1, slots + queries, slots + queries}),
      .index = at::full({kBatch, slots}, -1, at::kLong),
      .weight = at::full({kBatch, slots}, 1 / static_cast<double>(kGroups), at::kDouble)};
  for (std::int64_t slot = 0; slot < slots; ++slot) {
    if (slot % (2 * kObjects) < kObjects) noise.index.select(1, slot).fill_(slot % kObjects);
    const std::int64_t group = slot / (2 * kObjects);
    const at::Tensor seen_by = noise.mask.select(3, slot);
    seen_by.fill_(-1e9);
    seen_by.narrow(2, group * 2 * kObjects, 2 * kObjects).fill_(0);
  }
  return noise;
}

/// `tolerance`: for the norm of the difference, relative to the norm of the expected values.
void expect_samples(const at::Tensor& tensor, const std::string& name, double tolerance) {
  const at::Tensor expected = golden_tensors().at(name);
  const at::Tensor flat = tensor.detach().to(at::kDouble).contiguous().flatten();
  const std::int64_t count = expected.numel();
  const at::Tensor taken = (at::arange(count, at::kLong) * flat.numel()).div(count, "floor");
  EXPECT_LE((flat.index_select(0, taken) - expected).norm().item<double>(),
            tolerance * expected.norm().item<double>() + 1e-12)
      << name;
}

/// The network of one case, with the script's weights.
class Golden {
 public:
  Golden(const std::string& name, at::ScalarType type)
      : name_(name), facts_(facts_of(name)), options_(options_of(name)), net_(options_), type_(type) {
    net_.to(type);
    const at::NoGradGuard guard;
    for (auto& item : net_.named_parameters()) item.value().copy_(value_of(item.key(), item.value().sizes()));
    for (auto& item : net_.named_buffers()) {
      if (!constant(item.key())) item.value().copy_(value_of(item.key(), item.value().sizes()));
    }
    if (type == at::kFloat) use_channels_last(net_);
  }

  void expect_evaluation(double tolerance) {
    const Outputs out = evaluate();
    for (const char* what : {"logits", "boxes"}) {
      const at::Tensor value = out.at(what);
      ASSERT_EQ(value.size(0), 1) << name_;
      const auto norm = facts_.at("norms").at(what).get<double>();
      EXPECT_NEAR(value.to(at::kDouble).norm().item<double>(), norm, tolerance * norm) << name_ << " " << what;
      expect_samples(value, name_ + "." + what, tolerance);
    }
  }

  /// Compares with the same network in another precision, query by query: queries with nearly equal scores may swap
  /// places.
  void expect_queries_of(Golden& whole, double tolerance) {
    const auto [own, theirs] = std::pair{queries(evaluate()), queries(whole.evaluate())};
    const at::Tensor distances = at::cdist(theirs, own, 2, 2);  // mode 2: from differences, without matrix products
    const at::Tensor nearest = distances.argmin(2);
    for (std::int64_t i = 0; i < nearest.size(0); ++i) {
      EXPECT_EQ(std::get<0>(at::_unique2(nearest[i])).numel(), nearest.size(1)) << name_ << ", image " << i;
    }
    const double off = distances.amin(2).norm().item<double>();
    EXPECT_LE(off, tolerance * theirs.norm().item<double>()) << name_;
  }

  void train() {
    net_.train();
    const Batch batch = objects();
    Denoising noise = noise_of(batch, options_.queries);
    outputs_ = net_.forward_with(images(), &noise);
    for (std::int64_t i = 0; i < kBatch; ++i) {
      Detections one;
      one.boxes = batch.boxes[i].to(type_);
      one.labels = batch.labels[i];
      targets_.push_back(one);
    }
  }

  std::vector<LossTerm> expect_terms(const std::string& kind, double tolerance) {
    CriterionOptions options{.classification = kind, .gamma = kind == "mal" ? 1.5 : 2.0, .as_published = true};
    options.matcher.clamp_sizes = true;
    options.reg_scale = options_.reg_scale;
    const std::vector<LossTerm> terms = criterion(outputs_, targets_, options);
    const nlohmann::json& expected = facts_.at(kind);
    EXPECT_EQ(terms.size(), expected.size());
    for (const LossTerm& term : terms) {
      if (!expected.contains(term.name)) {
        ADD_FAILURE() << term.name;
        continue;
      }
      const auto value = expected.at(term.name).get<double>();
      EXPECT_NEAR(term.value.item<double>(), value, tolerance * std::abs(value)) << term.name;
    }
    return terms;
  }

  void expect_gradients(const at::Tensor& loss, double tolerance) {
    loss.backward();
    const nlohmann::json& norms = facts_.at("gradients");
    std::size_t seen = 0;
    std::int64_t elements = 0;
    for (const auto& item : net_.named_parameters()) {
      elements += item.value().numel();
      if (!norms.contains(item.key())) {
        ADD_FAILURE() << item.key();
        continue;
      }
      ++seen;
      const at::Tensor grad = item.value().grad().to(at::kDouble);
      const auto norm = norms.at(item.key()).get<double>();
      EXPECT_NEAR(grad.norm().item<double>(), norm, tolerance * norm + 1e-12) << item.key();
      expect_samples(grad, name_ + "." + item.key(), tolerance);
    }
    EXPECT_EQ(seen, norms.size());
    EXPECT_EQ(elements, facts_.at("parameters").get<std::int64_t>());
  }

 private:
  Outputs evaluate() {
    const at::NoGradGuard guard;
    net_.eval();
    return net_.forward(images(), nullptr);
  }
  /// [B, queries, classes + 4]
  static at::Tensor queries(const Outputs& out) {
    return at::cat({out.at("logits")[-1], out.at("boxes")[-1]}, 2).to(at::kDouble);
  }
  [[nodiscard]] at::Tensor images() const {
    const at::Tensor all = fractions("images", {kBatch, 3, options_.image_size, options_.image_size}).to(type_);
    return type_ == at::kFloat ? to_channels_last(all) : all;
  }

  std::string name_;
  nlohmann::json facts_;
  dfine::Options options_;
  dfine::Network net_;
  at::ScalarType type_;
  Outputs outputs_;
  Targets targets_;
};

/// The file's values, anchors and bins are float32, which causes an error of 1 in 10,000 in a gradient that nearly
/// cancels.
TEST(DetectionDfineGolden, InFloat64TheSmallSizeIsThatOfItsFormulasWithEveryLossAndGradient) {
  Golden network("s", at::kDouble);
  network.train();
  static_cast<void>(network.expect_terms("mal", 1e-5));
  const std::vector<LossTerm> terms = network.expect_terms("vfl", 1e-5);
  network.expect_gradients(sum(terms), 1e-4);
}

/// Random weights amplify rounding, most of all in the two bins around a side.
TEST(DetectionDfineGolden, InFloat32ItsPredictionsAndLossesAreTheSameButForRounding) {
  Golden network("s", at::kFloat);
  Golden whole("s", at::kDouble);
  network.expect_queries_of(whole, 1e-4);
  network.train();
  static_cast<void>(network.expect_terms("vfl", 5e-4));
}

TEST(DetectionDfineGolden, OtherSizesBackbonesAndActivationsAreThoseOfTheirFormulas) {
  for (const char* name : {"s", "n", "m", "odd"}) {
    Golden whole(name, at::kDouble);
    whole.expect_evaluation(1e-5);
    Golden(name, at::kFloat).expect_queries_of(whole, 2e-4);
  }
}

}  // namespace detection_dfine_golden_test
}  // namespace lockstep::detection
