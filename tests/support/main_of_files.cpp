// SPDX-License-Identifier: Apache-2.0
// One program may contain the tests of several files: --file=zero_test.cpp runs the tests of one file, and may be
// repeated. gtest's own filter takes precedence, so a test that starts its program again, as a rank, can name itself. A
// filter that only excludes tests ("-A.b:C.*" in GTEST_FILTER) excludes them from the files.
#include <gtest/gtest.h>

#include <filesystem>
#include <iostream>
#include <set>
#include <string>
#include <string_view>

#include "support/rank_template.h"

namespace {

/// The files that `--file=` names, without duplicates.
std::set<std::string> wanted_files(int argc, char** argv) {
  constexpr std::string_view kFlag = "--file=";
  std::set<std::string> files;
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (word.starts_with(kFlag)) files.emplace(word.substr(kFlag.size()));
  }
  return files;
}

/// The filter "Suite.Name:Suite.Name:..." for the tests in `files`. Removes the files that have a test from `files`.
std::string filter_of(std::set<std::string>& files) {
  const std::set<std::string> wanted = files;
  const auto& program = *::testing::UnitTest::GetInstance();
  std::string filter;
  for (int i = 0; i < program.total_test_suite_count(); ++i) {
    const auto& suite = *program.GetTestSuite(i);
    for (int k = 0; k < suite.total_test_count(); ++k) {
      const auto& test = *suite.GetTestInfo(k);
      const std::string file = std::filesystem::path(test.file()).filename();
      if (!wanted.contains(file)) continue;
      files.erase(file);
      filter += std::string(filter.empty() ? "" : ":") + suite.name() + "." + test.name();
    }
  }
  return filter;
}

}  // namespace

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  if (const auto test = lockstep::testing::serve_as_template()) GTEST_FLAG_SET(filter, *test);
  std::set<std::string> files = wanted_files(argc, argv);
  const std::string filter = GTEST_FLAG_GET(filter);
  if (!files.empty() && (filter == "*" || filter.starts_with('-'))) {
    GTEST_FLAG_SET(filter, filter_of(files) + (filter == "*" ? "" : filter));
    if (!files.empty()) {
      std::cerr << "error: this program has no test of " << *files.begin() << "\n";
      return 1;
    }
  }
  return RUN_ALL_TESTS();
}
