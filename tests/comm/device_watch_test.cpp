// SPDX-License-Identifier: Apache-2.0
// Verdicts on device collectives: the test calls look() at chosen times.
#include "comm/core/device_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"

namespace lockstep::comm {
namespace device_watch_test {

using std::chrono::seconds;
using ::testing::HasSubstr;
using ::testing::Not;

struct FakeEvent final : DeviceEvent {
  void hold_stream() override {}
  bool is_done() override {
    if (!fault.empty()) throw std::runtime_error(fault);
    return done;
  }
  bool done = false;
  std::string fault;  ///< a fault of the device; once set, the device is lost
};

struct FakeMeeting final : Operation {
  void wait() override {
    if (error) std::rethrow_exception(error);
  }
  bool is_done() const noexcept override { return done; }
  bool done = false;
  std::exception_ptr error;
};

class DeviceWatchTest : public ::testing::Test {
 protected:
  DeviceWatch::Hooks hooks() {
    return {
        .problem = [this] { return problem; },
        .check_group =
            [this](const Collective&) {
              if (group_failed || ++asked == asked_before_death) throw PeerError("rank 1 died");
            },
        .failed =
            [this](const std::exception_ptr&) {
              ++failures;
              stored_first = watch.failure() != nullptr;
            },
        .on_long_wait = [this](const Collective& each, bool ends) { waits.emplace_back(each.call.sequence, ends); }};
  }

  /// Enqueues an all_reduce at second 0 with a limit of 30 seconds.
  std::shared_ptr<FakeEvent> enqueue(std::shared_ptr<FakeMeeting> meeting = nullptr) {
    auto event = std::make_shared<FakeEvent>();
    Collective collective;
    collective.call.kind = Kind::kAllReduce;
    collective.call.sequence = 418;
    collective.timeout = seconds(30);
    collective.deadline = at(30);
    watch.add({.event = event, .meeting = std::move(meeting), .collective = collective, .tensors = {}});
    return event;
  }

  static DeviceWatch::Time at(int second) { return DeviceWatch::Time(seconds(second)); }

  template <class Error>
  std::string failure() {
    try {
      if (watch.failure()) std::rethrow_exception(watch.failure());
      return "no failure";
    } catch (const Error& error) {
      return error.what();
    }
  }

  std::optional<std::string> problem;
  bool group_failed = false;
  int asked = 0;
  int asked_before_death = -1;
  int failures = 0;
  std::vector<std::pair<std::uint64_t, bool>> waits;  ///< the collective; true if it completed
  bool stored_first = false;                          ///< true if the failure was stored when the hook ran
  DeviceWatch watch{World{.rank = 3, .size = 4, .hosts = {"a", "a", "b", "b"}}, hooks()};
};

TEST_F(DeviceWatchTest, ForgetsWhatIsDoneAndKeepsWhatIsNot) {
  const auto first = enqueue();
  const auto second = enqueue();
  EXPECT_EQ(watch.look(at(1)), 2U);
  first->done = true;
  EXPECT_EQ(watch.look(at(2)), 1U);
  second->done = true;
  EXPECT_EQ(watch.look(at(100)), 0U);
  EXPECT_EQ(watch.failure(), nullptr);
}

/// The launcher uses these notes to find out which rank a rank on another host is waiting for.
TEST_F(DeviceWatchTest, ALongWaitIsNotedOnceAndSoIsItsEnd) {
  using ::testing::ElementsAre;
  using ::testing::Pair;
  const auto short_one = enqueue();
  short_one->done = true;
  (void)watch.look(at(5));
  EXPECT_TRUE(waits.empty());
  const auto long_one = enqueue();
  (void)watch.look(at(0));
  EXPECT_TRUE(waits.empty());
  (void)watch.look(at(1));
  (void)watch.look(at(2));
  EXPECT_THAT(waits, ElementsAre(Pair(418, false)));
  long_one->done = true;
  (void)watch.look(at(3));
  EXPECT_THAT(waits, ElementsAre(Pair(418, false), Pair(418, true)));
}

TEST_F(DeviceWatchTest, AnOperationThatAllRanksReachedAndThatNeverEndsPointsToTheGpusThemselves) {
  const auto meeting = std::make_shared<FakeMeeting>();
  meeting->done = true;
  (void)enqueue(meeting);
  (void)watch.look(at(29));
  EXPECT_EQ(failures, 0);
  (void)watch.look(at(31));
  EXPECT_EQ(failures, 1);
  EXPECT_THAT(failure<TimeoutError>(), HasSubstr("all_reduce timed out on the GPU after 30.0 s (operation 418"));
  EXPECT_THAT(failure<TimeoutError>(), HasSubstr("NCCL_P2P_DISABLE=1"));
}

TEST_F(DeviceWatchTest, WhomAnOperationWaitsForIsLeftToTheMeetingToSay) {
  const auto meeting = std::make_shared<FakeMeeting>();
  (void)enqueue(meeting);
  (void)watch.look(at(31));
  EXPECT_EQ(failures, 0);
  meeting->done = true;
  meeting->error = std::make_exception_ptr(TimeoutError("waiting for rank 2"));
  (void)watch.look(at(32));
  EXPECT_EQ(failures, 1);
  EXPECT_THAT(failure<TimeoutError>(), HasSubstr("waiting for rank 2"));
}

TEST_F(DeviceWatchTest, APeerThatDiesAfterTheMeetingIsNamedAtOnce) {
  const auto meeting = std::make_shared<FakeMeeting>();
  meeting->done = true;
  (void)enqueue(meeting);
  group_failed = true;
  (void)watch.look(at(1));
  EXPECT_THAT(failure<PeerError>(), HasSubstr("rank 1 died"));
}

TEST_F(DeviceWatchTest, ADeadPeerIsNoMatterForWhatIsDone) {
  enqueue()->done = true;
  group_failed = true;
  EXPECT_EQ(watch.look(at(1)), 0U);
  EXPECT_EQ(failures, 0);
}

TEST_F(DeviceWatchTest, AnErrorOfTheTransportComesWithCauseAndRemedyEvenWhereTheOperationSeemsDone) {
  enqueue()->done = true;
  problem = "unhandled system error Connect to 172.17.0.1<45763> failed";
  (void)watch.look(at(1));
  EXPECT_THAT(failure<ResourceError>(), HasSubstr("could not be reached at the address that NCCL chose"));
  EXPECT_THAT(failure<ResourceError>(), HasSubstr("NCCL_SOCKET_IFNAME"));
}

TEST_F(DeviceWatchTest, ADeathThatTheTransportNoticesBeforeTheHostsIsStillNamed) {
  DeviceWatch::Hooks patient = hooks();
  patient.naming = seconds(60);
  DeviceWatch other(World{.rank = 3, .size = 4}, patient);
  problem = "remote process exited or there was a network error";
  asked_before_death = 3;
  other.add({.event = std::make_shared<FakeEvent>(), .meeting = nullptr, .collective = {}, .tensors = {}});
  EXPECT_THROW(other.check(at(1)), PeerError);
  EXPECT_EQ(asked, 3);
}

TEST_F(DeviceWatchTest, ALostConnectionOfWhichTheHostsKnowNothingIsACauseOfItsOwn) {
  (void)enqueue();
  problem = "remote process exited or there was a network error";
  (void)watch.look(at(1));
  EXPECT_THAT(failure<ResourceError>(), HasSubstr("NCCL lost its connection to another rank"));
  EXPECT_THAT(failure<ResourceError>(), HasSubstr("next  NCCL_DEBUG=INFO names the connection"));
  EXPECT_THAT(failure<ResourceError>(), Not(HasSubstr("only follows")));
}

TEST_F(DeviceWatchTest, OnlyTheFirstFailureCounts) {
  (void)enqueue();
  problem = "unhandled cuda error";
  (void)watch.look(at(1));
  (void)watch.look(at(40));
  EXPECT_EQ(failures, 1);
}

TEST_F(DeviceWatchTest, TheFailureIsKnownBeforeAnythingIsEnded) {
  (void)enqueue();
  problem = "unhandled cuda error";
  (void)watch.look(at(1));
  EXPECT_EQ(failures, 1);
  EXPECT_TRUE(stored_first) << "a rank that reads the unfinished result must find the failure";
}

TEST_F(DeviceWatchTest, AnErrorOfTheTransportBetweenTwoLooksIsFoundThoughTheOperationIsDoneByThen) {
  const auto event = enqueue();
  EXPECT_NO_THROW(watch.check(at(1)));
  event->done = true;  // the transport aborted it before it finished
  problem = "unhandled cuda error";
  EXPECT_THROW(watch.check(at(2)), ResourceError);
  EXPECT_THROW(watch.check(at(3)), ResourceError) << "and for ever after";
}

TEST_F(DeviceWatchTest, ADeviceThatFailedIsAVerdictThatNamesRankStepOperationAndError) {
  fault::note_step(13);
  const auto event = enqueue();
  fault::note_step(-1);
  (void)enqueue();
  event->fault = "CUDA error: an illegal memory access was encountered";
  EXPECT_EQ(watch.look(at(1)), 0U) << "nothing of it can be asked again";
  EXPECT_EQ(failures, 1);
  EXPECT_THAT(failure<ResourceError>(), HasSubstr("the GPU of rank 3 on b failed while all_reduce was under way"));
  EXPECT_THAT(failure<ResourceError>(), HasSubstr("(step 13, operation 418"));
  EXPECT_THAT(failure<ResourceError>(), HasSubstr("an illegal memory access was encountered"));
  EXPECT_THAT(failure<ResourceError>(), HasSubstr("CUDA_LAUNCH_BLOCKING=1"));
}

}  // namespace device_watch_test
}  // namespace lockstep::comm
