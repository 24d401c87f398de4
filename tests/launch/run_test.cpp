// SPDX-License-Identifier: Apache-2.0
// `lockstep run` on one node.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <fstream>
#include <iterator>

#include "launch/run_fixture.h"
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
using ::testing::ContainsRegex;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::Not;
using ::testing::StartsWith;

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

TEST_F(Run, ARankThatLeavesWhileTheJobIsSuspendedHasItsTimeAfterwards) {
  Process agent(command(
      {"--shutdown-timeout", "3", "sh", "-c",
       "trap 'sleep 1; echo > $DIR/saved; exit 143' TERM; " + std::string(kReady) + "while :; do sleep 0.1; done"}));
  ASSERT_TRUE(ready(1));
  agent.signal(SIGTERM);
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  suspend(std::chrono::seconds(5));
  EXPECT_EQ(agent.wait().code, 143);
  EXPECT_TRUE(std::filesystem::exists(folder_ / "saved"));
  EXPECT_TRUE(all_gone());
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

// A grandchild in its own session that ignores SIGTERM; its parent is gone.
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
  ASSERT_TRUE(agent.wait_for_output("repeat to kill them"));
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

// script(1) gives the launcher a terminal.
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

// An error in the command itself, on a terminal.
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
  EXPECT_THAT(result.err, HasSubstr("no restart: a DataError would occur again"));
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
  Process agent(command(
      {"--nproc-per-node", "2", "sh", "-c",
       std::string(
           "echo \"store $LOCKSTEP_STORE $LOCKSTEP_STORE_TOKEN $LOCKSTEP_STORE_PREFIX \"; trap 'until [ -e $DIR/end "
           "]; do sleep 0.01; done; exit 143' TERM; ") +
           kReady +
           "if [ $RANK = 1 ]; then until [ -e $DIR/go ]; do sleep 0.01; done; exit 7; fi; while :; "
           "do sleep 0.01; done"}));
  ASSERT_TRUE(ready(2));
  ASSERT_TRUE(agent.wait_for_output(" \n"));
  const std::string line = agent.out().substr(agent.out().find("store ") + 6);
  const auto colon = line.find(':');
  const auto space = line.find(' ');
  const auto prefix = line.substr(space + 66, line.find(' ', space + 66) - space - 66);
  const auto server = connect_store({.host = line.substr(0, colon),
                                     .port = static_cast<std::uint16_t>(std::stoi(line.substr(colon + 1))),
                                     .token = line.substr(space + 1, 64)},
                                    test::kPatience);
  const auto store = with_prefix(server, prefix);
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
              AllOf(StartsWith("error: program 'no-such-program-here' was not found"), Not(HasSubstr("note"))));
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
  auto options = command({"--nnodes", "2", "--node-rank", "0", "--master-port", port, "true"});
  options.environment.emplace_back("LOCKSTEP_TOKEN", make_token());
  const auto of_two = test::run_process(options);
  EXPECT_EQ(of_two.code, 64);
  EXPECT_THAT(of_two.err, HasSubstr("127.0.0.1:" + port));
}

TEST_F(Run, ANewTokenIsPrintedOrWritten) {
  const auto printed = run({"--new-token"});
  EXPECT_EQ(printed.code, 0);
  EXPECT_THAT(printed.out, MatchesRegex("[0-9a-f]{64}\n"));
  EXPECT_EQ(printed.err, "");
  const auto file = folder_ / "job.token";
  EXPECT_EQ(run({"--new-token", file.string()}).code, 0);
  EXPECT_EQ(fs::status(file).permissions(), fs::perms::owner_read | fs::perms::owner_write);
  EXPECT_THAT(read_file(file), MatchesRegex("[0-9a-f]{64}\n"));
  const auto again = run({"--new_token=" + file.string()});
  EXPECT_EQ(again.code, 64);
  EXPECT_THAT(again.err, HasSubstr("already exists"));
}

TEST_F(Run, TheRanksLogsAreTheirUsersAlone) {
  const mode_t before = ::umask(0);
  const auto result = run({"--log-dir", (folder_ / "logs").string(), "sh", "-c", "echo out; exit 3"});
  ::umask(before);
  EXPECT_EQ(result.code, 3);
  const fs::path rank = folder_ / "logs/attempt_0/rank-0";
  EXPECT_EQ(fs::status(rank).permissions(), fs::perms::owner_all);
  for (const char* name : {"stdout.log", "stderr.log"}) {
    EXPECT_EQ(fs::status(rank / name).permissions(), fs::perms::owner_read | fs::perms::owner_write) << name;
  }
}

TEST_F(Run, AGivenPortIsTheWorkersPort) {
  std::uint16_t port = 0;
  { port = StoreServer({.host = "127.0.0.1", .port = 0, .token = "t"}).port(); }
  const auto result = run({"--master_port", std::to_string(port), "sh", "-c", "echo port $MASTER_PORT"});
  EXPECT_EQ(result.out, "[0]: port " + std::to_string(port) + "\n");
}

TEST_F(Run, AGivenPortThatIsBusyIsAnErrorThatNamesItsHolder) {
  const StoreServer holder({.host = "127.0.0.1", .port = 0, .token = "t"});
  const auto result = run({"--master-port", std::to_string(holder.port()), "true"});
  EXPECT_EQ(result.code, 64);
  EXPECT_THAT(result.err, ContainsRegex("is already in use by .* .pid " + std::to_string(::getpid())));
}

// A rank of the previous round is stuck in the kernel and still listens on the port.
TEST_F(Run, AGivenPortThatIsStillHeldAfterARestartIsReplacedByAFreeOne) {
  std::uint16_t port = 0;
  { port = StoreServer({.host = "127.0.0.1", .port = 0, .token = "t"}).port(); }
  const std::string script = "echo $TORCHELASTIC_RESTART_COUNT at $MASTER_PORT.; " + std::string(kReady) +
                             "[ $TORCHELASTIC_RESTART_COUNT = 1 ] || until [ -e $DIR/held ]; do sleep 0.01; done; "
                             "exit $((1 - TORCHELASTIC_RESTART_COUNT))";
  test::Process process(
      command({"--master-port", std::to_string(port), "--max-restarts", "1", "--", "sh", "-c", script}));
  ASSERT_TRUE(ready(1));
  const StoreServer holder({.host = "127.0.0.1", .port = port, .token = "t"});
  std::ofstream(folder_ / "held") << "held";
  const auto result = process.wait();
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("0 at " + std::to_string(port) + "."));
  EXPECT_THAT(result.out, AllOf(HasSubstr("1 at "), Not(HasSubstr("1 at " + std::to_string(port) + "."))));
}

TEST_F(Run, TakesTorchrunsVariablesWhereTheOptionIsNotTyped) {
  auto options = command({"--", "sh", "-c", "echo $WORLD_SIZE $ROLE_NAME"});
  options.environment.insert(options.environment.end(), {{"PET_NPROC_PER_NODE", "3"}, {"PET_ROLE", "trainer"}});
  EXPECT_THAT(test::run_process(options).out, HasSubstr("[2]: 3 trainer\n"));
  options.command.insert(options.command.begin() + 2, {"--nproc-per-node", "1"});
  EXPECT_EQ(test::run_process(options).out, "[0]: 1 trainer\n");
  options = command({"true"});
  options.environment.emplace_back("PET_MAX_RESTARTS", "many");
  const auto wrong = test::run_process(options);
  EXPECT_EQ(wrong.code, 64);
  EXPECT_THAT(wrong.err, HasSubstr("'many' is not a whole number"));
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
  EXPECT_THAT(test::run_process({.command = {kLockstep, "--version"}}).out,
              MatchesRegex("lockstep [0-9.]+\n(commit    [0-9a-f]+(-dirty)?\n)?libtorch  .*\nkernels   .*\n"));
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
