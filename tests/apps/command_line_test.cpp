// SPDX-License-Identifier: Apache-2.0
// The command line: options, help, and the run folder of `lockstep train`.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>

#include <chrono>
#include <cstdlib>
#include <fstream>

#include "common/cli.h"
#include "common/temporary_folder.h"
#include "lockstep/base/error.h"
#include "lockstep/run_choice.h"
#include "support/comma_locale.h"
#include "support/fault_of.h"
#include "support/temp_dir.h"

namespace lockstep::cli {
namespace command_line_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct Parsed {
  std::int64_t batch_size = 1;
  int threads = 1;
  std::vector<std::string> sets;
  bool go_on = false;
};

Parsed parse_words(const std::vector<std::string>& words) {
  Parsed parsed;
  CLI::App app;
  prepare(app, {.name = "lockstep test", .description = "Test.", .examples = {"lockstep test"}});
  app.add_option("--batch-size", parsed.batch_size, "samples")->type_name("N");
  app.add_option("--threads", parsed.threads, "threads")->check(whole({1, 4096}));
  app.add_option("--set", parsed.sets, "a setting")->allow_extra_args(false);
  parsed.go_on = parse(app, words);
  return parsed;
}

std::string error_of(const std::vector<std::string>& words) {
  try {
    (void)parse_words(words);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "no error";
}

TEST(Cli, TakesDashesAndUnderscoresAndEqualsSigns) {
  EXPECT_EQ(parse_words({"--batch-size", "3"}).batch_size, 3);
  EXPECT_EQ(parse_words({"--batch_size", "3"}).batch_size, 3);
  EXPECT_EQ(parse_words({"--batch_size=3"}).batch_size, 3);
}

TEST(Cli, ValuesKeepTheirUnderscores) {
  EXPECT_THAT(parse_words({"--set", "batch_size=2", "--set=max_steps=3"}).sets,
              ElementsAre("batch_size=2", "max_steps=3"));
}

TEST(Cli, WhatItPrintsSteersNoTerminal) {
  testing::internal::CaptureStdout();
  print("Größe\t\x1b[31mred\x07\n");
  std::fflush(stdout);
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "Größe\t\\x1b[31mred\\x07\n");
  testing::internal::CaptureStdout();
  print_json("{\"Größe 验\": \"\x7f \xc2\x9b \xe2\x80\xae 👍\"}\n");
  std::fflush(stdout);
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "{\"Größe 验\": \"\\u007f \\u009b \\u202e 👍\"}\n")
      << "it stays JSON of the same text";
}

TEST(Cli, AnUnknownOptionSuggestsTheNearest) {
  EXPECT_THAT(error_of({"--batchsize", "3"}), HasSubstr("unknown option '--batchsize' (did you mean '--batch-size'?)"));
}

TEST(Cli, AMisspeltOptionIsNamedBeforeTheOneThatIsMissing) {
  CLI::App app;
  prepare(app, {.name = "lockstep test", .description = "Test.", .examples = {"lockstep test"}});
  std::string checkpoint;
  app.add_option("--checkpoint", checkpoint, "needed")->required();
  try {
    (void)parse(app, {"--chekpoint=x"});
    FAIL() << "no error";
  } catch (const UsageError& error) {
    EXPECT_THAT(error.message(), HasSubstr("unknown option '--chekpoint' (did you mean '--checkpoint'?)"));
  }
}

TEST(Cli, AValueOfTheWrongTypeNamesTheOptionAndTheValue) {
  EXPECT_THAT(error_of({"--batch-size", "x"}), HasSubstr("lockstep test: --batch-size: 'x' is not a number"));
}

TEST(Cli, AnOptionWithoutItsValueIsNamed) {
  EXPECT_THAT(error_of({"--batch-size"}), HasSubstr("lockstep test: --batch-size needs a value: N"));
}

TEST(Cli, AnOptionThatIsTypedTwiceCountsTheLastTimeAndAListTakesAll) {
  CLI::App app;
  prepare(app, {.name = "lockstep test", .description = "Test.", .examples = {"lockstep test"}});
  std::string run_dir;
  int threads = 0;
  std::vector<std::string> sets;
  app.add_option("--run-dir", run_dir, "folder");
  app.add_option("--threads", threads, "threads");
  app.add_option("--set", sets, "settings")->allow_extra_args(false);
  EXPECT_TRUE(
      parse(app, {"--run-dir", "a", "--threads", "1", "--set", "a=1", "--run_dir=b", "--set", "b=2", "--threads=2"}));
  EXPECT_EQ(run_dir, "b");
  EXPECT_EQ(threads, 2);
  EXPECT_THAT(sets, ::testing::ElementsAre("a=1", "b=2"));
}

TEST(Cli, ASettingInTwoWordsIsShownAsOne) {
  for (const auto& words : {std::vector<std::string>{"--set", "epochs", "5"},
                            {"a", "--set", "epochs", "5", "--seed", "1"},
                            {"--set", "a=1", "--set", "epochs", "--set", "5"}}) {
    CLI::App app;
    prepare(app, {.name = "lockstep test", .description = "Test.", .examples = {}});
    std::vector<std::string> sets;
    std::string text;
    app.add_option("--set", sets, "settings")->allow_extra_args(false);
    app.add_option("FILE", text, "a file");
    app.add_option("--seed", text, "the seed");
    try {
      (void)parse(app, words);
      ADD_FAILURE() << "no error";
    } catch (const UsageError& error) {
      EXPECT_THAT(error.message(), HasSubstr("--set 'epochs' is not an assignment"));
      EXPECT_THAT(error.hint(), HasSubstr("--set epochs=5"));
    }
  }
}

TEST(Cli, AllThatIsMissingIsNamedAtOnceWithAnExample) {
  const auto missing_of = [](const std::vector<std::string>& words) {
    CLI::App app;
    prepare(app, {.name = "lockstep test", .description = "Test.", .examples = {"lockstep test captcha --seed 1"}});
    std::string text;
    app.add_option("RECIPE", text, "the recipe")->required();
    app.add_option("--seed", text, "the seed")->required();
    app.add_option("--epoch", text, "the epoch")->required();
    try {
      (void)parse(app, words);
    } catch (const UsageError& error) {
      EXPECT_THAT(error.hint(), ::testing::EndsWith("lockstep test captcha --seed 1"));
      return error.message();
    }
    return std::string("no error");
  };
  EXPECT_EQ(missing_of({}), "lockstep test: RECIPE, --seed and --epoch are missing");
  EXPECT_EQ(missing_of({"captcha", "--seed", "1"}), "lockstep test: --epoch is missing");
}

TEST(Cli, AnArgumentTooManyIsNoOption) {
  EXPECT_THAT(error_of({"more"}), HasSubstr("lockstep test: unexpected argument 'more'"));
}

TEST(Cli, OneOfSomeWordsSuggestsTheNearest) {
  EXPECT_EQ(one_of({"conv3", "conv7"})(std::string("conv7")), "");
  EXPECT_EQ(one_of({"conv3", "conv7"})(std::string("cov7")),
            "'cov7' is not one of conv3, conv7 (did you mean 'conv7'?)");
  EXPECT_EQ(above_zero()(std::string("0.5")), "");
  for (const char* wrong : {"0", "-1", "", "x", "1x", "nan", "inf"}) {
    EXPECT_EQ(above_zero()(std::string(wrong)), std::string("'") + wrong + "' is not a number above 0");
  }
}

TEST(Cli, HelpAlignsDescriptionsAndWrapsAt100Columns) {
  CLI::App app;
  prepare(app, {.name = "lockstep test",
                .description = "Test a thing.",
                .examples = {"lockstep test " + std::string(60, 'x') + " --seed 1 --augment 'rotation degrees=20' a"},
                .notes = {"A note."},
                .tables = {{"Exit code", {{"1", "it differs"}}}}});
  std::vector<std::string> files;
  std::string checkpoint;
  std::string kind = "auto";
  int limit = 3;
  bool plain = false;
  app.add_option("FILE", files, "the files to read")->required();
  app.add_option("--checkpoint", checkpoint, "a folder")->required()->type_name("PATH");
  app.add_option("--kind", kind, "what it is")->type_name("auto|a_very_long_word|another|third");
  app.add_option("-l,--limit", limit, std::string(40, 'a') + " " + std::string(30, 'b'))->type_name("N")->group("Rows");
  app.add_flag("!--no-plain", plain, "ornate");
  EXPECT_EQ(app.help(),
            "Test a thing.\n\nUsage: lockstep test [OPTIONS] FILE...\n\n"
            "Arguments:\n"
            "  FILE               the files to read\n\n"
            "Options:\n"
            "  --checkpoint PATH  (required) a folder\n"
            "  --kind auto|a_very_long_word|another|third\n"
            "                     what it is (default: auto)\n"
            "  --no-plain         ornate\n"
            "  --quiet            print only results, warnings and errors\n"
            "  --log-level LEVEL  error, warn, note, info, debug or trace (default: note)\n"
            "  -h, --help         print this help\n\n"
            "Rows:\n"
            "  -l, --limit N      " +
                std::string(40, 'a') + " " + std::string(30, 'b') +
                "\n                     (default: 3)\n\n"
                "A note.\n\n"
                "Exit code:\n"
                "  1                  it differs\n\n"
                "Examples:\n"
                "  lockstep test " +
                std::string(60, 'x') + " --seed 1 \\\n      --augment 'rotation degrees=20' a\n");
}

TEST(Cli, AWholeNumberHasARange) {
  EXPECT_EQ(parse_words({"--threads", "4096"}).threads, 4096);
  for (const char* wrong : {"0", "4097", "4294967297", "99999999999999999999", "1.5", "two"}) {
    EXPECT_THAT(error_of({"--threads", wrong}),
                HasSubstr(std::string("--threads: '") + wrong + "' is not a whole number from 1 to 4,096"));
  }
}

TEST(Cli, ANumberHasAPointBeforeItsDecimalsInEveryLocale) {
  const test::CommaLocale comma;
  double budget = 2.5;
  std::optional<double> least;
  const auto parsed = [&](const std::vector<std::string>& words) {
    CLI::App app;
    prepare(app, {.name = "lockstep test", .description = "Test.", .examples = {"lockstep test"}});
    EXPECT_EQ(add_number(app, "--budget", budget, "seconds")->check(above_zero())->get_default_str(), "2.5");
    add_number(app, "--least", least, "a share");
    return parse(app, words);
  };
  EXPECT_TRUE(parsed({"--budget", "0.125", "--budget=1.5"}));
  EXPECT_EQ(budget, 1.5);
  EXPECT_EQ(least, std::nullopt);
  budget = 2.5;
  EXPECT_TRUE(parsed({"--least", "0.25"}));
  EXPECT_EQ(least, 0.25);
  for (const char* wrong : {"0,5", "half", ""}) {
    const std::string words = test::fault_of<UsageError>([&] { (void)parsed({"--least", wrong}); });
    EXPECT_THAT(words, HasSubstr("--least")) << wrong;
  }
  EXPECT_THAT(test::fault_of<UsageError>([&] {
                (void)parsed({"--least", "0,5"});
              }),
              HasSubstr("--least: '0,5' is not a number"));
}

TEST(Cli, SettingsThatWereTypedAsOptionsStayInTheirPlaces) {
  CLI::App app;
  std::int64_t workers = 0;
  std::vector<std::string> sets;
  app.add_option("--workers", workers, "threads");
  app.add_option("--set", sets, "a setting");
  const SettingOptions options{.is_setting = [](const std::string& name) { return name != "unknown"; },
                               .is_switch = [](const std::string& name) { return name == "distributed"; }};
  const auto words = [&](const std::vector<std::string>& typed) { return take_settings(app, typed, options); };
  EXPECT_THAT(words({"train", "--layers", "50", "--set", "lr=1", "--l-segs=0.5", "--workers", "4", "--lr", "-1"}),
              ElementsAre("train", "--set", "layers=50", "--set", "lr=1", "--set", "l_segs=0.5", "--workers", "4",
                          "--set", "lr=-1"));
  EXPECT_THAT(words({"--distributed", "segmentation"}), ElementsAre("--set", "distributed=true", "segmentation"));
  EXPECT_THAT(words({"--distributed", "False", "x"}), ElementsAre("--set", "distributed=False", "x"));
  EXPECT_THAT(words({"--unknown", "7", "--last"}), ElementsAre("--unknown", "7", "--set", "last=true"));
  EXPECT_THAT(words({"--", "--layers", "50"}), ElementsAre("--", "--layers", "50"));
}

TEST(Cli, HelpDoesNotGoOn) { EXPECT_FALSE(parse_words({"--help"}).go_on); }

TEST(Cli, AnUnknownVerbSuggestsTheNearest) {
  const std::vector<Verb> verbs = {{"inspect", "", [](const std::vector<std::string>&) { return 7; }}};
  const CommandText text{.name = "lockstep", .description = "Lists verbs.", .examples = {"lockstep inspect"}};
  EXPECT_EQ(dispatch(text, verbs, {"inspect"}), 7);
  try {
    (void)dispatch(text, verbs, {"inspct"});
    FAIL() << "no error";
  } catch (const UsageError& error) {
    EXPECT_THAT(error.message(), HasSubstr("did you mean 'inspect'"));
  }
}

}  // namespace command_line_test
}  // namespace lockstep::cli

namespace lockstep::apps {
namespace command_line_test {

namespace fs = std::filesystem;
using ::testing::EndsWith;
using ::testing::HasSubstr;

// The folder of `lockstep train`, for every form of --run-dir and --resume.

class ChooseRun : public ::testing::Test {
 protected:
  // A run folder with one checkpoint.
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
  EXPECT_EQ(choose("none").run_dir, new_run_.string() + "-2") << "a run that starts in the same second";
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
                               "\n  next  wait until it exits, or choose another --run-dir";
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
              "cannot create folder " + (root_ / "file/run").string() +
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

// Names have local times: a run in a container on UTC is newer than one of the host's morning, in a zone to the east.
TEST_F(ChooseRun, AutoFindsTheNewestRunAlsoIfTheTimeZoneHasChanged) {
  const fs::path newest = make_run("runs/captcha-20261121-013000");
  const fs::path older = make_run("runs/captcha-20261121-090000");
  const fs::path copy = make_run("runs/captcha-20261101-090000");
  const auto now = fs::file_time_type::clock::now();
  fs::last_write_time(older / "config.yml", now - std::chrono::hours(1));
  fs::last_write_time(newest / "config.yml", now - std::chrono::minutes(10));
  fs::last_write_time(copy / "config.yml", now);
  EXPECT_EQ(choose("auto").run_dir, newest);
}

TEST_F(ChooseRun, AutoBeginsANewRunWhereThereIsNoneAndSaysSo) {
  const RunChoice choice = choose("auto");
  EXPECT_EQ(choice.run_dir, new_run_);
  EXPECT_THAT(choice.note, EndsWith("starting a new one in " + new_run_.string()));
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
  EXPECT_THAT(error_of("nowhere"),
              HasSubstr("DataError: --resume nowhere: there is no such checkpoint\n  next  use auto"));
  EXPECT_THAT(error_of("nowhere:best"), HasSubstr("DataError: --resume nowhere:best: there is no such checkpoint"));
  EXPECT_THAT(error_of("atuo"), HasSubstr("there is no such checkpoint (did you mean 'auto'?)"));
  std::ofstream(root_ / "file") << "";
  EXPECT_THAT(error_of((root_ / "file").string()),
              ::testing::AllOf(HasSubstr("DataError"), HasSubstr("file: this is a file, not a checkpoint"),
                               HasSubstr("--init-from " + (root_ / "file").string() + ", or -t for short")));
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

TEST(TemporaryFolder, IsInTmpIfTheFolderOfTmpdirIsGone) {
  const char* given = ::getenv("TMPDIR");
  const std::string before = given == nullptr ? "" : given;
  ::setenv("TMPDIR", "/no/such/folder", 1);
  std::string path;
  {
    const TemporaryFolder folder("lockstep-test");
    path = folder.path();
    EXPECT_TRUE(fs::is_directory(path));
  }
  ::unsetenv("TMPDIR");
  if (!before.empty()) ::setenv("TMPDIR", before.c_str(), 1);
  EXPECT_TRUE(path.starts_with("/tmp/lockstep-test-")) << path;
  EXPECT_FALSE(fs::exists(path));
}

}  // namespace command_line_test
}  // namespace lockstep::apps
