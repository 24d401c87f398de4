// SPDX-License-Identifier: Apache-2.0
// An experiment's folder, and pages of images with captions.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "captioning/config.h"
#include "captioning/page.h"
#include "common/lettering.h"
#include "lockstep/base/error.h"
#include "support/fault_of.h"
#include "support/temp_dir.h"

namespace lockstep::captioning {
namespace captioning_experiment_test {

using ::lockstep::test::TempDir;
using ::testing::ElementsAre;
using ::testing::Gt;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Lt;

// Experiments in the original format: the meaning of its keys, and errors with file and line for anything unsupported.

class Experiment : public ::testing::Test {
 protected:
  CaptioningConfig read(const std::string& yaml) {
    std::ofstream(file_) << yaml;
    CaptioningConfig config;
    ConfigFields fields;
    config.describe(fields);
    fields.bind(read_experiment(file_));
    return config;
  }
  std::string fault_of(const std::string& yaml) {
    try {
      (void)read(yaml);
    } catch (const UsageError& error) {
      return error.message();
    }
    return "no error";
  }

  /// The lines printed while a file is being read.
  std::vector<std::string> said_of(const std::string& yaml) {
    ::testing::internal::CaptureStderr();
    (void)fault_of(yaml);
    std::istringstream text(::testing::internal::GetCapturedStderr());
    std::vector<std::string> lines;
    for (std::string line; std::getline(text, line);) lines.push_back(line);
    return lines;
  }

  const TempDir folder_;
  const std::filesystem::path file_ = folder_ / "config.yml";
};

constexpr const char* kPureT = R"(LOGGER_NAME: 'log'
SEED: 1234.
TRAIN:
  BATCH_SIZE: 12
  REINFORCEMENT:
    START: 9999
DATA_LOADER:
  NUM_WORKERS: 8
  TRAIN_ATT_FEATS: './feature/train'
  VAL_ATT_FEATS: './feature/val'
  TRAIN_ID: './misc/train.json'
  VAL_ID: './misc/val.json'
  INPUT_SEQ_PATH: './sent/coco_train_input.pkl'
  SEQ_PER_IMG: 4
MODEL:
  TYPE: 'PureT'
  SEQ_LEN: 17
  VOCAB_SIZE: 9487
  ATT_FEATS_DIM: 1536
  ATT_FEATS_EMBED_DIM: 512
  RNN_SIZE: 512
  DROPOUT_LM: 0.1
  BILINEAR:
    DIM: 512
    ENCODE_ATT_MID_DIM: [64, 32, 64]
    ENCODE_LAYERS: 3
    DECODE_LAYERS: 3
    HEAD: 8
SOLVER:
  BASE_LR: 0.0005
  TYPE: 'ADAM'
  MAX_EPOCH: 20
  MAX_ITER: -1
  GRAD_CLIP: 0.1
  GRAD_CLIP_TYPE: 'Clamp'
  DISPLAY: 20
  SNAPSHOT_ITERS: 2
  ADAM:
    BETAS: [0.9, 0.98]
    EPS: 1.0e-9
  LR_POLICY:
    TYPE: 'Noam'
    SETP_TYPE: 'Iter'
    WARMUP: 10000
    FACTOR: 1.0
    MODEL_SIZE: 512
LOSSES:
  XE_TYPE: 'LabelSmoothing'
  LABELSMOOTHING: 0.1
  RL_TYPE: 'RewardCriterion'
SCORER:
  TYPES: ['CIDEr']
  WEIGHTS: [1.0]
INFERENCE:
  VOCAB: './txt/coco_vocabulary.txt'
  VAL_ANNFILE: './misc/captions_val5k.json'
  BEAM_SIZE: 5
  GREEDY_DECODE: True
data:
  train: captions_train.json
)";

TEST_F(Experiment, PureTsSettingsMeanTheSameHere) {
  const CaptioningConfig config = read(kPureT);
  EXPECT_EQ(config.seed, 1234);
  EXPECT_EQ(config.batch_size, 12);
  EXPECT_EQ(config.workers, 8);
  EXPECT_EQ(config.sets.features, "./feature/train");
  EXPECT_EQ(config.sets.test_features, "./feature/val");
  EXPECT_EQ(config.sets.train_ids, "./misc/train.json");
  EXPECT_EQ(config.sets.test_ids, "./misc/val.json");
  EXPECT_EQ(config.sets.captions_per_image, 4);
  EXPECT_EQ(config.self_critical.samples, 4);
  EXPECT_EQ(config.self_critical.baseline, "samples");
  EXPECT_EQ(config.self_critical.start, "second_stage");
  EXPECT_FALSE(config.is_self_critical()) << "9999 of 20 epochs is never";
  EXPECT_EQ(config.sets.max_words, 16);
  EXPECT_EQ(config.sets.vocabulary_size, 9487);
  EXPECT_EQ(config.checkpoint.every_epochs, 2);
  EXPECT_EQ(config.sets.vocabulary, "./txt/coco_vocabulary.txt");
  EXPECT_EQ(config.model_type, "transformer");
  EXPECT_EQ(config.model.feature_width, 1536);
  EXPECT_EQ(config.model.dim, 512);
  EXPECT_EQ(config.model.feed_forward, 2048);
  EXPECT_EQ(config.model.heads, 8);
  EXPECT_EQ(config.model.encoder_layers, 3);
  EXPECT_EQ(config.model.dropout, 0.1);
  EXPECT_EQ(config.epochs, 20);
  EXPECT_EQ(config.max_steps, 0);
  EXPECT_EQ(config.clip_value, 0.1);
  EXPECT_EQ(config.clip_norm, 0);
  EXPECT_EQ(config.log_every_steps, 20);
  EXPECT_EQ(config.optimizer.type, "adam");
  EXPECT_EQ(config.optimizer.lr, 1) << "Noam's factor; BASE_LR has no part in it";
  EXPECT_THAT(config.optimizer.betas, ::testing::ElementsAre("0.9", "0.98"));
  EXPECT_EQ(std::stod(config.optimizer.eps), 1e-9);
  EXPECT_EQ(config.schedule.type, "noam");
  EXPECT_EQ(config.schedule.warmup_steps, 10000);
  EXPECT_EQ(config.schedule.model_size, 512);
  EXPECT_EQ(config.loss.label_smoothing, 0.1);
  EXPECT_EQ(config.data.test, "./misc/captions_val5k.json");
  EXPECT_EQ(config.eval.beam_size, 5);
  EXPECT_EQ(config.data.train, "captions_train.json") << "a key of this program beside them";
  EXPECT_NO_THROW(config.validate());
}

TEST_F(Experiment, XLansSelfCriticalSettingsMeanTheSameHere) {
  const CaptioningConfig config = read(R"(TRAIN:
  SCHEDULED_SAMPLING: {START: 6, INC_EVERY: 5, INC_PROB: 0.05, MAX_PROB: 0.5}
  REINFORCEMENT: {START: 0}
MODEL:
  TYPE: 'XLAN'
  WORD_EMBED_DIM: 512
  DROPOUT_WORD_EMBED: 0.4
  DROPOUT_ATT_EMBED: 0.3
  RNN_SIZE: 1024
  DROPOUT_LM: 0.5
  BILINEAR: {DIM: 1024, ENCODE_ATT_MID_DIM: [128, 64, 128], ENCODE_DROPOUT: 0.2, ENCODE_LAYERS: 4, DECODE_LAYERS: 1}
SOLVER:
  BASE_LR: 0.00001
  GRAD_CLIP: 0.5
  GRAD_CLIP_TYPE: 'Norm'
  LR_POLICY: {TYPE: 'Plateau', PLATEAU_FACTOR: 0.8, PLATEAU_PATIENCE: 3}
)");
  EXPECT_EQ(config.self_critical.start, "first_epoch");
  EXPECT_EQ(config.self_critical.baseline, "greedy");
  EXPECT_EQ(config.scheduled_sampling.start, 6);
  EXPECT_EQ(config.scheduled_sampling.max_prob, 0.5);
  EXPECT_EQ(config.model_type, "x_linear");
  EXPECT_EQ(config.model.x_linear.word_dim, 512);
  EXPECT_EQ(config.model.x_linear.middle_dim, 64);
  EXPECT_EQ(config.model.x_linear.word_dropout, 0.4);
  EXPECT_EQ(config.model.x_linear.feature_dropout, 0.3);
  EXPECT_EQ(config.model.x_linear.attention_dropout, 0.2);
  EXPECT_EQ(config.model.x_linear.output_dropout, 0.5);
  EXPECT_EQ(config.optimizer.lr, 1e-5);
  EXPECT_EQ(config.clip_norm, 0.5);
  EXPECT_EQ(config.schedule.type, "plateau");
  EXPECT_EQ(config.schedule.factor, 0.8);
  EXPECT_EQ(config.schedule.patience, 3);
}

TEST_F(Experiment, ReinforcementThatStartsLaterIsASecondStage) {
  const CaptioningConfig config = read("TRAIN: {REINFORCEMENT: {START: 12}}\nSOLVER: {MAX_EPOCH: 20}\n");
  EXPECT_EQ(config.stages.stop_epoch, 12);
  EXPECT_FALSE(config.stages.roll_back);
}

/// The original default for a missing key must not matter.
TEST_F(Experiment, ReinforcementStartsWhereItsEpochIsWhateverTheLengthIs) {
  EXPECT_EQ(read("TRAIN: {REINFORCEMENT: {START: 40}}\nepochs: 60\n").stages.stop_epoch, 40);
  EXPECT_EQ(read("TRAIN: {REINFORCEMENT: {START: 25}}\nSOLVER: {MAX_EPOCH: 20}\n").stages.stop_epoch, 25);
}

TEST_F(Experiment, OneCaptionPerImageNeedsNoSelfCriticalTraining) {
  const CaptioningConfig config =
      read("DATA_LOADER: {SEQ_PER_IMG: 1}\nTRAIN: {REINFORCEMENT: {START: 9999}}\ndata: {train: x}\n");
  EXPECT_EQ(config.sets.captions_per_image, 1);
  EXPECT_EQ(config.self_critical.samples, 5) << "one caption could not be compared with others";
  EXPECT_NO_THROW(config.validate());
}

TEST_F(Experiment, APartOfScheduledSamplingHasTheOriginsOtherDefaults) {
  const CaptioningConfig config = read("TRAIN: {SCHEDULED_SAMPLING: {START: -1, INC_PROB: 0.1}}\n");
  EXPECT_EQ(config.scheduled_sampling.start, 0);
  EXPECT_EQ(config.scheduled_sampling.inc_prob, 0.1);
  EXPECT_EQ(config.scheduled_sampling.max_prob, 0.25);
}

TEST_F(Experiment, OneWayToClipLeavesNoneOfTheOther) {
  const CaptioningConfig own = read("SOLVER: {GRAD_CLIP: 0.1, GRAD_CLIP_TYPE: Clamp}\nclip_norm: 1\n");
  EXPECT_EQ(own.clip_norm, 1) << "this program's own key wins";
  EXPECT_EQ(own.clip_value, 0);
  ConfigTree preset = ConfigTree::from_text("clip_value: 0.1\nschedule: {type: noam, warmup_steps: 10}\n", "preset");
  std::ofstream(file_) << "SOLVER: {GRAD_CLIP: 0.5, GRAD_CLIP_TYPE: None, LR_POLICY: {TYPE: Fix}}\n";
  preset.merge(read_experiment(file_));
  EXPECT_EQ(preset.values().at("clip_value").yaml, "0");
  EXPECT_EQ(preset.values().at("schedule.warmup_steps").yaml, "0") << "warm-up is Noam's";
}

TEST_F(Experiment, StepsAndMilestonesAreEpochs) {
  const CaptioningConfig config = read("SOLVER: {LR_POLICY: {TYPE: Step, GAMMA: 0.8, STEP_SIZE: 3}}\n");
  EXPECT_EQ(config.schedule.type, "step");
  EXPECT_EQ(config.schedule.step_epochs, 3);
  EXPECT_EQ(config.schedule.gamma, 0.8);
  EXPECT_THAT(fault_of("SOLVER: {LR_POLICY: {TYPE: Step, SETP_TYPE: Iter}}\n"), HasSubstr("counted in epochs"));
}

TEST_F(Experiment, AnUnknownKeyIsNamedWithFileLineAndTheNearestOne) {
  EXPECT_EQ(fault_of("TRAIN:\n  BATCH_SIZE: 10\n  BATCHSIZE: 10\n"),
            file_.string() + ":3: unknown key 'TRAIN.BATCHSIZE' (did you mean 'TRAIN.BATCH_SIZE'?)");
  EXPECT_THAT(fault_of("data:\n  trian: x\n"), HasSubstr("config.yml:2: unknown key 'data.trian'"));
}

TEST_F(Experiment, AWrongTypeIsNamedWithFileAndLine) {
  EXPECT_EQ(fault_of("SOLVER:\n  MAX_EPOCH: many\n"),
            file_.string() + ":2: SOLVER.MAX_EPOCH is 'many', not an integer");
}

TEST_F(Experiment, WhatThereIsNothingForIsNamedWithWhatThereIs) {
  EXPECT_THAT(fault_of("SCORER:\n  TYPES: ['SPICE']\n"), HasSubstr("the reward is CIDEr"));
  EXPECT_THAT(fault_of("SOLVER:\n  TYPE: 'RADAM'\n"), HasSubstr("there is ADAM, SGD, ADAGRAD, RMSPROP"));
  EXPECT_THAT(fault_of("MODEL: {TYPE: XLAN, RNN_SIZE: 512, BILINEAR: {DIM: 1024}}\n"),
              HasSubstr("MODEL.RNN_SIZE is '512': it must be MODEL.BILINEAR.DIM, 1024"));
  EXPECT_THAT(fault_of("SOLVER: {BIAS_LR_FACTOR: 2}\n"), HasSubstr("it must be 1"));
}

/// The networks of the six public files that use a different network, each with other things that would be rejected.
TEST_F(Experiment, ANetworkThatIsNotHereIsRefusedInOneLineThatNamesThoseThatAre) {
  for (const std::string type : {"UpDown", "XTransformer", "RawTransformer", "M2Transformer"}) {
    const std::string yaml =
        "LOGGER_NAME: log\nMODEL:\n  TYPE: '" + type + "'\n  NOT_A_KEY: 1\nSOLVER:\n  TYPE: 'RADAM'\n";
    EXPECT_EQ(fault_of(yaml),
              file_.string() + ":3: MODEL.TYPE is '" + type + "', but only PureT and XLAN are available here");
    EXPECT_THAT(said_of(yaml), IsEmpty()) << "nothing else is said of the file";
  }
}

constexpr const char* kXLanNetwork = R"(MODEL:
  TYPE: 'XLAN'
  WORD_EMBED_DIM: 1024
  WORD_EMBED_ACT: 'CELU'
  WORD_EMBED_NORM: False
  DROPOUT_WORD_EMBED: 0.5
  GVFEAT_DIM: 2048
  GVFEAT_EMBED_DIM: -1
  GVFEAT_EMBED_ACT: 'NONE'
  ATT_FEATS_DIM: 2048
  ATT_FEATS_EMBED_DIM: 1024
  ATT_FEATS_EMBED_ACT: 'CELU'
  DROPOUT_ATT_EMBED: 0.5
  ATT_FEATS_NORM: False
  ATT_HIDDEN_SIZE: -1
  ATT_ACT: 'TANH'
  RNN_SIZE: 1024
  DROPOUT_LM: 0.4
  BILINEAR:
    DIM: 1024
    ENCODE_ATT_MID_DIM: [128, 64, 128]
    DECODE_ATT_MID_DIM: [128, 64, 128]
    ENCODE_ATT_MID_DROPOUT: 0.1
    DECODE_ATT_MID_DROPOUT: 0.1
    ATT_DIM: 1024
    ACT: 'CELU'
    ENCODE_DROPOUT: 0.5
    DECODE_DROPOUT: 0.5
    ENCODE_LAYERS: 4
    DECODE_LAYERS: 1
    TYPE: 'LowRank'
    ATTTYPE: 'SCAtt'
    HEAD: 8
    ENCODE_BLOCK: 'LowRankBilinearEnc'
    DECODE_BLOCK: 'LowRankBilinearDec'
    ELU_ALPHA: 1.3
    ENCODE_BIFEAT_EMB_DROPOUT: 0.3
)";

TEST_F(Experiment, EachOfXLansDropoutsAndItsWordsActivationAreAsInTheFile) {
  const CaptioningConfig config = read(kXLanNetwork);
  EXPECT_EQ(config.model.x_linear.word_dropout, 0.5);
  EXPECT_EQ(config.model.x_linear.feature_dropout, 0.5);
  EXPECT_EQ(config.model.x_linear.attention_dropout, 0.5);
  EXPECT_EQ(config.model.x_linear.middle_dropout, 0.1);
  EXPECT_EQ(config.model.x_linear.update_dropout, 0.3);
  EXPECT_EQ(config.model.x_linear.output_dropout, 0.4);
  EXPECT_TRUE(config.model_options(9488, 2048).x_linear.celu_of_words);
  EXPECT_FALSE(read("MODEL: {TYPE: XLAN, WORD_EMBED_ACT: NONE}\n").model_options(9, 9).x_linear.celu_of_words);
  EXPECT_THAT(said_of(kXLanNetwork), IsEmpty()) << "all of the file is so here";
}

TEST_F(Experiment, WhatChangesTheResultIsSaidFirstAndEachKeyOnALineOfItsOwn) {
  const std::vector<std::string> lines = said_of(
      "LOGGER_NAME: log\nMODEL:\n  TYPE: XLAN\n  ATT_FEATS_NORM: True\n  GVFEAT_DIM: 2048\n  BILINEAR:\n"
      "    ENCODE_DROPOUT: 0.5\n    DECODE_DROPOUT: 0.2\n    ELU_ALPHA: 1.0\nINFERENCE: {EVAL: COCO}\n"
      "DATA_LOADER: {INPUT_SEQ_PATH: a.pkl}\n");
  const std::string place = "note: " + file_.string();
  EXPECT_THAT(lines,
              ElementsAre(place + ":4: MODEL.ATT_FEATS_NORM is true, which changes the result: here it is always false",
                          place + ":9: MODEL.BILINEAR.ELU_ALPHA is 1, which changes the result: here it is always 1.3",
                          place + ":8: MODEL.BILINEAR.DECODE_DROPOUT is 0.2, which changes the result: here "
                                  "the value of MODEL.BILINEAR.ENCODE_DROPOUT is used for both: 0.5",
                          HasSubstr(":11: DATA_LOADER.INPUT_SEQ_PATH is a pickle, which is not read"),
                          "note: this setting has no effect here: LOGGER_NAME",
                          "note: this setting has no effect here: INFERENCE.EVAL"));
}

TEST_F(Experiment, FilesOfPicturesMeanPicturesAndNotFeatures) {
  const std::filesystem::path pictures = folder_ / "coco2014";
  std::filesystem::create_directory(pictures);
  const auto with = [&](const std::string& list) {
    return "DATA_LOADER:\n  TRAIN_ATT_FEATS: '" + pictures.string() + "'\n  VAL_ATT_FEATS: '" + pictures.string() +
           "'\n  TRAIN_ID: '" + (folder_ / list).string() + "'\nMODEL: {TYPE: PureT, ATT_FEATS_DIM: 1536}\n";
  };
  std::ofstream(folder_ / "pictures.json") << R"({"9": "train2014/COCO_train2014_000000000009.jpg"})";
  const CaptioningConfig config = read(with("pictures.json"));
  EXPECT_EQ(config.sets.images, pictures.string());
  EXPECT_EQ(config.sets.features, "");
  EXPECT_EQ(config.backbone, "resnet");
  EXPECT_EQ(config.sets.height, 384);
  EXPECT_EQ(config.model.backbone.output_stride, 32) << "12 x 12 cells, as Swin has";
  EXPECT_THAT(said_of(with("pictures.json")),
              ElementsAre(HasSubstr("a ResNet-50 is trained with the rest of the model instead")));
  std::ofstream(folder_ / "features.json") << R"({"9": "9.npz"})";
  EXPECT_EQ(read(with("features.json")).sets.features, pictures.string());
  EXPECT_EQ(read(with("none.txt")).sets.features, pictures.string()) << "an empty folder";
  std::ofstream(pictures / "9.jpg") << "";
  EXPECT_EQ(read(with("none.txt")).sets.images, pictures.string());
}

TEST_F(Experiment, TheTestSetIsTheFinalTest) {
  const CaptioningConfig config =
      read("DATA_LOADER: {TEST_ATT_FEATS: f, TEST_ID: ids.txt}\nINFERENCE: {TEST_ANNFILE: test.json}\n");
  EXPECT_THAT(config.settings_of_final_test(),
              ElementsAre("data.test=test.json", "data.test_split=", "data.test_ids=ids.txt", "data.test_features=f"));
  EXPECT_THAT(read("DATA_LOADER: {TEST_ID: ids.txt}\n").settings_of_final_test(), IsEmpty());
}

TEST_F(Experiment, AMissingFileIsNamed) {
  try {
    (void)read_experiment(folder_ / "none/config.yml");
    FAIL() << "no error";
  } catch (const DataError& error) {
    EXPECT_THAT(error.message(), HasSubstr((folder_ / "none/config.yml").string()));
  }
}

// Pages of images with captions: where all the parts are, and text that stays inside its cell.

Image plain_picture(ImageSize size, std::vector<std::uint8_t> color) {
  Image image{size, static_cast<std::int64_t>(color.size()), {}};
  for (std::int64_t i = 0; i < size.width * size.height; ++i) {
    image.pixels.insert(image.pixels.end(), color.begin(), color.end());
  }
  return image;
}

std::vector<int> pixel_at(const Image& image, std::int64_t x, std::int64_t y) {
  const auto at = image.pixels.begin() + 3 * (y * image.size.width + x);
  return {at, at + 3};
}

/// The number of bright pixels in a rectangle: the text on the dark background.
std::int64_t bright(const Image& image, std::int64_t left, std::int64_t top, ImageSize size) {
  std::int64_t count = 0;
  for (std::int64_t y = top; y < top + size.height; ++y) {
    for (std::int64_t x = left; x < left + size.width; ++x) count += pixel_at(image, x, y)[1] > 100 ? 1 : 0;
  }
  return count;
}

class CaptioningPage : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!common::Lettering(13).has_font()) GTEST_SKIP() << "fonts-dejavu-core is not installed";
  }
};

TEST_F(CaptioningPage, BreaksLinesAtBlanksAndWideWordsAnywhere) {
  const common::Lettering letters(13);
  const std::int64_t wide = letters.width("on the left");
  EXPECT_THAT(letters.lines("a red disc on the left", wide), ElementsAre("a red disc", "on the left"));
  EXPECT_THAT(letters.lines("a  red disc", letters.width("a red disc") - 1), ElementsAre("a red", "disc"));
  EXPECT_THAT(letters.lines("", 50), IsEmpty());
  std::string joined;
  for (const std::string& line : letters.lines("Rindfleischetikettierungsüberwachung", 60)) {
    EXPECT_LE(letters.width(line), 60);
    joined += line;
  }
  EXPECT_EQ(joined, "Rindfleischetikettierungsüberwachung");
  EXPECT_THAT(letters.lines("ab", 1), ElementsAre("a", "b")) << "a letter must go somewhere";
}

TEST_F(CaptioningPage, DrawsTheSameForBytesThatAreNoUtf8AsForQuestionMarks) {
  const common::Lettering letters(13);
  EXPECT_EQ(letters.width("a\x80\xFFz\xC3"), letters.width("a??z?"));
  Image image = plain_picture({20, 20}, {0, 0, 0});
  letters.write(image, {15, 12}, "WWW\xE2", {255, 255, 255});  // extends past the edge
  EXPECT_GT(std::ranges::max(image.pixels), 200);
}

TEST_F(CaptioningPage, HasPicturesInAGridWithTheirWordsBelow) {
  std::vector<CaptionedPicture> pictures;
  for (int i = 0; i < 3; ++i) {
    pictures.push_back({.picture = plain_picture({40, 20}, {200, static_cast<std::uint8_t>(50 * i), 30}),
                        .caption = "a red disc left of a star",
                        .reference = i == 1 ? "" : "there is a disc",
                        .cider_d = {}});
  }
  const Image page = caption_page(pictures, {.columns = 2, .cell = 120});
  const common::Lettering letters(13);
  EXPECT_EQ(page.size.width, 8 + 2 * 128);
  const std::int64_t words = 4 + 3 * letters.line_height();  // two lines for the caption, one for the reference
  EXPECT_EQ(page.size.height, 8 + 2 * (60 + words + 8));
  EXPECT_THAT(pixel_at(page, 8, 8), ElementsAre(200, 0, 30));
  EXPECT_THAT(pixel_at(page, 8 + 119, 8 + 59), ElementsAre(200, 0, 30));
  EXPECT_THAT(pixel_at(page, 136, 8), ElementsAre(200, 50, 30));
  EXPECT_THAT(pixel_at(page, 8, 76 + words), ElementsAre(200, 100, 30));
  EXPECT_THAT(pixel_at(page, 7, 8), ElementsAre(24, 24, 24));
  EXPECT_GT(bright(page, 8, 68, {120, words}), 100);
  EXPECT_EQ(bright(page, 128, 0, {8, page.size.height}), 0) << "words stay in their cells";
  EXPECT_GT(bright(page, 8, 72 + 2 * letters.line_height(), {120, letters.line_height()}), 20) << "the reference";
  EXPECT_EQ(bright(page, 136, 72 + 2 * letters.line_height(), {120, letters.line_height()}), 0) << "there is none";
}

TEST_F(CaptioningPage, ShowsTheScoreInItsOwnColour) {
  const CaptionedPicture plain{
      .picture = plain_picture({40, 40}, {0, 0, 0}), .caption = "", .reference = {}, .cider_d = 1.25};
  const Image page = caption_page({plain}, {.columns = 1, .cell = 80});
  std::vector<int> strongest{0, 0, 0};
  for (std::int64_t x = 8; x < 88; ++x) {
    for (std::int64_t y = 88; y < page.size.height; ++y) {
      const std::vector<int> pixel = pixel_at(page, x, y);
      for (std::size_t c = 0; c < 3; ++c) strongest[c] = std::max(strongest[c], pixel[c]);
    }
  }
  EXPECT_THAT(strongest, ElementsAre(Gt(220), Gt(160), Lt(120)));
}

TEST_F(CaptioningPage, SaysInALegendWhoseWordsAreWhose) {
  const CaptionedPicture plain{
      .picture = plain_picture({40, 40}, {0, 0, 0}), .caption = "", .reference = {}, .cider_d = {}};
  const Image without = caption_page({plain}, {.columns = 1});
  const Image page = caption_page({plain}, {.columns = 1, .legend = true});
  const std::int64_t below = page.size.height - without.size.height;
  EXPECT_EQ(below, common::Lettering(13).line_height() + 8);
  EXPECT_GT(bright(page, 8, without.size.height, {page.size.width - 8, below}), 100);
}

TEST_F(CaptioningPage, OfOnePictureIsThePictureWithItsCaptionBelow) {
  const CaptionedPicture small{
      .picture = plain_picture({100, 50}, {9}), .caption = "a dog", .reference = {}, .cider_d = {}};
  const Image one = captioned(small);
  const common::Lettering letters(13);
  EXPECT_EQ(one.size, (ImageSize{300, 150 + 4 + letters.line_height() + 8}));
  EXPECT_THAT(pixel_at(one, 299, 149), ElementsAre(9, 9, 9));
  EXPECT_GT(bright(one, 8, 150, {284, 25}), 20);
  Image large = plain_picture({400, 30}, {1, 2, 3});
  large.pixels[0] = 77;
  const Image same = captioned({.picture = large, .caption = "a dog", .reference = {}, .cider_d = {}});
  EXPECT_EQ(same.size.width, 400);
  EXPECT_TRUE(std::equal(large.pixels.begin(), large.pixels.end(), same.pixels.begin())) << "its pixels as they are";
}

TEST_F(CaptioningPage, OfANarrowPictureEnlargesItUpToALimit) {
  const auto size_of = [&](ImageSize size) {
    return captioned({.picture = plain_picture(size, {9}), .caption = "", .reference = {}, .cider_d = {}}).size;
  };
  EXPECT_EQ(size_of({1, 4000}), (ImageSize{240, 4000}));
  EXPECT_EQ(size_of({1, 10}), (ImageSize{240, 1920}));
}

TEST(CaptioningPageDeathTest, NotesOnceThatTheFontLacksALetter) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // a new process, in which nothing has been noted
  const auto draw = [] {
    (void)captioned(
        {.picture = plain_picture({300, 30}, {9}), .caption = "\u72D7 \u732B", .reference = {}, .cider_d = {}});
    std::exit(0);
  };
  EXPECT_EXIT(draw(), ::testing::ExitedWithCode(0), "has no letter U.72D7, so pictures show a box");
}

TEST_F(CaptioningPage, RefusesWhatCannotBeDrawn) {
  EXPECT_THAT(test::fault_of<UsageError>([] { (void)caption_page({}); }), HasSubstr("needs at least one image"));
  const CaptionedPicture good{
      .picture = plain_picture({4, 4}, {0, 0, 0}), .caption = "a", .reference = {}, .cider_d = {}};
  EXPECT_THROW((void)caption_page({good}, {.columns = 0}), UsageError);
  EXPECT_THROW((void)caption_page({good}, {.cell = 0}), UsageError);
  CaptionedPicture torn = good;
  torn.picture.pixels.pop_back();
  EXPECT_THAT(test::fault_of<UsageError>([&] { (void)captioned(torn); }),
              HasSubstr("4 x 4 pixels, 3 channels and 47 bytes"));
  EXPECT_THROW((void)caption_page({CaptionedPicture{}}), UsageError);
}

}  // namespace captioning_experiment_test
}  // namespace lockstep::captioning
