// SPDX-License-Identifier: Apache-2.0
// `lockstep run` as a user has it: real processes, shell scripts as workers. Every test marks its processes by a
// variable of their environment, so that it can show that none is left.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <fstream>
#include <iterator>

#include "lockstep/base/file_system.h"
#include "lockstep/store/store.h"
#include "support/process.h"
#include "support/temp_dir.h"

namespace lockstep {
namespace run_test {

namespace fs = std::filesystem;
using test::eventually;
using test::Process;
using test::ProcessResult;
using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::Not;
using ::testing::StartsWith;

const std::string kLockstep = std::string(LOCKSTEP_TEST_BIN_DIR) + "/lockstep";

std::string read_file(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

class Run : public ::testing::Test {
 protected:
  // `arguments` after "lockstep run"; workers see MARK in their environment and the folder's path in DIR.
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

  ProcessResult run(const std::vector<std::string>& arguments) const { return test::run_process(command(arguments)); }

  // Two ranks of a shell script.
  ProcessResult run_script(const std::string& script) const {
    return run({"--nproc-per-node", "2", "--", "sh", "-c", script});
  }

  [[nodiscard]] pid_t pid_of(int rank) const {
    return std::stoi(read_file(folder_ / ("ready-" + std::to_string(rank))));
  }

  [[nodiscard]] std::vector<pid_t> alive() const { return test::processes_with("MARK=" + mark_); }
  [[nodiscard]] bool all_gone() const {
    return eventually([&] { return alive().empty(); }, std::chrono::seconds(20));
  }

  // Until `count` ranks have made their file "ready-<rank>" in DIR.
  bool ready(int count) const {
    return eventually([&] {
      int found = 0;
      for (int rank = 0; rank < count; ++rank) found += fs::exists(folder_ / ("ready-" + std::to_string(rank))) ? 1 : 0;
      return found == count;
    });
  }

  test::TempDir folder_;
  const std::string mark_ = folder_.path().filename().string();
};

// Says that it is ready and who it is; the rename makes the file appear with its text.
constexpr const char* kReady = "echo $$ > $DIR/tmp-$RANK; mv $DIR/tmp-$RANK $DIR/ready-$RANK; ";

TEST_F(Run, GivesEveryRankItsPlaceAndItsPrefix) {
  const auto result = run_script("echo I am $RANK $LOCAL_RANK of $WORLD_SIZE $LOCAL_WORLD_SIZE; echo oops $RANK >&2");
  EXPECT_EQ(result.code, 0);
  EXPECT_THAT(result.out, HasSubstr("[0]: I am 0 0 of 2 2\n"));
  EXPECT_THAT(result.out, HasSubstr("[1]: I am 1 1 of 2 2\n"));
  EXPECT_THAT(result.err, HasSubstr("[1]: oops 1\n"));
  EXPECT_THAT(result.err, HasSubstr("OMP_NUM_THREADS=1"));
  EXPECT_THAT(result.err, Not(HasSubstr("logs")));
  EXPECT_TRUE(fs::is_empty(folder_.path())) << "the temporary logs are removed after success";
}

TEST_F(Run, LinesOfManyRanksAreNeverMixed) {
  const auto result =
      run({"--nproc-per-node", "4", "sh", "-c",
           "i=0; while [ $i -lt 200 ]; do printf 'a%s' $RANK; printf 'b%s\\n' $RANK; i=$((i+1)); done"});
  EXPECT_EQ(result.code, 0);
  std::istringstream lines(result.out);
  int count = 0;
  for (std::string line; std::getline(lines, line); ++count) {
    ASSERT_THAT(line, MatchesRegex("\\[[0-3]\\]: a[0-3]b[0-3]"));
    EXPECT_EQ(line[1], line[6]);
    EXPECT_EQ(line[1], line[8]);
  }
  EXPECT_EQ(count, 800);
}

TEST_F(Run, AFailingRankStopsTheOthersAndIsPrintedLast) {
  const auto result =
      run({"--nproc-per-node", "3", "sh", "-c",
           std::string(kReady) + "if [ $RANK = 1 ]; then until [ -e $DIR/ready-0 -a -e $DIR/ready-2 ]; do :; done; "
                                 "echo the reason >&2; exit 3; fi; sleep 1000"});
  EXPECT_EQ(result.code, 3);
  EXPECT_THAT(result.err, HasSubstr("rank 1 failed first: exit code 3 (pid " + std::to_string(pid_of(1)) + " on "));
  EXPECT_THAT(result.err,
              MatchesRegex(".*\n  last lines of .*/attempt_0/rank-1/stderr.log\n  \\| the reason\n  logs    [^\n]*\n"));
  EXPECT_TRUE(alive().empty());
}

TEST_F(Run, AKilledRankIsNamedByItsSignal) {
  const auto result = run_script(std::string(kReady) + "if [ $RANK = 1 ]; then kill -KILL $$; fi; sleep 1000");
  EXPECT_EQ(result.code, 137);
  EXPECT_THAT(result.err, HasSubstr("rank 1 failed first: killed by signal 9 (SIGKILL)"));
  EXPECT_TRUE(alive().empty());
}

TEST_F(Run, ARankThatLostAPeerIsNotBlamed) {
  const auto result = run_script("if [ $RANK = 0 ]; then exit 75; fi; sleep 0.2; kill -SEGV $$");
  EXPECT_EQ(result.code, 139);
  EXPECT_THAT(result.err, HasSubstr("rank 1 failed first: killed by signal 11 (SIGSEGV)"));
}

TEST_F(Run, ALoneLostPeerEndsTheOthersToo) {
  const auto result = run_script("if [ $RANK = 0 ]; then exit 75; fi; sleep 1000");
  EXPECT_EQ(result.code, 75);
  EXPECT_TRUE(alive().empty());
}

TEST_F(Run, AStoppedRankIsKilledWithoutGrace) {
  const auto start = std::chrono::steady_clock::now();
  const auto result =
      run({"--nproc-per-node", "2", "--shutdown-timeout", "50", "sh", "-c",
           std::string(kReady) + "if [ $RANK = 0 ]; then kill -STOP $$; fi; "
                                 "until [ -e $DIR/ready-0 ]; do :; done; "
                                 "until grep -q ' T ' /proc/$(cat $DIR/ready-0)/stat; do :; done; exit 4"});
  EXPECT_EQ(result.code, 4);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(30));
  EXPECT_TRUE(alive().empty());
}

TEST_F(Run, ARankThatIgnoresSigtermIsKilledAfterTheGrace) {
  const auto result =
      run({"--nproc-per-node", "2", "--shutdown-timeout", "0.3", "sh", "-c",
           "if [ $RANK = 0 ]; then trap '' TERM; echo > $DIR/ready-0; while :; do sleep 1000; done; fi; "
           "until [ -e $DIR/ready-0 ]; do :; done; exit 5"});
  EXPECT_EQ(result.code, 5);
  EXPECT_TRUE(alive().empty());
}

TEST_F(Run, ARankMayUseTheGraceToSaveItsState) {
  const auto result = run_script(
      "if [ $RANK = 0 ]; then trap 'echo saved; exit 143' TERM; echo > $DIR/ready-0; while :; do sleep 0.05; done; fi; "
      "until [ -e $DIR/ready-0 ]; do :; done; exit 5");
  EXPECT_EQ(result.code, 5);
  EXPECT_THAT(result.out, HasSubstr("[0]: saved\n"));
}

// A grandchild in a session of its own that ignores SIGTERM, and its parent is gone.
constexpr const char* kHider =
    "setsid sh -c 'trap \"\" TERM HUP; echo > $DIR/hidden-$RANK; while :; do sleep 1000; done' & "
    "until [ -e $DIR/hidden-$RANK ]; do :; done; ";

TEST_F(Run, GrandchildrenThatHideAreGoneAfterAFailure) {
  const auto result = run_script(std::string(kHider) + "if [ $RANK = 1 ]; then exit 3; fi; sleep 1000");
  EXPECT_EQ(result.code, 3);
  EXPECT_TRUE(alive().empty());
}

TEST_F(Run, GrandchildrenThatHideAreGoneAfterSuccess) {
  const auto result = run_script(std::string("(") + kHider + ") & until [ -e $DIR/hidden-$RANK ]; do :; done; exit 0");
  EXPECT_EQ(result.code, 0);
  EXPECT_TRUE(alive().empty());
}

TEST_F(Run, CtrlCLeavesNoProcess) {
  Process agent(command(
      {"--nproc-per-node", "2", "--shutdown-timeout", "1", "sh", "-c", std::string(kHider) + kReady + "sleep 1000"}));
  ASSERT_TRUE(ready(2));
  agent.signal(SIGINT);
  const auto result = agent.wait();
  EXPECT_EQ(result.code, 130);
  EXPECT_TRUE(alive().empty());
}

TEST_F(Run, SigtermLeavesNoProcess) {
  Process agent(command({"--nproc-per-node", "2", "sh", "-c", std::string(kReady) + "sleep 1000"}));
  ASSERT_TRUE(ready(2));
  agent.signal(SIGTERM);
  EXPECT_EQ(agent.wait().code, 143);
  EXPECT_TRUE(alive().empty());
}

TEST_F(Run, ASecondCtrlCDoesNotWaitForTheGrace) {
  Process agent(command({"--nproc-per-node", "2", "--shutdown-timeout", "1000", "sh", "-c",
                         std::string("trap '' INT TERM; ") + kReady + "while :; do sleep 1000; done"}));
  ASSERT_TRUE(ready(2));
  agent.signal(SIGINT);
  ASSERT_TRUE(agent.wait_for_output("once more"));
  agent.signal(SIGINT);
  EXPECT_EQ(agent.wait().code, 130);
  EXPECT_TRUE(alive().empty());
}

TEST_F(Run, KillingTheAgentLeavesNoProcess) {
  Process agent(command({"--nproc-per-node", "2", "sh", "-c", std::string(kHider) + kReady + "sleep 1000"}));
  ASSERT_TRUE(ready(2));
  EXPECT_GE(alive().size(), 6U);
  agent.signal(SIGKILL);
  EXPECT_EQ(agent.wait().code, 137);
  EXPECT_TRUE(all_gone());
}

TEST_F(Run, KillingAStubEndsItsWorkerAndTheJob) {
  Process agent(command(
      {"--nproc-per-node", "2", "sh", "-c", std::string(kReady) + "echo $PPID > $DIR/stub-$RANK; exec sleep 1000"}));
  ASSERT_TRUE(ready(2));
  ASSERT_TRUE(eventually([&] { return !read_file(folder_ / "stub-1").empty(); }));
  ::kill(std::stoi(read_file(folder_ / "stub-1")), SIGKILL);
  EXPECT_EQ(agent.wait().code, 137);
  EXPECT_TRUE(all_gone());
}

// `script` gives the launcher a terminal.
TEST_F(Run, OnATerminalRankZeroHasOneToDrawItsBarOn) {
  auto options = command({"--nproc-per-node", "2", "--", "sh", (folder_ / "bar.sh").string()});
  std::ofstream(folder_ / "bar.sh")
      << "[ -t 2 ] || { echo rank $RANK has none; exit 0; }\n"
         "echo wide $(stty size <&2); printf '\\r10%%' >&2; printf '\\r100%%\\n' >&2; echo 'error: red' >&2\n";
  std::string words;
  for (const auto& word : options.command) words += word + " ";
  options.command = {"script", "-qec", "stty cols 77; " + words, "/dev/null"};
  const auto result = test::run_process(options);
  EXPECT_EQ(result.code, 0) << result.out;
  EXPECT_THAT(result.out, HasSubstr("[0]: 100%\r\n"));
  EXPECT_THAT(result.out, MatchesRegex("(.|\n)*wide [0-9]+ 72(.|\n)*")) << "its prefix takes five columns of 77";
  EXPECT_THAT(result.out, HasSubstr("[1]: rank 1 has none\r\n"));
}

// An error of the command itself, as a person sees it.
TEST(Command, ColoursItsErrorsOnATerminalUnlessToldNotTo) {
  const auto on_terminal = [](const std::string& no_color, const std::string& term) {
    return test::run_process({.command = {"script", "-qec", kLockstep + " rnu", "/dev/null"},
                              .environment = {{"NO_COLOR", no_color}, {"TERM", term}, {"LOCKSTEP_LOG", ""}}})
        .out;
  };
  EXPECT_THAT(on_terminal("", "xterm"), StartsWith("\033[1;31merror:\033[0m unknown verb"));
  EXPECT_THAT(on_terminal("1", "xterm"), StartsWith("error: unknown verb"));
  EXPECT_THAT(on_terminal("", "dumb"), StartsWith("error: unknown verb"));
  EXPECT_THAT(test::run_process({.command = {kLockstep, "rnu"}}).err, StartsWith("error: unknown verb"));
}

TEST_F(Run, KeepsALogPerRankWhereAsked) {
  const auto result = run({"--nproc-per-node=2", "--log_dir=" + (folder_ / "logs").string(), "sh", "-c",
                           "echo out $RANK; printf 'err %s' $RANK >&2"});
  EXPECT_EQ(result.code, 0);
  for (const std::string rank : {"0", "1"}) {
    const fs::path of_rank = folder_ / ("logs/attempt_0/rank-" + rank);
    EXPECT_EQ(read_file(of_rank / "stdout.log"), "out " + rank + "\n");
    EXPECT_EQ(read_file(of_rank / "stderr.log"), "err " + rank);
  }
  EXPECT_THAT(result.err, HasSubstr("[1]: err 1\n"));
}

TEST_F(Run, AnErrorFileIsShownAndVetoesARestart) {
  const auto result = run({"--nproc-per-node", "1", "--max-restarts", "3", "sh", "-c",
                           "echo '{\"message\": {\"message\": \"DataError: torn image\", \"extraInfo\": {\"type\": "
                           "\"DataError\"}}}' > $LOCKSTEP_ERROR_FILE; exit 65"});
  EXPECT_EQ(result.code, 65);
  EXPECT_THAT(result.err, HasSubstr("no restart: a DataError would come again"));
  EXPECT_THAT(result.err, HasSubstr("  error   DataError: torn image\n"));
}

TEST_F(Run, RestartsTheGroupWithinTheBudget) {
  const auto result =
      run({"--nproc-per-node", "2", "--max-restarts", "2", "--log-dir", (folder_ / "logs").string(), "sh", "-c",
           "echo try $TORCHELASTIC_RESTART_COUNT of $TORCHELASTIC_MAX_RESTARTS; "
           "if [ $RANK$TORCHELASTIC_RESTART_COUNT = 01 ]; then exit 0; fi; [ $TORCHELASTIC_RESTART_COUNT = 2 ]"});
  EXPECT_EQ(result.code, 0);
  EXPECT_THAT(result.out, HasSubstr("[1]: try 2 of 2"));
  EXPECT_THAT(result.err, HasSubstr("restart 1 of 2"));
  EXPECT_EQ(read_file(folder_ / "logs/attempt_2/rank-1/stdout.log"), "try 2 of 2\n");
  EXPECT_EQ(run({"--nproc-per-node", "1", "--max-restarts", "1", "false"}).code, 1);
}

TEST_F(Run, TheStoreIsServedBeforeAnyWorkerStarts) {
  const auto result =
      run({"--nproc-per-node", "1", "sh", "-c", "echo $LOCKSTEP_STORE $LOCKSTEP_STORE_TOKEN; sleep 0.5"});
  EXPECT_THAT(result.out, MatchesRegex("\\[0\\]: 127.0.0.1:[0-9]+ [0-9a-f]+\n"));
}

TEST_F(Run, PublishesWhoFailedForTheOthersToRead) {
  Process agent(command({"--nproc-per-node", "2", "sh", "-c",
                         std::string("echo \"store $LOCKSTEP_STORE $LOCKSTEP_STORE_TOKEN \"; trap 'until [ -e $DIR/end "
                                     "]; do sleep 0.01; done; exit 143' TERM; ") +
                             kReady +
                             "if [ $RANK = 1 ]; then until [ -e $DIR/go ]; do sleep 0.01; done; exit 7; fi; while :; "
                             "do sleep 0.01; done"}));
  ASSERT_TRUE(ready(2));
  ASSERT_TRUE(agent.wait_for_output(" \n"));
  const std::string line = agent.out().substr(agent.out().find("store ") + 6);
  const auto colon = line.find(':');
  const auto space = line.find(' ');
  const auto store = connect_store({.host = line.substr(0, colon),
                                    .port = static_cast<std::uint16_t>(std::stoi(line.substr(colon + 1))),
                                    .token = line.substr(space + 1, 64)},
                                   test::kPatience);
  std::ofstream(folder_ / "go") << "1";
  EXPECT_THAT(store->get("lockstep/failure/first", test::kPatience),
              AllOf(HasSubstr("\"rank\":1"), HasSubstr("\"what\":\"exit code 7\""), HasSubstr("\"time_ns\":")));
  std::ofstream(folder_ / "end") << "1";
  EXPECT_EQ(agent.wait().code, 7);
}

TEST_F(Run, RunsPython) {
  std::ofstream(folder_ / "hello.py")
      << "import os, sys; print('rank', os.environ['RANK'], sys.argv[1:]); sys.exit(int(os.environ['RANK']) * 9)";
  const auto result =
      run({"--nproc_per_node", "2", (folder_ / "hello.py").string(), "--epochs", "3", "--nproc-per-node"});
  EXPECT_EQ(result.code, 9);
  EXPECT_THAT(result.out, HasSubstr("[1]: rank 1 ['--epochs', '3', '--nproc-per-node']"));
  EXPECT_EQ(run({"-m", "this"}).code, 0);
}

TEST_F(Run, AScriptWithoutAnInterpreterLineRunsInTheShell) {
  std::ofstream(folder_ / "script") << "echo plain $1\n";
  fs::permissions(folder_ / "script", fs::perms::owner_all);
  EXPECT_EQ(run({(folder_ / "script").string(), "word"}).out, "[0]: plain word\n");
}

TEST_F(Run, RankZeroReadsOurInput) {
  auto options =
      command({"--nproc-per-node", "2", "sh", "-c", "if read line; then echo got $line; else echo none; fi"});
  options.command = {"sh", "-c", "echo word | \"$@\"", "sh"};
  const auto inner =
      command({"--nproc-per-node", "2", "sh", "-c", "if read line; then echo got $line; else echo none; fi"});
  options.command.insert(options.command.end(), inner.command.begin(), inner.command.end());
  const auto result = test::run_process(options);
  EXPECT_THAT(result.out, HasSubstr("[0]: got word\n"));
  EXPECT_THAT(result.out, HasSubstr("[1]: none\n"));
}

TEST_F(Run, AnUnknownProgramIsOneErrorBeforeAnythingStarts) {
  const auto result = run({"--nproc-per-node", "2", "no-such-program-here"});
  EXPECT_EQ(result.code, 64);
  EXPECT_THAT(result.err,
              AllOf(StartsWith("error: program 'no-such-program-here' is not found"), Not(HasSubstr("note"))));
  EXPECT_EQ(run({(folder_ / "missing").string()}).code, 64);
  EXPECT_EQ(run({folder_.path().string()}).code, 64);
  std::ofstream(folder_ / "bad") << "#!/no/such/interpreter\n";
  fs::permissions(folder_ / "bad", fs::perms::owner_all);
  const auto no_interpreter = run({"--nproc-per-node", "2", (folder_ / "bad").string()});
  EXPECT_EQ(no_interpreter.code, 64);
  EXPECT_THAT(no_interpreter.err, HasSubstr("interpreter"));
}

TEST_F(Run, WrongOptionsGetTheNearestOne) {
  const auto result = run({"--nproc-per-nod", "2", "true"});
  EXPECT_EQ(result.code, 64);
  EXPECT_THAT(result.err, HasSubstr("did you mean '--nproc-per-node'?"));
  for (const std::vector<std::string>& wrong :
       std::vector<std::vector<std::string>>{{},
                                             {"--nproc-per-node", "two", "true"},
                                             {"--nproc-per-node"},
                                             {"--nnodes", "1:4", "true"},
                                             {"--nnodes", "2", "--node-rank", "2", "true"},
                                             {"--max-restarts", "-1", "true"},
                                             {"--master-port", "70000", "true"},
                                             {"--shutdown-timeout", "nan", "true"}}) {
    EXPECT_EQ(run(wrong).code, 64) << ::testing::PrintToString(wrong);
  }
}

TEST_F(Run, ABusyPortIsAnErrorThatNamesIt) {
  const StoreServer other({.host = "127.0.0.1", .port = 0, .token = "t"});
  const std::string port = std::to_string(other.port());
  const auto alone = run({"--master-port", port, "true"});
  EXPECT_EQ(alone.code, 64);
  EXPECT_THAT(alone.err, HasSubstr("127.0.0.1:" + port));
  const auto of_two = run({"--nnodes", "2", "--node-rank", "0", "--master-port", port, "true"});
  EXPECT_EQ(of_two.code, 64);
  EXPECT_THAT(of_two.err, HasSubstr("127.0.0.1:" + port));
}

TEST_F(Run, AGivenPortIsTheWorkersPort) {
  std::uint16_t port = 0;
  { port = StoreServer({.host = "127.0.0.1", .port = 0, .token = "t"}).port(); }
  const auto result = run({"--master_port", std::to_string(port), "sh", "-c", "echo port $MASTER_PORT"});
  EXPECT_EQ(result.out, "[0]: port " + std::to_string(port) + "\n");
}

TEST_F(Run, AutoSaysHowManyRanksAndWhy) {
  auto options = command({"--nproc-per-node", "auto", "sh", "-c", "echo $WORLD_SIZE"});
  options.environment.emplace_back("CUDA_VISIBLE_DEVICES", "-1");
  EXPECT_THAT(test::run_process(options).err,
              MatchesRegex("note: [0-9]+ ranks: no visible GPU, [0-9]+ usable CPUs?\n.*"));
}

TEST_F(Run, TheOutputOfALeftReaderDoesNotStopTheRanks) {
  auto options = command({});
  options.command = {
      "sh", "-c",
      "\"$0\" run sh -c 'i=0; while [ $i -lt 3000 ]; do echo line $i; i=$((i+1)); done; echo > $DIR/end' | head -n 1",
      kLockstep};
  EXPECT_EQ(test::run_process(options).out, "[0]: line 0\n");
  EXPECT_TRUE(fs::exists(folder_ / "end"));
}

class TwoNodes : public Run {
 protected:
  std::unique_ptr<Process> node(int rank, const std::string& script, const std::string& processes = "1") const {
    return std::make_unique<Process>(
        command({"--nnodes", "2", "--node-rank", std::to_string(rank), "--master-addr", "127.0.0.1", "--master-port",
                 std::to_string(port_), "--nproc-per-node", processes, "--", "sh", "-c", script}));
  }

  const std::uint16_t port_ = [] { return StoreServer({.host = "127.0.0.1", .port = 0, .token = "t"}).port(); }();
};

TEST_F(TwoNodes, AgreeOnTheWorld) {
  const std::string script = "echo $RANK $WORLD_SIZE $LOCAL_RANK $GROUP_RANK $MASTER_ADDR:$MASTER_PORT $LOCKSTEP_STORE";
  auto second = node(1, script, "2");
  auto first = node(0, script);
  const auto of_first = first->wait();
  const auto of_second = second->wait();
  EXPECT_EQ(of_first.code, 0) << of_first.err;
  EXPECT_EQ(of_second.code, 0) << of_second.err;
  const std::string store = " 127.0.0.1:" + std::to_string(port_) + "\n";
  EXPECT_THAT(of_first.out, AllOf(StartsWith("[0]: 0 3 0 0 127.0.0.1:"), EndsWith(store)));
  EXPECT_THAT(of_second.out, AllOf(HasSubstr("[2]: 2 3 1 1 127.0.0.1:"), EndsWith(store)));
  const auto master = of_first.out.substr(13);
  EXPECT_THAT(of_second.out, HasSubstr(master)) << "one master port, which is not the store's";
  EXPECT_THAT(master, Not(HasSubstr(std::to_string(port_) + " 127")));
}

TEST_F(TwoNodes, AFailureOnOneStopsTheOther) {
  auto first = node(0, "sleep 1000");
  auto second = node(1, "exit 9");
  const auto of_second = second->wait();
  const auto of_first = first->wait();
  EXPECT_EQ(of_second.code, 9);
  EXPECT_EQ(of_first.code, 9);
  EXPECT_THAT(of_first.err, HasSubstr("rank 1 on "));
  EXPECT_THAT(of_first.err, HasSubstr("failed first: exit code 9"));
  EXPECT_TRUE(alive().empty());
}

TEST_F(TwoNodes, AFailureReachesANodeWhoseRanksAreDone) {
  auto first = node(0, "until [ -e $DIR/done ]; do sleep 0.01; done; kill -9 $$");
  auto second = node(1, "echo > $DIR/done");
  EXPECT_EQ(first->wait().code, 137);
  const auto of_second = second->wait();
  EXPECT_EQ(of_second.code, 137);
  EXPECT_THAT(of_second.err, HasSubstr("killed by signal 9 (SIGKILL)"));
}

TEST_F(TwoNodes, TheDeathOfNodeZerosAgentEndsTheOther) {
  auto first = node(0, std::string(kReady) + "sleep 1000");
  auto second = node(1, std::string(kReady) + "sleep 1000");
  ASSERT_TRUE(ready(2));
  first->signal(SIGKILL);
  const auto of_second = second->wait();
  EXPECT_EQ(of_second.code, 75);
  EXPECT_THAT(of_second.err, HasSubstr("the agent of node 0"));
  EXPECT_TRUE(all_gone());
}

TEST_F(TwoNodes, ATokenThatDiffersIsRefused) {
  auto options = command({"--nnodes", "2", "--node-rank", "0", "--master-port", std::to_string(port_), "true"});
  Process first(options);
  options.command[5] = "1";
  options.environment.emplace_back("LOCKSTEP_TOKEN", "another");
  const auto result = test::run_process(options);
  EXPECT_EQ(result.code, 64);
  EXPECT_THAT(result.err, HasSubstr("LOCKSTEP_TOKEN"));
}

TEST_F(TwoNodes, AMissingNodeIsATimeoutThatNamesIt) {
  auto options = command({"--nnodes", "2", "--node-rank", "0", "--master-port", std::to_string(port_), "true"});
  options.environment.emplace_back("LOCKSTEP_TIMEOUT", "0.3");
  const auto alone = test::run_process(options);
  EXPECT_EQ(alone.code, 76);
  EXPECT_THAT(alone.err, HasSubstr("node 1 of 2 did not join within 0.3 s"));
}

TEST_F(TwoNodes, OfOneRankAreAnError) {
  const StoreServer server({.host = "127.0.0.1", .port = 0, .token = "none"});
  auto options = command({"--nnodes", "3", "--node-rank", "1", "--master-port", std::to_string(server.port()), "true"});
  const Process first(options);
  const auto store = connect_store({.host = "127.0.0.1", .port = server.port(), .token = "none"}, test::kPatience);
  (void)store->get("lockstep/agent/identity/1", test::kPatience);
  const auto second = test::run_process(options);
  EXPECT_EQ(second.code, 64);
  EXPECT_THAT(second.err, HasSubstr("two agents have --node-rank 1"));
}

TEST(Command, LoadsNoLibtorch) {
  test::TempDir folder;
  Process agent({.command = {kLockstep, "run", "sh", "-c", "echo up; sleep 1000"},
                 .environment = {{"TMPDIR", folder.path().string()}}});
  ASSERT_TRUE(agent.wait_for_output("up"));
  const std::string maps = read_file("/proc/" + std::to_string(agent.pid()) + "/maps");
  EXPECT_THAT(maps, HasSubstr("/lockstep"));
  for (const char* library : {"libtorch", "libc10", "libopenblas", "libgomp"})
    EXPECT_THAT(maps, Not(HasSubstr(library)));
  agent.signal(SIGTERM);
  EXPECT_EQ(agent.wait().code, 143);
}

TEST(Command, KnowsItsVersionAndItsVerbs) {
  EXPECT_THAT(test::run_process({.command = {kLockstep, "--version"}}).out, MatchesRegex("lockstep [0-9.]+\n"));
  const auto help = test::run_process({.command = {kLockstep, "run", "--help"}});
  EXPECT_EQ(help.code, 0);
  EXPECT_THAT(help.out, AllOf(HasSubstr("--nproc-per-node"), HasSubstr("Examples:")));
  const auto wrong = test::run_process({.command = {kLockstep, "rnu"}});
  EXPECT_EQ(wrong.code, 64);
  EXPECT_THAT(wrong.err, HasSubstr("did you mean 'run'?"));
  EXPECT_EQ(test::run_process({.command = {kLockstep}}).code, 64);
}

}  // namespace run_test
}  // namespace lockstep
