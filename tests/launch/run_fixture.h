// SPDX-License-Identifier: Apache-2.0
// `lockstep run` with real processes and shell scripts as workers. Every test marks its processes with an environment
// variable, to show that none is left behind.
#pragma once

#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include "support/process.h"
#include "support/temp_dir.h"

namespace lockstep::run_test {

inline const std::string kLockstep = std::string(LOCKSTEP_TEST_BIN_DIR) + "/lockstep";

inline std::string read_file(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

class Run : public ::testing::Test {
 protected:
  // `arguments` follow "lockstep run"; workers see MARK in their environment and the folder's path in DIR.
  test::ProcessOptions command(const std::vector<std::string>& arguments) const {
    std::vector<std::string> all = {kLockstep, "run"};
    all.insert(all.end(), arguments.begin(), arguments.end());
    return {.command = all,
            .environment = {{"MARK", mark_},
                            {"DIR", folder_.path().string()},
                            {"TMPDIR", folder_.path().string()},
                            {"OMP_NUM_THREADS", ""},
                            {"LOCKSTEP_LOG", ""}}};
  }

  test::ProcessResult run(const std::vector<std::string>& arguments) const {
    return test::run_process(command(arguments));
  }

  // Runs a shell script as two ranks.
  test::ProcessResult run_script(const std::string& script) const {
    return run({"--nproc-per-node", "2", "--", "sh", "-c", script});
  }

  [[nodiscard]] pid_t pid_of(int rank) const {
    return std::stoi(read_file(folder_ / ("ready-" + std::to_string(rank))));
  }

  [[nodiscard]] std::vector<pid_t> alive() const { return test::processes_with("MARK=" + mark_); }
  [[nodiscard]] bool all_gone() const {
    return test::eventually([&] { return alive().empty(); }, std::chrono::seconds(20));
  }

  // Stops launchers, stubs and ranks for longer than they would wait for each other, then continues them.
  void suspend(std::chrono::seconds time) const {
    const std::vector<pid_t> all = alive();
    for (const pid_t pid : all) ::kill(pid, SIGSTOP);
    std::this_thread::sleep_for(time);
    for (const pid_t pid : all) ::kill(pid, SIGCONT);
  }

  // Waits until `count` ranks have created their file "ready-<rank>" in DIR.
  bool ready(int count) const {
    return test::eventually([&] {
      int found = 0;
      for (int rank = 0; rank < count; ++rank)
        found += std::filesystem::exists(folder_ / ("ready-" + std::to_string(rank))) ? 1 : 0;
      return found == count;
    });
  }

  test::TempDir folder_;
  const std::string mark_ = folder_.path().filename().string();
};

// Reports a rank's readiness and process; the rename makes the file appear with its contents.
inline constexpr const char* kReady = "echo $$ > $DIR/tmp-$RANK; mv $DIR/tmp-$RANK $DIR/ready-$RANK; ";

}  // namespace lockstep::run_test
