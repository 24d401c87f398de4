// SPDX-License-Identifier: Apache-2.0
#include "data/pass.h"

#include <gtest/gtest.h>

#include "lockstep/base/error.h"

namespace lockstep::data {
namespace pass_test {

/// A stream that fails at one step and would go on if it were asked again.
class FailingFeed final : public Feed {
 public:
  explicit FailingFeed(std::int64_t fails_at) : fails_at_(fails_at) {}
  std::optional<BatchTask> next() override {
    if (step_ == fails_at_) {
      ++step_;
      throw DataError("the stream broke");
    }
    return BatchTask{.epoch = 0, .step = step_++, .indices = {}, .makers = {}};
  }

 private:
  std::int64_t fails_at_;
  std::int64_t step_ = 0;
};

TEST(Pass, AnErrorOfTheFeedTakesThePlaceOfItsBatchAndNoOtherWorkerGetsIt) {
  Pass pass(std::make_unique<FailingFeed>(1), 0, 4);
  ASSERT_TRUE(pass.take_task().has_value());
  pass.hand_over(0, {});
  EXPECT_FALSE(pass.take_task().has_value()) << "the feed failed";
  EXPECT_FALSE(pass.take_task().has_value()) << "another worker, at once";
  ASSERT_EQ(pass.wait(Seconds(0)), Pass::Wait::kReady);
  EXPECT_EQ(pass.take().error, nullptr);
  ASSERT_EQ(pass.wait(Seconds(0)), Pass::Wait::kReady);
  EXPECT_THROW(std::rethrow_exception(pass.take().error), DataError);
  EXPECT_EQ(pass.wait(Seconds(0)), Pass::Wait::kEnded);
}

}  // namespace pass_test
}  // namespace lockstep::data
