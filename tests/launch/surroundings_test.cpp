// SPDX-License-Identifier: Apache-2.0
// `lockstep run` where its surroundings are unusual: closed descriptors, output that nobody takes, a limit on the size
// of files, a network or a namespace of pids of its own.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include "launch/hangs/process_state.h"
#include "launch/hangs/process_tree.h"
#include "launch/run_fixture.h"
#include "lockstep/store/store.h"

namespace lockstep {
namespace surroundings_test {

using run_test::kLockstep;
using test::ProcessResult;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class Surroundings : public run_test::Run {
 protected:
  // A line of bash with $L for the command. What hangs ends after `limit`.
  [[nodiscard]] ProcessResult bash(const std::string& line,
                                   std::chrono::milliseconds limit = std::chrono::seconds(30)) const {
    auto options = command({});
    options.command = {"bash", "-c", line};
    options.environment.emplace_back("L", kLockstep);
    return test::run_process(options, limit);
  }

  [[nodiscard]] bool can(const std::string& line) const { return bash(line).code == 0; }
};

TEST_F(Surroundings, AClosedInputIsAnEmptyOne) {
  const auto result = bash("$L run -- cat <&-; echo code $?");
  EXPECT_FALSE(result.timed_out) << "the rank read a descriptor of its launcher";
  EXPECT_THAT(result.out, HasSubstr("code 0"));
}

TEST_F(Surroundings, NoOpenDescriptorIsNeeded) {
  const auto result =
      bash("$L run --nproc-per-node 2 -- sh -c 'cat; echo hi; echo ho >&2' <&- >&- 2>&-; echo $? > $DIR/code");
  EXPECT_FALSE(result.timed_out);
  EXPECT_EQ(run_test::read_file(folder_ / "code"), "0\n");
}

TEST_F(Surroundings, WordsThatNobodyTakesLeaveTheExitCodeAsItIs) {
  EXPECT_EQ(bash("$L run -- sh -c 'exit 3' 2>/dev/full").code, 3);
  const auto full = bash("$L run -- sh -c 'echo hi; exit 3' >/dev/full");
  EXPECT_EQ(full.code, 3);
  EXPECT_THAT(full.err, HasSubstr("standard output takes no more (No space left on device)"));
  EXPECT_EQ(bash("$L run -- sh -c 'seq 1 20000; exit 3' >/dev/full 2>&1").code, 3);
  EXPECT_EQ(bash("$L run -- sh -c 'seq 1 20000; exit 3' | true; exit ${PIPESTATUS[0]}").code, 3);
  EXPECT_EQ(bash("$L run --help >/dev/full").code, 0);
  EXPECT_EQ(bash("$L --help >/dev/full").code, 0);
  EXPECT_EQ(bash("$L run -- ./nothing 2>/dev/full").code, 64);
  EXPECT_EQ(bash("$L doctor --fast >/dev/full 2>&1; [ $? -lt 64 ]").code, 0);
}

TEST_F(Surroundings, AFileThatGrowsTooLargeIsToldAndEndsNothing) {
  const auto result = bash("ulimit -f 8; $L run --log-dir $DIR/logs -- sh -c 'seq 1 20000; exit 3' > $DIR/out");
  EXPECT_EQ(result.code, 3) << result.err;
  EXPECT_THAT(result.err,
              HasSubstr("is no longer written (File too large: the limit of this shell is 8,192 bytes (ulimit -f))"));
}

// What the ranks do at the limit is the programs' own matter.
TEST_F(Surroundings, ARankHasTheDefaultOfTheSignal) {
  EXPECT_EQ(bash("ulimit -f 8; exec $L run -- sh -c 'exec head -c 100000 /dev/zero > $DIR/large'").code, 128 + SIGXFSZ);
}

TEST_F(Surroundings, ALoopbackThatIsDownIsSaidAtOnce) {
  if (!can("unshare -n true")) GTEST_SKIP() << "no network namespaces here";
  const auto result = bash("exec unshare -n $L run -- true", std::chrono::seconds(10));
  EXPECT_EQ(result.code, 64);
  EXPECT_THAT(result.err,
              AllOf(HasSubstr("the loopback interface (lo) is down"), HasSubstr("next  ip link set lo up")));
}

// As in a container that shows the host's /proc.
TEST_F(Surroundings, WhatARankLeavesBehindIsEndedUnderAProcOfOtherPids) {
  if (!can("unshare --pid --fork true")) GTEST_SKIP() << "no namespaces of pids here";
  const auto result = bash(
      "exec unshare --pid --fork sh -c '$L run --shutdown-timeout 1 -- sh -c \"setsid sleep 1000 & exit 3\"; exit $?'");
  EXPECT_FALSE(result.timed_out);
  EXPECT_EQ(result.code, 3);
  EXPECT_THAT(result.err, Not(HasSubstr("hangs in the kernel")));
  EXPECT_TRUE(all_gone());
}

TEST_F(Surroundings, AProcessIsFoundUnderAProcOfOtherPids) {
  if (!can("unshare --pid --fork true")) GTEST_SKIP() << "no namespaces of pids here";
  const pid_t child = ::fork();
  if (child == 0) {
    if (::unshare(CLONE_NEWPID) != 0) ::_exit(2);
    const pid_t inner = ::fork();  // number 1 there, which is the system's first process in /proc
    if (inner == 0) {
      const auto self = launch::read_process(::getpid());
      ::_exit(self && self->state == 'R' && launch::number_in_proc() > 1 && !launch::read_process(4711) ? 0 : 3);
    }
    int status = 0;
    ::waitpid(inner, &status, 0);
    ::_exit(WEXITSTATUS(status));
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST_F(Surroundings, ATakenPortIsNamedWithItsHolder) {
  const StoreServer other({.host = "127.0.0.1", .port = 0, .token = "t"});
  const std::string pid = std::to_string(::getpid());
  auto options = command({"--nnodes", "2", "--node-rank", "0", "--master-port", std::to_string(other.port()), "true"});
  options.environment.emplace_back("LOCKSTEP_TOKEN", make_token());
  EXPECT_THAT(test::run_process(options).err, HasSubstr("is already in use by "));
  EXPECT_THAT(test::run_process(options).err, HasSubstr("(pid " + pid + ")"));
}

}  // namespace surroundings_test
}  // namespace lockstep
