// SPDX-License-Identifier: Apache-2.0
// The values in a folder of event files, read by a Python program that shares no code with the writer.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "support/shell.h"

namespace lockstep::test {

inline testing::Output read_event_files(const std::filesystem::path& folder, const std::string& options = "") {
  return testing::run_shell("python3 " LOCKSTEP_TEST_SOURCE_DIR "/tests/view/read_events.py " + folder.string() + " " +
                            options);
}

/// Throws if a record is damaged. `options`: "" for all values, "--shown" for those that TensorBoard shows.
inline std::vector<nlohmann::json> event_values(const std::filesystem::path& folder,
                                                const std::string& options = "--shown") {
  const auto output = read_event_files(folder, options);
  if (output.code != 0) throw std::runtime_error(output.text);
  std::vector<nlohmann::json> values;
  std::istringstream lines(output.text);
  for (std::string line; std::getline(lines, line);) values.push_back(nlohmann::json::parse(line));
  return values;
}

/// The scalars among the values: "Loss/total@3=0.5", ...
inline std::vector<std::string> event_points(const std::vector<nlohmann::json>& values) {
  std::vector<std::string> points;
  for (const auto& value : values) {
    if (!value.contains("scalar")) continue;
    std::ostringstream text;
    text << value["tag"].get<std::string>() << "@" << value["step"] << "=" << value["scalar"].get<double>();
    points.push_back(text.str());
  }
  return points;
}

}  // namespace lockstep::test
