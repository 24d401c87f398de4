// SPDX-License-Identifier: Apache-2.0
// The errors on the other ranks when one dies, stops, throws, leaves or calls something else; nothing is left behind.
#include <gmock/gmock.h>
#include <signal.h>
#include <unistd.h>

#include <ATen/core/ivalue.h>  // before any other torch header
#include <ATen/ops/ones.h>
#include <filesystem>
#include <map>

#include "comm/core/failure.h"
#include "lockstep/base/error.h"
#include "support/carriers.h"
#include "support/run_ranks.h"

namespace lockstep {
namespace failure_test {

using ::testing::AllOf;
using ::testing::Contains;
using testing::current_test;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using testing::RankEnd;
using testing::RankProcesses;
using ::testing::StartsWith;

/// Reduces in a loop until something ends it. Prints a line once the loop is running.
void reduce_for_ever(Job& job) {
  at::Tensor tensor = job.group().allocate_bucket(1 << 18, at::kFloat);
  for (int step = 0;; ++step) {
    job.group().all_reduce(tensor, {.op = ReduceOp::kMean}).wait();
    if (step == 3) job.print_all("the loop runs");
  }
}

class Failure : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override { SKIP_WITHOUT_UCX(GetParam()); }

  /// shm+...: rank 0 on one host, ranks 1 and 2 on another.
  testing::RanksOptions options(const std::string& timeout) const {
    const bool hosts = GetParam().rfind("shm+", 0) == 0;
    auto variables = testing::backend_variables(GetParam());
    variables["LOCKSTEP_TIMEOUT"] = timeout;
    return {.world = 3,
            .env = variables,
            .by_hand = by_hand_,
            .host_sizes = hosts ? std::vector<int>{1, 2} : std::vector<int>()};
  }
  bool by_hand_ = false;
};

std::vector<std::string> entries(const std::filesystem::path& folder) {
  std::vector<std::string> found;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) found.push_back(entry.path().filename());
  return found;
}

TEST_P(Failure, OfAKilledRankEndsTheOthersAtOnceWithItsNameAndLeavesNothing) {
  by_hand_ = true;
  RankProcesses ranks(current_test(), reduce_for_ever, options("200"));
  ASSERT_TRUE(ranks.wait_for_log(2, "the loop runs"));
  kill(ranks.pid(2), SIGKILL);
  const auto ends = ranks.wait();  // within the deadline, far below the timeout
  EXPECT_EQ(ends[2].code, 128 + SIGKILL);
  for (const int rank : {0, 1}) {
    const RankEnd& end = ends[static_cast<std::size_t>(rank)];
    EXPECT_EQ(end.code, 75) << end.log;
    EXPECT_THAT(end.log, HasSubstr("rank 2 on "));
    EXPECT_THAT(end.log, HasSubstr("all_reduce (operation"));
  }
  EXPECT_THAT(entries(ranks.temporary_folder()), IsEmpty());
  EXPECT_THAT(entries("/dev/shm"), Not(Contains(HasSubstr("lockstep"))));
}

TEST_P(Failure, OfRankZeroIsNamedThoughItServedTheStore) {
  by_hand_ = true;
  RankProcesses ranks(current_test(), reduce_for_ever, options("200"));
  ASSERT_TRUE(ranks.wait_for_log(0, "the loop runs"));
  kill(ranks.pid(0), SIGKILL);
  const auto ends = ranks.wait();
  for (const int rank : {1, 2}) EXPECT_EQ(ends[static_cast<std::size_t>(rank)].code, 75);
  EXPECT_THAT(ends[1].log + ends[2].log, HasSubstr("rank 0 on "));
}

TEST_P(Failure, OfAStoppedRankIsATimeoutThatNamesIt) {
  RankProcesses ranks(current_test(), reduce_for_ever, options("2"));
  ASSERT_TRUE(ranks.wait_for_log(1, "the loop runs"));
  kill(ranks.pid(1), SIGSTOP);
  while (!ranks.wait_for_log(0, "timed out") || !ranks.wait_for_log(2, "timed out")) FAIL() << "no timeout";
  kill(ranks.pid(1), SIGKILL);
  const auto ends = ranks.wait();
  for (const int rank : {0, 2}) {
    const RankEnd& end = ends[static_cast<std::size_t>(rank)];
    EXPECT_EQ(end.code, 76) << end.log;
    EXPECT_THAT(end.log, HasSubstr("all_reduce timed out after 2.0 s (operation"));
    EXPECT_THAT(end.log, HasSubstr("1.0 MB, world 3)"));
    EXPECT_THAT(end.log, HasSubstr("waiting for   rank 1 on"));
  }
}

TEST_P(Failure, OfARankThatThrowsReachesTheOthersWithItsWords) {
  RankProcesses ranks(
      current_test(),
      [](Job& job) {
        job.barrier();
        if (job.rank() == 1) throw DataError("picture 7 is broken");
        reduce_for_ever(job);
      },
      options("200"));
  const auto ends = ranks.wait();
  EXPECT_EQ(ends[1].code, 65) << ends[1].log;
  for (const int rank : {0, 2}) {
    const RankEnd& end = ends[static_cast<std::size_t>(rank)];
    EXPECT_EQ(end.code, 75) << end.log;
    EXPECT_THAT(end.log, HasSubstr("rank 1 on"));
    EXPECT_THAT(end.log, HasSubstr("DataError: picture 7 is broken"));
  }
}

/// The rank stays alive, so no connection breaks.
TEST_P(Failure, OfARankThatAbortsEndsASumInAnyOrderAtOnce) {
  RankProcesses ranks(
      current_test(),
      [](Job& job) {
        job.barrier();
        const std::string key = "over/";
        if (job.rank() == 1) {
          job.group().abort("enough");
          job.store().wait({key + "0", key + "2"}, job.timeout());
          return;
        }
        const at::Tensor tensor = at::ones({1 << 18});
        EXPECT_THROW(job.group().all_reduce(tensor, {.op = ReduceOp::kMean, .exact = false}).wait(), PeerError);
        job.store().set(key + std::to_string(job.rank()), "1");
      },
      options("200"));
  const auto ends = ranks.wait();  // within the deadline, far below the timeout
  for (const RankEnd& end : ends) EXPECT_EQ(end.code, 0) << end.log;
}

TEST_P(Failure, OfDifferentCallsNamesBothSides) {
  RankProcesses ranks(
      current_test(),
      [](Job& job) {
        at::Tensor tensor = at::ones({job.rank() == 2 ? 3 : 2});
        job.group().all_reduce(tensor).wait();
      },
      options("30"));
  const auto ends = ranks.wait();
  for (const RankEnd& end : ends) {
    EXPECT_EQ(end.code, 64) << end.log;
    EXPECT_THAT(end.log, HasSubstr("all_reduce(sum) of 3 float32 on rank 2"));
    EXPECT_THAT(end.log, HasSubstr("all_reduce(sum) of 2 float32 on rank"));
  }
}

TEST_P(Failure, OfASmallSumAndALargeOneNamesBothSides) {
  RankProcesses ranks(
      current_test(),
      [](Job& job) {
        at::Tensor tensor = at::ones({job.rank() == 2 ? 100'000 : 2});
        job.group().all_reduce(tensor).wait();
      },
      options("30"));
  for (const RankEnd& end : ranks.wait()) {
    EXPECT_EQ(end.code, 64) << end.log;
    EXPECT_THAT(end.log, HasSubstr("of 100,000 float32"));
  }
}

TEST_P(Failure, OfARankThatLeftEarlyIsNoHang) {
  RankProcesses ranks(
      current_test(),
      [](Job& job) {
        if (job.rank() != 1) reduce_for_ever(job);
      },
      options("30"));
  const auto ends = ranks.wait();
  EXPECT_EQ(ends[1].code, 0) << ends[1].log;
  EXPECT_EQ(ends[0].code, 75) << ends[0].log;
  EXPECT_EQ(ends[2].code, 75) << ends[2].log;
  EXPECT_THAT(ends[0].log, HasSubstr("rank 1 on"));
}

TEST_P(Failure, BySecondUseRepeatsTheFirstError) {
  RankProcesses ranks(
      current_test(),
      [](Job& job) {
        if (job.rank() == 1) throw DataError("gone");
        at::Tensor tensor = at::ones({2});
        EXPECT_THROW(job.group().all_reduce(tensor).wait(), PeerError);
        Work late = job.group().barrier();
        EXPECT_TRUE(late.is_done());
        EXPECT_THROW(late.wait(), PeerError);
      },
      options("30"));
  const auto ends = ranks.wait();
  EXPECT_EQ(ends[0].code, 0) << ends[0].log;
  EXPECT_EQ(ends[2].code, 0) << ends[2].log;
}

INSTANTIATE_TEST_SUITE_P(On, Failure, ::testing::Values("shm", "tcp", "shm+tcp", "ucx", "shm+ucx"),
                         testing::name_of_backend);

TEST(FailureText, OfALostNodeNamesTheNodeAndNoRankOfIt) {
  const FailureRecord lost{
      .kind = FailureKind::kLost, .type = "PeerError", .message = "node 1 (b, rank 1) is lost", .rank = 1, .host = "b"};
  const comm::World world{.rank = 0, .size = 2, .hosts = {"a", "b"}};
  EXPECT_THAT(comm::failure_text(world, lost, {}),
              AllOf(StartsWith("node 1 (b, rank 1) is lost\n"), Not(HasSubstr("failed"))));
}

TEST(Init, NamesTheRanksThatNeverCame) {
  setenv("RANK", "0", 1);
  setenv("WORLD_SIZE", "3", 1);
  setenv("MASTER_ADDR", "127.0.0.1", 1);
  setenv("MASTER_PORT", std::to_string(testing::free_port()).c_str(), 1);
  try {
    (void)init(0, nullptr, {.timeout = std::chrono::milliseconds(50)});
    ADD_FAILURE() << "a world of three with one rank";
  } catch (const TimeoutError& error) {
    EXPECT_THAT(error.what(), HasSubstr("rank 1, rank 2"));
    EXPECT_THAT(error.what(), HasSubstr("which only this machine can reach")) << "MASTER_ADDR may be wrong";
  }
  for (const char* name : {"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"}) unsetenv(name);
}

TEST(Init, WarnsOfAStoreThatTheOtherHostsCannotReach) {
  const std::map<std::string, std::string> variables = {{"RANK", "0"},
                                                        {"WORLD_SIZE", "2"},
                                                        {"LOCAL_WORLD_SIZE", "1"},
                                                        {"MASTER_ADDR", "127.0.1.1"},
                                                        {"MASTER_PORT", std::to_string(testing::free_port())}};
  for (const auto& [name, value] : variables) setenv(name.c_str(), value.c_str(), 1);
  ::testing::internal::CaptureStderr();
  EXPECT_THROW((void)init(0, nullptr, {.timeout = std::chrono::milliseconds(50)}), TimeoutError);
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              HasSubstr("rank 0 serves the store at 127.0.1.1, a loopback address on this machine"));
  for (const auto& [name, value] : variables) unsetenv(name.c_str());
}

}  // namespace failure_test
}  // namespace lockstep
