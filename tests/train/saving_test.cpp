// SPDX-License-Identifier: Apache-2.0
// Ways of saving, which do not change the result: in a thread, by all ranks, and with a sharded optimizer.
#include <ATen/record_function.h>
#include <gmock/gmock.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <thread>

#include "lockstep/base/error.h"
#include "support/alone.h"
#include "support/http_server.h"
#include "support/run_ranks.h"
#include "support/temp_dir.h"
#include "train/loop/run_saver.h"
#include "train/noisy_task.h"

/// Replaces the C library's fsync to simulate a disk that takes LOCKSTEP_TEST_FSYNC_MS per fsync.
extern "C" int fsync(int fd) {
  static const char* const slow = std::getenv("LOCKSTEP_TEST_FSYNC_MS");
  if (slow != nullptr) std::this_thread::sleep_for(std::chrono::milliseconds(std::atoi(slow)));
  return static_cast<int>(::syscall(SYS_fsync, fd));
}

namespace lockstep {
namespace saving_test {

namespace fs = std::filesystem;
using ::lockstep::test::digest_of;
using ::lockstep::test::NoisyRun;
using ::lockstep::test::TempDir;
using ::lockstep::test::train;
using ::lockstep::testing::alone;
using ::lockstep::testing::current_test;
using ::lockstep::testing::RankProcesses;
using ::lockstep::testing::run_ranks;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

NoisyRun run_with(std::int64_t steps, bool zero, bool sharded) {
  NoisyRun run{.resume = "auto"};
  run.config.max_steps = steps;
  run.config.schedule.type = "none";
  run.config.ema.decay = 0.9;
  run.config.optimizer.zero = zero;
  run.config.checkpoint.sharded = sharded;
  return run;
}

std::string variable(const char* name) { return std::getenv(name) == nullptr ? "" : std::getenv(name); }

/// One leg of a run on `world` processes, each of which writes its part; the environment describes the leg to the
/// ranks.
void run_sharded_leg(const fs::path& folder, int world, std::int64_t steps, bool zero) {
  run_ranks(current_test(),
            [](Job& job) {
              train(job, variable("LOCKSTEP_TEST_RUN"),
                    run_with(std::atoi(variable("LOCKSTEP_TEST_STEPS").c_str()), variable("LOCKSTEP_TEST_ZERO") == "1",
                             true));
            },
            {.world = world,
             .env = {{"LOCKSTEP_TEST_RUN", folder.string()},
                     {"LOCKSTEP_TEST_STEPS", std::to_string(steps)},
                     {"LOCKSTEP_TEST_ZERO", zero ? "1" : "0"}}});
}

std::vector<std::string> files_of(const fs::path& step_folder) { return FileSystem::system().list(step_folder); }

TEST(ShardedSave, GoesOnWithAnyNumberOfRanksToTheDigestOfTheRunThatOneRankSaved) {
  const TempDir folder;
  run_sharded_leg(folder / "run", 3, 4, false);
  EXPECT_THAT(files_of(folder / "run/checkpoints/step-00000004"), Contains("ema.part-3-of-3.safetensors"));
  run_sharded_leg(folder / "run", 2, 7, false);
  EXPECT_THAT(files_of(folder / "run/checkpoints/step-00000007"), Contains("model.part-2-of-2.safetensors"));
  train(alone(), folder / "run", run_with(10, false, false));
  train(alone(), folder / "plain", run_with(10, false, false));
  EXPECT_EQ(digest_of(folder / "run"), digest_of(folder / "plain"));
}

/// Ranks 0 and 1 wait for a save that rank 2 never performs: like them, rank 2 reports its position twice, but then it
/// dies.
void save_with_a_dead_rank(Job& job, bool asynchronous) {
  train::RunSaver saver(job, {.async = asynchronous, .sharded = true}, variable("LOCKSTEP_TEST_RUN"));
  job.barrier();
  if (job.rank() == 2) {
    for (const int done : {1, 0}) job.group().all_reduce(at::full({1}, done, at::kLong), {.op = ReduceOp::kMin}).wait();
    ::kill(::getpid(), SIGKILL);
  }
  StateParts parts;
  parts["model"] = part_of({{"weight", at::full({8}, 1.0)}}, job.rank(), job.world_size());
  saver.save(parts, {.order = {.meta = {.step = 1}}, .last = !asynchronous});
  saver.finish();
}

class DeadRank : public ::testing::TestWithParam<bool> {};

/// The saving threads communicate through the store, which does not detect the death of a rank.
TEST_P(DeadRank, DuringAShardedSaveEndsTheOthersAtOnce) {
  const TempDir folder;
  RankProcesses ranks(
      current_test(), [](Job& job) { save_with_a_dead_rank(job, GetParam()); },
      {.world = 3, .env = {{"LOCKSTEP_TEST_RUN", folder.path().string()}}, .deadline = std::chrono::seconds(30)});
  const auto ends = ranks.wait();
  for (const int rank : {0, 1}) {
    EXPECT_EQ(ends[static_cast<std::size_t>(rank)].code, 75) << ends[static_cast<std::size_t>(rank)].log;
  }
}
INSTANTIATE_TEST_SUITE_P(InAThreadAndNot, DeadRank, ::testing::Bool());

/// Saves by one rank, and sharded saves.
class SlowDisk : public ::testing::TestWithParam<bool> {};

/// A checkpoint takes seven times 0.6 s, and the limit for a collective is 3 s. The first checkpoint is written in the
/// background; the last one is not.
TEST_P(SlowDisk, ThatTakesLongerThanACollectiveMayEndsNoHealthyRun) {
  const TempDir folder;
  run_ranks(current_test(),
            [](Job& job) {
              NoisyRun run;
              run.config.max_steps = 2;
              run.config.eval_every_epochs = 0;
              run.config.checkpoint.sharded = GetParam();
              train(job, variable("LOCKSTEP_TEST_RUN"), run);
            },
            {.world = 2,
             .env = {{"LOCKSTEP_TEST_RUN", (folder / "run").string()},
                     {"LOCKSTEP_TEST_FSYNC_MS", "600"},
                     {"LOCKSTEP_TIMEOUT", "3"}}});
  EXPECT_TRUE(FileSystem::system().exists(folder / "run/summary.json"));
}
INSTANTIATE_TEST_SUITE_P(ByOneRankAndByAll, SlowDisk, ::testing::Bool());

TEST(ShardedSave, InTheMiddleOfAnEpochHasTheBuffersThatOneRankWouldSave) {
  const TempDir folder;
  const auto run = [] {
    NoisyRun plain;
    plain.config.eval_every_epochs = 0;  // an evaluation would make the buffers equal
    return plain;
  };
  run_ranks(current_test(),
            [&](Job& job) {
              NoisyRun sharded = run();
              sharded.config.checkpoint.sharded = true;
              train(job, variable("LOCKSTEP_TEST_RUN"), sharded);
            },
            {.world = 2, .env = {{"LOCKSTEP_TEST_RUN", (folder / "sharded").string()}}});
  train(alone(), folder / "plain", run());
  for (int step = 1; step <= 10; ++step) {
    const std::string name = fmt::format("checkpoints/step-{:08}", step);
    EXPECT_EQ(digest_of(folder / "sharded" / name), digest_of(folder / "plain" / name)) << name;
  }
}

TEST(ShardedSave, OfAShardedOptimizerNeedsNoRankThatHoldsAllOfIt) {
  const TempDir folder;
  run_sharded_leg(folder / "run", 2, 4, true);
  run_sharded_leg(folder / "run", 4, 7, true);
  train(alone(), folder / "run", run_with(10, false, false));
  train(alone(), folder / "plain", run_with(10, false, false));
  EXPECT_EQ(digest_of(folder / "run"), digest_of(folder / "plain"));
}

TEST(AsyncSave, LeavesTheSameCheckpointsAsOneThatTrainingWaitsFor) {
  const TempDir folder;
  for (const bool async : {false, true}) {
    NoisyRun run;
    run.config.checkpoint.async = async;
    run.config.checkpoint.keep_last = 100;
    train(alone(), folder / (async ? "async" : "sync"), run);
  }
  for (int step = 1; step <= 10; ++step) {
    const std::string name = fmt::format("checkpoints/step-{:08}", step);
    EXPECT_EQ(checkpoint_digest(load_checkpoint((folder / "async" / name).string())),
              checkpoint_digest(load_checkpoint((folder / "sync" / name).string())))
        << name;
  }
}

TEST(AsyncSave, AnErrorOfTheWriterEndsTheRun) {
  const TempDir folder;
  NoisyRun run;
  // Replaces the checkpoints folder with a file in the middle of the run.
  run.task.on_forward = [&](std::int64_t number) {
    if (number != 40) return;
    while (fs::exists(folder / "run/checkpoints/.")) {  // the writer may still be writing into it
      std::error_code ignored;
      fs::rename(folder / "run/checkpoints", folder / "gone", ignored);
    }
    std::fclose(std::fopen((folder / "run/checkpoints").c_str(), "w"));
  };
  std::string message;
  try {
    train(alone(), folder / "run", run);
  } catch (const IoError& error) {
    message = error.what();
  }
  EXPECT_THAT(message, ::testing::AnyOf(HasSubstr("is not saved: "), HasSubstr("cannot list ")));
}

/// Delays the threads that write checkpoints.
void slow_down_writers() {
  at::addGlobalCallback(at::RecordFunctionCallback([](const at::RecordFunction& function) {
                          if (std::string_view(function.name()) == "the checkpoint writer")
                            std::this_thread::sleep_for(std::chrono::milliseconds(200));
                          return std::unique_ptr<at::ObserverContext>();
                        }).scopes({at::RecordScope::USER_SCOPE}));
}

/// Runs with a disk that fails in the middle of the run. Returns the error that the run ends with.
std::string end_of_failing_run(Job& job, const fs::path& folder, bool sharded, const std::string& when_busy) {
  NoisyRun run;
  run.config.checkpoint.sharded = sharded;
  run.config.checkpoint.when_busy = when_busy;
  run.config.checkpoint.every_steps = 4;
  run.config.eval_every_epochs = 0;
  run.task.on_forward = [&](std::int64_t number) {
    if (number != 4 || !job.is_main()) return;
    fs::remove_all(folder / "checkpoints");
    std::fclose(std::fopen((folder / "checkpoints").c_str(), "w"));
  };
  try {
    train(job, folder, run);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

/// Parameters: whether the save is sharded, and the rank whose writer is late.
class FailedSave : public ::testing::TestWithParam<std::tuple<bool, int>> {};

TEST_P(FailedSave, InTheBackgroundIsTheErrorOfEveryRankWhicheverHearsOfItFirst) {
  for (const std::string when_busy : {"wait", "skip"}) {
    if (std::get<0>(GetParam()) && when_busy == "skip") continue;  // refused for a sharded save
    const TempDir folder;
    run_ranks(current_test(),
              [](Job& job) {
                const auto [sharded, late] = GetParam();
                if (job.rank() == late) slow_down_writers();
                EXPECT_THAT(end_of_failing_run(job, variable("LOCKSTEP_TEST_RUN"), sharded,
                                               variable("LOCKSTEP_TEST_WHEN_BUSY")),
                            HasSubstr("is not saved: "));
              },
              {.world = 2,
               .env = {{"LOCKSTEP_TEST_RUN", (folder / "run").string()}, {"LOCKSTEP_TEST_WHEN_BUSY", when_busy}}});
  }
}
INSTANTIATE_TEST_SUITE_P(ByRankAndByAll, FailedSave, ::testing::Combine(::testing::Bool(), ::testing::Values(0, 1)));

/// A rank's model, large enough for a save to take a while.
StateParts large_model() {
  StateParts parts;
  parts["model"] = part_of({{"weight", at::full({32 << 20}, 1.0F)}}, 0, 1);
  return parts;
}

class FailedGroup : public ::testing::TestWithParam<bool> {};

TEST_P(FailedGroup, LeavesNoCheckpointOfWhatItMayHaveSpoilt) {
  const TempDir folder;
  Job job = alone();
  train::RunSaver saver(job, {.async = GetParam()}, folder / "checkpoints");
  saver.save(large_model(), {.order = {.meta = {.step = 1}}});
  saver.finish();
  job.group().abort("the communicator was aborted");
  const auto save = [&] {
    saver.save(large_model(), {.order = {.meta = {.step = 2}, .names = {"best"}}});
    saver.finish();
  };
  EXPECT_THROW(save(), PeerError);
  if (GetParam()) {
    EXPECT_THROW(saver.finish(), PeerError) << "of the thread that wrote it";
  }
  EXPECT_THAT(files_of(folder / "checkpoints"), Contains("step-00000001"));
  EXPECT_THAT(files_of(folder / "checkpoints"), Not(Contains(HasSubstr("00000002"))));
}
INSTANTIATE_TEST_SUITE_P(InAThreadAndNot, FailedGroup, ::testing::Bool());

TEST(AsyncSave, IsDroppedAndNotFinishedWhereTheRunEndsWithAnError) {
  const TempDir folder;
  try {
    train::RunSaver saver(alone(), {.async = true}, folder / "checkpoints");
    saver.save(large_model(), {.order = {.meta = {.step = 1}}});
    throw DataError("picture 7 is broken");
  } catch (const DataError&) {
  }
  EXPECT_THAT(files_of(folder / "checkpoints"), Not(Contains(HasSubstr("00000001"))));
}

TEST(StartFromAUrl, GoesOnToTheDigestOfTheUnbrokenRun) {
  const TempDir folder;
  const TempDir cache;
  ::setenv("XDG_CACHE_HOME", cache.path().c_str(), 1);
  train(alone(), folder / "whole");
  test::HttpServer server([&](const std::string& request, std::size_t) {
    const std::string path = request.substr(4, request.find(' ', 4) - 4);
    const fs::path file = folder / "whole/checkpoints" / path.substr(1);
    if (!fs::is_regular_file(file)) return test::http_answer("404 Not Found", "", "");
    return test::http_answer("200 OK", "ETag: \"1\"\r\n", FileSystem::system().read(file));
  });
  const NoisyRun run{.resume = server.url("/step-00000004")};
  EXPECT_EQ(train(alone(), folder / "run", run).steps, 10);
  EXPECT_EQ(digest_of(folder / "run"), digest_of(folder / "whole"));
  EXPECT_FALSE(fs::exists(folder / "run/checkpoints/step-00000004")) << "it is a run of its own";
  ::unsetenv("XDG_CACHE_HOME");
}

TEST(Start, AnErrorOfTheMainRankIsTheSameOnAll) {
  const TempDir folder;
  const bool is_rank = !variable("LOCKSTEP_TEST_RUN").empty();  // only ranks have this variable, with the run's name
  if (!is_rank) train(alone(), folder / "run");
  for (const std::string& name : files_of(folder / "run/checkpoints")) {
    if (name.starts_with("step-")) fs::resize_file(folder / "run/checkpoints" / name / "model.safetensors", 7);
  }
  run_ranks(current_test(),
            [](Job& job) {
              std::string message;
              try {
                train(job, variable("LOCKSTEP_TEST_RUN"), {.resume = "auto"});
              } catch (const DataError& error) {
                message = error.what();
              }
              EXPECT_THAT(message, HasSubstr("passes verification (10 checked); the first: "));
              EXPECT_THAT(message, HasSubstr("model.safetensors is torn: 7 bytes"));
              job.store().set(fmt::format("said/{}", job.rank()), message);
              EXPECT_EQ(job.store().get("said/0", job.timeout()), message);
              job.store().wait({"said/0", "said/1", "said/2"}, job.timeout());
            },
            {.world = 3, .env = {{"LOCKSTEP_TEST_RUN", (folder / "run").string()}}});
}

TEST(Retention, KeepsEveryKthStepBesideTheLast) {
  const TempDir folder;
  NoisyRun run;
  run.config.checkpoint.keep_last = 2;
  run.config.checkpoint.keep_every = 4;
  train(alone(), folder / "run", run);
  EXPECT_THAT(files_of(folder / "run/checkpoints"), Contains("step-00000004"));
  EXPECT_THAT(files_of(folder / "run/checkpoints"), Contains("step-00000008"));
  EXPECT_THAT(files_of(folder / "run/checkpoints"), Contains("step-00000009"));
  EXPECT_THAT(files_of(folder / "run/checkpoints"), Contains("step-00000010"));
  EXPECT_THAT(files_of(folder / "run/checkpoints"), Not(Contains("step-00000007")));
}

}  // namespace saving_test
}  // namespace lockstep
