// SPDX-License-Identifier: Apache-2.0
// The loader when things go wrong or end early: errors travel to their batch, nothing hangs, no thread is left.
#include <ATen/core/ivalue.h>
#include <ATen/ops/full.h>

#include <atomic>
#include <fstream>
#include <latch>
#include <optional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include "lockstep/base/error.h"
#include "lockstep/data/image_folder.h"
#include "lockstep/data/loader.h"
#include "support/temp_dir.h"

namespace lockstep {
namespace loader_faults_test {

using ::testing::AllOf;
using ::testing::HasSubstr;

namespace fs = std::filesystem;

Sample number(std::int64_t i) { return {at::full({1}, i, at::kLong), {}}; }

std::ptrdiff_t threads_of_this_process() {
  return std::distance(fs::directory_iterator("/proc/self/task"), fs::directory_iterator());
}

TEST(DataLoader, ThrowsAWorkersErrorAtTheBatchItBelongsTo) {
  const auto faulty = make_dataset(20, [](std::int64_t i) {
    if (i == 9) throw DataError("truncated image nine.png");
    return number(i);
  });
  for (const std::int64_t workers : {0, 1, 4}) {
    DataLoader loader(faulty, {.batch_size = 4, .workers = workers});
    auto epoch = loader.epoch(0);
    EXPECT_EQ(epoch.next()->step, 0) << workers;
    EXPECT_EQ(epoch.next()->step, 1) << workers;
    EXPECT_THROW((void)epoch.next(), DataError) << workers;
    EXPECT_EQ(epoch.next()->step, 3) << "the loop may go on after the error";
    EXPECT_EQ(epoch.next()->step, 4) << workers;
    EXPECT_EQ(epoch.next(), nullptr) << workers;
  }
}

TEST(DataLoader, NamesTheTruncatedFileOfAFolder) {
  const test::TempDir folder;
  const fs::path golden = fs::path(LOCKSTEP_TEST_SOURCE_DIR) / "tests/data/golden/rgb.png";
  for (const char* name : {"a.png", "b.png", "c.png"}) fs::copy_file(golden, folder.path() / name);
  fs::resize_file(folder.path() / "b.png", 300);
  DataLoader loader(ImageFolder(folder.path(), {}), {.batch_size = 1, .workers = 2});
  int good = 0;
  try {
    for (const auto& batch : loader.epoch(0)) good += static_cast<int>(batch.size);
    FAIL() << "no error";
  } catch (const DataError& fault) {
    EXPECT_THAT(fault.what(), AllOf(HasSubstr("b.png"), HasSubstr("truncated PNG")));
  }
  EXPECT_EQ(good, 1);
}

TEST(DataLoader, KeepsTheTypeOfForeignErrors) {
  const auto faulty = make_dataset(1, [](std::int64_t) -> Sample { throw std::out_of_range("mine"); });
  DataLoader loader(faulty, {.workers = 1});
  EXPECT_THROW((void)loader.epoch(0).next(), std::out_of_range);
}

TEST(DataLoader, LeavesALoopEarlyAndStartsAgain) {
  DataLoader loader(make_dataset(1000, number), {.batch_size = 2, .workers = 3});
  for (int round = 0; round < 50; ++round) {
    std::int64_t steps = 0;
    for (const auto& batch : loader.epoch(round)) {
      EXPECT_EQ(batch.step, steps);
      EXPECT_EQ(batch.indices.front(), 2 * steps);
      if (++steps == round % 5 + 1) break;
    }
  }
}

TEST(DataLoader, AnOlderEpochEndsWhenAnotherStarts) {
  DataLoader loader(make_dataset(10, number), {.batch_size = 2, .workers = 1});
  auto old = loader.epoch(0);
  EXPECT_EQ(old.next()->step, 0);
  auto fresh = loader.epoch(1);
  EXPECT_THROW((void)old.next(), UsageError);
  { const auto gone = std::move(old); }
  EXPECT_EQ(fresh.next()->step, 0) << "the end of the old one does not end the new one";
}

TEST(DataLoader, EndsItsThreadsWhileBatchesWait) {
  const std::ptrdiff_t before = threads_of_this_process();
  {
    DataLoader loader(make_dataset(1000, number), {.batch_size = 2, .workers = 4, .prefetch_factor = 3});
    auto epoch = loader.epoch(0);
    EXPECT_NE(epoch.next(), nullptr);
    EXPECT_EQ(threads_of_this_process(), before + 4);
  }
  EXPECT_EQ(threads_of_this_process(), before);
}

TEST(DataLoader, EndsAfterTheSampleThatIsBeingLoaded) {
  std::latch entered(1);
  std::latch leave(1);
  std::atomic<int> loaded{0};
  const auto slow = make_dataset(100, [&](std::int64_t i) {
    ++loaded;
    entered.count_down(i == 0 ? 1 : 0);
    leave.wait();
    return number(i);
  });
  {
    std::optional<DataLoader> loader;
    loader.emplace(slow, DataLoaderOptions{.batch_size = 50, .workers = 1});
    {
      auto epoch = loader->epoch(0);
      entered.wait();
    }
    leave.count_down();
  }
  EXPECT_EQ(loaded.load(), 1) << "the rest of a cancelled batch is not loaded";
}

TEST(DataLoader, NeverRunsFurtherAheadThanItsPrefetch) {
  std::atomic<std::int64_t> highest{0};
  const auto watched = make_dataset(200, [&](std::int64_t i) {
    std::int64_t seen = highest.load();
    while (i > seen && !highest.compare_exchange_weak(seen, i)) {
    }
    return number(i);
  });
  DataLoader loader(watched, {.batch_size = 1, .workers = 2, .prefetch_factor = 3});
  for (const auto& batch : loader.epoch(0)) EXPECT_LE(highest.load(), batch.step + 6);
}

TEST(DataLoader, TellsHowSamplesDoNotStack) {
  const auto ragged = make_dataset(3, [](std::int64_t i) { return Sample{at::full({i + 1}, 0.0), {}}; });
  DataLoader loader(ragged, {.batch_size = 3});
  try {
    (void)loader.epoch(0).next();
    FAIL() << "no error";
  } catch (const DataError& fault) {
    EXPECT_THAT(fault.what(), AllOf(HasSubstr("Float [1]"), HasSubstr("Float [2]"), HasSubstr("collate")));
  }
}

TEST(DataLoader, RefusesOptionsOutOfRange) {
  const auto set = make_dataset(3, number);
  EXPECT_THROW(DataLoader(set, {.batch_size = 0}), UsageError);
  EXPECT_THROW(DataLoader(set, {.workers = -1}), UsageError);
  EXPECT_THROW(DataLoader(set, {.prefetch_factor = 0}), UsageError);
  EXPECT_THROW(DataLoader(set, {.shard = {3, 3}}), UsageError);
  EXPECT_THROW(DataLoader(std::shared_ptr<Dataset>()), UsageError);
  EXPECT_THROW((void)make_dataset(-1, number), UsageError);
}

}  // namespace loader_faults_test
}  // namespace lockstep
