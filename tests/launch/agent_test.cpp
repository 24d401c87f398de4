// SPDX-License-Identifier: Apache-2.0
// run_agent called the way `lockstep train` calls it: rank 0 has the console to itself. The test re-executes itself as
// that agent, under script(1) if it needs a terminal.
#include "lockstep/launch/agent.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>

#include "lockstep/base/error.h"
#include "support/process.h"
#include "support/temp_dir.h"

namespace lockstep {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::string own_path;

class RawAgent : public ::testing::Test {
 protected:
  std::string log(int rank, const std::string& name) const {
    std::ifstream in(folder_ / ("logs/attempt_0/rank-" + std::to_string(rank)) / name, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }

  test::ProcessOptions agent(const std::string& script) const {
    return {.command = {own_path, "agent"}, .environment = {{"SCRIPT", script}, {"LOGS", (folder_ / "logs").string()}}};
  }

  test::ProcessOptions agent_on_terminal(const std::string& script) const {
    auto options = agent(script);
    options.command = {"script", "-qec", "stty cols 77; " + own_path + " agent", "/dev/null"};
    return options;
  }

  test::TempDir folder_;
};

TEST_F(RawAgent, ShowsRankZeroAsItIsAndOfOthersOnlyTheErrors) {
  const auto result = test::run_process(agent("echo out $RANK; echo err $RANK >&2"));
  EXPECT_EQ(result.code, 0);
  EXPECT_EQ(result.out, "out 0\n");
  EXPECT_THAT(result.err, HasSubstr("[1]: err 1\n"));
  EXPECT_THAT(result.err, HasSubstr("err 0\n"));
  EXPECT_THAT(result.err, Not(HasSubstr("[0]")));
  EXPECT_EQ(log(1, "stdout.log"), "out 1\n");
  EXPECT_EQ(log(0, "stderr.log"), "err 0\n");
}

TEST_F(RawAgent, GivesRankZeroATerminalOfTheSameWidth) {
  const auto result = test::run_process(agent_on_terminal(
      "[ -t 1 ] && echo out is a terminal $RANK; [ -t 2 ] && echo err is a terminal $RANK >&2; stty size <&1; "
      "[ -t 1 ] || echo not on rank $RANK >&2"));
  EXPECT_EQ(result.code, 0) << result.out;
  EXPECT_THAT(result.out, HasSubstr("out is a terminal 0\r\n"));
  EXPECT_THAT(result.out, HasSubstr("err is a terminal 0\r\n"));
  EXPECT_THAT(result.out, HasSubstr(" 77\r\n"));
  EXPECT_THAT(result.out, HasSubstr("[1]: not on rank 1\r\n"));
  EXPECT_THAT(log(0, "stdout.log"), HasSubstr("out is a terminal 0\n"))
      << "the log has it too, without the terminal's \\r";
}

TEST_F(RawAgent, KeepsTheBarBelowTheLinesOfOthers) {
  // The agent writes output to the logs before it shows it, so the logs show the ranks what is on the screen.
  const auto result = test::run_process(
      agent_on_terminal("cd $LOGS/attempt_0; if [ $RANK = 0 ]; then printf '\\r10%%'; "
                        "until [ -s rank-1/stderr.log ]; do sleep 0.01; done; printf '\\r20%%\\n'; "
                        "else until [ -s rank-0/stdout.log ]; do sleep 0.01; done; echo warn >&2; fi"));
  EXPECT_THAT(result.out, HasSubstr("\r10%\r\033[K[1]: warn\r\n10%\r20%\r\n"));
}

TEST_F(RawAgent, ClearsABarBeforeTheRowThatFollowsIt) {
  // A bar on stderr, cleared, then a row on stdout; the next round starts once the row is in the log.
  const auto result =
      test::run_process(agent_on_terminal("[ $RANK = 0 ] || exit 0; cd $LOGS/attempt_0/rank-0; for i in $(seq 40); do "
                                          "printf 'bar' >&2; printf '\\r\\033[K' >&2; echo row; "
                                          "until [ $(grep -c row stdout.log) -ge $i ]; do :; done; done"));
  EXPECT_THAT(result.out, HasSubstr("row"));
  EXPECT_THAT(result.out, Not(HasSubstr("barrow")));
}

TEST_F(RawAgent, ShowsTheLastLinesOfRankZero) {
  const auto result =
      test::run_process(agent_on_terminal("if [ $RANK = 0 ]; then echo the reason >&2; exit 65; fi; sleep 1000"));
  EXPECT_EQ(result.code, 65);
  EXPECT_THAT(result.out, HasSubstr("rank 0 failed first: exit code 65"));
  EXPECT_THAT(result.out, HasSubstr("  | the reason\r\n"));
}

/// The script of a rank with a usage or input error.
std::string fails_at_once(int rank, int code, const std::string& type) {
  return "if [ $RANK = " + std::to_string(rank) + " ]; then printf '{\"message\": {\"message\": \"" + type +
         ": folder x is empty\\\\n  next  another\", \"extraInfo\": {\"type\": \"" + type +
         "\"}}}' > $TORCHELASTIC_ERROR_FILE; printf 'error: folder x is empty\\n  next  another\\n' >&2; exit " +
         std::to_string(code) + "; fi; sleep 1000";
}

TEST_F(RawAgent, ShowsAnErrorBeforeTheFirstStepAsAProcessAloneDoesWhicheverRankIsFirst) {
  for (const auto& [code, type] : {std::pair(64, "UsageError"), std::pair(65, "DataError")}) {
    for (const int rank : {0, 1}) {
      auto options = agent(fails_at_once(rank, code, type));
      options.environment.emplace_back("OMP_NUM_THREADS", "1");
      const auto result = test::run_process(options);
      EXPECT_EQ(result.code, code);
      EXPECT_EQ(result.err, "error: folder x is empty\n  next  another\n  logs    " + (folder_ / "logs\n").string())
          << "rank " << rank;
    }
  }
}

TEST_F(RawAgent, NamesTheRankOfAnErrorThatIsNoneOfCallOrInput) {
  const auto result = test::run_process(agent(fails_at_once(1, 74, "IoError")));
  EXPECT_EQ(result.code, 74);
  EXPECT_THAT(result.err, HasSubstr("lockstep: rank 1 failed first: exit code 74"));
}

TEST_F(RawAgent, EndsWithARankWhoseErrorIsVeryLong) {
  const auto result =
      test::run_process(agent("{ printf '{\"message\": \"'; head -c 600000 /dev/zero | tr '\\0' x; printf '\"}'; } "
                              "> $TORCHELASTIC_ERROR_FILE; exit 3"));
  EXPECT_FALSE(result.timed_out);
  EXPECT_EQ(result.code, 3);
  EXPECT_THAT(result.err, HasSubstr("failed first: exit code 3"));
}

TEST(Agent, RefusesNonsenseBeforeAnythingStarts) {
  EXPECT_THROW((void)run_agent({.command = {}}), UsageError);
  EXPECT_THROW((void)run_agent({.command = {"true"}, .processes = 0}), UsageError);
  EXPECT_THROW((void)run_agent({.command = {"true"}, .nodes = 2, .node_rank = 0, .master_port = 0}), UsageError);
  EXPECT_THROW((void)run_agent({.command = {"true"}, .node_rank = 1}), UsageError);
}

TEST(Agent, CanBeCalledAgain) {
  const test::TempDir folder;
  EXPECT_EQ(run_agent({.command = {"sh", "-c", "exit $((RANK * 4))"}, .processes = 2, .log_dir = folder.path()}), 4);
  EXPECT_EQ(run_agent({.command = {"true"}, .processes = 2}), 0);
}

}  // namespace
}  // namespace lockstep

int main(int argc, char** argv) {
  if (argc > 1 && std::string(argv[1]) == "agent") {
    return lockstep::guarded_main([] {
      return lockstep::run_agent({.command = {"sh", "-c", std::getenv("SCRIPT")},
                                  .processes = 2,
                                  .log_dir = std::getenv("LOGS"),
                                  .console = lockstep::ConsoleStyle::kMainRaw});
    });
  }
  lockstep::own_path = std::filesystem::read_symlink("/proc/self/exe");
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
