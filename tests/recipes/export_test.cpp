// SPDX-License-Identifier: Apache-2.0
// Every recipe's network as TorchScript against the recipe's own results: in this process, and in Python.
#include <ATen/core/grad_mode.h>
#include <ATen/core/ivalue.h>  // before any other torch header
#include <ATen/ops/cat.h>
#include <ATen/ops/cdist.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/full.h>
#include <ATen/ops/rand_like.h>
#include <ATen/ops/tensor.h>
#include <ATen/TensorOperators.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/module.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

#include "captcha/config.h"
#include "captcha/task.h"
#include "captioning/config.h"
#include "captioning/model/model.h"
#include "captioning/model/search.h"
#include "captioning/task.h"
#include "detection/config.h"
#include "detection/model/box.h"
#include "detection/model/model.h"
#include "detection/task.h"
#include "lockstep/base/error.h"
#include "lockstep/base/json.h"
#include "lockstep/checkpoint/torch_file.h"
#include "lockstep/nn/onnx.h"
#include "lockstep/nn/plain_operators.h"
#include "lockstep/nn/torchscript.h"
#include "lockstep/tensor/random.h"
#include "segmentation/config.h"
#include "segmentation/task.h"
#include "support/shell.h"
#include "support/temp_dir.h"
#include "worker/onnx/onnx_parity.h"

namespace lockstep {
namespace export_test {

namespace fs = std::filesystem;

using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// A recipe's task and network, with weights and statistics that differ from a fresh network's.
struct Ready {
  std::unique_ptr<TrainConfig> config;
  std::unique_ptr<Task> task;
  std::shared_ptr<torch::nn::Module> model;
};

void shake(torch::nn::Module& net) {
  const at::NoGradGuard guard;
  for (auto& item : net.named_parameters()) item.value().add_(0.05 * (at::rand_like(item.value()) - 0.5));
  for (auto& item : net.named_buffers()) {
    if (item.key().ends_with("running_mean")) item.value().copy_(at::rand_like(item.value()) - 0.5);
    if (item.key().ends_with("running_var")) item.value().copy_(at::rand_like(item.value()) + 0.5);
  }
}

using Presets = std::map<std::string, std::string>;

/// `preset`: "" for none. `prepare` sees the task before the network is built.
Ready ready(
    const Recipe& recipe, const std::string& preset, const std::vector<std::string>& sets, std::uint64_t seed = 11,
    const std::function<void(Task&)>& prepare = [](Task& /*task*/) {}) {
  Ready made;
  made.config = recipe.make_config();
  ConfigFields fields;
  made.config->describe(fields);
  if (!preset.empty()) {
    std::string name;
    fields.add("recipe", &name, "the recipe");
    fields.bind(ConfigTree::from_text(recipe.presets().at(preset), preset));
  }
  ConfigTree over;
  for (const std::string& set : sets) over.set(set, "--set");
  fields.bind(over);
  seed_all(seed);
  made.task = recipe.make_task(*made.config);
  prepare(*made.task);
  made.model = made.task->make_model();
  shake(*made.model);
  made.model->eval();
  made.task->prepare_inference(*made.model);
  return made;
}

void know_words(Task& task) {
  const std::string text = "a\nred\ncircle\nabove\nsquare\n";
  const at::Tensor bytes =
      at::from_blob(const_cast<char*>(text.data()), {static_cast<std::int64_t>(text.size())}, at::kByte).clone();
  task.check_model_state({{"vocabulary", bytes}, {"feature_width", at::full({1}, 24, at::kLong)}});
}

/// Here detectors have a query for each position, so rounding may change the order of the queries but not the set.
const std::vector<std::string> kSmallDetector = {"num_classes=3", "image_size=96",          "model.hidden=32",
                                                 "model.heads=2", "model.decoder_layers=2", "model.queries=756"};
const std::vector<std::string> kPublished = {"num_classes=5", "image_size=128"};
const std::vector<std::string> kSegmenter = {"num_classes=4", "model.layers=18", "augment.crop=65"};
const std::vector<std::string> kCaptioner = {"model.dim=32",   "model.heads=2",    "model.feed_forward=48",
                                             "model.window=3", "data.max_words=6", "data.height=64",
                                             "data.width=96"};
const std::vector<std::string> kFeatures = {"model.dim=32",       "model.heads=2",    "model.type=x_linear",
                                            "data.features=/tmp", "data.max_words=5", "model.grid_height=3",
                                            "model.grid_width=4"};

std::vector<std::string> with(std::vector<std::string> sets, const std::vector<std::string>& more) {
  sets.insert(sets.end(), more.begin(), more.end());
  return sets;
}

/// Functions that build a network by name, with weights from a seed; called on demand because the networks are large.
std::map<std::string, std::function<Ready()>> networks(std::uint64_t seed = 11) {
  return {
      {"captcha_conv7", [seed] { return ready(*captcha::make_recipe(), "", {"model.type=conv7"}, seed); }},
      {"captcha_conv3", [seed] { return ready(*captcha::make_recipe(), "", {"model.type=conv3"}, seed); }},
      {"detection_small", [seed] { return ready(*detection::make_recipe(), "", kSmallDetector, seed); }},
      {"detection_dfine_n",
       [seed] { return ready(*detection::make_recipe(), "dfine_n", with(kPublished, {"dfine.queries=80"}), seed); }},
      {"detection_dfine_m",
       [seed] { return ready(*detection::make_recipe(), "dfine_m", with(kPublished, {"dfine.queries=336"}), seed); }},
      {"detection_deim_s",
       [seed] { return ready(*detection::make_recipe(), "deim_s", with(kPublished, {"dfine.queries=336"}), seed); }},
      {"segmentation_aspp",
       [seed] { return ready(*segmentation::make_recipe(), "", with(kSegmenter, {"model.type=aspp_lorm"}), seed); }},
      {"segmentation_decoder",
       [seed] { return ready(*segmentation::make_recipe(), "", with(kSegmenter, {"model.type=deeplabv3p"}), seed); }},
      {"captioning_transformer",
       [seed] { return ready(*captioning::make_recipe(), "", kCaptioner, seed, know_words); }},
      {"captioning_x_linear", [seed] { return ready(*captioning::make_recipe(), "", kFeatures, seed, know_words); }},
  };
}

/// The largest difference relative to the largest value, or to 1 if that is smaller.
double difference(const at::Tensor& found, const at::Tensor& wanted) {
  const double scale = std::max(1.0, wanted.to(at::kDouble).abs().max().item<double>());
  return (found.to(at::kDouble) - wanted.to(at::kDouble)).abs().max().item<double>() / scale;
}

/// The distance between the results of the two paths. Rounding may swap two positions with nearly equal scores, so each
/// query of a detector is compared with the nearest one of the same image.
double distance(const nn::NetworkFunction& function, const std::vector<at::Tensor>& a,
                const std::vector<at::Tensor>& b) {
  double most = 0;
  if (function.is_set) {
    const at::Tensor apart = at::cdist(at::cat(a, 2), at::cat(b, 2), std::numeric_limits<double>::infinity());
    return std::max(apart.amin(1).max().item<double>(), apart.amin(2).max().item<double>());
  }
  for (std::size_t i = 0; i < a.size(); ++i) most = std::max(most, difference(a[i], b[i]));
  return most;
}

class ExportedNetwork : public ::testing::TestWithParam<std::string> {};

TEST_P(ExportedNetwork, OfPlainOperatorsComputesWhatTheRecipesOwnKernelsDo) {
  const at::NoGradGuard no_grad;
  const Ready made = networks().at(GetParam())();
  const auto function = made.task->network_function(*made.model);
  ASSERT_TRUE(function);
  const auto arguments = function->example(3);
  const auto ours = function->run(arguments);
  const nn::PlainOperators guard;
  const auto plain = function->run(arguments);
  ASSERT_EQ(plain.size(), ours.size());
  EXPECT_LT(distance(*function, plain, ours), 1e-5);
}

/// Writes the network as TorchScript, along with arguments and the results for them.
void write_for_python(const fs::path& folder, const Ready& made) {
  const at::NoGradGuard no_grad;
  FileSystem::system().make_folder(folder);
  const auto function = made.task->network_function(*made.model);
  std::ofstream(folder / "network.pt") << nn::to_torchscript(*made.model, *function);
  const auto list = [](const std::vector<at::Tensor>& tensors) {
    TorchList all;
    for (const at::Tensor& tensor : tensors) all.push_back({tensor.contiguous()});
    return TorchValue{all};
  };
  const auto arguments = function->example(4);
  const nn::PlainOperators plain;  // keeps the order of a detector's queries
  const TorchDict both = {{"arguments", list(arguments)}, {"results", list(function->run(arguments))}};
  write_torch_file(FileSystem::system(), folder / "network.pth", {both});
}

// One Python process for all of them, since PyTorch takes seconds to load.
TEST(ExportedNetworks, GivePythonTheSameResults) {
  if (testing::run_shell("/usr/bin/python3 -c 'import torch'").code != 0) GTEST_SKIP() << "python3-torch is not there";
  const test::TempDir folder;
  std::string folders;
  for (const auto& [name, make] : networks()) {
    write_for_python(folder / name, make());
    folders += " " + (folder / name).string();
  }
  const auto seen = testing::run_shell(
      fmt::format("/usr/bin/python3 {}/tests/recipes/check_torchscript.py {}", LOCKSTEP_TEST_SOURCE_DIR, folders));
  EXPECT_EQ(seen.code, 0) << seen.text;
  for (const auto& [name, make] : networks()) EXPECT_THAT(seen.text, HasSubstr(name + ": all results are the same"));
}

TEST_P(ExportedNetwork, OfOnnxComputesWhatTheRecipesOwnKernelsDo) {
  const auto runtime = worker::find_onnx_runtime("");
  if (!runtime) GTEST_SKIP() << "no ONNX Runtime in python3 or node";
  const test::TempDir folder;
  for (const std::uint64_t seed : {11, 12, 13}) {
    const Ready made = networks(seed).at(GetParam())();
    const auto function = made.task->network_function(*made.model);
    std::ofstream(folder / "network.onnx", std::ios::binary) << nn::to_onnx(*made.model, *function).model;
    EXPECT_THAT(worker::compare_onnx(*runtime, folder / "network.onnx", *function), HasSubstr("differs by at most"))
        << seed;
  }
}

TEST(ExportedNetworks, OfADetectorHaveTheStepsBehindItIfAsked) {
  const at::NoGradGuard no_grad;
  const Ready made = networks().at("detection_small")();
  for (const auto& parameter : made.model->named_parameters()) {  // else rounding decides which 300 scores are the best
    if (parameter.key().ends_with("score_head_1.weight")) parameter.value().mul_(10);
  }
  const auto function = made.task->deployed_function(*made.model);
  EXPECT_THAT(function->inputs, ElementsAre("images", "orig_target_sizes"));
  EXPECT_THAT(function->outputs, ElementsAre("labels", "boxes", "scores"));
  auto arguments = function->example(2);
  arguments[1].copy_(at::tensor({200, 100, 400, 200}, at::kLong).view({2, 2}));
  const auto results = function->run(arguments);
  const auto network = made.task->network_function(*made.model)->run({arguments[0]});
  const auto found = detection::decode({{"logits", network[0].unsqueeze(0)}, {"boxes", network[1].unsqueeze(0)}}, 300);
  const auto rows = [](const at::Tensor& labels, const at::Tensor& boxes, const at::Tensor& scores) {
    return std::vector<at::Tensor>{labels.view({1, -1, 1}), boxes.unsqueeze(0), scores.view({1, -1, 1})};
  };
  for (std::int64_t i = 0; i < 2; ++i) {
    const at::Tensor scale = at::tensor({200.0F, 100.0F, 200.0F, 100.0F}) * (i + 1);
    const at::Tensor corners = detection::to_corners(found.at(i).boxes) * scale;
    EXPECT_LT(distance(*function, rows(results[0][i], results[1][i], results[2][i]),
                       rows(found.at(i).labels, corners, found.at(i).scores)),
              1e-4);  // pixels
    EXPECT_LT(difference(results[2][i], found.at(i).scores), 1e-6) << "sorted by score";
  }
  const auto runtime = worker::find_onnx_runtime("");
  if (!runtime) GTEST_SKIP() << "no ONNX Runtime in python3 or node";
  const test::TempDir folder;
  std::ofstream(folder / "network.onnx", std::ios::binary) << nn::to_onnx(*made.model, *function).model;
  EXPECT_THAT(worker::compare_onnx(*runtime, folder / "network.onnx", *function), HasSubstr("labels, boxes, scores: "));
}

INSTANTIATE_TEST_SUITE_P(All, ExportedNetwork, ::testing::ValuesIn([] {
                           std::vector<std::string> names;
                           for (const auto& [name, make] : networks()) names.push_back(name);
                           return names;
                         }()),
                         [](const auto& test) { return test.param; });

TEST(ExportedNetworks, NameWhatTheirNumbersMean) {
  const Ready captioner = ready(*captioning::make_recipe(), "", kCaptioner, 11, know_words);
  EXPECT_THAT(captioner.task->network_function(*captioner.model)->names,
              ElementsAre(".", "a", "red", "circle", "above", "square"));
  const Ready detector = ready(*detection::make_recipe(), "", with(kSmallDetector, {"class_names=[cup, mug, jug]"}));
  EXPECT_THAT(detector.task->network_function(*detector.model)->names, ElementsAre("cup", "mug", "jug"));
}

TEST(ExportedNetworks, SayHowAPageShowsThem) {
  const auto page_of = [](const Ready& made, bool deployed = false) {
    const auto function =
        deployed ? made.task->deployed_function(*made.model) : made.task->network_function(*made.model);
    return function->page.empty() ? nlohmann::json() : parse_json(function->page);
  };
  const auto made = networks();
  EXPECT_EQ(page_of(made.at("captcha_conv3")()), parse_json(R"({"picture": "as_is", "answer": "text"})"));
  EXPECT_EQ(page_of(made.at("captioning_transformer")())["answer"], "words");
  EXPECT_TRUE(page_of(made.at("captioning_x_linear")()).is_null());
  const Ready detector = made.at("detection_small")();
  EXPECT_TRUE(page_of(detector).is_null());
  EXPECT_EQ(page_of(detector, true)["threshold"], 0.5);
  EXPECT_EQ(page_of(detector, true)["colors"].size(), 3);
  const auto windows = page_of(ready(*segmentation::make_recipe(), "",
                                     with(kSegmenter, {"eval.window=65", "eval.scales=[1, 1.5]", "eval.flip=true"})));
  EXPECT_EQ(windows["colors"], parse_json("[[0, 0, 0], [128, 0, 0], [0, 128, 0], [128, 128, 0]]"));
  EXPECT_EQ(windows["windows"]["scales"], parse_json("[1, 1.5]"));
  EXPECT_EQ(windows["windows"]["flip"], true);
  EXPECT_EQ(windows["windows"]["whole"], false);
}

TEST(ExportedNetworks, OfFeaturesNeedANumberOfRows) {
  std::vector<std::string> sets = kFeatures;
  std::erase_if(sets, [](const std::string& set) { return set.starts_with("model.grid"); });
  const Ready made = ready(*captioning::make_recipe(), "", sets, 11, know_words);
  try {
    (void)made.task->network_function(*made.model);
    ADD_FAILURE() << "nothing was thrown";
  } catch (const UsageError& error) {
    EXPECT_THAT(error.message(), HasSubstr("a fixed number of feature rows"));
  }
}

TEST(ExportedNetworks, SayGreedysCaptions) {
  const at::NoGradGuard no_grad;
  const Ready made = ready(*captioning::make_recipe(), "", kCaptioner, 11, know_words);
  auto& captioner = dynamic_cast<captioning::Captioner&>(*made.model);
  seed_all(5);
  const at::Tensor pictures = at::rand_like(at::full({4, 3, 64, 96}, 0.0));
  const captioning::Memory memory = captioner.encode(pictures, {});
  const captioning::Said said = captioning::greedy_in_all_steps(captioner, memory, 6);
  EXPECT_TRUE(said.words.equal(captioning::greedy(captioner, memory, 6)));
  const at::Tensor inputs = said.words.roll(1, 1);
  const at::Tensor expected = captioner.log_probs(memory, inputs).gather(2, said.words.unsqueeze(2)).squeeze(2);
  const at::Tensor chosen = captioning::chosen(said.words);
  EXPECT_LT(difference(said.log_probs, (expected * chosen).narrow(1, 0, 6)), 1e-5);
}

}  // namespace export_test
}  // namespace lockstep
