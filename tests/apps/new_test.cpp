// SPDX-License-Identifier: Apache-2.0
// What `lockstep new` writes. tests/install builds and runs it.
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "lockstep/new/project.h"
#include "support/temp_dir.h"

namespace lockstep::apps {
namespace new_test {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Key;
using ::testing::Not;

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

TEST(NewProject, NamesThePackagesOfToolsThatAreMissing) {
  const test::TempDir home;
  std::ofstream(home.path() / "cmake") << "";
  EXPECT_THAT(missing_packages("/nowhere:" + home.path().string()), ElementsAre("g++", "ninja-build"));
  std::ofstream(home.path() / "ninja") << "";
  std::ofstream(home.path() / "c++") << "";
  EXPECT_THAT(missing_packages(home.path().string() + ":/nowhere"), IsEmpty());
}

TEST(NewProject, RefusesNamesThatCannotBeAProgramAndATarget) {
  for (const char* name : {"", "7up", "a b", "../x", "test", "lockstep", "naïve"}) {
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

}  // namespace new_test
}  // namespace lockstep::apps
