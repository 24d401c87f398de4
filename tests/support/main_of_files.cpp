// SPDX-License-Identifier: Apache-2.0
// One program may hold the tests of several files: --file=zero_test.cpp runs those of that one. A filter of gtest's own
// goes before: so a test that starts its program again, as a rank, names itself.
#include <gtest/gtest.h>

#include <filesystem>
#include <iostream>
#include <optional>
#include <string>
#include <string_view>

#include "support/rank_template.h"

namespace {

std::optional<std::string> wanted_file(int argc, char** argv) {
  constexpr std::string_view kFlag = "--file=";
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (word.starts_with(kFlag)) return std::string(word.substr(kFlag.size()));
  }
  return std::nullopt;
}

/// "Suite.Name:Suite.Name:..." of the tests that stand in `file`.
std::string filter_of(const std::string& file) {
  const auto& program = *::testing::UnitTest::GetInstance();
  std::string filter;
  for (int i = 0; i < program.total_test_suite_count(); ++i) {
    const auto& suite = *program.GetTestSuite(i);
    for (int k = 0; k < suite.total_test_count(); ++k) {
      const auto& test = *suite.GetTestInfo(k);
      if (std::filesystem::path(test.file()).filename() != file) continue;
      filter += std::string(filter.empty() ? "" : ":") + suite.name() + "." + test.name();
    }
  }
  return filter;
}

}  // namespace

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  if (const auto test = lockstep::testing::serve_as_template()) GTEST_FLAG_SET(filter, *test);
  const std::optional<std::string> file = wanted_file(argc, argv);
  if (file && GTEST_FLAG_GET(filter) == "*") {
    GTEST_FLAG_SET(filter, filter_of(*file));
    if (GTEST_FLAG_GET(filter).empty()) {
      std::cerr << "error: this program has no test of " << *file << "\n";
      return 1;
    }
  }
  return RUN_ALL_TESTS();
}
