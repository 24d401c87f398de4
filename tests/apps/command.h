// SPDX-License-Identifier: Apache-2.0
// Runs the built `lockstep` as a person would, and creates small captcha folders for it.
#pragma once

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "support/process.h"
#include "support/sanitizer.h"
#include "support/temp_dir.h"

namespace lockstep::test {

/// The longest that a command which trains may take.
inline constexpr std::chrono::seconds kTrainingPatience{kAnySanitizer ? 2400 : 240};

inline std::string lockstep_path() { return std::string(LOCKSTEP_TEST_BIN_DIR) + "/lockstep"; }

inline ProcessOptions lockstep_command(std::vector<std::string> words, const std::filesystem::path& folder = {}) {
  words.insert(words.begin(), lockstep_path());
  return {.command = std::move(words), .environment = {{"LOCKSTEP_TIMEOUT", "60"}}, .folder = folder.string()};
}

/// A lockstep-worker that serves many short requests: each start costs half a second of CPU time.
class LoadedWorker {
 public:
  LoadedWorker() {
    int in[2];
    int out[2];
    if (::pipe2(in, O_CLOEXEC) != 0 || ::pipe2(out, O_CLOEXEC) != 0) throw std::runtime_error("pipe2 failed");
    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawn_file_actions_adddup2(&actions, in[0], 0);
    ::posix_spawn_file_actions_adddup2(&actions, out[1], 1);
    ::posix_spawn_file_actions_addopen(&actions, 2, errors().c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
    std::string program = std::string(LOCKSTEP_TEST_BIN_DIR) + "/lockstep-worker";
    char mode[] = "answers";
    char* arguments[] = {program.data(), mode, nullptr};
    const int problem = ::posix_spawn(&pid_, program.c_str(), &actions, nullptr, arguments, environ);
    ::posix_spawn_file_actions_destroy(&actions);
    ::close(in[0]);
    ::close(out[1]);
    if (problem != 0) throw std::runtime_error("lockstep-worker was not started");
    questions_ = in[1];
    answers_ = ::fdopen(out[0], "r");
  }
  ~LoadedWorker() {
    ::close(questions_);
    std::fclose(answers_);
    ::waitpid(pid_, nullptr, 0);
  }
  LoadedWorker(const LoadedWorker&) = delete;
  LoadedWorker& operator=(const LoadedWorker&) = delete;

  ProcessResult ask(const std::vector<std::string>& words, const std::filesystem::path& folder) {
    std::string line = folder.string();
    for (const std::string& word : words) line += '\t' + word;
    line += '\n';
    if (::write(questions_, line.data(), line.size()) != static_cast<ssize_t>(line.size())) return {};
    ProcessResult result;
    int letter = 0;
    while ((letter = std::getc(answers_)) != '\f' && letter != EOF) result.out += static_cast<char>(letter);
    if (std::fscanf(answers_, "%d", &result.code) == 1) std::getc(answers_);
    std::ifstream file(errors());
    file.seekg(static_cast<std::streamoff>(seen_));
    result.err.assign(std::istreambuf_iterator<char>(file), {});
    seen_ += result.err.size();
    return result;
  }

 private:
  std::filesystem::path errors() const { return folder_ / "errors"; }

  TempDir folder_;
  pid_t pid_ = -1;
  int questions_ = -1;
  std::FILE* answers_ = nullptr;
  std::size_t seen_ = 0;
};

/// Returns what `lockstep` would give for a lockstep-worker verb that starts no rank, because lockstep execs that
/// program right away.
inline ProcessResult ask_worker(const std::vector<std::string>& words, const std::filesystem::path& folder) {
  static LoadedWorker worker;
  return worker.ask(words, folder);
}

inline ProcessResult lockstep(std::vector<std::string> words, const std::filesystem::path& folder = {}) {
  return run_process(lockstep_command(std::move(words), folder), kTrainingPatience);
}

/// Makes `to` a copy of the folder that `make` fills, once per process: each start of lockstep-worker costs half a
/// second of CPU time. Returns: the result of `make`.
inline ProcessResult copy_of(const std::string& name, const std::filesystem::path& to,
                             const std::function<ProcessResult(const std::filesystem::path& folder)>& make) {
  static const TempDir all;
  static std::map<std::string, ProcessResult> made;
  const std::filesystem::path folder = all / name;
  if (!made.contains(name)) {
    std::filesystem::create_directories(folder);
    made[name] = make(folder);
  }
  std::filesystem::create_directories(to);
  std::filesystem::copy(folder, to,
                        std::filesystem::copy_options::recursive | std::filesystem::copy_options::copy_symlinks);
  return made[name];
}

/// Runs `lockstep generate` with these arguments and writes to `out`; generates the data only once per process.
inline ProcessResult generate_once(std::vector<std::string> words, const std::filesystem::path& out) {
  std::string name = "generate";
  for (const std::string& word : words) name += " " + word;
  return copy_of(name, out, [&](const std::filesystem::path& folder) {
    words.insert(words.begin(), "generate");
    words.insert(words.end(), {"--out", folder.string()});
    return lockstep(words);
  });
}

inline ProcessResult generate_digits(const std::filesystem::path& out, int count, int seed) {
  return generate_once(
      {"captcha", "--count", std::to_string(count), "--seed", std::to_string(seed), "--charset", "0-9"}, out);
}

// The arguments of the smallest training run: conv3 on a few digit captchas.
inline std::vector<std::string> train_words(const std::filesystem::path& data, const std::filesystem::path& run_dir) {
  return {"train", "captcha:conv3",    "--run-dir", run_dir.string(),   "--set", "data.train=" + data.string(),
          "--set", "data.charset=0-9", "--set",     "batch_size=4",     "--set", "epochs=1",
          "--set", "workers=1",        "--set",     "log_every_steps=1"};
}

}  // namespace lockstep::test
