// SPDX-License-Identifier: Apache-2.0
// Parts of the verbs new, tune and inspect.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>

#include "lockstep/base/error.h"
#include "lockstep/base/number.h"
#include "lockstep/doctor/worker_libraries.h"
#include "lockstep/installation.h"
#include "lockstep/new/project.h"
#include "support/temp_dir.h"
#include "worker/inspect/inspect.h"
#include "worker/inspect/variables.h"
#include "worker/tune/tune_report.h"
#include "worker/tune/tune_search.h"

namespace lockstep::apps {
namespace verbs_test {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Key;
using ::testing::Not;

namespace fs = std::filesystem;

// The files around the installed command.

void make_program(const fs::path& file) {
  fs::create_directories(file.parent_path());
  std::ofstream(file) << "#!/bin/sh\n";
  fs::permissions(file, fs::perms::owner_all);
}

TEST(Installation, ACommandThatPipInstalledStartsTheEnvironmentsPython) {
  const test::TempDir home;
  for (const char* packages : {"lib/python3.12/site-packages", "lib64/python3.12/dist-packages"}) {
    const fs::path program = home.path() / packages / "lockstep/bin/lockstep";
    EXPECT_EQ(python_for(program, {}), "python3") << "the environment has none";
    make_program(home.path() / "bin/python3");
    EXPECT_EQ(python_for(program, {}), home.path() / "bin/python3");
    make_program(home.path() / "bin/python3.12");
    EXPECT_EQ(python_for(program, {}), home.path() / "bin/python3.12") << "of several, the one with that folder";
    fs::remove_all(home.path() / "bin");
  }
}

TEST(Installation, AnyOtherCommandStartsThePythonOfPath) {
  const test::TempDir home;
  make_program(home.path() / "bin/python3");
  for (const char* program : {"bin/lockstep", "lib/python3.12/lockstep/bin/lockstep", "site-packages/bin/lockstep"}) {
    EXPECT_EQ(python_for(home.path() / program, {}), "python3") << program;
  }
  EXPECT_EQ(python_for("/usr/bin/lockstep", ""), "python3") << "an empty variable names none";
}

TEST(Installation, ThePythonThatTheVariableNamesIsTaken) {
  const test::TempDir home;
  make_program(home.path() / "bin/python3");
  EXPECT_EQ(python_for(home.path() / "lib/python3.12/site-packages/lockstep/bin/lockstep", "/opt/python"),
            "/opt/python");
}

TEST(Installation, CMakesFolderIsThePrefixThatHasThePackage) {
  for (const char* folder : {"lib", "lib64", "share", "lib/x86_64-linux-gnu"}) {
    const test::TempDir home;
    const fs::path package = home.path() / folder / "cmake/Lockstep";
    fs::create_directories(package);
    EXPECT_THROW((void)cmake_folder_of(home.path() / "bin/lockstep"), ResourceError) << "the folder alone is none";
    std::ofstream(package / "LockstepConfig.cmake") << "";
    EXPECT_EQ(cmake_folder_of(home.path() / "bin/lockstep"), home.path()) << folder;
  }
}

TEST(Installation, WithoutAPackageTheErrorSaysWhatInstallsOne) {
  const test::TempDir home;
  try {
    (void)cmake_folder_of(home.path() / "bin/lockstep");
    FAIL() << "no error";
  } catch (const ResourceError& error) {
    EXPECT_THAT(error.what(), HasSubstr((home.path() / "bin/lockstep").string()));
    EXPECT_THAT(error.what(), HasSubstr("liblockstep-dev"));
  }
}

// The projects that `lockstep new` creates. tests/install builds and runs them.

TEST(Doctor, LooksForNcclWhereTheWorkerWould) {
  const nccl::Search search = search_in(
      "\tlinux-vdso.so.1 (0x00007ffd5a5f2000)\n"
      "\tlibc10.so => /opt/torch/lib/libc10.so (0x00007f3b848e5000)\n"
      "\tlibnccl.so.2 => not found\n"
      "\t/lib64/ld-linux-x86-64.so.2 (0x00007f3b84b3b000)\n");
  EXPECT_EQ(search.torch_folder, "/opt/torch/lib");
  EXPECT_EQ(search.loaded, "");
  EXPECT_EQ(search_in("\tlibnccl.so.2 => /a folder/libnccl.so.2 (0x00007f3b84b3b000)\n").loaded,
            "/a folder/libnccl.so.2");
}

TEST(NewProject, HasTheSameKindsOfFilesWhateverItIsFrom) {
  for (const std::string& kind : project_kinds()) {
    const auto files = project_files({.name = "digits", .from = kind});
    for (const char* path :
         {"CMakeLists.txt", "CMakePresets.json", "README.md", ".gitignore", ".vscode/launch.json", "src/main.cpp"}) {
      EXPECT_THAT(files, Contains(Key(path))) << kind;
    }
  }
}

TEST(NewProject, LeavesNoMarkOfATemplate) {
  for (const std::string& kind : project_kinds()) {
    for (const auto& [path, text] : project_files({.name = "digits", .from = kind})) {
      EXPECT_THAT(text, Not(::testing::ContainsRegex("@[A-Z]+@"))) << kind << "/" << path;
    }
  }
}

TEST(NewProject, HasAMainOfThirtyLinesOrSo) {
  for (const std::string& kind : project_kinds()) {
    const std::string text = project_files({.name = "digits", .from = kind}).at("src/main.cpp");
    EXPECT_LE(std::count(text.begin(), text.end(), '\n'), 36) << kind;
  }
}

TEST(NewProject, ALoopHasNoSettingsFile) {
  EXPECT_THAT(project_files({.name = "digits", .from = "loop"}), Not(Contains(Key("config.yml"))));
  EXPECT_THAT(next_commands({.name = "digits", .from = "loop"}).back(), Not(HasSubstr("config.yml")));
}

TEST(NewProject, NamesThePrefixOfLockstepToCMakeUnlessItSearchesThere) {
  const auto configure = [](const std::string& prefix) { return next_commands({.name = "digits"}, prefix).front(); };
  EXPECT_THAT(configure("/home/ann/env/lib/python3.12/site-packages/lockstep"),
              HasSubstr("cmake --preset release -D CMAKE_PREFIX_PATH=\"$(lockstep cmake-dir)\" && "));
  for (const char* prefix : {"/usr", "/usr/local", ""}) {
    EXPECT_THAT(configure(prefix), Not(HasSubstr("CMAKE_PREFIX_PATH"))) << prefix;
  }
}

TEST(NewProject, NamesThePackagesOfToolsThatAreMissing) {
  const test::TempDir home;
  std::ofstream(home.path() / "cmake") << "";
  EXPECT_THAT(missing_packages("/nowhere:" + home.path().string()), ElementsAre("g++", "ninja-build"));
  std::ofstream(home.path() / "ninja") << "";
  std::ofstream(home.path() / "c++") << "";
  EXPECT_THAT(missing_packages(home.path().string() + ":/nowhere"), IsEmpty());
}

TEST(NewProject, RefusesNamesThatCannotBeAProgramAndATarget) {
  for (const char* name : {"", "7up", "a b", "../x", "test", "try", "data_test", "edit_cache", "lockstep", "naïve"}) {
    EXPECT_THROW(check_project({.name = name}), UsageError) << name;
  }
  check_project({.name = "my-digits_2"});
}

TEST(NewProject, SuggestsTheNearestKind) {
  try {
    check_project({.name = "digits", .from = "lop"});
    FAIL();
  } catch (const UsageError& error) {
    EXPECT_THAT(error.message(), HasSubstr("did you mean 'loop'?"));
  }
}

}  // namespace verbs_test
}  // namespace lockstep::apps

namespace lockstep::worker {
namespace verbs_test {

using ::testing::ContainsRegex;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

// The search of `lockstep tune`, with made-up times.

/// A machine whose steps take `seconds`(values), with the noise alternately added and subtracted.
struct Machine {
  std::function<double(const TuneValues&)> seconds;
  double noise = 0;
  int pairs_left = 1000;
  int pairs = 0;
  std::vector<std::string> said = {};
  std::function<bool(const TuneValues&, const TuneValues&, const TuneKey&)> same = nullptr;

  TuneResult tune(const std::vector<TuneKey>& keys, const TuneValues& start) {
    return worker::tune(keys, start,
                        {.pair =
                             [this](const TuneValues& best, const TuneValues& candidate, const TuneKey&) {
                               --pairs_left;
                               const double disturbed = 1 + noise * (pairs++ % 3 - 1);
                               return StepPair{.best = seconds(best), .candidate = seconds(candidate) * disturbed};
                             },
                         .has_time = [this] { return pairs_left > 0; },
                         .tried = [this](const TuneTrial& trial) { said.push_back(trial.key.key + "=" + trial.value); },
                         .same = same});
  }
};

const std::vector<TuneKey> kKeys = {{.key = "layout", .values = {"plain", "last"}, .changes_bits = true},
                                    {.key = "threads", .values = {"1", "2", "4"}, .changes_bits = true},
                                    {.key = "workers", .values = {"0", "1", "2"}, .loads = true}};
const TuneValues kStart = {{"layout", "plain"}, {"threads", "1"}, {"workers", "2"}};

double seconds_of(const TuneValues& values) {
  double seconds = values.at("layout") == "last" ? 0.8 : 1.0;
  seconds *= values.at("threads") == "2" ? 0.6 : values.at("threads") == "4" ? 0.7 : 1.0;
  return seconds + (values.at("workers") == "0" ? 0.5 : 0.0);
}

TEST(TuneSearch, FindsTheFastestValueOfEachKeyAfterTheOther) {
  Machine machine{.seconds = seconds_of};
  const TuneResult found = machine.tune(kKeys, kStart);
  EXPECT_EQ(found.best, (TuneValues{{"layout", "last"}, {"threads", "2"}, {"workers", "2"}}));
  EXPECT_THAT(machine.said, ElementsAre("layout=last", "threads=2", "threads=4", "workers=0", "workers=1"));
  EXPECT_THAT(found.untried, IsEmpty());
}

TEST(TuneSearch, ComparesWithTheBestSoFarAndNotWithTheStart) {
  // 4 threads are faster than 1 and slower than 2.
  Machine machine{.seconds = seconds_of};
  const TuneResult found = machine.tune({kKeys[1]}, kStart);
  ASSERT_EQ(found.trials.size(), 2U);
  EXPECT_TRUE(found.trials[0].verdict.faster);
  EXPECT_FALSE(found.trials[1].verdict.faster);
  EXPECT_NEAR(found.trials[1].verdict.ratio, 0.7 / 0.6, 1e-9);
}

TEST(TuneSearch, DoesNotComeBackToTheStartOfAKey) {
  Machine machine{.seconds = [](const TuneValues& values) { return values.at("workers") == "0" ? 0.5 : 1.0; }};
  EXPECT_EQ(machine.tune({kKeys[2]}, {{"workers", "1"}}).best.at("workers"), "0");
  EXPECT_THAT(machine.said, ElementsAre("workers=0", "workers=2"));
}

TEST(TuneSearch, DoesNotTimeWhatComputesTheSame) {
  // The second run of the same work happens to be faster.
  Machine machine{.seconds = [](const TuneValues& values) { return values.at("threads") == "4" ? 0.5 : 1.0; },
                  .same =
                      [](const TuneValues& best, const TuneValues& candidate, const TuneKey& key) {
                        return key.key == "threads" && best.at("threads") == "1" && candidate.at("threads") == "4";
                      }};
  const TuneResult found = machine.tune(kKeys, kStart);
  EXPECT_EQ(found.best.at("threads"), "1");
  EXPECT_THAT(found.same, ElementsAre("threads=4"));
  EXPECT_THAT(machine.said, ElementsAre("layout=last", "threads=2", "workers=0", "workers=1"));
}

TEST(TuneSearch, LeavesWhatIsNotFasterByMoreThanTwoPercent) {
  const auto faster_by = [](double gain) {
    Machine machine{
        .seconds = [gain](const TuneValues& values) { return values.at("layout") == "last" ? 1 - gain : 1; }};
    return machine.tune({kKeys[0]}, kStart).best.at("layout");
  };
  EXPECT_EQ(faster_by(0.019), "plain");
  EXPECT_EQ(faster_by(0.021), "last");
}

TEST(TuneSearch, LeavesWhatIsFasterByLessThanTheNoise) {
  const auto with_noise = [](double noise) {
    Machine machine{.seconds = [](const TuneValues& values) { return values.at("layout") == "last" ? 0.95 : 1; },
                    .noise = noise};
    return machine.tune({kKeys[0]}, kStart).best.at("layout");
  };
  EXPECT_EQ(with_noise(0.01), "last");
  EXPECT_EQ(with_noise(0.08), "plain");
}

TEST(TuneSearch, StopsMeasuringWhereTheDifferenceIsPlain) {
  Machine plain{.seconds = [](const TuneValues& values) { return values.at("layout") == "last" ? 2.0 : 1.0; }};
  (void)plain.tune({kKeys[0]}, kStart);
  EXPECT_EQ(plain.pairs, 3);
  Machine close{.seconds = [](const TuneValues& values) { return values.at("layout") == "last" ? 1.02 : 1.0; }};
  (void)close.tune({kKeys[0]}, kStart);
  EXPECT_EQ(close.pairs, 7);
}

TEST(TuneSearch, TriesNothingNewOnceThereIsNoTimeAndSaysWhatItLeft) {
  Machine machine{.seconds = [](const TuneValues& values) { return values.at("layout") == "last" ? 0.95 : 1.0; },
                  .pairs_left = 2};
  const TuneResult found = machine.tune(kKeys, kStart);
  EXPECT_EQ(found.best.at("layout"), "last");  // three pairs, the minimum, rather than seven
  EXPECT_EQ(machine.pairs, 3);
  EXPECT_THAT(found.untried, ElementsAre("threads=2", "threads=4", "workers=0", "workers=1"));
}

std::vector<std::string> names(const std::vector<TuneKey>& keys, const TuneValues& values) {
  std::vector<std::string> found;
  for (const TuneKey& key : keys) {
    if (!key.applies || key.applies(values)) found.push_back(key.key);
  }
  return found;
}

/// Returns the settings as ConfigFields rows; the values do not matter here.
ConfigFields rows_of_tune() {
  static std::int64_t number = 1;
  ConfigFields rows;
  for (const char* key : {"channels_last", "fused_layers"}) rows.add(key, &number, "").tuned();
  rows.add("threads", &number, "").at_resume(OnResume::kCheckpoint).tuned();
  for (const char* key : {"bucket_cap_mb", "workers", "prefetch_factor"}) {
    rows.add(key, &number, "").at_resume(OnResume::kFree).tuned();
  }
  return rows;
}

TEST(TuneKeys, AreThoseWhoseRowsSaySo) {
  ConfigFields rows = rows_of_tune();
  rows.at("workers").tune = false;
  const TunePlace place{.cores = 8, .ranks = 2, .replicas = 2};
  std::vector<std::string> bits;
  for (const TuneKey& key : tune_keys(place, rows)) {
    EXPECT_NE(key.key, "workers");
    if (key.changes_bits) bits.push_back(key.key);
  }
  EXPECT_THAT(bits, ElementsAre("channels_last", "fused_layers", "threads"));
  std::int64_t number = 1;
  rows.add("seed", &number, "").tuned();
  EXPECT_THROW((void)tune_keys(place, rows), InternalError);
}

TEST(TuneKeys, AreThoseThatDoSomethingThere) {
  const TuneValues loading = {{"workers", "2"}};
  EXPECT_THAT(names(tune_keys({.cores = 8, .ranks = 2, .replicas = 2}, rows_of_tune()), loading),
              ElementsAre("channels_last", "fused_layers", "threads", "bucket_cap_mb", "workers", "prefetch_factor"));
  EXPECT_THAT(
      names(tune_keys({.cores = 8, .ranks = 1, .replicas = 1, .cpu = false}, rows_of_tune()), {{"workers", "0"}}),
      ElementsAre("channels_last", "workers"));
}

TEST(TuneKeys, ThreadsFillTheCoresThatARankHas) {
  const auto threads = [](int cores, int ranks) {
    return tune_keys({.cores = cores, .ranks = ranks}, rows_of_tune())[2].values;
  };
  EXPECT_THAT(threads(2, 2), ElementsAre("1"));
  EXPECT_THAT(threads(12, 2), ElementsAre("1", "2", "4", "6"));
  EXPECT_THAT(threads(1, 4), ElementsAre("1"));
}

TEST(TuneSearch, ItsFiguresAreThoseOfOnePair) {
  // The machine was busy during some steps: the medians of the two sides come from different pairs, and their ratio was
  // never measured.
  const TuneVerdict verdict = judge({{.best = 10, .candidate = 8},
                                     {.best = 30, .candidate = 27},
                                     {.best = 11, .candidate = 22},
                                     {.best = 12, .candidate = 9},
                                     {.best = 40, .candidate = 38}});
  EXPECT_EQ(verdict.best, 30);
  EXPECT_EQ(verdict.seconds, 27);
  EXPECT_EQ(verdict.ratio, 0.9);
}

/// Returns the two times and the ratio that a line contains.
std::vector<double> figures_of(const std::string& line) {
  static const std::regex number(R"(([0-9]+\.?[0-9]*) (ms|x the time))");
  std::vector<double> found;
  for (std::sregex_iterator at(line.begin(), line.end(), number), end; at != end; ++at) {
    found.push_back(text::parse_number((*at)[1].str()).value());
  }
  return found;
}

TEST(TuneReport, TheRatioIsTheQuotientOfTheTimesBesideIt) {
  for (const auto& [best, candidate] :
       {std::pair(0.0004449, 0.0004351), std::pair(0.0123449, 0.0122999), std::pair(1.23456, 0.99951)}) {
    const TuneTrial trial{.key = {.key = "workers"}, .value = "1", .verdict = judge({{best, candidate}})};
    const auto figures = figures_of(trial_line(trial));
    ASSERT_EQ(figures.size(), 3U) << trial_line(trial);
    EXPECT_NEAR(figures[2], figures[0] / figures[1], 0.00501) << trial_line(trial);
    const std::string gained = gain_line({.before = best, .after = candidate});
    const auto gain = figures_of(gained);
    ASSERT_EQ(gain.size(), 3U) << gained;
    EXPECT_NEAR(gain[2], gain[1] / gain[0], 0.00501) << gained;
  }
}

TEST(TuneReport, TheFileHasWhatWasGivenAndWhatWasFoundWithItsFigures) {
  std::string recipe = "captcha";
  std::string folder = "data/train: a";
  std::int64_t batch = 64;
  std::int64_t threads = 1;
  ConfigFields fields;
  fields.add("recipe", &recipe, "");
  fields.add("data.train", &folder, "");
  fields.add("batch_size", &batch, "");
  fields.add("threads", &threads, "");
  ConfigTree tree;
  tree.set("data.train=data/train: a", "--set");
  tree.set("threads=1", "--set");
  fields.bind(tree);
  Machine machine{.seconds = seconds_of};
  const TuneResult found = machine.tune(kKeys, kStart);
  const std::string yaml = tuned_yaml({"by hand"}, fields, found);
  EXPECT_EQ(yaml.substr(0, 26), "# by hand\nrecipe: captcha\n");
  EXPECT_THAT(yaml,
              HasSubstr("threads: 2               # 2: 480.0 ms against 800.0 ms, 0.60 x the time (noise 0.0 %); 4: "
                        "560.0 ms against 480.0 ms, 1.17 x the time"));
  EXPECT_THAT(yaml, ::testing::Not(HasSubstr("batch_size")));
  const ConfigTree back = ConfigTree::from_text(yaml, "tuned.yml");
  EXPECT_EQ(back.values().at("data.train").yaml, "data/train: a");
  EXPECT_EQ(back.values().at("threads").yaml, "2");
  EXPECT_EQ(back.values().at("layout").yaml, "last");
  EXPECT_THAT(bits_that_change(kStart, found), ElementsAre("layout", "threads"));
}

// The counts of `lockstep inspect data`, for people and as JSON.

Survey blood() {
  Survey survey;
  survey.pictures = 3;
  survey.sizes = {{640, 480}, {320, 240}};
  survey.formats = {{"JPEG", 2}};
  survey.channels = {{3, 2}};
  survey.unlabelled = 2;
  survey.objects = {{0, 30}, {1, 10}};
  survey.objects_a_picture = {25, 15};
  survey.boxes = {{0, 0, 10, 20}, {0, 0, 30, 20}};
  survey.empty_boxes = 1;
  survey.unreadable = {{"torn.jpg", "cannot read image torn.jpg: truncated JPEG (9 bytes)"}};
  return survey;
}

TEST(SurveyReport, ShowsSizesClassesAndWhatCannotBeRead) {
  const std::string text = survey_text("bccd", blood(), {"RBC", "WBC"});
  EXPECT_THAT(text, HasSubstr("bccd: 3 images, 1 unreadable\n"));
  EXPECT_THAT(text, ContainsRegex("width, pixels +320 +480 +640\n"));
  EXPECT_THAT(text, ContainsRegex("objects per image +15 +20 +25\n"));
  EXPECT_THAT(text, ContainsRegex("box width, pixels +10 +20 +30\n"));
  EXPECT_THAT(text, ContainsRegex("RBC +30 +75.0 % +█████"));
  EXPECT_THAT(text, ContainsRegex("WBC +10 +25.0 % +████████\n"));
  EXPECT_THAT(text, HasSubstr("1 box without an area"));
  EXPECT_THAT(text, HasSubstr("  cannot read image torn.jpg: truncated JPEG (9 bytes)\n"));
  EXPECT_THAT(text, Not(HasSubstr("without a class")));
}

TEST(SurveyReport, ShowsWhatMasksHold) {
  Survey survey = blood();
  survey.maps = 2;
  survey.pixels = {{0, 300}, {1, 50}, {255, 50}};
  const std::string text = survey_text("cells", survey, {"ground", "cell"});
  EXPECT_THAT(text, ContainsRegex("ground +300 +75.0 %"));
  EXPECT_THAT(text, ContainsRegex("cell +50 +12.5 %"));
  EXPECT_THAT(text, ContainsRegex("255 .none. +50 +12.5 %"));
  EXPECT_EQ(nlohmann::json::parse(survey_json("cells", survey, {"ground"}))["pixels"]["ground"], 300);
}

TEST(SurveyReport, EndsWithRemarksAndCountsTurnedPictures) {
  Survey survey = blood();
  survey.turned = 4;
  survey.as_stored = 2;
  const std::string text = survey_text("bccd", survey, {}, {"3 of 9 labels do not match the settings"});
  EXPECT_THAT(text, HasSubstr("4 images turned upright"));
  EXPECT_THAT(text, HasSubstr("2 images not turned"));
  EXPECT_TRUE(text.ends_with("\n3 of 9 labels do not match the settings\n")) << text;
  const auto json = nlohmann::json::parse(survey_json("bccd", survey, {}, {"a remark"}));
  EXPECT_EQ(json["turned"], 4);
  EXPECT_EQ(json["remarks"][0], "a remark");
}

TEST(SurveyReport, SaysTheSameAsJson) {
  const auto json = nlohmann::json::parse(survey_json("bccd", blood(), {"RBC"}));
  EXPECT_EQ(json["pictures"], 3);
  EXPECT_EQ(json["width"]["median"], 480);
  EXPECT_EQ(json["objects"]["RBC"], 30);
  EXPECT_EQ(json["objects"]["1"], 10);
  EXPECT_EQ(json["channels"]["3"], 2);
  EXPECT_EQ(json["unreadable"][0]["name"], "torn.jpg");
}

TEST(SurveyReport, OfNothingIsShort) {
  const std::string text = survey_text("empty", {}, {});
  EXPECT_THAT(text, HasSubstr("empty: 0 images, all readable"));
  EXPECT_THAT(text, Not(HasSubstr("width")));
}

}  // namespace verbs_test

namespace inspect_machine_test {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;

TEST(InspectGpu, ShowsEachGpuWithUnitsAndTheRanksOnIt) {
  GpuReport report;
  report.gpus.push_back({.index = 0,
                         .name = "NVIDIA H100",
                         .percent = 97,
                         .used_bytes = std::uint64_t{20} << 30,
                         .total_bytes = std::uint64_t{80} << 30,
                         .celsius = 64,
                         .watts = 412.5,
                         .megahertz = 1980,
                         .processes = {{.pid = 4101, .bytes = std::uint64_t{3} << 30, .rank = 2}, {.pid = 77}}});
  report.gpus.push_back({.index = 1, .name = "NVIDIA H100"});
  const std::string text = gpu_text(report);
  EXPECT_THAT(
      text,
      ContainsRegex("0  NVIDIA H100 +97 % +21.5 GB of 85.9 GB +64 C +412 W +1980 MHz +rank 2 \\(pid 4101\\) 3.*, 77"));
  EXPECT_THAT(text, ContainsRegex("1  NVIDIA H100 +- +- +- +- +- +-"));
}

TEST(InspectGpu, SaysInALineWhyThereIsNone) {
  EXPECT_EQ(gpu_text({.problem = "no NVIDIA driver was found"}), "no GPU: no NVIDIA driver was found\n");
}

std::map<std::string, Variable> by_name(const std::vector<std::string>& environment) {
  std::map<std::string, Variable> found;
  for (const Variable& variable : all_variables(environment)) found[variable.name] = variable;
  return found;
}

TEST(InspectEnv, ListsWhatIsReadAndWhatIsSetOfTheLibraries) {
  const auto variables =
      by_name({"RANK=1", "NCCL_DEBUG=INFO", "NCCL_ALGO=Ring", "CUDA_HOME=", "GLOO_TIMEOUT_SECONDS=9", "noise"});
  EXPECT_EQ(variables.at("RANK").value, "1");
  EXPECT_EQ(variables.at("WORLD_SIZE").value, std::nullopt) << "listed though it is not set";
  EXPECT_EQ(variables.at("CUDA_HOME").value, "");
  for (const char* name : {"NCCL_ALGO", "GLOO_TIMEOUT_SECONDS"})
    EXPECT_EQ(variables.at(name).meaning, "") << name << " is set, and of a library";
  EXPECT_THAT(variables.at("NCCL_DEBUG_SUBSYS").meaning, HasSubstr("NCCL_DEBUG=INFO")) << "listed though it is not set";
  EXPECT_FALSE(variables.contains("noise"));
  EXPECT_THAT(variables.at("CUDA_LAUNCH_BLOCKING").meaning, HasSubstr("waits for every kernel"));
}

TEST(InspectEnv, ShowsNoSecret) {
  for (const std::string name : {"LOCKSTEP_TOKEN", "LOCKSTEP_STORE_TOKEN", "SLURM_JWT", "TORCH_HUB_TOKEN",
                                 "NCCL_PASSWORD", "SLURM_API_KEY", "LOCKSTEP_SECRET"}) {
    EXPECT_EQ(by_name({name + "=sesame"}).at(name).value, "(set, not shown)") << name;
  }
  EXPECT_EQ(by_name({"LOCKSTEP_TLS_KEY=/etc/job.key"}).at("LOCKSTEP_TLS_KEY").value, "/etc/job.key") << "a file's name";
  EXPECT_EQ(by_name({"TORCH_URL=https://me:sesame@host/a?key=sesame"}).at("TORCH_URL").value,
            "https://***@host/a?key=***");
}

// Returns the quoted names in source text that reads the environment: the arguments of reading functions, and names in
// a table that look like variables. A name that ends in '_' is a prefix.
std::set<std::string> names_read_in(const std::string& source) {
  static const std::regex direct(R"re((?:get|get_int|getenv|positive_seconds)\(\s*"([A-Z][A-Z0-9_]*)")re");
  static const std::regex table(R"re("([A-Z][A-Z0-9]*_[A-Z0-9_]*[A-Z0-9])")re");
  // Not variables: status codes of CUDA libraries, and an argument name in a verb's help.
  static const std::regex status(".*_STATUS_.*|RUN_DIR");
  static const std::regex reads(R"re(env::get|getenv\(|environment, ")re");
  std::set<std::string> names;
  if (!std::regex_search(source, reads)) return names;
  for (const std::regex& pattern : {direct, table}) {
    for (std::sregex_iterator at(source.begin(), source.end(), pattern), end; at != end; ++at) {
      if (!std::regex_match((*at)[1].str(), status)) names.insert((*at)[1]);
    }
  }
  return names;
}

TEST(InspectEnv, TheSourcesReadNoVariableThatTheListLacks) {
  EXPECT_THAT(names_read_in("const auto x = env::get(\"NEW\"); for (auto n : {\"A_TABLE\", \"no\"}) env::get(n);"),
              ::testing::ElementsAre("A_TABLE", "NEW"));
  const auto listed = by_name({});
  std::set<std::string> read;
  for (const char* folder : {"src", "include", "apps", "recipes"}) {
    for (const auto& entry :
         std::filesystem::recursive_directory_iterator(std::filesystem::path(LOCKSTEP_SOURCE_DIR) / folder)) {
      const auto end = entry.path().extension();
      if (end != ".cpp" && end != ".h") continue;
      std::ifstream in(entry.path(), std::ios::binary);
      for (const auto& name : names_read_in({std::istreambuf_iterator<char>(in), {}})) {
        read.insert(name);
        EXPECT_TRUE(listed.contains(name))
            << name << " of " << entry.path() << " belongs into apps/worker/inspect/variables.cpp";
      }
    }
  }
  EXPECT_THAT(read, ::testing::IsSupersetOf({"RANK", "LOCKSTEP_TIMEOUT", "SLURM_STEP_NODELIST", "NO_COLOR"}));
}

}  // namespace inspect_machine_test
}  // namespace lockstep::worker
