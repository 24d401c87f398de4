// SPDX-License-Identifier: Apache-2.0
// A child program that replies line by line.
#include "lockstep/launch/child.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace child_test {

constexpr auto kLimit = std::chrono::seconds(20);

TEST(AnsweringChild, AnswersEachLineWithOne) {
  AnsweringChild child({"sh", "-c", "while read line; do echo \"heard $line\"; done"});
  child.ask("one");
  EXPECT_EQ(child.answer(kLimit), "heard one");
  child.ask("two");
  child.ask("three");
  EXPECT_EQ(child.answer(kLimit), "heard two");
  EXPECT_EQ(child.answer(kLimit), "heard three");
}

TEST(AnsweringChild, ThatEndsHasNoAnswerButItsLastError) {
  AnsweringChild child({"sh", "-c", "echo last words; echo first >&2; echo why >&2; exit 3"});
  EXPECT_EQ(child.answer(kLimit), "last words");
  EXPECT_EQ(child.answer(kLimit), std::nullopt);
  EXPECT_EQ(child.last_error(), "why");
  child.ask("is anybody there");
  EXPECT_EQ(child.answer(kLimit), std::nullopt);
}

TEST(AnsweringChild, ThatSaysNothingHasNoAnswerAtTheLimit) {
  AnsweringChild child({"cat"});
  EXPECT_EQ(child.answer(std::chrono::milliseconds(20)), std::nullopt);
  child.ask("late");
  EXPECT_EQ(child.answer(kLimit), "late");
}

}  // namespace child_test
}  // namespace lockstep
