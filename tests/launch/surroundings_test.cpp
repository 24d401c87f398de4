// SPDX-License-Identifier: Apache-2.0
// `lockstep run` in unusual environments and with torchrun's options.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <memory>

#include "launch/hangs/process_state.h"
#include "launch/hangs/process_tree.h"
#include "launch/run_fixture.h"
#include "lockstep/store/store.h"
#include "support/torch_python.h"

namespace lockstep {
namespace surroundings_test {

namespace fs = std::filesystem;
using run_test::kLockstep;
using run_test::Run;
using test::ProcessResult;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

// `lockstep run` in unusual surroundings: closed descriptors, output that no process is reading, a limit on file sizes,
// a separate network or pid namespace.

class Surroundings : public run_test::Run {
 protected:
  // Runs a bash command line in which $L is the command, for at most `limit`.
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
  EXPECT_THAT(full.err, HasSubstr("standard output no longer accepts output (No space left on device)"));
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
  EXPECT_THAT(
      result.err,
      HasSubstr("is no longer being written (File too large: the limit of this shell is 8,192 bytes (ulimit -f))"));
}

// `lockstep run --hosts` with a rank that writes more than a console that is not read takes, but not more than the
// launcher's pipe takes too: the launcher ends, and its last bytes are still in the pipe.
class SlowReader : public Surroundings {
 protected:
  void write_and_end() {
    process_ = std::make_unique<test::Process>(
        command({"--hosts", "localhost:1", "--", "sh", "-c",
                 "yes $(printf %01000d 7) | head -n 1144; " + std::string(run_test::kReady)}));
    ASSERT_TRUE(ready(1));
    ASSERT_TRUE(test::eventually([this] { return alive().size() == 1; })) << "only the command itself is left";
  }

  std::unique_ptr<test::Process> process_;
};

TEST_F(SlowReader, GetsAllOutputOfTheHosts) {
  write_and_end();
  const auto result = process_->wait();
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(std::count(result.out.begin(), result.out.end(), '\n'), 1144);
}

TEST_F(SlowReader, DoesNotKeepASignalFromEndingTheCommand) {
  write_and_end();
  process_->signal(SIGTERM);
  EXPECT_TRUE(all_gone());
  EXPECT_EQ(process_->wait().code, 128 + SIGTERM);
}

// The ranks' programs decide for themselves what happens at the limit.
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

// As in Kubernetes: a pod starts a few seconds before its name can be resolved.
TEST_F(Surroundings, ANameThatCanBeResolvedLaterIsAwaited) {
  if (!can("unshare -rm true")) GTEST_SKIP() << "no mount namespaces here";
  const auto port = StoreServer({.host = "127.0.0.1", .port = 0, .token = "t"}).port();
  const std::string node = "$L run --master-addr node-0.job --master-port " + std::to_string(port) + " --nnodes ";
  for (const std::string first : {"2 --node-rank 0", "2:2"}) {
    const auto result = bash(
        "rm -f $DIR/err; cp /etc/hosts $DIR/hosts; export LOCKSTEP_TOKEN=0123456789abcdef0123456789abcdef\n"
        "exec unshare -rm bash -c 'mount --bind $DIR/hosts /etc/hosts\n" +
        node + first + " -- sh -c \"echo rank \\$RANK\" 2> $DIR/err &\nfirst=$!\n" +
        "until grep -qs waiting.until.the.name $DIR/err; do sleep 0.05; done\n"
        "echo 127.0.0.1 node-0.job >> /etc/hosts\n" +
        node + (first == "2:2" ? "2:2" : "2 --node-rank 1") + " -- true; wait $first; echo code $?'");
    const std::string err = run_test::read_file(folder_ / "err");
    EXPECT_THAT(result.out, AllOf(HasSubstr(": rank "), HasSubstr("code 0"))) << result.err << err;
    EXPECT_THAT(err, HasSubstr("waiting until the name node-0.job can be resolved (3."));
  }
}

TEST_F(Surroundings, ANameThatIsNeverResolvedIsAnErrorAfterTheLimit) {
  const std::string line =
      "LOCKSTEP_TIMEOUT=1 LOCKSTEP_TOKEN=0123456789abcdef0123456789abcdef $L run --master-addr no-such.invalid "
      "--nnodes ";
  const auto fixed = bash(line + "2 --node-rank 0 true");
  EXPECT_EQ(fixed.code, 64);
  EXPECT_THAT(fixed.err, HasSubstr("the store's host 'no-such.invalid' cannot be resolved"));
  const auto range = bash(line + "1:2 true");
  EXPECT_EQ(range.code, 76);
  EXPECT_THAT(range.err, HasSubstr("no store at no-such.invalid:29500"));
}

// A network of its own, with a name server that never answers: each lookup blocks for a second or more.
TEST_F(Surroundings, TheLimitCountsTheSecondsThatTheResolverBlocks) {
  if (!can("unshare -rmn mount --bind /dev/null /etc/resolv.conf")) GTEST_SKIP() << "no namespaces here";
  std::ofstream(folder_ / "resolv.conf") << "nameserver 127.0.0.1\noptions timeout:1 attempts:1\n";
  std::ofstream(folder_ / "silent.py") << "import signal, socket\n"
                                          "server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n"
                                          "server.bind(('127.0.0.1', 53))\n"
                                          "print('up', flush=True)\n"
                                          "signal.pause()\n";
  const std::string rank = "MASTER_ADDR=no-such.job MASTER_PORT=29500 RANK=1 LOCAL_RANK=1 WORLD_SIZE=2 timeout 15 " +
                           std::string(LOCKSTEP_TEST_BIN_DIR) + "/lockstep-worker bench all-reduce";
  const auto result = bash(
      "export LOCKSTEP_TIMEOUT=6 LOCKSTEP_TOKEN=0123456789abcdef0123456789abcdef\n"
      "exec unshare -rmn bash -c 'ip link set lo up; mount --bind $DIR/resolv.conf /etc/resolv.conf\n"
      "python3 $DIR/silent.py > $DIR/up & server=$!\nuntil [ -s $DIR/up ]; do sleep 0.05; done\n" +
      rank + " & rank=$!\n" +
      "timeout 15 $L run --master-addr no-such.job --nnodes 2 --node-rank 1 true; echo node $?\n"
      "wait $rank; echo rank $?; kill $server'");
  EXPECT_THAT(result.out, AllOf(HasSubstr("node 76\n"), HasSubstr("rank 76\n"))) << result.err;
  EXPECT_THAT(result.err, HasSubstr("waiting until the name no-such.job can be resolved"));
  EXPECT_THAT(result.err, HasSubstr("no store at no-such.job:29500 (Temporary failure in name resolution)"));
}

TEST_F(Surroundings, AnErrorSaysWhyTheAddressOfTheMasterCannotBeUsed) {
  const StoreServer other({.host = "127.0.0.1", .port = 0, .token = "t"});
  const std::string port = std::to_string(other.port());
  const auto said = [&](const std::string& host) {
    return bash("$L run --master-addr " + host + " --master-port " + port + " true").err;
  };
  EXPECT_THAT(said("no-such.invalid"), HasSubstr("'no-such.invalid' cannot be resolved"));
  EXPECT_THAT(said("192.0.2.1"), HasSubstr("the address does not belong to this machine"));
  EXPECT_THAT(said("127.0.0.1"), HasSubstr(port + " is already in use by "));
}

TEST_F(Surroundings, AProgramOnADiskWithoutExecutionIsSaidToBeThere) {
  if (!can("unshare -rm true")) GTEST_SKIP() << "no mount namespaces here";
  const auto result = bash(
      "mkdir $DIR/disk; exec unshare -rm bash -c 'mount -t tmpfs -o noexec none $DIR/disk && cp /bin/true $DIR/disk && "
      "exec $L run -- $DIR/disk/true'");
  EXPECT_EQ(result.code, 64);
  EXPECT_THAT(result.err, HasSubstr("disk/true' cannot be executed: its file system is mounted noexec"));
}

TEST_F(Surroundings, AProgramThatThisUserMayNotExecuteIsNoMissingProgram) {
  const std::string user =
      "user=$(test $(id -u) != 0 || echo setpriv --bounding-set=-dac_override,-dac_read_search --)\n";
  if (!can(user + "$user true")) GTEST_SKIP() << "this user may execute everything";
  const auto result = bash(user +
                           "mkdir $DIR/shut; cp /bin/true $DIR/shut; cp /bin/true $DIR/others; chmod 0 $DIR/shut; "
                           "chmod 0655 $DIR/others; $user $L run -- $DIR/shut/true; $user $L run -- $DIR/others; "
                           "chmod 700 $DIR/shut");
  EXPECT_THAT(result.err, HasSubstr("shut/true' cannot be read: this user may not enter one of its folders"));
  EXPECT_THAT(result.err, HasSubstr("others' (mode 655)"));
}

TEST_F(Surroundings, AFolderIsNoProgramThatAPathWouldFind) {
  const auto result = bash("cd $DIR; mkdir model; $L run -- model; $L run -- ''");
  EXPECT_THAT(result.err, AllOf(HasSubstr("'model' is a folder, not a program"),
                                HasSubstr("the name of the program is empty"), Not(HasSubstr("write ./"))));
}

// As in a container that shows the host's /proc.
TEST_F(Surroundings, WhatARankLeavesBehindIsEndedUnderAProcOfOtherPids) {
  if (!can("unshare --pid --fork true")) GTEST_SKIP() << "no namespaces of pids here";
  const auto result = bash(
      "exec unshare --pid --fork sh -c '$L run --shutdown-timeout 1 -- sh -c \"setsid sleep 1000 & exit 3\"; exit $?'");
  EXPECT_FALSE(result.timed_out);
  EXPECT_EQ(result.code, 3);
  EXPECT_THAT(result.err, Not(HasSubstr("is hanging in the kernel")));
  EXPECT_TRUE(all_gone());
}

TEST_F(Surroundings, AProcessIsFoundUnderAProcOfOtherPids) {
  if (!can("unshare --pid --fork true")) GTEST_SKIP() << "no namespaces of pids here";
  const pid_t child = ::fork();
  if (child == 0) {
    if (::unshare(CLONE_NEWPID) != 0) ::_exit(2);
    const pid_t inner = ::fork();  // it has PID 1 there; in /proc that is the system's init
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

// `lockstep run` with torchrun's options, and each launcher running the other's programs.

class Torchrun : public Run {
 protected:
  // Two ranks that print a word on each stream, with logs in DIR/logs.
  test::ProcessResult talk(std::vector<std::string> options) const {
    options.insert(options.begin(), {"--nproc-per-node", "2", "--log-dir", logs().string()});
    options.insert(options.end(), {"--", "sh", "-c", "echo out $RANK; echo err $RANK >&2"});
    return run(options);
  }

  fs::path logs() const { return folder_ / "logs"; }

  std::string log(int rank, const std::string& name) const {
    return run_test::read_file(logs() / "attempt_0" / ("rank-" + std::to_string(rank)) / name);
  }
};

TEST_F(Torchrun, RedirectsTakeAStreamFromTheConsoleAndLeaveItInTheLogs) {
  const auto result = talk({"--redirects", "1"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, IsEmpty());
  EXPECT_THAT(result.err, AllOf(HasSubstr("[0]: err 0\n"), HasSubstr("[1]: err 1\n")));
  EXPECT_EQ(log(1, "stdout.log"), "out 1\n");
}

TEST_F(Torchrun, RedirectsAndTeeCanBeSaidForEachLocalRank) {
  const auto result = talk({"-r", "3", "-t", "0:1,1:2"});
  EXPECT_EQ(result.out, "[0]: out 0\n");
  EXPECT_THAT(result.err, AllOf(HasSubstr("[1]: err 1\n"), Not(HasSubstr("err 0"))));
  EXPECT_EQ(log(0, "stderr.log"), "err 0\n");
}

TEST_F(Torchrun, TheConsoleCanBeLimitedToSomeLocalRanks) {
  const auto result = talk({"--local-ranks-filter", "1"});
  EXPECT_EQ(result.out, "[1]: out 1\n");
  EXPECT_EQ(log(0, "stdout.log"), "out 0\n");
}

TEST_F(Torchrun, ALinesPrefixIsATemplate) {
  const auto result =
      talk({"--log-line-prefix-template", "<${role_name} ${local_rank}/${rank}> ", "--role", "trainer"});
  EXPECT_THAT(result.out, HasSubstr("<trainer 1/1> out 1\n"));
  auto options = command({"--", "sh", "-c", "echo word"});
  options.environment.emplace_back("TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE", "${rank}|");
  EXPECT_EQ(test::run_process(options).out, "0|word\n");
}

TEST_F(Torchrun, WrongValuesAreErrorsThatSayTheForm) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> wrong = {
      {{"--tee", "4"}, "--tee is '4'"},
      {{"--redirects", "0:1,x"}, "--redirects is '0:1,x'"},
      {{"--local-ranks-filter", "a"}, "--local-ranks-filter is 'a'"},
      {{"--signals-to-handle", "SIGTERM,SIGFOO"}, "--signals-to-handle contains 'SIGFOO'"},
      {{"--log-line-prefix-template", "${host}: "}, "--log-line-prefix-template contains '${host}'"},
      {{"--rdzv-backend", "etcd"}, "--rdzv-backend is 'etcd'"}};
  for (const auto& [words, said] : wrong) {
    const auto result = talk(words);
    EXPECT_EQ(result.code, 64) << said;
    EXPECT_THAT(result.err, AllOf(HasSubstr(said), HasSubstr("  next  ")));
  }
}

TEST_F(Torchrun, VariablesStandForOptions) {
  auto options = command({"--", "sh", "-c", "echo out $RANK"});
  options.environment.emplace_back("PET_NPROC_PER_NODE", "2");
  options.environment.emplace_back("PET_LOCAL_RANKS_FILTER", "1");
  EXPECT_EQ(test::run_process(options).out, "[1]: out 1\n");
}

TEST_F(Torchrun, ASignalThatIsNotHandledEndsTheLauncherAsAnyProcess) {
  test::Process agent(command({"--nproc-per-node", "2", "--signals-to-handle", "SIGINT", "--", "sh", "-c",
                               std::string(run_test::kReady) + "trap 'echo told' TERM; sleep 1000"}));
  ASSERT_TRUE(ready(2));
  agent.signal(SIGTERM);
  const auto result = agent.wait();
  EXPECT_EQ(result.code, 143);
  EXPECT_THAT(result.out, Not(HasSubstr("told")));
  EXPECT_TRUE(all_gone());
}

TEST_F(Torchrun, AVirtualLocalRankSeesOneGpuOnly) {
  auto options = command({"--nproc-per-node", "2", "--virtual-local-rank", "--", "sh", "-c",
                          "echo rank $RANK local $LOCAL_RANK sees $CUDA_VISIBLE_DEVICES"});
  options.environment.emplace_back("CUDA_VISIBLE_DEVICES", "4,7");
  const auto result = test::run_process(options);
  EXPECT_THAT(result.out, AllOf(HasSubstr("rank 0 local 0 sees 4\n"), HasSubstr("rank 1 local 0 sees 7\n")));
}

TEST_F(Torchrun, NoLogsAreKeptInDevNull) {
  const auto result = run({"--log-dir", "/dev/null", "--", "sh", "-c", "exit 3"});
  EXPECT_EQ(result.code, 3);
  EXPECT_THAT(result.err, Not(HasSubstr("  logs ")));
  for (const auto& entry : fs::directory_iterator(folder_.path())) {
    EXPECT_THAT(entry.path().string(), Not(HasSubstr("lockstep-logs")));
  }
}

TEST_F(Torchrun, AScriptRunsByItsPath) {
  std::ofstream(folder_ / "script.txt") << "import sys\nif __name__ == '__main__': print('ran', sys.argv[1:])\n";
  const auto result = run({"--run-path", (folder_ / "script.txt").string(), "--epochs", "3"});
  EXPECT_EQ(result.out, "[0]: ran ['--epochs', '3']\n") << result.err;
}

TEST_F(Torchrun, TheCauseIsLeftWhereAnOuterLauncherLooksForIt) {
  auto options = command({"--", "sh", "-c", "echo '{\"message\": \"no data\"}' > $TORCHELASTIC_ERROR_FILE; exit 3"});
  options.environment.emplace_back("TORCHELASTIC_ERROR_FILE", (folder_ / "outer.json").string());
  EXPECT_EQ(test::run_process(options).code, 3);
  EXPECT_EQ(run_test::read_file(folder_ / "outer.json"), "{\"message\": \"no data\"}\n");
}

class OtherLauncher : public Torchrun {
 protected:
  void SetUp() override {
    if (!fs::exists(peers() / "torchrun.py")) GTEST_SKIP() << peers() << " is not there";
    if (test::run_process({.command = {"/usr/bin/python3", "-c", "import torch"}}).code != 0) {
      GTEST_SKIP() << "python3-torch is not there";
    }
  }

  static fs::path peers() { return fs::path(LOCKSTEP_TEST_SOURCE_DIR) / "../shared/peers"; }
};

TEST_F(OtherLauncher, PythonsTorchrunStartsALockstepProgram) {
  const std::string python = testing::python_of_this_torch();
  if (python.empty()) GTEST_SKIP() << "no python3 has torch " << LOCKSTEP_TEST_TORCH_VERSION;
  auto options = command({});
  options.command = {python,
                     (peers() / "torchrun.py").string(),
                     "--monitor_interval",
                     "0.1",
                     "--nproc_per_node",
                     "2",
                     "--no_python",
                     std::string(LOCKSTEP_TEST_BIN_DIR) + "/lockstep-worker",
                     "bench",
                     "all-reduce",
                     "--bytes",
                     "4096",
                     "--json"};
  const auto result = test::run_process(options);
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, AllOf(HasSubstr("\"bench\": \"all_reduce\""), HasSubstr("\"ranks\": 2")));
}

TEST_F(OtherLauncher, LockstepRunStartsAPythonProgram) {
  const auto result =
      run({"--nproc-per-node", "2", "--no-python", "--", "/usr/bin/python3", (peers() / "startup.py").string()});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("[0]: {\"bench\": \"startup\", \"ranks\": 2}\n"));
}

}  // namespace surroundings_test
}  // namespace lockstep
