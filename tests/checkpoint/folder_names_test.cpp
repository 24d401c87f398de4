// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/formats/folder_names.h"

#include <gtest/gtest.h>

namespace lockstep::checkpoint {
namespace folder_names_test {

TEST(FolderNames, AreReadAsTheyAreMade) {
  for (const std::int64_t step : {std::int64_t{0}, std::int64_t{1200}, std::int64_t{99'999'999}, INT64_MAX}) {
    EXPECT_EQ(parse_step_name(step_name(step))->step, step);
    EXPECT_EQ(parse_step_name(bad_name(step, 3))->step, step);
    EXPECT_EQ(parse_step_name(bad_name(step, 3))->bad, 3);
  }
  EXPECT_EQ(step_name(1200), "step-00001200");
  EXPECT_EQ(parse_temporary_pid(temporary_name("step-00001200", 4711)), 4711);
  EXPECT_EQ(parse_temporary_pid("best.tmp-4711"), 4711);
}

TEST(FolderNames, OthersAreNotTakenForStepFolders) {
  for (const char* name : {"", "step-", "step", "step--1", "step-12x", "step-1.bad-", "step-1.bad-0", "step-1.old",
                           "step-99999999999999999999", ".tmp-step-00000001-5", "best", "step-1 "}) {
    EXPECT_FALSE(parse_step_name(name).has_value()) << name;
  }
  for (const char* name : {"best", "step-00000001", ".tmp-", ".tmp-x-99999999999", "tmp-4711"}) {
    EXPECT_FALSE(parse_temporary_pid(name).has_value()) << name;
  }
}

TEST(FolderNames, PlainWordsStayInTheirFolder) {
  EXPECT_TRUE(is_plain_word("best_stg1"));
  EXPECT_TRUE(is_plain_file_name("model.safetensors"));
  for (const char* name : {"", ".", "..", "a/b", ".hidden", "a\n"}) {
    EXPECT_FALSE(is_plain_word(name)) << name;
    EXPECT_FALSE(is_plain_file_name(name)) << name;
  }
  EXPECT_FALSE(is_plain_word("step-1"));
  EXPECT_FALSE(is_plain_word("best.tmp-1"));
}

}  // namespace folder_names_test
}  // namespace lockstep::checkpoint
