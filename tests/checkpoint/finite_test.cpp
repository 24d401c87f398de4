// SPDX-License-Identifier: Apache-2.0
// A checkpoint with values that are not finite is not saved, and what is there is neither pruned nor taken for good.
#include <ATen/ops/ones.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <ATen/TensorOperators.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <thread>

#include "checkpoint/formats/finite_bits.h"
#include "lockstep/base/error.h"
#include "lockstep/checkpoint/checkpoint_writer.h"
#include "lockstep/checkpoint/inspect.h"
#include "support/temp_dir.h"

namespace lockstep {
namespace finite_test {

namespace fs = std::filesystem;
using test::TempDir;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

FileSystem& disk() { return FileSystem::system(); }

/// A model with a mask, as an attention has one, and Adam's moments for what is learnt.
CheckpointStates good_states(std::int64_t seed = 1) {
  CheckpointStates states;
  states["model"] = {{"fc.weight", at::ones({8, 8}) * static_cast<double>(seed)},
                     {"scale", at::ones({3})},
                     {"bn.running_var", at::ones({8})},
                     {"mask", at::tensor({0.F, -kInf, -kInf})}};
  states["optimizer"] = {
      {"fc.weight.exp_avg", at::zeros({8, 8})}, {"scale.exp_avg", at::zeros({3})}, {"step", std::int64_t{1}}};
  states["ema"] = {{"fc.weight", at::ones({8, 8})}, {"mask", at::tensor({0.F, -kInf, -kInf})}};
  states["run"] = {{"best", std::numeric_limits<double>::infinity()}, {"curve", at::tensor({kNan, kNan, kNan})}};
  return states;
}

CheckpointStates spoilt(const std::string& state, const std::string& entry, float value, std::int64_t at = 2) {
  CheckpointStates states = good_states();
  at::Tensor tensor = std::get<at::Tensor>(states.at(state).at(entry)).clone();
  tensor.view({-1})[at].fill_(value);
  states.at(state).at(entry) = tensor;
  return states;
}

std::map<std::string, StatePart> parts_of(const CheckpointStates& states) {
  std::map<std::string, StatePart> parts;
  for (const auto& [name, entries] : states) parts[name].entries = entries;
  return parts;
}

/// As a version before this one did.
void commit_anything(const fs::path& folder, std::int64_t step, const CheckpointStates& states) {
  ShardedContent content{.parts = parts_of(states), .texts = {}, .finite = {.required = false}};
  commit_sharded_checkpoint(disk(), *no_peers(), folder, {.step = step}, content);
}

template <class Save>
std::string refusal(Save&& save) {
  try {
    save();
    return "nothing was refused";
  } catch (const DataError& error) {
    return error.what();
  }
}

TEST(NotFinite, IsFoundInEveryFloatingType) {
  for (const auto type : {at::kDouble, at::kFloat, at::kHalf, at::kBFloat16}) {
    for (const std::int64_t place : {0, 1, 4095, 4096, 10000}) {
      for (const float value : {kNan, -kNan, kInf, -kInf, std::numeric_limits<float>::max()}) {
        at::Tensor many = at::zeros({10001}, type);
        if (std::isfinite(value)) {
          many[place].fill_(type == at::kHalf ? 65504.F : 3e38F);  // large, and a number
        } else {
          many[place].fill_(value);
        }
        const auto dtype = type == at::kDouble  ? checkpoint::DType::kF64
                           : type == at::kFloat ? checkpoint::DType::kF32
                           : type == at::kHalf  ? checkpoint::DType::kF16
                                                : checkpoint::DType::kBF16;
        const auto found = checkpoint::count_not_finite(dtype, many.data_ptr(), many.nbytes());
        EXPECT_EQ(found.nan, std::isnan(value) ? 1 : 0) << type << " at " << place;
        EXPECT_EQ(found.infinite, std::isinf(value) ? 1 : 0) << type << " at " << place;
      }
    }
  }
}

TEST(NotFinite, IsRefusedByNameWithTheLastGoodCheckpoint) {
  const TempDir run;
  const fs::path folder = run / "checkpoints";
  commit_checkpoint(disk(), folder, {.step = 4}, good_states());
  EXPECT_THAT(
      refusal([&] { commit_checkpoint(disk(), folder, {.step = 6}, spoilt("model", "fc.weight", kNan)); }),
      AllOf(HasSubstr("the checkpoint of step 6 is not saved: model/fc.weight is not finite (1 of 64 elements)"),
            HasSubstr("the last good one is " + (folder / "step-00000004").string())));
  EXPECT_THAT(disk().list(folder), ElementsAre("step-00000004"));
  const TempDir other;
  EXPECT_THAT(refusal([&] { commit_checkpoint(disk(), other.path(), {.step = 6}, spoilt("ema", "fc.weight", kNan)); }),
              HasSubstr("there is no good one before it"));
}

TEST(NotFinite, IsWrongInWhatIsLearntMeasuredOrMomentsAndAnInfinityMayBeInAMask) {
  const TempDir run;
  const auto is_refused = [&](const std::string& state, const std::string& entry, float value) {
    return refusal([&] { commit_checkpoint(disk(), run.path(), {.step = 6}, spoilt(state, entry, value)); }) !=
           "nothing was refused";
  };
  for (const float value : {kNan, kInf, -kInf}) {
    for (const char* entry : {"fc.weight", "scale", "bn.running_var"}) EXPECT_TRUE(is_refused("model", entry, value));
    EXPECT_TRUE(is_refused("optimizer", "scale.exp_avg", value));
    EXPECT_TRUE(is_refused("ema", "fc.weight", value));
  }
  EXPECT_TRUE(is_refused("model", "mask", kNan));
  EXPECT_FALSE(is_refused("model", "mask", kInf));
  EXPECT_FALSE(is_refused("ema", "mask", -kInf));
  EXPECT_FALSE(is_refused("run", "curve", kInf));
}

TEST(NotFinite, WithoutMomentsIsWrongInWeightsByTheirNamesAndInWhatIsSaidToBeLearnt) {
  const TempDir run;
  CheckpointStates states = spoilt("model", "fc.weight", kInf);
  states["optimizer"] = {{"step", std::int64_t{1}}};  // SGD without momentum
  EXPECT_THAT(refusal([&] { commit_checkpoint(disk(), run.path(), {.step = 6}, states); }), HasSubstr("fc.weight"));
  states = spoilt("model", "scale", kInf);
  states["optimizer"] = {{"step", std::int64_t{1}}};
  ShardedContent content{.parts = parts_of(states), .texts = {}, .finite = {.learnt = {"scale"}}};
  EXPECT_THAT(refusal([&] { commit_sharded_checkpoint(disk(), *no_peers(), run.path(), {.step = 6}, content); }),
              HasSubstr("model/scale"));
}

TEST(NotFinite, IsSavedWhereItIsMeant) {
  const TempDir run;
  commit_anything(run.path(), 6, spoilt("model", "fc.weight", kNan));
  EXPECT_THAT(not_finite_in(disk(), run / "step-00000006"), HasSubstr("model/fc.weight is not finite (1 of 64"));
}

TEST(NotFinite, InASharedSaveIsEveryRanksErrorWhicheverRankHasIt) {
  const TempDir run;
  for (const int bad : {0, 1}) {
    const auto store = make_local_store();
    std::vector<std::string> errors(2);
    std::vector<std::thread> ranks;
    for (int rank = 0; rank < 2; ++rank) {
      ranks.emplace_back([&, rank] {
        CheckpointWriter writer(disk(), {.folder = rank == 0 ? run.path() : fs::path()},
                                store_peers(*store, {.rank = rank, .world_size = 2}));
        StateParts parts;  // rank 1 has the second half of the weight
        for (const auto& [name, entries] : spoilt("model", "fc.weight", kNan, bad == 0 ? 2 : 60)) {
          parts[name] = part_of(entries, rank, 2);
        }
        errors[static_cast<std::size_t>(rank)] = refusal([&] { writer.save(parts, {.meta = {.step = 3}}); });
      });
    }
    for (std::thread& rank : ranks) rank.join();
    EXPECT_EQ(errors[0], errors[1]);
    EXPECT_THAT(errors[0], HasSubstr("the checkpoint of step 3 is not saved: "));
    EXPECT_THAT(errors[0], HasSubstr("model/fc.weight is not finite"));
    EXPECT_THAT(disk().list(run.path()), IsEmpty());
  }
}

TEST(NotFinite, InTheBackgroundIsThrownByTheNextCheckAndNothingIsPruned) {
  const TempDir run;
  CheckpointWriter writer(disk(), {.folder = run.path(), .retention = {.keep_last = 1}, .background = true});
  writer.save_in_background(parts_of(good_states()), {.meta = {.step = 1}});
  writer.save_in_background(parts_of(spoilt("optimizer", "fc.weight.exp_avg", kInf)),
                            {.meta = {.step = 2}, .names = {"best"}});
  EXPECT_THAT(refusal([&] { writer.wait(); }), HasSubstr("optimizer/fc.weight.exp_avg is not finite"));
  EXPECT_THAT(disk().list(run.path()), ElementsAre("step-00000001"));
  EXPECT_EQ(writer.newest(), run / "step-00000001");
}

TEST(NotFinite, IsNeverTheReasonToPruneTheLastGoodOne) {
  const TempDir run;
  for (const std::int64_t step : {1, 2}) commit_checkpoint(disk(), run.path(), {.step = step}, good_states());
  for (const std::int64_t step : {3, 4, 5}) commit_anything(run.path(), step, spoilt("model", "fc.weight", kNan));
  prune_checkpoints(disk(), run.path(), {.keep_last = 1});
  EXPECT_THAT(disk().list(run.path()), ElementsAre("step-00000002", "step-00000005"));
  CheckpointWriter writer(disk(), {.folder = run.path(), .retention = {.keep_last = 1}});
  writer.save(parts_of(good_states()), {.meta = {.step = 3}});  // a run that has gone on from step 2
  EXPECT_THAT(disk().list(run.path()), ElementsAre("step-00000003", "step-00000005"));
}

TEST(NotFinite, InALoadedStateIsSaidWithTheGoodOneBefore) {
  const TempDir run;
  commit_checkpoint(disk(), run.path(), {.step = 1}, good_states());
  commit_anything(run.path(), 3, spoilt("model", "fc.weight", kNan));
  EXPECT_EQ(find_newest_finite(disk(), run.path()), run / "step-00000001");
  EXPECT_EQ(find_newest_finite(disk(), run.path(), 1), std::nullopt);
  const Checkpoint checkpoint = load_checkpoint(run.path().string());
  ::testing::internal::CaptureStderr();
  (void)checkpoint.state("model");
  const std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_THAT(said, AllOf(HasSubstr("step-00000003 holds values that are not finite: model/fc.weight"),
                          HasSubstr("the newest good one before it is " + (run / "step-00000001").string())));
  ::testing::internal::CaptureStderr();
  (void)load_checkpoint((run / "step-00000001").string()).state("model");
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
}

}  // namespace finite_test
}  // namespace lockstep
