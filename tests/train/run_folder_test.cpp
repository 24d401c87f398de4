// SPDX-License-Identifier: Apache-2.0
// Run folders on disk, including full and read-only disks, and folders whose holder was killed: the test re-executes
// itself as that holder.
#include "lockstep/train/run_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <future>
#include <optional>

#include "lockstep/base/error.h"
#include "lockstep/launch/restart.h"
#include "support/process.h"
#include "support/temp_dir.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

std::string read(const fs::path& path) { return FileSystem::system().read(path); }

void write(const fs::path& path, const std::string& text) { std::ofstream(path, std::ios::binary) << text; }

// The error from opening the folder, with its type first.
std::string error_of(const fs::path& path, const RunFolderOptions& options = {}) {
  try {
    const RunFolder folder(path, options);
    return "no error";
  } catch (const Error& error) {
    return std::string(error.type()) + ": " + error.what();
  }
}

// A small disk in memory, in a mount namespace of this thread: it is invisible from outside and leaves nothing behind.
class SmallDisk {
 public:
  explicit SmallDisk(const fs::path& path) : path_(path) {
    fs::create_directories(path);
    const bool mounted = ::unshare(CLONE_NEWNS) == 0 &&
                         ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
                         ::mount("none", path.c_str(), "tmpfs", 0, "size=64k") == 0;
    if (!mounted) problem_ = std::strerror(errno);
  }
  ~SmallDisk() {
    if (problem_.empty()) ::umount2(path_.c_str(), MNT_DETACH);
  }
  SmallDisk(const SmallDisk&) = delete;
  SmallDisk& operator=(const SmallDisk&) = delete;

  // Why there is no such disk; empty if there is one.
  [[nodiscard]] const std::string& problem() const { return problem_; }

  void fill() const {
    std::ofstream file(path_ / "filler", std::ios::binary);
    while (file.put('x').flush()) {
    }
  }
  void free() const { fs::remove(path_ / "filler"); }

  void make_read_only() const {
    ASSERT_EQ(::mount("none", path_.c_str(), nullptr, MS_REMOUNT | MS_RDONLY, nullptr), 0);
  }

 private:
  fs::path path_;
  std::string problem_;
};

TEST(RunFolder, IsMadeWithItsParentsAndLogsALineEach) {
  const test::TempDir root;
  RunFolder folder(root / "a/b");
  folder.log({{"step", "1"}, {"loss", "0.5"}});
  folder.log({{"step", "2"}});
  EXPECT_EQ(read(root / "a/b/log.jsonl"), "{\"step\": 1, \"loss\": 0.5}\n{\"step\": 2}\n");
}

TEST(RunFolder, ASecondRunInTheSameFolderIsRefusedAndNamesTheFirst) {
  const test::TempDir root;
  const RunFolder first(root / "run");
  char host[256] = {};
  ::gethostname(host, sizeof host - 1);
  const std::string expected = "UsageError: another process (pid " + std::to_string(::getpid()) + " on " + host +
                               ") is training in " + (root / "run").string();
  EXPECT_THAT(error_of(root / "run"), StartsWith(expected));
  EXPECT_THAT(error_of(root / "run", {.resume = true}), StartsWith(expected));
}

TEST(RunFolder, ItsLockNamesTheLogsOfTheLauncher) {
  const test::TempDir root;
  ::setenv("LOCKSTEP_ERROR_FILE", "/logs/attempt_0/rank-1/error.json", 1);
  const RunFolder folder(root / "run");
  ::setenv("LOCKSTEP_ERROR_FILE", "/tmp/none/error.json", 1);
  const RunFolder other(root / "other");
  ::unsetenv("LOCKSTEP_ERROR_FILE");
  EXPECT_THAT(read(root / "run/.lock"), EndsWith("\nlogs /logs"));
  EXPECT_THAT(read(root / "other/.lock"), ::testing::Not(HasSubstr("\n"))) << "another launcher's file";
  EXPECT_THAT(error_of(root / "run"), ::testing::Not(HasSubstr("logs")));
}

TEST(RunFolder, AGroupThatWasStartedAgainWaitsForTheOneBeforeAndThenFailsInAWayThatRestarts) {
  const test::TempDir root;
  std::optional<RunFolder> before(std::in_place, root / "run");
  const RunFolderOptions again{.resume = true, .wait_for_lock = std::chrono::milliseconds(100)};
  EXPECT_THAT(
      error_of(root / "run", again),
      AllOf(StartsWith("TimeoutError: a process of the previous group (pid " + std::to_string(::getpid())),
            HasSubstr("still holds " + (root / "run").string() + " after 0.1 s"), HasSubstr("LOCKSTEP_TIMEOUT")));
  EXPECT_TRUE(decide_restart({.error_type = "TimeoutError", .restarts_done = 1, .max_restarts = 3}).restart);
  auto opened = std::async(std::launch::async, [&] {
    return error_of(root / "run", {.resume = true, .wait_for_lock = std::chrono::minutes(1)});
  });
  before.reset();
  EXPECT_EQ(opened.get(), "no error");
}

TEST(RunFolder, TheLockOfAKilledHolderIsFreeAtOnce) {
  const test::TempDir root;
  test::Process holder({.command = {fs::read_symlink("/proc/self/exe"), "hold", (root / "run").string()}});
  ASSERT_TRUE(holder.wait_for_output("held"));
  EXPECT_THAT(error_of(root / "run"), HasSubstr("pid " + std::to_string(holder.pid()) + " on "));
  holder.signal(SIGKILL);
  EXPECT_EQ(holder.wait().code, 128 + SIGKILL);
  EXPECT_EQ(error_of(root / "run"), "no error");
}

TEST(RunFolder, AFolderWithAnEarlierRunIsRefusedUnlessItGoesOn) {
  const test::TempDir root;
  RunFolder(root / "run").write("config.yml", "epochs: 1\n");
  EXPECT_EQ(error_of(root / "run"), "UsageError: " + (root / "run").string() +
                                        " holds an earlier run\n"
                                        "  next  --resume auto continues it; or choose another --run-dir");
  EXPECT_EQ(error_of(root / "run", {.resume = true}), "no error");
}

/// An experiment's config.yml belongs to the user.
TEST(RunFolder, AnExperimentsFolderIsNoEarlierRunUntilItHasTheSettingsOfOne) {
  const test::TempDir root;
  FileSystem::system().make_folder(root / "x");
  write(root / "x/config.yml", "SOLVER: {}\n");
  EXPECT_THAT(error_of(root / "x"), HasSubstr("holds an earlier run"));
  {
    RunFolder folder(root / "x", {.experiment = true});
    folder.write(folder.settings_file(), "epochs: 1\n");
  }
  EXPECT_EQ(read(root / "x/config.yml"), "SOLVER: {}\n");
  EXPECT_EQ(read(root / "x/config.resolved.yml"), "epochs: 1\n");
  EXPECT_THAT(error_of(root / "x", {.experiment = true}), HasSubstr("holds an earlier run"));
  EXPECT_EQ(error_of(root / "x", {.resume = true, .experiment = true}), "no error");
}

TEST(RunFolder, AnExperimentsCheckpointsAreItsSnapshotsToo) {
  const test::TempDir root;
  { const RunFolder folder(root / "x", {.experiment = true}); }
  FileSystem::system().make_folder(root / "x/checkpoints/step-00000001");
  EXPECT_TRUE(fs::exists(root / "x/snapshot/step-00000001"));
  FileSystem::system().make_folder(root / "y/snapshot");
  { const RunFolder folder(root / "y", {.experiment = true}); }
  EXPECT_FALSE(fs::is_symlink(root / "y/snapshot")) << "what is there stays";
}

TEST(RunFolder, GoingOnIsFineInAnEmptyOrAMissingFolder) {
  const test::TempDir root;
  EXPECT_EQ(error_of(root.path(), {.resume = true}), "no error");
  EXPECT_EQ(error_of(root / "missing", {.resume = true}), "no error");
}

TEST(RunFolder, LogsOfTheLauncherAreNoEarlierRun) {
  const test::TempDir root;
  FileSystem::system().make_folder(root / "run/logs/attempt_0");
  EXPECT_EQ(error_of(root / "run"), "no error");
}

TEST(RunFolder, GoesOnLoggingAfterTheStepThatItGoesOnFrom) {
  const test::TempDir root;
  {
    RunFolder folder(root / "run");
    for (int step = 1; step <= 3; ++step) folder.log({{"event", "\"step\""}, {"step", std::to_string(step)}});
  }
  std::ofstream(root / "run/log.jsonl", std::ios::app) << R"({"event": "st)";
  RunFolder folder(root / "run", {.resume = true});
  folder.drop_log_after(2);
  folder.log({{"event", "\"resume\""}, {"step", "2"}});
  folder.log({{"event", "\"step\""}, {"step", "3"}});
  EXPECT_EQ(read(root / "run/log.jsonl"),
            "{\"event\": \"step\", \"step\": 1}\n{\"event\": \"step\", \"step\": 2}\n"
            "{\"event\": \"resume\", \"step\": 2}\n{\"event\": \"step\", \"step\": 3}\n");
}

TEST(RunFolder, WhatADeadWriterLeftHalfWrittenIsRemoved) {
  const test::TempDir root;
  write(root / "summary.json.tmp-4711", "{");
  write(root / "notes.tmp-mine", "kept: no number");
  write(root / "config.yml.tmp-", "kept: no number");
  const std::filesystem::path errors = root / "logs/attempt_0/rank-1";
  std::filesystem::create_directories(errors);
  write(errors / "error.json.tmp-999999999", "{");
  const std::string own = "error.json.tmp-" + std::to_string(::getpid());
  write(errors / own, "of a rank that lives");
  const RunFolder folder(root.path());
  EXPECT_EQ(FileSystem::system().list(errors), std::vector<std::string>{own});
  std::filesystem::remove_all(root / "logs");
  EXPECT_EQ(FileSystem::system().list(root.path()),
            (std::vector<std::string>{".lock", "config.yml.tmp-", "log.jsonl", "notes.tmp-mine"}));
}

TEST(RunFolder, AFileInItsPlaceIsNamed) {
  const test::TempDir root;
  write(root / "file", "");
  EXPECT_THAT(error_of(root / "file"),
              StartsWith("UsageError: the run folder " + (root / "file").string() + " is a file"));
  fs::create_directory(root / "run");
  write(root / "run/checkpoints", "");
  EXPECT_THAT(error_of(root / "run", {.resume = true}),
              StartsWith("UsageError: the checkpoints folder " + (root / "run/checkpoints").string() + " is a file"));
  EXPECT_THAT(error_of(root / "file/run"), StartsWith("IoError: cannot create folder " + (root / "file/run").string()));
}

TEST(RunFolder, AReadOnlyDiskIsOneClearError) {
  const test::TempDir root;
  const SmallDisk disk(root / "disk");
  if (!disk.problem().empty()) GTEST_SKIP() << "mounting is not permitted here: " << disk.problem();
  fs::create_directories(root / "disk/run");
  disk.make_read_only();
  for (const char* name : {"disk/run", "disk/new"}) {
    const std::string error = error_of(root / name);
    EXPECT_THAT(error, StartsWith("IoError: cannot "));
    EXPECT_THAT(error, HasSubstr((root / name).string()));
    EXPECT_THAT(error, EndsWith("Read-only file system\n  next  make it writable, or choose another --run-dir"));
  }
}

TEST(RunFolder, AFullDiskIsOneClearErrorAndTheLogKeepsWholeLines) {
  const test::TempDir root;
  const SmallDisk disk(root / "disk");
  if (!disk.problem().empty()) GTEST_SKIP() << "mounting is not permitted here: " << disk.problem();
  RunFolder folder(root / "disk/run");
  folder.log({{"step", "0"}});
  disk.fill();
  constexpr const char* kNoSpace =
      "No space left on device\n  next  free space on that disk; --resume auto then continues the run";
  EXPECT_THAT(error_of(root / "disk/other"), EndsWith(kNoSpace));
  std::optional<std::string> error;
  for (int step = 1; !error && step < 10000; ++step) {  // the first lines still fit into the log's block
    try {
      folder.log({{"step", std::to_string(step)}});
    } catch (const IoError& problem) {
      error = problem.what();
    }
  }
  EXPECT_EQ(error, "cannot write " + (root / "disk/run/log.jsonl").string() + ": " + kNoSpace);
  try {
    folder.write("summary.json", "{}");
    ADD_FAILURE() << "summary.json is written";
  } catch (const IoError& problem) {
    EXPECT_THAT(
        problem.what(),
        AllOf(StartsWith((root / "disk/run/summary.json").string() + " was not written: cannot "), EndsWith(kNoSpace)));
  }
  EXPECT_THAT(read(root / "disk/run/log.jsonl"), EndsWith("}\n"));
  disk.free();
  folder.log({{"step", "10000"}});
  EXPECT_THAT(read(root / "disk/run/log.jsonl"), EndsWith("}\n{\"step\": 10000}\n"));
}

}  // namespace
}  // namespace lockstep

int main(int argc, char** argv) {
  if (argc == 3 && std::string(argv[1]) == "hold") {
    const lockstep::RunFolder folder(argv[2]);
    (void)!::write(STDOUT_FILENO, "held\n", 5);
    for (;;) ::pause();
  }
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
