// SPDX-License-Identifier: Apache-2.0
// MixUp and CutMix as the last step of a transform and as a collate function.
#include "lockstep/data/augment/mix.h"

#include <ATen/ops/full.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include "lockstep/base/error.h"

namespace lockstep {
namespace mix_test {

template <class Mix>
std::vector<Sample> samples(const Mix& mix, std::uint64_t seed) {
  std::vector<Sample> made;
  for (std::int64_t i = 0; i < 4; ++i) {
    Sample sample{at::full({1, 8, 8}, static_cast<double>(i)), at::full({}, i, c10::ScalarType::Long), {}};
    SampleRandom random(seed, 0, static_cast<std::uint64_t>(i));
    mix(sample, random);
    made.push_back(std::move(sample));
  }
  return made;
}

TEST(MixUp, BlendsEachSampleAndItsTargetWithItsNeighbour) {
  const MixUp mix{.classes = 4, .alpha = 1.0};
  const Batch batch = mix(samples(mix, 5));
  const float share = batch.target[2][2].item<float>();
  EXPECT_GT(share, 0.0F);
  EXPECT_LT(share, 1.0F);
  EXPECT_NEAR(batch.target[2][1].item<float>(), 1 - share, 1e-6);
  EXPECT_FLOAT_EQ(batch.data[2][0][0][0].item<float>(), 2 * share + 1 * (1 - share));
  EXPECT_NEAR(batch.data[0][0][0][0].item<float>(), 3 * (1 - share), 1e-6);
}

TEST(MixUp, DrawsItsShareFromBeta) {
  double sum = 0;
  double squares = 0;
  constexpr int kBatches = 2000;
  const MixUp mix{.classes = 4, .alpha = 0.4};
  for (std::uint64_t seed = 0; seed < kBatches; ++seed) {
    const double share = mix(samples(mix, seed)).target[2][2].item<float>();
    sum += share;
    squares += share * share;
  }
  const double mean = sum / kBatches;
  EXPECT_NEAR(mean, 0.5, 0.03);
  EXPECT_NEAR(squares / kBatches - mean * mean, 1 / (4 * (2 * 0.4 + 1)), 0.015);
}

TEST(CutMix, PutsARectangleOfTheNeighbourIn) {
  const CutMix mix{.classes = 4};
  const Batch batch = mix(samples(mix, 1));
  const float share = batch.target[3][3].item<float>();
  std::int64_t own = 0;
  for (std::int64_t i = 0; i < 64; ++i) {
    const float value = batch.data.data_ptr<float>()[3 * 64 + i];
    EXPECT_TRUE(value == 3.0F || value == 2.0F);
    own += value == 3.0F ? 1 : 0;
  }
  EXPECT_FLOAT_EQ(share, static_cast<float>(own) / 64);
  EXPECT_FLOAT_EQ(batch.target[3][2].item<float>(), 1 - share);
  EXPECT_LT(own, 64);
}

TEST(MixUp, ThatIsNotToMixStillGivesSoftTargets) {
  const MixUp mix{.classes = 5, .p = 0};
  const Batch batch = mix(samples(mix, 1));
  EXPECT_EQ(batch.target[3][3].item<float>(), 1.0F);
  EXPECT_EQ(batch.data[3][0][0][0].item<float>(), 3.0F);
}

TEST(MixUp, SaysWhatIsMissing) {
  const MixUp mix{.classes = 4};
  std::vector<Sample> undrawn = samples(mix, 1);
  for (Sample& sample : undrawn) sample.extra.reset();
  EXPECT_THROW((void)mix(undrawn), UsageError);
  const MixUp few{.classes = 3};
  EXPECT_THROW((void)few(samples(few, 1)), DataError);
}

}  // namespace mix_test
}  // namespace lockstep
