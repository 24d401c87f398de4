// SPDX-License-Identifier: Apache-2.0
// Kills a writer at random moments, over and over: everything it committed is intact. The writer is this program,
// re-executed: forking once libtorch has threads can deadlock.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <stdexcept>
#include <thread>

#include "checkpoint/formats/folder_names.h"
#include "checkpoint/states.h"
#include "lockstep/base/error.h"
#include "lockstep/checkpoint/async_saver.h"
#include "lockstep/checkpoint/inspect.h"
#include "lockstep/store/store.h"
#include "support/temp_dir.h"

extern char** environ;

namespace lockstep {
namespace {

namespace fs = std::filesystem;

FileSystem& files() { return FileSystem::system(); }

std::string text_of(std::int64_t step) { return "step: " + std::to_string(step); }

/// Prints a step that is durable; 0 means that the first commit is about to begin.
void say(std::int64_t step) {
  std::printf("%lld\n", static_cast<long long>(step));
  std::fflush(stdout);
}

/// The step that a writer continues from. The previous writer may have died before it named its last step "best".
std::int64_t begin(const fs::path& folder) {
  const auto newest = find_newest_valid(files(), folder);
  if (newest) name_checkpoint(files(), folder, "best", *newest);
  return newest ? load_checkpoint(newest->string()).step() : 0;
}

void name_and_prune(const fs::path& folder, std::int64_t step, const fs::path& path) {
  if (step % 2 == 0) name_checkpoint(files(), folder, "best", path);
  prune_checkpoints(files(), folder, {.keep_last = 3});
  say(step);
}

/// Commits checkpoints, names them and prunes old ones, forever.
int write_forever(const fs::path& folder) {
  std::int64_t step = begin(folder);
  say(0);
  for (;;) {
    ++step;
    const fs::path path =
        commit_checkpoint(files(), folder, {.step = step}, test::states_of(step), {{"config.yml", text_of(step)}});
    name_and_prune(folder, step, path);
  }
}

ShardedContent content_of(std::int64_t step, int rank, int world) {
  ShardedContent content;
  for (const auto& [name, state] : test::states_of(step)) content.parts[name] = part_of(state, rank, world);
  if (rank == 0) content.texts["config.yml"] = text_of(step);
  return content;
}

/// Commits on a thread while the state that it copied is being changed.
int write_beside(const fs::path& folder) {
  std::int64_t step = begin(folder);
  AsyncSaver saver;
  say(0);
  for (;;) {
    ++step;
    StateParts parts = content_of(step, 0, 1).parts;
    saver.save(parts, [&folder, step](const StateParts& copy) {
      const auto peers = no_peers();
      const fs::path path =
          commit_sharded_checkpoint(files(), *peers, folder, {.step = step}, {copy, {{"config.yml", text_of(step)}}});
      name_and_prune(folder, step, path);
    });
    std::get<at::Tensor>(parts["model"].entries["conv.weight"]).fill_(-1);
  }
}

/// Two ranks, each with its part, rendezvous in the test's store.
int write_together(const fs::path& folder, int rank, const StoreAddress& address) {
  const auto store = connect_store(address, std::chrono::seconds(20));
  const auto peers = store_peers(*store, {.rank = rank, .world_size = 2});
  std::int64_t step = std::stoll(peers->broadcast(rank == 0 ? std::to_string(begin(folder)) : ""));
  if (rank == 0) say(0);
  for (;;) {
    ++step;
    const fs::path path = commit_sharded_checkpoint(files(), *peers, folder, {.step = step}, content_of(step, rank, 2));
    if (rank == 0) name_and_prune(folder, step, path);
  }
}

/// A writer and the pipe that its output goes to.
class Writer {
 public:
  explicit Writer(std::vector<std::string> words) {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) throw std::runtime_error("pipe2 failed");
    reader_.reset(ends[0]);
    const UniqueFd writer(ends[1]);
    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawn_file_actions_adddup2(&actions, writer.get(), STDOUT_FILENO);
    words.insert(words.begin(), "/proc/self/exe");
    std::vector<char*> arguments;
    for (std::string& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    const int failed = ::posix_spawn(&pid_, words[0].c_str(), &actions, nullptr, arguments.data(), environ);
    ::posix_spawn_file_actions_destroy(&actions);
    if (failed != 0) throw std::runtime_error("posix_spawn failed");
  }
  ~Writer() { kill(); }
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;

  /// Blocks until the writer has printed something; false if it died instead.
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

  /// The last step that it printed; call it after the writer has ended.
  [[nodiscard]] std::int64_t last_step() const {
    const auto end = said_.rfind('\n');
    if (end == std::string::npos || end == 0) return 0;
    const auto begin = said_.rfind('\n', end - 1);
    return std::stoll(said_.substr(begin == std::string::npos ? 0 : begin + 1));
  }

 private:
  UniqueFd reader_;
  pid_t pid_ = 0;
  std::string said_;
};

/// Checks the folder after a kill: step `said` was committed, and the next start leaves nothing half-written behind.
void check_survivors(const fs::path& run, std::int64_t said) {
  const fs::path folder = run / "checkpoints";
  remove_checkpoint_leftovers(files(), folder);
  bool any = false;
  for (const std::string& name : files().list(folder)) {
    EXPECT_FALSE(checkpoint::parse_temporary_pid(name).has_value()) << name << " was left behind";
    if (!checkpoint::parse_step_name(name)) continue;
    any = true;
    const VerifyReport report = verify_checkpoint(files(), folder / name);
    EXPECT_TRUE(report.ok()) << to_text(report);
  }
  ASSERT_TRUE(any || said == 0);
  if (!any) return;
  const Checkpoint newest = load_checkpoint(run.string());
  EXPECT_GE(newest.step(), said);
  EXPECT_TRUE(test::is_of(newest, newest.step()));
  EXPECT_EQ(newest.text("config.yml"), text_of(newest.step()));
  if (said < 2) return;
  const Checkpoint best = load_checkpoint(run.string() + ":best");
  EXPECT_TRUE(test::is_of(best, best.step()));
}

std::int64_t number_from(const char* variable, std::int64_t otherwise) {
  const char* value = std::getenv(variable);
  return value == nullptr ? otherwise : std::stoll(value);
}

/// Starts one or two writers, each of which is this program re-executed.
using Start = std::function<std::vector<std::unique_ptr<Writer>>(const fs::path& folder)>;

void kill_again_and_again(const Start& start) {
  const std::int64_t rounds = number_from("LOCKSTEP_KILL_ROUNDS", 10);
  std::mt19937 random(static_cast<unsigned>(number_from("LOCKSTEP_KILL_SEED", 7)));
  std::optional<test::TempDir> run;
  std::int64_t said = 0;
  for (std::int64_t round = 0; round < rounds; ++round) {
    SCOPED_TRACE("round " + std::to_string(round));
    // Occasionally start in a fresh folder: the first save must survive a kill as well.
    if (!run || random() % 4 == 0) {
      run.emplace();
      said = 0;
    }
    auto writers = start(*run / "checkpoints");
    ASSERT_TRUE(writers.front()->wait_for_output());
    // A random moment within the next commits.
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 20'000));
    if (writers.size() == 2 && random() % 2 == 0) {
      std::swap(writers[0], writers[1]);
      writers[0]->kill();
      std::this_thread::sleep_for(std::chrono::microseconds(random() % 5'000));
      std::swap(writers[0], writers[1]);
    }
    for (const auto& writer : writers) writer->kill();
    said = std::max(said, writers.front()->last_step());
    check_survivors(run->path(), said);
  }
  std::printf("kills: %lld\n", static_cast<long long>(rounds));
}

TEST(KilledWriter, OneProcessNeverLosesWhatItCommitted) {
  kill_again_and_again([](const fs::path& folder) {
    std::vector<std::unique_ptr<Writer>> writers;
    writers.push_back(std::make_unique<Writer>(std::vector<std::string>{"--write", folder.string()}));
    return writers;
  });
}

TEST(KilledWriter, AsynchronousSavesNeverLoseWhatWasCommitted) {
  kill_again_and_again([](const fs::path& folder) {
    std::vector<std::unique_ptr<Writer>> writers;
    writers.push_back(std::make_unique<Writer>(std::vector<std::string>{"--write-beside", folder.string()}));
    return writers;
  });
}

TEST(KilledWriter, TwoRanksNeverLoseWhatTheyCommitted) {
  std::unique_ptr<StoreServer> server;  // a new one for each start, without the messages of killed writers
  kill_again_and_again([&server](const fs::path& folder) {
    const std::string token = make_token();
    server = std::make_unique<StoreServer>(StoreServer::Options{.token = token});
    std::vector<std::unique_ptr<Writer>> writers;
    for (const char* rank : {"0", "1"}) {
      writers.push_back(std::make_unique<Writer>(
          std::vector<std::string>{"--write-together", folder.string(), rank, std::to_string(server->port()), token}));
    }
    return writers;
  });
}

}  // namespace
}  // namespace lockstep

namespace {

int write(const std::vector<std::string>& words) {
  if (words[0] == "--write") return lockstep::write_forever(words[1]);
  if (words[0] == "--write-beside") return lockstep::write_beside(words[1]);
  const auto port = static_cast<std::uint16_t>(std::stoi(words.at(3)));
  return lockstep::write_together(words[1], std::stoi(words.at(2)), {.port = port, .token = words.at(4)});
}

}  // namespace

int main(int argc, char** argv) {
  if (argc >= 3 && std::string(argv[1]).starts_with("--write")) {
    return lockstep::guarded_main([&] { return write({argv + 1, argv + argc}); });
  }
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
