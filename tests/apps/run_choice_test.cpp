// SPDX-License-Identifier: Apache-2.0
// Where `lockstep train` runs, for every form of --run-dir and --resume.
#include "lockstep/run_choice.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>

#include <fstream>

#include "lockstep/base/error.h"
#include "support/temp_dir.h"

namespace lockstep::apps {
namespace run_choice_test {

namespace fs = std::filesystem;
using ::testing::EndsWith;
using ::testing::HasSubstr;

class ChooseRun : public ::testing::Test {
 protected:
  // A folder as a run leaves it, with one checkpoint.
  fs::path make_run(const std::string& name) const {
    fs::create_directories(root_ / name / "checkpoints/step-00000004");
    std::ofstream(root_ / name / "checkpoints/step-00000004/manifest.json") << "{}";
    std::ofstream(root_ / name / "config.yml") << "epochs: 1\n";
    return root_ / name;
  }

  [[nodiscard]] RunRequest request(const std::string& resume, std::optional<fs::path> run_dir = {}) const {
    RunRequest request{.name = "captcha", .time = "20261121-100000", .resume = resume, .runs = root_ / "runs"};
    if (run_dir) request.run_dir = run_dir->string();
    return request;
  }

  [[nodiscard]] RunChoice choose(const std::string& resume, std::optional<fs::path> run_dir = {}) const {
    return choose_run(request(resume, std::move(run_dir)), FileSystem::system());
  }

  [[nodiscard]] std::string error_of(const std::string& resume, std::optional<fs::path> run_dir = {}) const {
    try {
      return "no error, but " + choose(resume, std::move(run_dir)).run_dir.string();
    } catch (const Error& error) {
      return std::string(error.type()) + ": " + error.what();
    }
  }

  const test::TempDir root_;
  const fs::path new_run_ = root_ / "runs/captcha-20261121-100000";
};

TEST_F(ChooseRun, NoneIsANewFolderOrTheOneThatIsNamed) {
  EXPECT_EQ(choose("none").run_dir, new_run_);
  EXPECT_EQ(choose("none").note, "");
  EXPECT_EQ(choose("none", root_ / "mine").run_dir, root_ / "mine");
}

TEST_F(ChooseRun, NoneRefusesAFolderThatHoldsARun) {
  const fs::path run = make_run("mine");
  EXPECT_EQ(error_of("none", run), "UsageError: " + run.string() +
                                       " holds an earlier run\n"
                                       "  next  continue it with --resume auto, or choose another --run-dir");
  fs::remove(run / "config.yml");
  EXPECT_THAT(error_of("none", run), HasSubstr("holds an earlier run")) << "its checkpoints are a run too";
}

TEST_F(ChooseRun, AnExperimentsOwnSettingsAreNoRun) {
  fs::create_directories(root_ / "x");
  std::ofstream(root_ / "x/config.yml") << "SOLVER: {}\n";
  RunRequest wanted = request("none", root_ / "x");
  wanted.experiment = true;
  EXPECT_EQ(choose_run(wanted, FileSystem::system()).run_dir, root_ / "x");
  std::ofstream(root_ / "x/config.resolved.yml") << "epochs: 1\n";
  EXPECT_THROW((void)choose_run(wanted, FileSystem::system()), UsageError);
}

TEST_F(ChooseRun, OneFolderIsItselfHoweverItIsWritten) {
  fs::create_directories(root_ / "a/b");
  EXPECT_TRUE(is_same_folder(root_ / "a", root_ / "a/b/.."));
  EXPECT_TRUE(is_same_folder(root_ / "missing", root_ / "missing/"));
  EXPECT_FALSE(is_same_folder(root_ / "a", root_ / "a/b"));
}

TEST_F(ChooseRun, ARunThatIsUnderWayIsNamed) {
  const fs::path run = make_run("mine");
  std::ofstream(run / ".lock") << "pid 4711 on elsewhere";
  require_usable(run);
  const UniqueFd holder(::open((run / ".lock").c_str(), O_RDWR | O_CLOEXEC));
  ASSERT_EQ(::flock(holder.get(), LOCK_EX | LOCK_NB), 0);
  const std::string expected = "another process (pid 4711 on elsewhere) is training in " + run.string() +
                               "\n  next  wait until it ends, or choose another --run-dir";
  EXPECT_EQ(error_of("none", run), "UsageError: " + expected);
  try {
    require_usable(run);
    ADD_FAILURE() << "it is free";
  } catch (const UsageError& error) {
    EXPECT_EQ(error.what(), expected);
  }
}

TEST_F(ChooseRun, AFolderThatCannotBeMadeIsSaidBeforeARankStarts) {
  std::ofstream(root_ / "file") << "";
  try {
    require_usable(root_ / "file/run");
    ADD_FAILURE() << "it is usable";
  } catch (const IoError& error) {
    EXPECT_EQ(std::string(error.what()),
              "cannot make folder " + (root_ / "file/run").string() +
                  ": Not a directory\n  next  make it writable, or choose another --run-dir");
  }
}

TEST_F(ChooseRun, AutoTakesTheNamedFolderWhateverItHolds) {
  for (const fs::path& folder : {make_run("mine"), root_ / "missing"}) {
    EXPECT_EQ(choose("auto", folder).run_dir, folder);
    EXPECT_EQ(choose("auto", folder).note, "");
  }
}

TEST_F(ChooseRun, AutoFindsTheNewestRunOfThatNameAndSaysSo) {
  make_run("runs/captcha-20261120-090000");
  const fs::path newest = make_run("runs/captcha-20261121-090000");
  fs::create_directories(root_ / "runs/captcha-20261121-095959/logs");  // a start that never became a run
  make_run("runs/captcha-digits-20261121-093000");
  make_run("runs/captcha-zzz");
  make_run("runs/other-20261121-093000");
  EXPECT_EQ(choose("auto").run_dir, newest);
  EXPECT_THAT(choose("auto").note, HasSubstr(newest.string() + " is the newest run"));
}

TEST_F(ChooseRun, AutoBeginsANewRunWhereThereIsNoneAndSaysSo) {
  EXPECT_EQ(choose("auto").run_dir, new_run_);
  EXPECT_THAT(choose("auto").note, EndsWith("starting a new one in " + new_run_.string()));
}

TEST_F(ChooseRun, APathGoesOnInTheRunFolderThatItLiesIn) {
  const fs::path run = make_run("mine");
  for (const std::string& form :
       {run.string(), run.string() + "/", (run / "checkpoints").string(), (run / "checkpoints/step-00000004").string(),
        (run / "checkpoints/step-00000004/").string(), (run / "checkpoints/../checkpoints/step-00000004").string(),
        run.string() + ":best"}) {
    EXPECT_EQ(choose(form).run_dir, run) << form;
    EXPECT_EQ(choose(form).note, "") << form;
  }
}

TEST_F(ChooseRun, APathBelowTheWorkingDirectoryStaysShort) {
  const fs::path run = make_run("mine");
  const fs::path before = fs::current_path();
  fs::current_path(root_.path());
  EXPECT_EQ(choose("mine/checkpoints/step-00000004").run_dir, "mine");
  fs::current_path(run / "checkpoints");
  EXPECT_EQ(choose("step-00000004").run_dir, run);
  fs::current_path(run);
  EXPECT_EQ(choose("checkpoints/step-00000004").run_dir, ".");
  fs::current_path(before);
}

TEST_F(ChooseRun, APathWithAnotherFolderBeginsANewRunThere) {
  const fs::path run = make_run("mine");
  EXPECT_EQ(choose(run.string(), root_ / "other").run_dir, root_ / "other");
  EXPECT_THAT(error_of(run.string(), make_run("second")), HasSubstr("second holds an earlier run"));
}

TEST_F(ChooseRun, APathWithItsOwnFolderGoesOnThere) {
  const fs::path run = make_run("mine");
  fs::create_symlink(run, root_ / "link");
  EXPECT_EQ(choose(run.string() + ":best", run).run_dir, run);
  EXPECT_EQ(choose((root_ / "link/checkpoints/step-00000004").string(), run).run_dir, run);
}

TEST_F(ChooseRun, ACheckpointOutsideOfARunFolderBeginsANewRun) {
  fs::create_directories(root_ / "copied/step-00000004");
  const RunChoice choice = choose((root_ / "copied/step-00000004").string());
  EXPECT_EQ(choice.run_dir, new_run_);
  EXPECT_THAT(choice.note, HasSubstr("step-00000004 is not in a run folder"));
}

TEST_F(ChooseRun, AMissingPathIsInputThatIsNotThere) {
  EXPECT_THAT(error_of("nowhere"), HasSubstr("DataError: --resume nowhere: there is no such checkpoint\n  next  give"));
  EXPECT_THAT(error_of("nowhere:best"), HasSubstr("DataError: --resume nowhere:best: there is no such checkpoint"));
  EXPECT_THAT(error_of("atuo"), HasSubstr("there is no such checkpoint (did you mean 'auto'?)"));
  std::ofstream(root_ / "file") << "";
  EXPECT_THAT(error_of((root_ / "file").string()), HasSubstr("DataError"));
}

TEST_F(ChooseRun, AUrlOrNothingIsUsage) {
  EXPECT_THAT(error_of("ftp://example.org/x"),
              HasSubstr("UsageError: --resume ftp://example.org/x: only http:// and https:// URLs can be fetched"));
  EXPECT_THAT(error_of(""), HasSubstr("UsageError: --resume needs a value"));
}

TEST_F(ChooseRun, AFileIsNoRunFolder) {
  std::ofstream(root_ / "file") << "";
  for (const char* resume : {"none", "auto"}) {
    EXPECT_THAT(error_of(resume, root_ / "file"), HasSubstr("UsageError: the run folder")) << resume;
  }
}

}  // namespace run_choice_test
}  // namespace lockstep::apps
