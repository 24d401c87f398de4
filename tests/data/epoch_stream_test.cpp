// SPDX-License-Identifier: Apache-2.0
#include "data/epoch_stream.h"

#include <gtest/gtest.h>

#include "lockstep/base/error.h"

namespace lockstep::data {
namespace epoch_stream_test {

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

TEST(EpochStream, AnErrorOfTheFeedTakesThePlaceOfItsBatchAndNoOtherWorkerGetsIt) {
  EpochStream stream(std::make_unique<FailingFeed>(1), 0, 4);
  ASSERT_TRUE(stream.take_task().has_value());
  stream.hand_over(0, {});
  EXPECT_FALSE(stream.take_task().has_value()) << "the feed failed";
  EXPECT_FALSE(stream.take_task().has_value()) << "another worker, at once";
  ASSERT_EQ(stream.wait(Seconds(0)), EpochStream::Wait::kReady);
  EXPECT_EQ(stream.take().error, nullptr);
  ASSERT_EQ(stream.wait(Seconds(0)), EpochStream::Wait::kReady);
  EXPECT_THROW(std::rethrow_exception(stream.take().error), DataError);
  EXPECT_EQ(stream.wait(Seconds(0)), EpochStream::Wait::kEnded);
}

}  // namespace epoch_stream_test
}  // namespace lockstep::data
