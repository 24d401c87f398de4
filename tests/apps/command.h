// SPDX-License-Identifier: Apache-2.0
// Runs the built `lockstep` as a person would, and makes small captcha folders for it.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "support/process.h"

namespace lockstep::test {

inline std::string lockstep_path() { return std::string(LOCKSTEP_TEST_BIN_DIR) + "/lockstep"; }

inline ProcessOptions lockstep_command(std::vector<std::string> words, const std::filesystem::path& folder = {}) {
  words.insert(words.begin(), lockstep_path());
  return {.command = std::move(words), .environment = {{"LOCKSTEP_TIMEOUT", "60"}}, .folder = folder.string()};
}

inline ProcessResult lockstep(std::vector<std::string> words, const std::filesystem::path& folder = {}) {
  return run_process(lockstep_command(std::move(words), folder), std::chrono::seconds(240));
}

inline ProcessResult generate_digits(const std::filesystem::path& out, int count, int seed) {
  return lockstep({"generate", "captcha", "--out", out.string(), "--count", std::to_string(count), "--seed",
                   std::to_string(seed), "--charset", "0-9"});
}

// The smallest training that runs: conv3 on a few digit captchas.
inline std::vector<std::string> train_words(const std::filesystem::path& data, const std::filesystem::path& run_dir) {
  return {"train", "captcha:conv3",    "--run-dir", run_dir.string(),   "--set", "data.train=" + data.string(),
          "--set", "data.charset=0-9", "--set",     "batch_size=4",     "--set", "epochs=1",
          "--set", "workers=1",        "--set",     "log_every_steps=1"};
}

}  // namespace lockstep::test
