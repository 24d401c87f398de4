// SPDX-License-Identifier: Apache-2.0
// The original implementations' snapshots: X-LAN and PureT, re-created in PyTorch with their parameter names
// (golden/make_origin_names.py), give the same words for the same features here, and they can load this program's
// checkpoints.
#include <ATen/core/grad_mode.h>
#include <ATen/core/ivalue.h>  // before any other torch header
#include <ATen/ops/ones.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "captioning/task.h"
#include "lockstep/base/error.h"
#include "lockstep/checkpoint/interop.h"
#include "lockstep/checkpoint/torch_file.h"
#include "lockstep/tensor/named_tensors.h"
#include "lockstep/train/first_weights.h"
#include "support/fault_of.h"
#include "support/origin_golden.h"
#include "support/temp_dir.h"

namespace lockstep::captioning {
namespace captioning_origin_test {

using test::fault_of;
using test::fractions;
using test::OriginGolden;
using test::TempDir;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr std::int64_t kWords = 11;
const std::vector<std::string> kComputed = {"attn_mask", "relative_position_index", "pos_embed.weight"};

/// Provides a training set, from which the task gets its words and the feature width.
class CaptioningOrigin : public ::testing::TestWithParam<const char*> {
 protected:
  CaptioningOrigin() : golden_(GetParam()) {
    std::ofstream words(folder_ / "words.txt");
    for (int i = 1; i < kWords; ++i) words << "word" << i << "\n";
    config_.model_type = is_x_lan() ? "x_linear" : "transformer";
    config_.sets.features = folder_.path().string();
    config_.sets.vocabulary = (folder_ / "words.txt").string();
    config_.word_activation = "celu";
    config_.model.dim = 16;
    config_.model.heads = 4;
    config_.model.feed_forward = 64;
    config_.model.encoder_layers = is_x_lan() ? 2 : 3;
    config_.model.decoder_layers = 2;
    config_.model.x_linear.word_dim = 10;
    config_.model.x_linear.middle_dim = 3;
    StateDict file;
    for (const auto& [name, value] : golden_.weights(kComputed)) file["module." + name] = value;
    export_torch_file(file_, to_torch_value(file));
  }

  [[nodiscard]] bool is_x_lan() const { return std::string(GetParam()) == "XLAN"; }
  /// A task that knows the vocabulary's words and features of width 12.
  [[nodiscard]] std::unique_ptr<CaptioningTask> task() const {
    auto task = std::make_unique<CaptioningTask>(config_);
    const std::string text = Vocabulary::from_file(config_.sets.vocabulary).to_text();
    at::Tensor bytes = at::zeros({static_cast<std::int64_t>(text.size())}, at::kByte);
    std::copy(text.begin(), text.end(), bytes.data_ptr<std::uint8_t>());
    task->check_model_state({{"vocabulary", bytes}, {"feature_width", at::zeros({1}, at::kLong) + 12}});
    return task;
  }

  const TempDir folder_;
  const std::filesystem::path file_ = folder_ / "caption_model_27.pth";
  const OriginGolden golden_;
  CaptioningConfig config_;
};

TEST_P(CaptioningOrigin, ItsSnapshotSaysTheSameHereAndOnTheWayBack) {
  const auto task = this->task();
  const auto model = task->make_model();
  start_from_weights(*task, named_entries_of(*model), {.path = file_});
  model->eval();
  auto& net = dynamic_cast<Captioner&>(*model);
  const at::Tensor features = (fractions("features", {2, is_x_lan() ? 5 : 144, 12}) - 0.5) * 4;
  at::Tensor words = (fractions("words", {4, 6}) * kWords).floor().to(at::kLong);
  words.select(1, 0).fill_(0);
  const at::NoGradGuard guard;
  const at::Tensor logs = net.log_probs(net.encode(features.to(at::kFloat), {}), words);
  EXPECT_LT(golden_.distance("log_probs", logs), 1e-5);

  ::testing::internal::CaptureStderr();
  const auto back = task->origin_file({.model = model_state_dict(*model)});
  EXPECT_EQ(::testing::internal::GetCapturedStderr().find("strict=False") == std::string::npos, is_x_lan());
  ASSERT_TRUE(back);
  export_torch_file(folder_ / "back.pth", *back);
  golden_.expect_read_in_python((folder_ / "back.pth").string());
}

TEST_P(CaptioningOrigin, WithoutItsVocabularyOrWithAnotherItIsRefused) {
  config_.sets.vocabulary.clear();
  const auto refused = [&](CaptioningTask& task) {
    const auto model = task.make_model();
    return fault_of<DataError>([&] { start_from_weights(task, named_entries_of(*model), {.path = file_}); });
  };
  const std::string words = (folder_ / "words.txt").string();
  config_.sets.vocabulary = words;
  const auto task = this->task();
  config_.sets.vocabulary.clear();
  EXPECT_THAT(refused(*task), AllOf(HasSubstr("data.vocabulary is not set"), HasSubstr("INFERENCE.VOCAB")));
  config_.sets.vocabulary = words;
  std::ofstream(words, std::ios::app) << "another\n";
  EXPECT_THAT(refused(*this->task()), HasSubstr("for 10 words, but the vocabulary has 11"));
}

/// A network with its own backbone reports them as lost, since anything learnt through them would be.
TEST_P(CaptioningOrigin, ItsBackbonesWeightsAreLeftOutIfFeaturesTakeItsPlace) {
  StateDict file = golden_.weights(kComputed);
  file["backbone.norm.weight"] = at::ones({192});
  const auto keeps_them = [&](CaptioningTask& task) {
    StateDict weights = file;
    const auto model = task.make_model();
    (void)task.fit_weights(weights, named_entries_of(*model));
    return weights.contains("backbone.norm.weight");
  };
  EXPECT_EQ(keeps_them(*task()), is_x_lan()) << "X-LAN has no backbone";
  config_.sets.features.clear();
  EXPECT_TRUE(keeps_them(*task()));
}

TEST_P(CaptioningOrigin, ANetworkThatItDoesNotHaveIsNotWritten) {
  config_.sets.features.clear();
  const auto task = this->task();
  EXPECT_THAT(fault_of<UsageError>([&] { (void)task->origin_file({}); }), HasSubstr("backbone"));
}

INSTANTIATE_TEST_SUITE_P(Both, CaptioningOrigin, ::testing::Values("XLAN", "PureT"));

}  // namespace captioning_origin_test
}  // namespace lockstep::captioning
