// SPDX-License-Identifier: Apache-2.0
// The commit protocol against disks that fail: after any failure, committed checkpoints still load.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <map>

#include "checkpoint/faulty_file_system.h"
#include "checkpoint/formats/folder_names.h"
#include "checkpoint/save/staging.h"
#include "checkpoint/states.h"
#include "lockstep/base/error.h"
#include "lockstep/checkpoint/inspect.h"
#include "support/temp_dir.h"

namespace lockstep {
namespace commit_test {

namespace fs = std::filesystem;
using test::FaultyFileSystem;
using test::is_of;
using test::states_of;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

FileSystem& good() { return FileSystem::system(); }

fs::path commit(FileSystem& files, const fs::path& folder, std::int64_t step, std::int64_t seed) {
  return commit_checkpoint(files, folder, {.step = step, .replicas = 2, .threads = 1, .configuration_hash = "abc"},
                           states_of(seed));
}

/// Without fsync: the real disk is not under test.
fs::path quick_commit(const fs::path& folder, std::int64_t step, std::int64_t seed) {
  FaultyFileSystem files(-1, FaultyFileSystem::Fault::kOnce);
  return commit(files, folder, step, seed);
}

void expect_no_torn_folder(const fs::path& folder) {
  for (const std::string& name : good().list(folder)) {
    if (!checkpoint::parse_step_name(name)) continue;
    const VerifyReport report = verify_checkpoint(good(), folder / name);
    EXPECT_TRUE(report.ok()) << report.problem();
  }
}

/// A kind of fault, and what the disk loses because of it.
struct FaultMode {
  const char* name;
  FaultyFileSystem::Fault fault;
  void (*lose)(FaultyFileSystem&);
};

constexpr FaultMode kFaultModes[] = {
    {"once", FaultyFileSystem::Fault::kOnce, [](FaultyFileSystem&) {}},
    {"for good", FaultyFileSystem::Fault::kForGood, [](FaultyFileSystem&) {}},
    {"for good, and unsynced data is lost", FaultyFileSystem::Fault::kForGood,
     [](FaultyFileSystem& files) { files.drop_unsynced(); }},
    {"for good, and unsynced names are lost", FaultyFileSystem::Fault::kForGood, [](FaultyFileSystem& files) {
       files.drop_unsynced();
       files.forget_unsynced_names();
     }}};

/// Runs `action` with the first, the second, ... operation failing, until a run completes without a fault; `check` sees
/// each outcome. Every fault is tested as an error of one operation, as the process's death, and as a power cut.
/// `prepare` fills a fresh folder.
void with_every_fault(const std::function<void(const fs::path&)>& prepare,
                      const std::function<void(FileSystem&, const fs::path&)>& action,
                      const std::function<void(const fs::path&, bool threw)>& check) {
  for (const FaultMode& mode : kFaultModes) {
    for (std::int64_t n = 0;; ++n) {
      SCOPED_TRACE(fmt::format("verb {} fails {}", n, mode.name));
      const test::TempDir run;
      prepare(run / "checkpoints");
      FaultyFileSystem files(n, mode.fault);
      bool threw = false;
      try {
        action(files, run / "checkpoints");
      } catch (const IoError&) {
        threw = true;
      }
      mode.lose(files);
      check(run.path(), threw);
      if (n >= files.verbs()) break;
      ASSERT_LT(n, 200) << "the action never ends";
    }
  }
}

TEST(Commit, LeavesOneWholeFolderAndNothingElse) {
  const test::TempDir run;
  const fs::path path = commit(good(), run / "checkpoints", 1200, 1);
  EXPECT_EQ(path, run / "checkpoints/step-00001200");
  EXPECT_THAT(good().list(run / "checkpoints"), ElementsAre("step-00001200"));
  EXPECT_THAT(good().list(path), ElementsAre("manifest.json", "model.safetensors", "trainer.safetensors"));
  const Checkpoint checkpoint = load_checkpoint(path.string());
  EXPECT_TRUE(is_of(checkpoint, 1));
  EXPECT_EQ(checkpoint.step(), 1200);
  EXPECT_EQ(checkpoint.manifest().meta,
            (CheckpointMeta{.step = 1200, .replicas = 2, .threads = 1, .configuration_hash = "abc"}));
  EXPECT_THAT(checkpoint.manifest().libtorch, HasSubstr("."));
  EXPECT_NE(checkpoint.manifest().instruction_set, "unknown");
}

TEST(Commit, KeepsTheOlderCheckpointWhateverFails) {
  with_every_fault([](const fs::path& folder) { quick_commit(folder, 10, 1); },
                   [](FileSystem& files, const fs::path& folder) { commit(files, folder, 20, 2); },
                   [](const fs::path& run, bool threw) {
                     const Checkpoint newest = load_checkpoint(run.string());
                     EXPECT_TRUE(newest.step() == 20 || (newest.step() == 10 && threw));
                     EXPECT_TRUE(is_of(newest, newest.step() / 10));
                     EXPECT_TRUE(is_of(load_checkpoint((run / "checkpoints/step-00000010").string()), 1));
                     expect_no_torn_folder(run / "checkpoints");
                     quick_commit(run / "checkpoints", 20, 2);
                     EXPECT_TRUE(is_of(load_checkpoint(run.string()), 2));
                     EXPECT_THAT(good().list(run / "checkpoints"), ElementsAre("step-00000010", "step-00000020"));
                   });
}

TEST(Commit, WritesAllAgainToNewFilesAfterAnFsyncThatFailed) {
  // As on Linux, a failed fsync marks the pages clean, so the next fsync of that file succeeds.
  std::int64_t failed_syncs = 0;
  for (std::int64_t n = 0;; ++n) {
    SCOPED_TRACE(fmt::format("verb {} fails", n));
    const test::TempDir run;
    quick_commit(run / "checkpoints", 10, 1);
    FaultyFileSystem files(n, FaultyFileSystem::Fault::kOnce);
    std::string problem;
    try {
      commit(files, run / "checkpoints", 20, 2);
    } catch (const IoError& error) {
      problem = error.message();
    }
    if (files.failed_verb() == "fsync") {
      ++failed_syncs;
      EXPECT_EQ(problem, "") << "a single failed fsync is repeated";
    }
    if (problem.empty()) {
      files.drop_unsynced();
      files.forget_unsynced_names();
      EXPECT_TRUE(is_of(load_checkpoint(run.path().string()), 2));
      EXPECT_THAT(good().list(run / "checkpoints"), ElementsAre("step-00000010", "step-00000020"));
    }
    if (files.failed_verb().empty()) break;
  }
  EXPECT_EQ(failed_syncs, 5) << "two states, the manifest, the step folder and its parent";
}

TEST(Commit, AStepThatWasBeingReplacedWhenItsProcessDiedIsPutBack) {
  const test::TempDir run;
  const fs::path folder = run / "checkpoints";
  const fs::path step = quick_commit(folder, 10, 1);
  quick_commit(folder, 20, 2);
  const std::string aside = checkpoint::temporary_name("step-00000010.old", ::getpid());
  fs::rename(step, folder / aside);  // between the two renames
  remove_checkpoint_leftovers(good(), folder);
  EXPECT_THAT(good().list(folder), ElementsAre("step-00000010", "step-00000020"));
  EXPECT_TRUE(is_of(load_checkpoint(step.string()), 1));
  fs::copy(step, folder / aside);  // after both
  remove_checkpoint_leftovers(good(), folder);
  EXPECT_THAT(good().list(folder), ElementsAre("step-00000010", "step-00000020"));
}

TEST(Commit, GivesUpOnADiskWhoseFsyncNeverSucceeds) {
  const test::TempDir run;
  quick_commit(run / "checkpoints", 10, 1);
  FaultyFileSystem files(-1, FaultyFileSystem::Fault::kOnce);
  files.fail_every("fsync");
  EXPECT_THROW(commit(files, run / "checkpoints", 20, 2), IoError);
  EXPECT_TRUE(is_of(load_checkpoint(run.path().string()), 1));
  EXPECT_THAT(good().list(run / "checkpoints"), ElementsAre("step-00000010"));
}

TEST(Commit, TheFirstOneIsThereWholeOrNotAtAll) {
  with_every_fault([](const fs::path&) {},
                   [](FileSystem& files, const fs::path& folder) { commit(files, folder, 20, 2); },
                   [](const fs::path& run, bool threw) {
                     const auto newest = find_newest_valid(good(), run / "checkpoints");
                     EXPECT_TRUE(newest || threw);
                     if (newest) {
                       EXPECT_TRUE(is_of(load_checkpoint(newest->string()), 2));
                     }
                     expect_no_torn_folder(run / "checkpoints");
                   });
}

TEST(Commit, PutsAnotherContentOfTheSameStepAsideWhateverFails) {
  with_every_fault([](const fs::path& folder) { quick_commit(folder, 10, 1); },
                   [](FileSystem& files, const fs::path& folder) { commit(files, folder, 10, 2); },
                   [](const fs::path& run, bool threw) {
                     const Checkpoint newest = load_checkpoint(run.string());
                     EXPECT_EQ(newest.step(), 10);
                     EXPECT_TRUE(is_of(newest, 2) || (is_of(newest, 1) && threw));
                   });
}

TEST(Commit, PutsTheOldFolderBackWhereTheNewOneCannotTakeItsPlace) {
  for (std::int64_t n = 0;; ++n) {
    const test::TempDir run;
    quick_commit(run / "checkpoints", 10, 1);
    FaultyFileSystem files(n, FaultyFileSystem::Fault::kOnce);
    try {
      commit(files, run / "checkpoints", 10, 2);
    } catch (const IoError&) {  // any operation may have failed
    }
    ASSERT_TRUE(good().exists(run / "checkpoints/step-00000010")) << "verb " << n;
    EXPECT_TRUE(verify_checkpoint(good(), run / "checkpoints/step-00000010").ok()) << "verb " << n;
    if (n >= files.verbs()) break;
  }
}

TEST(Commit, KeepsTheSameStepSavedTwiceOnce) {
  const test::TempDir run;
  quick_commit(run / "checkpoints", 10, 1);
  quick_commit(run / "checkpoints", 10, 1);
  EXPECT_THAT(good().list(run / "checkpoints"), ElementsAre("step-00000010"));
  quick_commit(run / "checkpoints", 10, 2);
  quick_commit(run / "checkpoints", 10, 3);
  EXPECT_THAT(good().list(run / "checkpoints"),
              ElementsAre("step-00000010", "step-00000010.bad-1", "step-00000010.bad-2"));
  EXPECT_TRUE(is_of(load_checkpoint(run.path().string()), 3));
}

/// Reasons why a folder of the same step may not be a checkpoint.
struct Damage {
  const char* name;
  void (*inflict)(const fs::path& step_folder);
};

class TornFolder : public ::testing::TestWithParam<Damage> {};

TEST_P(TornFolder, OfTheSameStepIsPutAsideAndLosesNothing) {
  const test::TempDir run;
  const fs::path path = quick_commit(run / "checkpoints", 10, 1);
  quick_commit(run / "checkpoints", 9, 3);
  GetParam().inflict(path);
  std::map<std::string, std::string> torn;
  for (const std::string& name : good().list(path)) {
    if (fs::is_regular_file(path / name)) torn[name] = good().read(path / name);
  }
  quick_commit(run / "checkpoints", 10, 2);
  EXPECT_THAT(good().list(run / "checkpoints"), ElementsAre("step-00000009", "step-00000010", "step-00000010.bad-1"));
  EXPECT_TRUE(is_of(load_checkpoint(path.string()), 2));
  EXPECT_TRUE(is_of(load_checkpoint((run / "checkpoints/step-00000009").string()), 3));
  for (const auto& [name, content] : torn) {
    EXPECT_EQ(good().read(path.string() + ".bad-1/" + name), content) << name;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Commit, TornFolder,
    ::testing::Values(Damage{"Truncated", [](const fs::path& step) { fs::resize_file(step / "model.safetensors", 5); }},
                      Damage{"OneFileMissing", [](const fs::path& step) { fs::remove(step / "trainer.safetensors"); }},
                      Damage{"ManifestMissing", [](const fs::path& step) { fs::remove(step / "manifest.json"); }},
                      Damage{"ManifestEmpty", [](const fs::path& step) { fs::resize_file(step / "manifest.json", 0); }},
                      Damage{"OneByteFlipped",
                             [](const fs::path& step) {
                               std::string content = good().read(step / "model.safetensors");
                               content[content.size() / 2] = static_cast<char>(~content[content.size() / 2]);
                               good().create(step / "model.safetensors")->append(content.data(), content.size());
                             }},
                      Damage{"Empty",
                             [](const fs::path& step) {
                               fs::remove_all(step);
                               fs::create_directory(step);
                             }},
                      Damage{"Unreadable",
                             [](const fs::path& step) {
                               fs::remove(step / "model.safetensors");
                               fs::create_directory(step / "model.safetensors");
                             }}),
    [](const auto& damage) { return std::string(damage.param.name); });

TEST(Commit, IsDurableInFoldersThatItHadToMake) {
  const test::TempDir run;
  FaultyFileSystem files(-1, FaultyFileSystem::Fault::kOnce);
  const fs::path path = commit(files, run / "of/many/levels/checkpoints", 10, 1);
  files.drop_unsynced();
  files.forget_unsynced_names();
  EXPECT_TRUE(is_of(load_checkpoint(path.string()), 1));
}

TEST(Commit, IsDurableInFoldersThatAKilledProcessMade) {
  const test::TempDir run;
  FaultyFileSystem files(-1, FaultyFileSystem::Fault::kOnce);
  files.make_folder(run / "of/many/levels/checkpoints");
  const fs::path path = commit(files, run / "of/many/levels/checkpoints", 10, 1);
  files.drop_unsynced();
  files.forget_unsynced_names();
  EXPECT_TRUE(is_of(load_checkpoint(path.string()), 1));
}

TEST(Commit, RemovesNothingUnderANameThatIsNotDurable) {
  const test::TempDir run;
  quick_commit(run / "checkpoints", 10, 1);
  const fs::path doomed = run / "checkpoints" / checkpoint::temporary_name("step-00000010", 2'000'000'000);
  fs::rename(run / "checkpoints/step-00000010", doomed);
  FaultyFileSystem files(-1, FaultyFileSystem::Fault::kOnce);
  files.fail_every("fsync");
  EXPECT_THROW(remove_checkpoint_leftovers(files, run / "checkpoints"), SyncError);
  EXPECT_TRUE(is_of(load_checkpoint(doomed.string()), 1));
}

TEST(Commit, RemovesLeftoversOfTheDeadAndSparesTheLiving) {
  const test::TempDir run;
  const int dead = 2'000'000'000;  // above any pid_max
  const std::string living = ".tmp-step-00000005-" + std::to_string(::getppid());
  for (const std::string& name : {checkpoint::temporary_name("step-00000005", dead), living}) {
    fs::create_directories(run / "checkpoints" / name);
  }
  write_file_atomically(good(), run / "checkpoints" / fmt::format("best.tmp-{}", dead), "x");
  quick_commit(run / "checkpoints", 10, 1);
  EXPECT_THAT(good().list(run / "checkpoints"), ElementsAre(living, "step-00000010"));
}

TEST(Commit, RemovesLeftoversOfAKilledProcessThatNothingReaps) {
  const test::TempDir run;
  const pid_t zombie = ::fork();
  if (zombie == 0) ::_exit(0);
  siginfo_t end = {};
  ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(zombie), &end, WEXITED | WNOWAIT), 0);
  fs::create_directories(run / "checkpoints" / checkpoint::temporary_name("step-00000005", zombie));
  remove_checkpoint_leftovers(good(), run / "checkpoints");
  EXPECT_THAT(good().list(run / "checkpoints"), ElementsAre());
  EXPECT_EQ(::waitpid(zombie, nullptr, 0), zombie);
}

TEST(Commit, SparesLeftoversOfOtherHostsAndAStartDoesNot) {
  const test::TempDir run;
  const std::string foreign =
      checkpoint::temporary_name("step-00000005", 2'000'000'000, checkpoint::host_mark("other"));
  fs::create_directories(run / "checkpoints" / foreign);
  quick_commit(run / "checkpoints", 10, 1);
  EXPECT_THAT(good().list(run / "checkpoints"), ElementsAre(foreign, "step-00000010"));
  remove_checkpoint_leftovers(good(), run / "checkpoints");
  EXPECT_THAT(good().list(run / "checkpoints"), ElementsAre("step-00000010"));
}

TEST(Commit, AWriterOnAnotherHostCannotPublishAFolderThatIsBeingRemoved) {
  const test::TempDir run;
  const fs::path folder = run / "checkpoints";
  quick_commit(folder, 10, 1);
  const fs::path foreign = folder / checkpoint::temporary_name("step-00000010", 4711, checkpoint::host_mark("other"));
  fs::rename(folder / "step-00000010", foreign);
  FaultyFileSystem killed(-1, FaultyFileSystem::Fault::kOnce);
  killed.fail_every("remove");
  remove_checkpoint_leftovers(killed, folder);
  EXPECT_THROW(good().rename(foreign, folder / "step-00000010"), IoError);
  remove_checkpoint_leftovers(good(), folder);
  EXPECT_THAT(good().list(folder), ElementsAre());
}

TEST(Commit, EachSaveOfAStepHasAFolderOfItsOwn) {
  const test::TempDir run;
  const checkpoint::Staging one(good(), run.path(), 10);
  const checkpoint::Staging other(good(), run.path(), 10);
  EXPECT_NE(one.path(), other.path());
}

TEST(Commit, LeftoversCanBeRemovedWithoutACommit) {
  const test::TempDir run;
  const int dead = 2'000'000'000;  // above any pid_max
  remove_checkpoint_leftovers(good(), run / "checkpoints");
  EXPECT_FALSE(fs::exists(run / "checkpoints"));
  quick_commit(run / "checkpoints", 10, 1);
  fs::create_directories(run / "checkpoints" / checkpoint::temporary_name("step-00000020", dead) / "sub");
  remove_checkpoint_leftovers(good(), run / "checkpoints");
  EXPECT_THAT(good().list(run / "checkpoints"), ElementsAre("step-00000010"));
}

TEST(Commit, KeepsTextsBesideTheStatesWhateverFails) {
  const auto commit_with_text = [](FileSystem& files, const fs::path& folder) {
    commit_checkpoint(files, folder, {.step = 10}, states_of(1), {{"config.yml", "seed: 1\n"}, {"empty.txt", ""}});
  };
  with_every_fault([](const fs::path&) {}, commit_with_text,
                   [](const fs::path& run, bool threw) {
                     expect_no_torn_folder(run / "checkpoints");
                     EXPECT_NE(has_step_folders(good(), run / "checkpoints"),
                               threw && !fs::exists(run / "checkpoints/step-00000010"));
                     if (!has_step_folders(good(), run / "checkpoints")) return;
                     const Checkpoint checkpoint = load_checkpoint(run.string());
                     EXPECT_TRUE(is_of(checkpoint, 1));  // also checks that the text files do not count as states
                     EXPECT_THAT(checkpoint.text_files(), ElementsAre("config.yml", "empty.txt"));
                     EXPECT_EQ(checkpoint.text("config.yml"), "seed: 1\n");
                     EXPECT_EQ(checkpoint.text("empty.txt"), "");
                   });
}

TEST(Commit, ACheckpointOfTheSameStatesWithAnotherTextIsAnotherContent) {
  const test::TempDir run;
  FaultyFileSystem files(-1, FaultyFileSystem::Fault::kOnce);
  for (const char* text : {"a", "a", "b"}) {
    commit_checkpoint(files, run / "checkpoints", {.step = 10}, states_of(1), {{"config.yml", text}});
  }
  EXPECT_THAT(good().list(run / "checkpoints"), ElementsAre("step-00000010", "step-00000010.bad-1"));
  EXPECT_EQ(load_checkpoint(run.path().string()).text("config.yml"), "b");
}

TEST(Commit, RefusesNamesOfTextsThatAreTakenOrLeaveTheFolder) {
  const test::TempDir run;
  for (const char* name : {"", "manifest.json", "model.safetensors", "other.safetensors", "../x", "a/b", ".hidden"}) {
    EXPECT_THROW(commit_checkpoint(good(), run / "checkpoints", {}, states_of(1), {{name, "x"}}), UsageError) << name;
  }
  EXPECT_FALSE(fs::exists(run / "checkpoints"));
}

TEST(Commit, RefusesNamesThatLeaveTheFolder) {
  const test::TempDir run;
  for (const char* name : {"", "a/b", "..", "../x", "a.b", "step-1", "a b"}) {
    EXPECT_THROW(commit_checkpoint(good(), run / "checkpoints", {}, {{name, {}}}), UsageError) << name;
  }
  EXPECT_THROW(commit_checkpoint(good(), run / "checkpoints", {.step = -1}, {}), UsageError);
  EXPECT_FALSE(fs::exists(run / "checkpoints"));
}

TEST(Commit, LeavesNothingBehindWhenAnEntryCannotBeSaved) {
  const test::TempDir run;
  const CheckpointStates states{{"model", {{"w", at::Tensor()}}}};
  EXPECT_THROW(commit_checkpoint(good(), run / "checkpoints", {}, states), UsageError);
  EXPECT_THAT(good().list(run / "checkpoints"), IsEmpty());
}

TEST(Commit, RefusesAStringThatALoadWouldNotRead) {
  const test::TempDir run;
  std::string text((16U << 20U) - 2, 'a');  // 16 MiB with its quotes
  const fs::path step = commit_checkpoint(good(), run / "checkpoints", {.step = 1}, {{"own", {{"text", text}}}});
  EXPECT_EQ(verify_checkpoint(good(), step).problem(), "");
  text += 'a';
  try {
    commit_checkpoint(good(), run / "checkpoints", {.step = 2}, {{"own", {{"text", text}}}});
    FAIL() << "the checkpoint could not be read";
  } catch (const UsageError& error) {
    EXPECT_EQ(error.message(),
              "cannot save 'text': it holds a plain value of 16777217 bytes; the limit is 16777216, and larger data "
              "belong in a tensor");
  }
  EXPECT_THAT(good().list(run / "checkpoints"), ElementsAre("step-00000001"));
}

TEST(Prune, KeepsTheNewestAndWhatANameNames) {
  const test::TempDir run;
  const fs::path folder = run / "checkpoints";
  for (std::int64_t step = 1; step <= 5; ++step) quick_commit(folder, step, step);
  name_checkpoint(good(), folder, "best", folder / "step-00000002");
  EXPECT_THAT(prune_checkpoints(good(), folder, {.keep_last = 0}), IsEmpty());
  EXPECT_THAT(prune_checkpoints(good(), folder, {.keep_last = 5}), IsEmpty());
  EXPECT_THAT(prune_checkpoints(good(), folder, {.keep_last = 2}),
              ElementsAre(folder / "step-00000003", folder / "step-00000001"));
  EXPECT_THAT(good().list(folder), ElementsAre("best", "step-00000002", "step-00000004", "step-00000005"));
}

TEST(Prune, KeepsWhatIsAMultipleOfKeepEvery) {
  const test::TempDir run;
  const fs::path folder = run / "checkpoints";
  for (std::int64_t step = 5; step <= 40; step += 5) quick_commit(folder, step, step);
  EXPECT_THAT(choose_prunable(good(), folder, {.keep_last = 1, .keep_every = 15}),
              ElementsAre(folder / "step-00000035", folder / "step-00000025", folder / "step-00000020",
                          folder / "step-00000010", folder / "step-00000005"));
  EXPECT_EQ(good().list(folder).size(), 8U) << "choosing removes nothing";
  prune_checkpoints(good(), folder, {.keep_last = 1, .keep_every = 15});
  EXPECT_THAT(good().list(folder), ElementsAre("step-00000015", "step-00000030", "step-00000040"));
}

TEST(Prune, RemovesNothingWhileTheNewestIsTorn) {
  const test::TempDir run;
  const fs::path folder = run / "checkpoints";
  for (std::int64_t step = 1; step <= 3; ++step) quick_commit(folder, step, step);
  fs::resize_file(folder / "step-00000003/trainer.safetensors", 9);
  EXPECT_THAT(prune_checkpoints(good(), folder, {.keep_last = 1}), IsEmpty());
  EXPECT_TRUE(is_of(load_checkpoint(run.path().string()), 2));
}

TEST(Prune, LosesNeitherTheNewestNorTheBestWhateverFails) {
  with_every_fault(
      [](const fs::path& folder) {
        for (std::int64_t step = 1; step <= 4; ++step) quick_commit(folder, step, step);
        name_checkpoint(good(), folder, "best", folder / "step-00000002");
      },
      [](FileSystem& files, const fs::path& folder) { prune_checkpoints(files, folder, {.keep_last = 1}); },
      [](const fs::path& run, bool) {
        EXPECT_TRUE(is_of(load_checkpoint(run.string()), 4));
        EXPECT_TRUE(is_of(load_checkpoint(run.string() + ":best"), 2));
        expect_no_torn_folder(run / "checkpoints");
      });
}

TEST(PutAside, LeavesAnEarlierSuspectThatCannotBeRemovedAsALeftover) {
  const test::TempDir run;
  const fs::path folder = run / "checkpoints";
  for (std::int64_t step = 1; step <= 2; ++step) quick_commit(folder, step, step);
  put_checkpoints_aside(good(), folder, 1);
  quick_commit(folder, 2, 3);
  FaultyFileSystem files(-1, FaultyFileSystem::Fault::kOnce);
  files.fail_every("remove");
  put_checkpoints_aside(files, folder, 1);
  EXPECT_THAT(good().list(folder),
              ElementsAre(StartsWith(".tmp-step-00000002.suspect"), "step-00000001", "step-00000002.suspect"));
}

TEST(NamedCheckpoint, MeansTheOldOrTheNewOneWhateverFails) {
  with_every_fault(
      [](const fs::path& folder) {
        for (std::int64_t step = 1; step <= 2; ++step) quick_commit(folder, step, step);
        name_checkpoint(good(), folder, "best", folder / "step-00000001");
      },
      [](FileSystem& files, const fs::path& folder) {
        name_checkpoint(files, folder, "best", folder / "step-00000002");
      },
      [](const fs::path& run, bool threw) {
        const Checkpoint best = load_checkpoint(run.string() + ":best");
        EXPECT_TRUE(best.step() == 2 || (best.step() == 1 && threw));
        EXPECT_TRUE(is_of(best, best.step()));
      });
}

}  // namespace commit_test
}  // namespace lockstep
