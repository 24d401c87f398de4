// SPDX-License-Identifier: Apache-2.0
// Weak labels as a person makes them: a drawn set, then scribbles, pseudo-labels and distance maps of its masks, step
// by step and at once.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "apps/command.h"
#include "support/temp_dir.h"

namespace lockstep::test {
namespace weak_labels_command_test {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;

class WeakLabelsCommand : public ::testing::Test {
 protected:
  ProcessResult generate(std::vector<std::string> words) {
    words.insert(words.begin(), "generate");
    return lockstep(std::move(words), home_.path());
  }
  TempDir home_;
};

TEST_F(WeakLabelsCommand, MakesEachMapOfTheOneBefore) {
  const ProcessResult drawn =
      generate({"segmentation", "--out", "set", "--count", "5", "--seed", "1", "--size", "40-64"});
  ASSERT_EQ(drawn.code, 0) << drawn.err;
  EXPECT_THAT(drawn.out, HasSubstr("5 images in set: 4 to train, 1 to validate"));
  const ProcessResult scribbles =
      generate({"scribbles", "--masks", "set/SegmentationClassAug", "--out", "scribbles", "--seed", "1"});
  EXPECT_THAT(scribbles.out, AllOf(HasSubstr("5 maps of scribbles in scribbles"), HasSubstr("% of the pixels")));
  const ProcessResult pseudo =
      generate({"pseudo-labels", "--images", "set/JPEGImages", "--scribbles", "scribbles", "--out", "pseudo"});
  EXPECT_THAT(pseudo.out, HasSubstr("5 maps of pseudo-labels in pseudo")) << pseudo.err;
  const ProcessResult coarse = generate(
      {"pseudo-labels", "--method", "coarse", "--masks", "set/SegmentationClassAug", "--cell", "4", "--out", "coarse"});
  EXPECT_EQ(coarse.code, 0) << coarse.err;
  EXPECT_EQ(generate({"distance-maps", "--scribbles", "scribbles", "--out", "near"}).code, 0);
  const ProcessResult borders =
      generate({"distance-maps", "--pseudo-labels", "pseudo", "--lambda", "7.4", "--out", "borders"});
  EXPECT_THAT(borders.out, HasSubstr("5 distance maps in borders")) << borders.err;
  EXPECT_TRUE(fs::exists(home_ / "borders/000004.png"));
  const ProcessResult at_once = generate({"weak-labels", "--from", "set", "--out", "weak", "--seed", "1"});
  EXPECT_THAT(at_once.out, AllOf(HasSubstr("train: 4 images"), HasSubstr("val: 1 images"), HasSubstr("mean IoU 0.")))
      << at_once.err;
}

TEST_F(WeakLabelsCommand, NeverWritesIntoAFullFolder) {
  ASSERT_EQ(generate({"segmentation", "--out", "set", "--count", "2", "--seed", "1", "--size", "40"}).code, 0);
  for (const std::string verb : {"weak-labels", "scribbles"}) {
    const std::string from = verb == "scribbles" ? "--masks" : "--from";
    const std::string source = verb == "scribbles" ? "set/SegmentationClassAug" : "set";
    const ProcessResult again = generate({verb, from, source, "--out", "set", "--seed", "1"});
    EXPECT_EQ(again.code, 64);
    EXPECT_THAT(again.err, HasSubstr("folder set is not empty"));
  }
}

TEST_F(WeakLabelsCommand, SaysWhatIsMissing) {
  const ProcessResult no_folder = generate({"weak-labels", "--from", "nowhere", "--out", "weak", "--seed", "1"});
  EXPECT_EQ(no_folder.code, 65);
  EXPECT_THAT(no_folder.err, HasSubstr("data set nowhere does not exist"));
  const ProcessResult no_images = generate({"pseudo-labels", "--scribbles", "x", "--out", "y"});
  EXPECT_EQ(no_images.code, 64);
  EXPECT_THAT(no_images.err, HasSubstr("--images and --scribbles"));
  const ProcessResult flat = generate({"distance-maps", "--scribbles", "x", "--lambda", "0", "--out", "z"});
  EXPECT_EQ(flat.code, 64);
  EXPECT_THAT(flat.err, HasSubstr("lambda is 0, must be above 0"));
  const ProcessResult no_training =
      generate({"segmentation", "--out", "z", "--count", "2", "--seed", "1", "--val-share", "0.9"});
  EXPECT_EQ(no_training.code, 64);
  EXPECT_THAT(no_training.err, HasSubstr("leaves none to train"));
  const ProcessResult both = generate({"distance-maps", "--scribbles", "x", "--pseudo-labels", "y", "--out", "z"});
  EXPECT_EQ(both.code, 64);
  EXPECT_THAT(both.err, HasSubstr("either"));
}

TEST_F(WeakLabelsCommand, HasHelpWithAnExampleForEachVerb) {
  for (const std::string verb : {"segmentation", "scribbles", "pseudo-labels", "distance-maps", "weak-labels"}) {
    const ProcessResult help = generate({verb, "--help"});
    EXPECT_EQ(help.code, 0) << verb;
    EXPECT_THAT(help.out, HasSubstr("  lockstep generate " + verb + " --")) << verb;
  }
}

}  // namespace weak_labels_command_test
}  // namespace lockstep::test
