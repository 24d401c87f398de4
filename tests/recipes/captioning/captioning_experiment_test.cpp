// SPDX-License-Identifier: Apache-2.0
// Experiments in the origin's form: what its keys become, and that what cannot be is named with file and line.
#include "captioning/config.h"

#include <gmock/gmock.h>

#include <fstream>

#include "lockstep/base/error.h"
#include "support/temp_dir.h"

namespace lockstep::captioning {
namespace captioning_experiment_test {

using ::lockstep::test::TempDir;
using ::testing::HasSubstr;

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

/// Nothing of a file depends on the origin's default of a key that it does not have.
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
  EXPECT_EQ(fault_of("MODEL:\n  TYPE: 'UpDown'\n"),
            file_.string() + ":2: MODEL.TYPE is 'UpDown': there is PureT, XLAN");
  EXPECT_THAT(fault_of("SCORER:\n  TYPES: ['SPICE']\n"), HasSubstr("the reward is CIDEr"));
  EXPECT_THAT(fault_of("SOLVER:\n  TYPE: 'RADAM'\n"), HasSubstr("there is ADAM, SGD, ADAGRAD, RMSPROP"));
  EXPECT_THAT(fault_of("MODEL: {TYPE: XLAN, RNN_SIZE: 512, BILINEAR: {DIM: 1024}}\n"),
              HasSubstr("MODEL.RNN_SIZE is '512': it must be MODEL.BILINEAR.DIM, 1024"));
  EXPECT_THAT(fault_of("SOLVER: {BIAS_LR_FACTOR: 2}\n"), HasSubstr("it must be 1"));
}

TEST_F(Experiment, AMissingFileIsNamed) {
  try {
    (void)read_experiment(folder_ / "none/config.yml");
    FAIL() << "no error";
  } catch (const DataError& error) {
    EXPECT_THAT(error.message(), HasSubstr((folder_ / "none/config.yml").string()));
  }
}

}  // namespace captioning_experiment_test
}  // namespace lockstep::captioning
