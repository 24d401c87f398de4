// SPDX-License-Identifier: Apache-2.0
// A writer is killed at random moments, again and again; whatever it had committed is whole. The writer is this program
// executed again, since a fork after libtorch has threads can deadlock.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <random>
#include <stdexcept>
#include <thread>

#include "checkpoint/folder_names.h"
#include "checkpoint/states.h"
#include "lockstep/base/error.h"
#include "lockstep/checkpoint/inspect.h"
#include "support/temp_dir.h"

extern char** environ;

namespace lockstep {
namespace {

namespace fs = std::filesystem;

constexpr int kRounds = 20;

FileSystem& files() { return FileSystem::system(); }

std::string text_of(std::int64_t step) { return "step: " + std::to_string(step); }

/// Commits, names and prunes without end; says every step that is durable on stdout.
int write_forever(const fs::path& folder) {
  const auto newest = find_newest_valid(files(), folder);
  std::int64_t step = newest ? load_checkpoint(newest->string()).step() : 0;
  if (newest) name_checkpoint(files(), folder, "best", *newest);  // the one before may have died before it could
  for (;;) {
    ++step;
    const fs::path path =
        commit_checkpoint(files(), folder, {.step = step}, test::states_of(step), {{"config.yml", text_of(step)}});
    if (step % 2 == 0) name_checkpoint(files(), folder, "best", path);
    prune_checkpoints(files(), folder, {.keep_last = 3});
    std::printf("%lld\n", static_cast<long long>(step));
    std::fflush(stdout);
  }
}

/// A writer and the pipe on which it speaks.
class Writer {
 public:
  explicit Writer(const fs::path& folder) {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) throw std::runtime_error("pipe2 failed");
    reader_.reset(ends[0]);
    const UniqueFd writer(ends[1]);
    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawn_file_actions_adddup2(&actions, writer.get(), STDOUT_FILENO);
    std::string program = "/proc/self/exe";
    std::string option = "--write";
    std::string where = folder.string();
    char* arguments[] = {program.data(), option.data(), where.data(), nullptr};
    const int failed = ::posix_spawn(&pid_, program.c_str(), &actions, nullptr, arguments, environ);
    ::posix_spawn_file_actions_destroy(&actions);
    if (failed != 0) throw std::runtime_error("posix_spawn failed");
  }
  ~Writer() { kill(); }
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;

  /// Blocks until the writer has said something; false when it died instead.
  bool wait_for_output() {
    char byte = 0;
    const bool alive = ::read(reader_.get(), &byte, 1) == 1;
    if (alive) said_ += byte;
    return alive;
  }

  void kill() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    pid_ = 0;
    char buffer[4096];
    for (ssize_t got = 0; (got = ::read(reader_.get(), buffer, sizeof buffer)) > 0;)
      said_.append(buffer, static_cast<std::size_t>(got));
  }

  /// The last step that it said, after its end.
  [[nodiscard]] std::int64_t last_step() const {
    const auto end = said_.rfind('\n');
    if (end == std::string::npos) return 0;
    const auto begin = said_.rfind('\n', end - 1);
    return std::stoll(said_.substr(begin == std::string::npos ? 0 : begin + 1));
  }

 private:
  UniqueFd reader_;
  pid_t pid_ = 0;
  std::string said_;
};

void check_survivors(const fs::path& run, std::int64_t said) {
  const Checkpoint newest = load_checkpoint(run.string());
  EXPECT_GE(newest.step(), said);
  EXPECT_TRUE(test::is_of(newest, newest.step()));
  EXPECT_EQ(newest.text("config.yml"), text_of(newest.step()));
  for (const std::string& name : files().list(run / "checkpoints")) {
    if (!checkpoint::parse_step_name(name)) continue;
    const VerifyReport report = verify_checkpoint(files(), run / "checkpoints" / name);
    EXPECT_TRUE(report.ok()) << to_text(report);
  }
  if (said < 2) return;
  const Checkpoint best = load_checkpoint(run.string() + ":best");
  EXPECT_TRUE(test::is_of(best, best.step()));
}

TEST(KilledWriter, NeverLosesWhatItCommitted) {
  const test::TempDir run;
  std::mt19937 random(7);
  std::int64_t said = 0;
  for (int round = 0; round < kRounds; ++round) {
    SCOPED_TRACE("round " + std::to_string(round));
    Writer writer(run / "checkpoints");
    ASSERT_TRUE(writer.wait_for_output());
    // The moment is the point of the test: somewhere in the next commits.
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 20'000));
    writer.kill();
    ASSERT_GT(writer.last_step(), said);
    said = writer.last_step();
    check_survivors(run.path(), said);
  }
  commit_checkpoint(files(), run / "checkpoints", {.step = said + 1'000}, test::states_of(1));
  for (const std::string& name : files().list(run / "checkpoints")) {
    EXPECT_FALSE(checkpoint::parse_temporary_pid(name).has_value()) << name << " was left behind";
  }
}

}  // namespace
}  // namespace lockstep

int main(int argc, char** argv) {
  if (argc == 3 && std::strcmp(argv[1], "--write") == 0) {
    return lockstep::guarded_main([&] { return lockstep::write_forever(argv[2]); });
  }
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
