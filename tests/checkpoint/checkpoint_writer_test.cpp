// SPDX-License-Identifier: Apache-2.0
// One call a save: committed, then named, then pruned.
#include "lockstep/checkpoint/checkpoint_writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "checkpoint/states.h"
#include "lockstep/base/error.h"
#include "support/temp_dir.h"

namespace lockstep {
namespace checkpoint_writer_test {

using test::TempDir;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::Not;

StateParts parts_of(std::int64_t seed) {
  StateParts parts;
  for (const auto& [name, state] : test::states_of(seed)) parts[name].entries = state;
  return parts;
}

std::vector<std::string> files_of(const std::filesystem::path& folder) { return FileSystem::system().list(folder); }

TEST(CheckpointWriter, CommitsNamesAndPrunesInOneCall) {
  const TempDir run;
  CheckpointWriter writer(FileSystem::system(), {.folder = run.path(), .retention = {.keep_last = 1}});
  writer.save(parts_of(1), {.meta = {.step = 1}, .names = {"best"}});
  writer.save(parts_of(2), {.meta = {.step = 2}});
  writer.save(parts_of(3), {.meta = {.step = 3}});
  EXPECT_THAT(files_of(run.path()), ElementsAre("best", "step-00000001", "step-00000003"));
  EXPECT_EQ(writer.newest(), run / "step-00000003");
}

TEST(CheckpointWriter, TellsEachDurableCheckpointOnce) {
  const TempDir run;
  CheckpointWriter writer(FileSystem::system(), {.folder = run.path(), .background = true});
  writer.save_in_background(parts_of(1), {.meta = {.step = 1}, .names = {"best"}});
  writer.wait();
  const auto saved = writer.take_saved();
  ASSERT_EQ(saved.size(), 1U);
  EXPECT_EQ(saved.front().path, run / "step-00000001");
  EXPECT_THAT(saved.front().names, ElementsAre("best"));
  EXPECT_TRUE(writer.take_saved().empty());
}

TEST(CheckpointWriter, GivesTheNewestAFurtherName) {
  const TempDir run;
  CheckpointWriter writer(FileSystem::system(), {.folder = run.path()});
  writer.save(parts_of(1), {.meta = {.step = 1}});
  writer.name_newest({"best_stg1"});
  EXPECT_EQ(find_named_checkpoint(FileSystem::system(), run.path(), "best_stg1"), run / "step-00000001");
}

/// What a run wrote is its disk's business, never its data's: a caller that saves elsewhere waits for IoError.
TEST(CheckpointWriter, CallsACheckpointThatVanishedADiskError) {
  const TempDir run;
  CheckpointWriter writer(FileSystem::system(), {.folder = run / "checkpoints"});
  writer.save(parts_of(1), {.meta = {.step = 1}});
  std::filesystem::remove_all(run / "checkpoints");
  EXPECT_THROW(writer.name_newest({"best"}), IoError);
}

TEST(CheckpointWriter, NamesNothingThatItsCheckForbids) {
  const TempDir run;
  CheckpointWriter writer(FileSystem::system(),
                          {.folder = run.path(), .check = [] { throw PeerError("rank 1 is gone"); }});
  EXPECT_THROW(writer.save(parts_of(1), {.meta = {.step = 1}, .names = {"best"}}), PeerError);
  EXPECT_TRUE(files_of(run.path()).empty());
}

TEST(CheckpointWriter, ThrowsWhatWentWrongInTheBackgroundAtTheNextCheck) {
  const TempDir run;
  CheckpointWriter writer(FileSystem::system(), {.folder = run.path(), .background = true, .check = [] {
                                                   throw PeerError("rank 1 is gone");
                                                 }});
  writer.save_in_background(parts_of(1), {.meta = {.step = 1}});
  EXPECT_THROW(writer.wait(), PeerError);
  writer.check();
}

TEST(CheckpointWriter, DropsWhatHasNoNameYetOnceItIsGivenUp) {
  const TempDir run;
  CheckpointWriter writer(FileSystem::system(), {.folder = run.path()});
  writer.give_up();
  EXPECT_THROW(writer.save(parts_of(1), {.meta = {.step = 1}}), PeerError);
  EXPECT_TRUE(files_of(run.path()).empty());
}

TEST(CheckpointWriter, WithoutAThreadRefusesToSaveInTheBackground) {
  const TempDir run;
  CheckpointWriter writer(FileSystem::system(), {.folder = run.path()});
  EXPECT_THROW(writer.save_in_background(parts_of(1), {.meta = {.step = 1}}), UsageError);
  EXPECT_THAT(files_of(run.path()), Not(Contains("step-00000001")));
}

}  // namespace checkpoint_writer_test
}  // namespace lockstep
