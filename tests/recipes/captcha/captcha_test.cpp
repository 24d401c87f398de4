// SPDX-License-Identifier: Apache-2.0
// The captcha recipe's parts, its synthetic dataset, its losses and the cost of its network.
#include <ATen/core/ivalue.h>  // before any other torch header

#include <ATen/ops/arange.h>
#include <ATen/ops/bitwise_and.h>
#include <ATen/ops/bitwise_right_shift.h>
#include <ATen/ops/bitwise_xor.h>
#include <ATen/ops/full.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/tensor.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/linear.h>

#include <cmath>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "captcha/config.h"
#include "captcha/data/dataset.h"
#include "captcha/metrics/scores.h"
#include "captcha/model/model.h"
#include "captcha/synthetic/draw.h"
#include "captcha/synthetic/generate.h"
#include "captcha/task.h"
#include "lockstep/base/error.h"
#include "lockstep/base/file_system.h"
#include "lockstep/nn/optimize.h"
#include "lockstep/observe/profiler.h"
#include "lockstep/optim/adamw.h"
#include "lockstep/optim/autocast.h"
#include "lockstep/train/prepare.h"
#include "lockstep/train/trainer.h"
#include "support/alone.h"
#include "support/temp_dir.h"

namespace lockstep::captcha {
namespace captcha_test {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsSupersetOf;

TEST(CaptchaModel, TheNetworksHaveTheParametersOfTheOrigin) {
  EXPECT_EQ(parameter_count(*make_model({.type = "conv7"})), 19'072'400);
  EXPECT_EQ(parameter_count(*make_model({.type = "conv3"})), 9'379'728);
}

TEST(CaptchaModel, GivesALogitForEachCharacterAndClassAtAnySize) {
  const auto model = make_model({.type = "conv3", .height = 80, .width = 200, .length = 5, .classes = 62});
  EXPECT_EQ(model->forward(at::rand({2, 1, 80, 200})).sizes().vec(), (std::vector<std::int64_t>{2, 310}));
}

TEST(CaptchaModel, AnUnknownTypeSuggestsTheNearest) {
  try {
    (void)make_model({.type = "conv8"});
    FAIL() << "no error";
  } catch (const UsageError& error) {
    EXPECT_THAT(error.message(), HasSubstr("did you mean 'conv7'"));
  }
}

TEST(CaptchaLabel, IsTheNameUpToTheFirstUnderscoreOrTheExtension) {
  const CaptchaConfig config;
  const std::string characters = config.characters();
  EXPECT_THAT(label_of("a/01AZ_153.png", config.labels, characters), ElementsAre(0, 1, 10, 35));
  EXPECT_THAT(label_of("a/01AZ.png", config.labels, characters), ElementsAre(0, 1, 10, 35));
}

TEST(CaptchaLabel, ACharacterOutsideTheCharsetNamesFileAndCharacter) {
  const CaptchaConfig config;
  try {
    (void)label_of("a/01aZ_1.png", config.labels, config.characters());
    FAIL() << "no error";
  } catch (const DataError& error) {
    EXPECT_THAT(error.message(), HasSubstr("a/01aZ_1.png: 'a' of its label '01aZ' is not in the charset 0-9A-Z"));
  }
}

TEST(CaptchaLabel, AWrongLengthNamesBothLengthsAndTheSettingThatWouldFit) {
  const CaptchaConfig config;
  const auto fault_of = [&](const char* file) {
    try {
      (void)label_of(file, config.labels, config.characters());
    } catch (const DataError& error) {
      return std::string(error.what());
    }
    return std::string("no error");
  };
  EXPECT_THAT(fault_of("012345_1.png"),
              ::testing::AllOf(HasSubstr("its label '012345' has 6 characters, not 4"),
                               HasSubstr("up to '_' (data.label_end)"), HasSubstr("--set data.length=6")));
  EXPECT_THAT(fault_of("0123-1.png"), HasSubstr("--set data.label_end='-'"));
  EXPECT_THAT(fault_of("_1.png"), ::testing::Not(HasSubstr("--set")));
  EXPECT_THAT(fault_of("一二三_1.png"), ::testing::AllOf(HasSubstr("its label '一二三' has 3 characters, not 4"),
                                                         HasSubstr("--set data.length=3")));
  EXPECT_THAT(fault_of("012一三_1.png"), HasSubstr("has 5 characters, not 4"));
  EXPECT_THAT(fault_of("012一_1.png"), HasSubstr("'一' of its label '012一' is not in the charset"));
}

TEST(CaptchaScores, CountStringsCharactersAndConfusions) {
  // Two strings of two characters of three classes: "ab" read as "ab", "ca" read as "cb".
  const at::Tensor target = at::tensor({0, 1, 2, 0}, at::kLong).view({2, 2});
  at::Tensor logits = at::full({2, 6}, 0.0F);
  for (const auto& [row, column] : {std::pair{0, 0}, {0, 4}, {1, 2}, {1, 4}}) logits[row][column] = 5.0F;
  const at::Tensor counts = count_reads(logits, target, 3);
  const auto metrics = read_metrics(counts);
  EXPECT_EQ(metrics[0].name, "string_accuracy");
  EXPECT_DOUBLE_EQ(metrics[0].value, 0.5);
  EXPECT_DOUBLE_EQ(metrics[1].value, 0.75);
  EXPECT_THAT(confusions(counts, "abc"), HasSubstr("predicted b for a"));
}

TEST(CaptchaScores, SumsOfCountsAreTheCountsOfAll) {
  const at::Tensor target = at::tensor({0, 1}, at::kLong).view({1, 2});
  const at::Tensor counts = count_reads(at::rand({1, 6}), target, 3);
  EXPECT_DOUBLE_EQ((counts + counts)[0].item<double>(), 2);
}

TEST(CaptchaTask, ItsLossIsTheMeanCrossEntropyOfAllLogits) {
  const CaptchaConfig config;
  CaptchaTask task(config);
  Batch batch;
  batch.target = at::full({3, 4}, 7, at::kLong);
  // With logits of zero, every binary cross-entropy is ln 2.
  EXPECT_NEAR(task.loss(at::full({3, 144}, 0.0F), batch).item<double>(), 0.693147, 1e-6);
}

TEST(CaptchaPresets, AllBindToTheRecipesSettings) {
  for (const auto& [name, yaml] : presets()) {
    CaptchaConfig config;
    ConfigFields fields;
    config.describe(fields);
    EXPECT_NO_THROW(fields.bind(ConfigTree::from_text(yaml, name))) << name;
  }
  EXPECT_TRUE(presets().count("digits"));
}

/// As many samples as in the original run, but tiny ones.
class TinyTask final : public Task {
 public:
  std::shared_ptr<Dataset> make_dataset(const std::string&) override {
    return lockstep::make_dataset(50'030, [](std::int64_t i) {
      return Sample{at::full({1}, static_cast<double>(i % 7)), at::full({1}, 1.0)};
    });
  }
  std::shared_ptr<torch::nn::Module> make_model() override {
    auto net = std::make_shared<torch::nn::LinearImpl>(1, 1);
    return net;
  }
  at::Tensor forward(torch::nn::Module& model, const Batch& batch) override {
    return dynamic_cast<torch::nn::LinearImpl&>(model).forward(batch.data);
  }
  at::Tensor loss(const at::Tensor& output, const Batch& batch) override {
    return (output - batch.target).pow(2).mean();
  }
  at::Tensor count(const at::Tensor& output, const Batch&) override { return output.to(at::kDouble).sum().view({1}); }
  [[nodiscard]] std::vector<Metric> metrics(const at::Tensor&) const override { return {}; }
  [[nodiscard]] std::string model_name() const override { return "tiny"; }
};

TEST(CaptchaPresets, UltraIsTheOriginalsRunOnThreeReplicas) {
  const test::TempDir folder;
  CaptchaConfig config;
  ConfigFields fields;
  config.describe(fields);
  fields.bind(ConfigTree::from_text(presets().at("ultra"), "ultra"));
  EXPECT_EQ(config.amp, "fp16");
  config.amp = "none";  // no GPU here
  config.data.train = "made up";
  config.max_steps = 2;
  config.workers = 0;
  TinyTask task;
  const char* program = "test";
  Trainer trainer(init(1, &program), task, config, {.recipe = "captcha", .run_dir = folder / "run"});
  ::testing::internal::CaptureStdout();
  trainer.fit();
  const std::string said = ::testing::internal::GetCapturedStdout();
  EXPECT_THAT(said, HasSubstr("total batch         512 x 3 replicas = 1,536\n"));
  EXPECT_THAT(said, HasSubstr("training samples    50,030\n"));
  EXPECT_THAT(said, HasSubstr("steps per epoch     33\n"));
  EXPECT_THAT(said, HasSubstr("epochs              150, at most 2 steps\n"));
  EXPECT_THAT(said, HasSubstr("replicas            3 on 1 process\n"));
}

// Synthetic captchas: the same bytes for the same seed, labels from the charset, and errors that name the cause.

using Files = std::map<std::string, std::string>;  // name to bytes

Files generated(GenerateOptions options, const common::IndexProgress& progress = nullptr) {
  const test::TempDir folder;
  options.out = folder / "set";
  generate_captchas(options, progress);
  Files files;
  for (const auto& name : FileSystem::system().list(options.out)) {
    files[name] = FileSystem::system().read(options.out / name);
  }
  return files;
}

std::string fault_of(const GenerateOptions& options) {
  try {
    generate_captchas(options);
  } catch (const UsageError& fault) {
    return fault.what();
  }
  return "no UsageError";
}

Canvas drawn(const std::string& label, Style style, std::uint64_t seed, Rasterizer& rasterizer) {
  SampleRandom random(seed);
  const FontSet fonts(label);
  return render(label, style, {fonts, rasterizer}, random);
}

std::int64_t dark_pixels(const Canvas& canvas) {
  std::int64_t dark = 0;
  for (std::size_t i = 0; i < canvas.pixels().size(); i += 3) {
    dark += canvas.pixels()[i] + canvas.pixels()[i + 1] + canvas.pixels()[i + 2] < 3 * 200 ? 1 : 0;
  }
  return dark;
}

TEST(GenerateCaptchas, GivesTheSameBytesOnAnyNumberOfThreads) {
  const Files one = generated({.count = 40, .seed = 7, .threads = 1});
  EXPECT_EQ(one.size(), 40U);
  EXPECT_EQ(generated({.count = 40, .seed = 7, .threads = 4}), one);
}

TEST(GenerateCaptchas, GivesOtherImagesForAnotherSeed) {
  const Files first = generated({.count = 10, .seed = 7});
  for (const auto& [name, bytes] : generated({.count = 10, .seed = 8})) {
    EXPECT_FALSE(first.contains(name) && first.at(name) == bytes) << name;
  }
}

TEST(GenerateCaptchas, ALongerSetBeginsWithTheShorterOne) {
  const Files longer = generated({.count = 12, .seed = 3});
  for (const auto& [name, bytes] : generated({.count = 5, .seed = 3})) EXPECT_EQ(longer.at(name), bytes) << name;
}

TEST(GenerateCaptchas, LabelsUseEveryCharacterOfTheCharsetAndNoOther) {
  std::set<char> used;
  for (const auto& [name, bytes] : generated({.count = 60, .seed = 1, .charset = "07xZ", .length = 6})) {
    const std::string label = name.substr(0, name.find('_'));
    EXPECT_EQ(label.size(), 6U) << name;
    used.insert(label.begin(), label.end());
  }
  EXPECT_EQ(used, (std::set<char>{'0', '7', 'x', 'Z'}));
}

TEST(GenerateCaptchas, HalfOfAMixedSetHasEachStyle) {
  const Files mixed = generated({.count = 6, .seed = 2});
  const Files simple = generated({.count = 6, .seed = 2, .style = StyleChoice::kSimple});
  const Files custom = generated({.count = 6, .seed = 2, .style = StyleChoice::kCustom});
  for (const auto& [name, bytes] : mixed) {
    const bool even = (name[name.find('_') + 1] - '0') % 2 == 0;
    EXPECT_EQ(bytes, even ? simple.at(name) : custom.at(name)) << name;
    EXPECT_NE(bytes, even ? custom.at(name) : simple.at(name)) << name;
  }
}

TEST(GenerateCaptchas, ReportsHowManyAreWritten) {
  std::vector<std::int64_t> reported;
  (void)generated({.count = 40, .length = 1, .width = 32, .height = 24, .threads = 2},
                  [&](std::int64_t written, std::int64_t /*count*/) { reported.push_back(written); });
  EXPECT_THAT(reported, ::testing::ElementsAre(16, 32, 40));
}

TEST(GenerateCaptchas, RefusesAFolderThatHoldsImages) {
  const test::TempDir folder;
  std::ofstream(folder / "0A1B_3.png") << "an image";
  EXPECT_THAT(fault_of({.out = folder.path(), .count = 2}),
              AllOf(HasSubstr(folder.path().string()), HasSubstr("0A1B_3.png")));
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.path()), fs::directory_iterator()), 1);
}

TEST(GenerateCaptchas, NamesAnOptionThatIsOutOfRange) {
  const test::TempDir folder;
  const fs::path out = folder / "set";
  EXPECT_THAT(fault_of({.out = out, .count = 0}), HasSubstr("count is 0"));
  EXPECT_THAT(fault_of({.out = out, .count = 1, .length = 0}), HasSubstr("length is 0"));
  EXPECT_THAT(fault_of({.out = out, .count = 1, .height = 3}), HasSubstr("height is 3"));
  EXPECT_THAT(fault_of({.out = out, .count = 1, .charset = ""}), HasSubstr("charset is empty"));
  EXPECT_FALSE(fs::exists(out));
}

TEST(GenerateCaptchas, StopsWithTheErrorOfAFileThatCannotBeWritten) {
  const test::TempDir folder;
  std::ofstream(folder / "file") << "no folder";
  EXPECT_THAT(fault_of({.out = folder / "file", .count = 1}), HasSubstr("is not a folder"));
}

TEST(ExpandCharset, ExpandsRangesAndKeepsLetters) {
  EXPECT_EQ(expand_charset("0-9"), "0123456789");
  EXPECT_EQ(expand_charset("a-cXY2-2"), "abcXY2");
  EXPECT_EQ(expand_charset("-a"), "-a");
  EXPECT_EQ(expand_charset("a-"), "a-");
}

TEST(ExpandCharset, RefusesWhatCannotBeALabel) {
  for (const char* wrong : {"", "0-91", "9-0", "aa", "a_b", "a/b", "a b", "\xc3\xa9"}) {
    EXPECT_THROW((void)expand_charset(wrong), UsageError) << wrong;
  }
}

TEST(ParseStyle, SuggestsTheNearest) {
  EXPECT_EQ(parse_style("custom"), StyleChoice::kCustom);
  try {
    (void)parse_style("simpel");
    FAIL() << "no error";
  } catch (const UsageError& fault) {
    EXPECT_THAT(fault.what(), HasSubstr("'simple'"));
  }
}

TEST(FontSet, NamesAMissingFontAndItsPackage) {
  const test::TempDir folder;
  try {
    const FontSet fonts("A", folder.path());
    FAIL() << "no error";
  } catch (const ResourceError& fault) {
    EXPECT_THAT(fault.what(), AllOf(HasSubstr(folder.path().string()), HasSubstr("apt-get install fonts-dejavu-core")));
  }
}

TEST(Render, DrawsLettersBesideTheNoise) {
  Rasterizer rasterizer;
  for (const Style style : {Style::kSimple, Style::kCustom}) {
    std::int64_t wide = 0;
    std::int64_t narrow = 0;
    for (std::uint64_t seed = 0; seed < 40; ++seed) {
      wide += dark_pixels(drawn("WWWW", style, seed, rasterizer));
      narrow += dark_pixels(drawn("....", style, seed, rasterizer));
    }
    EXPECT_GT(wide, narrow + 40 * 300);
  }
}

TEST(Render, KeepsTheOriginsNoiseOnWhite) {
  Rasterizer rasterizer;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const Canvas canvas = drawn("....", Style::kCustom, seed, rasterizer);
    std::set<std::array<int, 3>> colors;
    for (std::size_t i = 0; i < canvas.pixels().size(); i += 3) {
      colors.insert({canvas.pixels()[i], canvas.pixels()[i + 1], canvas.pixels()[i + 2]});
    }
    EXPECT_TRUE(colors.contains({255, 255, 255}));
    EXPECT_GE(colors.size(), 100U) << "at least a hundred points of random colours";
  }
}

TEST(Canvas, ClipsWhatLiesOutside) {
  Rasterizer rasterizer;
  Canvas canvas(rasterizer, 8, 4, {255, 255, 255});
  const std::array path{Point{-50, 2}, Point{90, 2}};
  canvas.fill(stroke(path, 2), {10, 20, 30});
  canvas.dot(8, 0, {0, 0, 0});
  canvas.dot(0, -1, {0, 0, 0});
  std::vector<std::uint8_t> rows;
  for (std::size_t y = 0; y < 4; ++y) rows.push_back(canvas.pixels()[y * 8 * 3]);
  EXPECT_THAT(rows, ::testing::ElementsAre(255, 10, 10, 255));
  EXPECT_EQ(canvas.pixels()[3 * 8 * 3 + 7 * 3], 255);
}

// The captcha network's first losses against PyTorch's, with the same weights and data (golden/make_losses.py).

/// `count` numbers in [0, 1), as make_losses.py computes them.
at::Tensor fractions(std::int64_t count, std::int64_t salt) {
  constexpr std::int64_t kLow = 0xFFFFFFFF;
  const at::Tensor index = at::arange(count, at::kLong);
  const at::Tensor hashed = at::bitwise_and(index * 2654435761 + (salt * 40503 + 12345), kLow);
  const at::Tensor mixed =
      at::bitwise_and(at::bitwise_xor(hashed, at::bitwise_right_shift(hashed, 15)) * 2246822519, kLow);
  return at::bitwise_right_shift(mixed, 8).to(at::kDouble) / (1 << 24);
}

/// Sets weights to functions of their index and biases to 0; no dropout.
void fill(torch::nn::Module& net) {
  std::int64_t salt = 0;
  for (const auto& item : net.named_parameters()) {
    at::Tensor parameter = item.value().detach();
    if (parameter.dim() > 1) {
      const double bound = 1 / std::sqrt(static_cast<double>(parameter[0].numel()));
      parameter.copy_(((fractions(parameter.numel(), ++salt) * 2 - 1) * bound).reshape(parameter.sizes()));
    } else if (item.key().ends_with("bias")) {
      parameter.zero_();
    }
  }
  for (const auto& module : net.modules()) {
    if (auto* dropout = module->as<torch::nn::Dropout>()) dropout->options.p(0);
  }
}

/// Uses the layers and memory layout of a run with these settings.
std::vector<double> first_losses(std::int64_t batch_size, std::size_t steps, bool fused) {
  const CaptchaConfig config;
  CaptchaTask task(config);
  const auto net = task.make_model();
  fill(*net);
  Batch batch;
  batch.data = fractions(batch_size * 60 * 160, 100).reshape({batch_size, 1, 60, 160}).to(at::kFloat);
  batch.target = (fractions(batch_size * 4, 200) * 36).to(at::kLong).reshape({batch_size, 4});
  if (fused) {
    use_channels_last(*net);
    EXPECT_FALSE(nn::optimize(*net).fused.empty());
    batch.data = to_channels_last(batch.data);
  }
  AdamW optimizer(*net, {.lr = 6e-4, .weight_decay = 1e-4});
  std::vector<double> losses;
  for (std::size_t i = 0; i < steps; ++i) {
    const at::Tensor loss = task.loss(task.forward(*net, batch), batch);
    optimizer.zero_grad();
    loss.backward();
    optimizer.step();
    losses.push_back(loss.item<double>());
  }
  return losses;
}

TEST(CaptchaLosses, TheFirstThreeAreThoseOfPyTorchFromTheSameWeightsAndData) {
  std::ifstream file(std::string(LOCKSTEP_TEST_SOURCE_DIR) + "/tests/recipes/golden/captcha_losses.json");
  const auto golden = nlohmann::json::parse(file);
  const auto expected = golden["losses"].get<std::vector<double>>();
  for (const bool fused : {false, true}) {
    const std::vector<double> found = first_losses(golden["batch"], expected.size(), fused);
    for (std::size_t i = 0; i < expected.size(); ++i) {
      // One step's rounding affects all weights of the next: PyTorch's own third loss is 0.089658 with AVX-512 and
      // 0.089679 with AVX2.
      const double tolerance = i == 0 ? 1e-6 : i == 1 ? 1e-4 : 1e-3;
      EXPECT_NEAR(found[i], expected[i], tolerance * expected[i]) << "step " << i << (fused ? ", fused" : ", plain");
    }
  }
}

// The operations that a profile counts in a step of the small captcha network, against a hand calculation.

constexpr std::int64_t kImages = 4;

struct Setting {
  bool fused = false;
  Amp amp = Amp::kNone;
};

view::Profile profile_of_a_step(const Setting& setting) {
  const std::shared_ptr<torch::nn::Module> net = make_model({.type = "conv3"});
  auto& model = dynamic_cast<CaptchaNet&>(*net);
  use_channels_last(*net);
  if (setting.fused) (void)nn::optimize(*net);
  const at::Tensor images = to_channels_last(at::rand({kImages, 1, 60, 160}));
  observe::Profiler profiler(testing::alone(), {.steps = 1, .warmup = 1, .parameters = named_parameters_of(*net)});
  for (int step = 0; step < 2; ++step) {
    at::Tensor out;
    {
      const Autocast autocast(at::kCPU, setting.amp);
      out = model.forward(images);
    }
    out.to(at::kFloat).sum().backward();
    profiler.step();
  }
  return profiler.profile();
}

/// Multiplications in one image's forward: 3x3 convolutions on 60 x 160 pixels, each followed by pooling that halves
/// the sides, then two dense layers.
struct ByHand {
  double conv1 = 60.0 * 160 * 32 * 1 * 9;
  double conv2 = 30.0 * 80 * 64 * 32 * 9;
  double conv3 = 15.0 * 40 * 64 * 64 * 9;
  double head = 64.0 * 7 * 20 * 1024 + 1024.0 * 4 * 36;

  /// Backward computes the gradient of each weight and of each input except the images.
  [[nodiscard]] double flops_of_a_step() const {
    return 2 * static_cast<double>(kImages) * (3 * (conv1 + conv2 + conv3 + head) - conv1);
  }
};

class CaptchaProfile : public ::testing::TestWithParam<Setting> {};

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
                         ::testing::Values(Setting{}, Setting{.fused = true},
                                           Setting{.fused = true, .amp = Amp::kBf16}));

}  // namespace captcha_test
}  // namespace lockstep::captcha
