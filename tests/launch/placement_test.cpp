// SPDX-License-Identifier: Apache-2.0
// How ranks are started: their hosts, GPUs, number and environment.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "launch/hosts/host_command.h"
#include "launch/hosts/host_group.h"
#include "launch/hosts/host_lines.h"
#include "launch/worker_env.h"
#include "lockstep/base/control_group.h"
#include "lockstep/base/error.h"
#include "lockstep/launch/gpus.h"
#include "lockstep/launch/hosts.h"
#include "lockstep/launch/processes.h"
#include "support/temp_dir.h"

namespace lockstep::launch {
namespace placement_test {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

EnvironmentSpec spec() {
  return {
      .place = {.local_rank = 1, .local_world_size = 2, .first_rank = 4, .world_size = 8, .node_rank = 2, .nodes = 3},
      .master_addr = "10.0.0.1",
      .master_port = 12345,
      .store = {.host = "10.0.0.1", .port = 29500, .token = "secret"},
      .store_prefix = "rounds/7/1/",
      .error_file = "/logs/error.json",
      .role = "trainer",
      .run_id = "job",
      .restart_count = 1,
      .max_restarts = 3,
      .blas_core = {},
      .extra = {}};
}

TEST(WorkerEnvironment, HasTorchrunsVariables) {
  const auto variables = worker_environment({"HOME=/home/me"}, spec());
  for (const char* expected : {"HOME=/home/me",
                               "RANK=5",
                               "LOCAL_RANK=1",
                               "WORLD_SIZE=8",
                               "LOCAL_WORLD_SIZE=2",
                               "GROUP_RANK=2",
                               "GROUP_WORLD_SIZE=3",
                               "ROLE_RANK=5",
                               "ROLE_WORLD_SIZE=8",
                               "ROLE_NAME=trainer",
                               "MASTER_ADDR=10.0.0.1",
                               "MASTER_PORT=12345",
                               "TORCHELASTIC_RESTART_COUNT=1",
                               "TORCHELASTIC_MAX_RESTARTS=3",
                               "TORCHELASTIC_RUN_ID=job",
                               "TORCHELASTIC_USE_AGENT_STORE=False",
                               "TORCHELASTIC_ERROR_FILE=/logs/error.json",
                               "TORCH_NCCL_ASYNC_ERROR_HANDLING=1",
                               "OMP_NUM_THREADS=1",
                               "LOCKSTEP_STORE=10.0.0.1:29500",
                               "LOCKSTEP_STORE_PREFIX=rounds/7/1/",
                               "LOCKSTEP_STORE_TOKEN=secret",
                               "LOCKSTEP_ERROR_FILE=/logs/error.json"}) {
    EXPECT_THAT(variables, Contains(expected));
  }
}

TEST(WorkerEnvironment, ShowsEachRankTheSliceThatIsItsOwn) {
  EnvironmentSpec second = spec();
  EXPECT_THAT(worker_environment({"CUDA_VISIBLE_DEVICES=MIG-a,MIG-b"}, second),
              AllOf(Contains("CUDA_VISIBLE_DEVICES=MIG-b"), Contains("LOCAL_RANK=1")));
  EXPECT_THAT(worker_environment({"CUDA_VISIBLE_DEVICES=4,7"}, second), Contains("CUDA_VISIBLE_DEVICES=4,7"));
  second.virtual_local_rank = true;
  EXPECT_THAT(worker_environment({"CUDA_VISIBLE_DEVICES=MIG-a,MIG-b"}, second),
              AllOf(Contains("CUDA_VISIBLE_DEVICES=MIG-b"), Contains("LOCAL_RANK=0")));
  EXPECT_THAT(worker_environment({}, second), Contains("CUDA_VISIBLE_DEVICES=1"));
  EXPECT_THAT(worker_environment({"CUDA_VISIBLE_DEVICES=4"}, second), Contains("CUDA_VISIBLE_DEVICES=4"))
      << "a GPU that is hidden stays hidden";
  EXPECT_THAT(worker_environment({"CUDA_VISIBLE_DEVICES="}, second), Contains("CUDA_VISIBLE_DEVICES="));
}

TEST(WorkerEnvironment, SaysHowManyRanksTheJobMayHave) {
  EnvironmentSpec range = spec();
  range.max_world_size = 16;
  EXPECT_THAT(worker_environment({"LOCKSTEP_MIN_WORLD_SIZE=2"}, range),
              AllOf(Contains("LOCKSTEP_MAX_WORLD_SIZE=16"), Not(Contains(StartsWith("LOCKSTEP_MIN_WORLD_SIZE")))))
      << "an outer job's size is not that of this one";
  range.min_world_size = 4;
  EXPECT_THAT(worker_environment({}, range), Contains("LOCKSTEP_MIN_WORLD_SIZE=4"));
}

TEST(WorkerEnvironment, ReplacesWhatAnOuterLauncherLeft) {
  const auto variables = worker_environment({"RANK=17", "WORLD_SIZE=99", "TORCHELASTIC_USE_AGENT_STORE=True"}, spec());
  EXPECT_THAT(variables, Contains("RANK=5"));
  EXPECT_THAT(variables, Not(Contains("RANK=17")));
  EXPECT_THAT(variables, Not(Contains("TORCHELASTIC_USE_AGENT_STORE=True")));
}

TEST(WorkerEnvironment, TakesTheSchedulersRanksAwayAndLeavesTheJob) {
  const auto variables = worker_environment(
      {"SLURM_PROCID=0", "SLURM_NTASKS=4", "SLURM_JOB_ID=77", "PMI_RANK=0", "PMIX_RANK=0", "OMPI_COMM_WORLD_RANK=0"},
      spec());
  EXPECT_THAT(variables, Contains("SLURM_JOB_ID=77"));
  for (const char* prefix : {"SLURM_PROCID", "SLURM_NTASKS", "PMI_", "PMIX_", "OMPI_"}) {
    EXPECT_THAT(variables, Each(Not(StartsWith(prefix))));
  }
}

TEST(WorkerEnvironment, KeepsTheUsersThreads) {
  EXPECT_THAT(worker_environment({"OMP_NUM_THREADS=4"}, spec()), Contains("OMP_NUM_THREADS=4"));
  auto alone = spec();
  alone.place.local_world_size = 1;
  EXPECT_THAT(worker_environment({}, alone), Each(Not(StartsWith("OMP_NUM_THREADS"))));
}

TEST(WorkerEnvironment, ChoosesTheKernelsOfOpenBlasWhereTheUserHasNot) {
  auto known = spec();
  known.blas_core = "Cooperlake";
  EXPECT_THAT(worker_environment({}, known), Contains("OPENBLAS_CORETYPE=Cooperlake"));
  EXPECT_THAT(worker_environment({"OPENBLAS_CORETYPE=Zen"}, known), Contains("OPENBLAS_CORETYPE=Zen"));
  EXPECT_THAT(worker_environment({}, spec()), Each(Not(StartsWith("OPENBLAS_CORETYPE"))));
}

TEST(WorkerEnvironment, ExtraVariablesWin) {
  auto with_extra = spec();
  with_extra.extra = {{"OMP_NUM_THREADS", "8"}, {"NEW", "x=y"}};
  const auto variables = worker_environment({"NEW=old"}, with_extra);
  EXPECT_THAT(variables, Contains("OMP_NUM_THREADS=8"));
  EXPECT_THAT(variables, Contains("NEW=x=y"));
  EXPECT_THAT(variables, Not(Contains("NEW=old")));
}

std::vector<std::string> texts(const std::vector<HostEntry>& hosts) {
  std::vector<std::string> all;
  for (const HostEntry& host : hosts) all.push_back(host.name + "/" + std::to_string(host.slots));
  return all;
}

std::string what_is_wrong(const std::string& list) {
  try {
    (void)parse_hosts(list);
  } catch (const UsageError& error) {
    return error.message();
  }
  return "nothing";
}

TEST(HostList, HasNamesUsersRanksAndAddresses) {
  EXPECT_THAT(texts(parse_hosts("a")), ElementsAre("a/0"));
  EXPECT_THAT(texts(parse_hosts("a:8,me@b.example:2,10.0.0.1")), ElementsAre("a/8", "me@b.example/2", "10.0.0.1/0"));
  EXPECT_THAT(texts(parse_hosts("[fe80::1]:4,me@[fe80::2],fe80::3")),
              ElementsAre("fe80::1/4", "me@fe80::2/0", "fe80::3/0"));
  EXPECT_THAT(texts(parse_hosts("gpu[01-02,7],me@b[1-2]-ib:4")),
              ElementsAre("gpu01/0", "gpu02/0", "gpu7/0", "me@b1-ib/4", "me@b2-ib/4"));
  EXPECT_EQ(address_of({.name = "me@b"}), "b");
  EXPECT_EQ(address_of({.name = "b"}), "b");
}

TEST(HostList, SaysWhatIsNoHost) {
  for (const std::string list : {"", "a,,b", "a:0", "a:x", "-oProxyCommand=x", "a b", "me@", "[::1", "a;reboot", "a[1",
                                 "a[]", "a[2-1]", "a[b]"}) {
    EXPECT_THAT(what_is_wrong(list), HasSubstr("--hosts has '")) << list;
  }
  EXPECT_EQ(what_is_wrong("a,b,me@a:2"), "host a is listed twice");
}

TEST(Hostfile, ReadsTheFormsOfOthersAndNamesTheBadLine) {
  const test::TempDir folder;
  const auto file = folder.path() / "hosts";
  std::ofstream(file) << "# the rack\na slots=8 max_slots=16\n\nb:4  # half of it\nc\n";
  EXPECT_THAT(texts(read_hostfile(file)), ElementsAre("a/8", "b/4", "c/0"));
  std::ofstream(file) << "a\na\nb\nc slots=3\na\nc\n";  // as PBS writes it: a line for each rank
  EXPECT_THAT(texts(read_hostfile(file)), ElementsAre("a/3", "b/1", "c/4"));
  std::ofstream(file) << "a\nb gpus=8\n";
  EXPECT_THROW(
      {
        try {
          (void)read_hostfile(file);
        } catch (const UsageError& error) {
          EXPECT_THAT(error.message(), HasSubstr("hosts:2 is 'b gpus=8'"));
          throw;
        }
      },
      UsageError);
  std::ofstream(file) << "# none\n";
  EXPECT_THROW((void)read_hostfile(file), DataError);
  EXPECT_THROW((void)read_hostfile(folder.path() / "none"), DataError);
}

HostsOptions options_of_two() {
  return {.launchers = {{{.name = "me@a"}, {"/opt/lockstep", "run", "--", "./train", "--name", "it's me"}},
                        {{.name = "b"}, {"/opt/lockstep"}}},
          .ssh = {"ssh", "-o", "BatchMode=yes"},
          .folder = "/home/me/my work",
          .environment = {{"OMP_NUM_THREADS", "2"}},
          .token = "sesame-sesame-sesame"};
}

TEST(HostCommand, IsOneTextThatTheHostsShellReadsAsItWas) {
  const HostsOptions options = options_of_two();
  EXPECT_THAT(start_command(options, options.launchers[0], false),
              ElementsAre("ssh", "-o", "BatchMode=yes", "me@a",
                          "cd '/home/me/my work' && exec /opt/lockstep run -- ./train --name "
                          "'it'\\''s me'"));
  EXPECT_THAT(start_command(options, options.launchers[1], true),
              ElementsAre("/bin/sh", "-c", "cd '/home/me/my work' && exec /opt/lockstep"));
}

TEST(HostCommand, ShowsNeitherTheSecretNorTheEnvironment) {
  HostsOptions options = options_of_two();
  options.environment.emplace_back("NCCL_NOTE", "a=b\\n\nand more");
  for (const std::string& word : start_command(options, options.launchers[0], false)) {
    EXPECT_THAT(word, Not(HasSubstr("sesame")));
    EXPECT_THAT(word, Not(HasSubstr("NCCL_NOTE")));
    EXPECT_THAT(word, Not(HasSubstr("OMP_NUM_THREADS")));
  }
  EXPECT_EQ(first_orders(options), "sesame-sesame-sesame\nOMP_NUM_THREADS=2\nNCCL_NOTE=a=b\\\\n\\nand more\n\n");
}

TEST(HostLoss, TellsAFailureFromAHostThatIsNotReached) {
  EXPECT_EQ(loss_of(0), HostLoss::kNone);
  EXPECT_EQ(loss_of(3 << 8), HostLoss::kNone);
  EXPECT_EQ(loss_of(127 << 8), HostLoss::kMissing);
  EXPECT_EQ(loss_of(255 << 8), HostLoss::kUnreached);
  EXPECT_EQ(loss_of(SIGKILL), HostLoss::kUnreached);
}

class Screen {
 public:
  Screen() : lines({"a", "b"}, [this](int, std::string_view line) { text += line; }) {}
  std::string take() { return std::exchange(text, ""); }

  std::string text;
  HostLines lines;
};

TEST(HostLines, EachLineGetsTheHostThatItCameFrom) {
  Screen screen;
  screen.lines.feed(1, 0, "[2]: hel");
  screen.lines.feed(0, 0, "[0]: other\n");
  screen.lines.feed(1, 0, "lo\nlockstep: a note\n");
  EXPECT_EQ(screen.take(), "a: [0]: other\nb: [2]: hello\nb: lockstep: a note\n");
  screen.lines.feed(0, 1, "no newline");
  screen.lines.finish(0, 1);
  EXPECT_EQ(screen.take(), "a: no newline\n");
}

TEST(HostLines, TheLinesOfOneReadingAreOnePiece) {
  std::vector<std::string> pieces;
  HostLines lines({"a"}, [&](int, std::string_view bytes) { pieces.emplace_back(bytes); });
  lines.feed(0, 0, "[0]: x\n[1]: y\nnote\n");
  EXPECT_EQ(pieces, (std::vector<std::string>{"a: [0]: x\na: [1]: y\na: note\n"}));
}

TEST(HostLines, AHostCanNeitherSpeakForARankOfAnotherNorSteerTheTerminal) {
  Screen screen;
  screen.lines.feed(1, 0, "[0]: loss 0.1\n\033[2J\033]0;title\a\u009b31m\033[31m[0]:\033[0m red\n");
  EXPECT_EQ(screen.take(), "b: [0]: loss 0.1\nb: \\x1b[2J\\x1b]0;title\\x07\\xc2\\x9b31m[0]: red\n");
  screen.lines.feed(1, 1, "a: error: it was a\ra: overwritten\n");
  EXPECT_EQ(screen.take(), "b: a: overwritten\n");
}

TEST(HostLines, WhatBothLaunchersSayIsShownOnceForEachTime) {
  Screen screen;
  screen.lines.feed(0, 1, "error: node 2 was lost\n  next: look there\n");
  screen.lines.feed(1, 1, "error: node 2 was lost\n  next: look there\n");
  EXPECT_EQ(screen.take(), "a: error: node 2 was lost\na:   next: look there\n");
  screen.lines.feed(1, 1, "error: node 2 was lost\n");
  EXPECT_EQ(screen.take(), "b: error: node 2 was lost\n");
  screen.lines.feed(0, 1, "error: node 2 was lost\n");
  EXPECT_EQ(screen.take(), "");
}

}  // namespace placement_test
}  // namespace lockstep::launch

namespace lockstep {
namespace placement_test {

using ::testing::HasSubstr;

// Uses a management library with fake GPUs (fake_nvml.c).

class Gpus : public ::testing::Test {
 protected:
  ~Gpus() override {
    for (const char* name : {"FAKE_NVML_FAILS", "FAKE_NVML_EMPTY", "FAKE_NVML_PID", "FAKE_NVML_SLICES"}) unsetenv(name);
  }
};

TEST_F(Gpus, AreReadWithUnits) {
  const GpuReport report = read_gpus(LOCKSTEP_FAKE_NVML);
  EXPECT_EQ(report.problem, "");
  EXPECT_EQ(report.driver, "580.1");
  ASSERT_EQ(report.gpus.size(), 2U);
  const GpuState& first = report.gpus.front();
  EXPECT_EQ(first.name, "Fake 0");
  EXPECT_EQ(first.percent, 90U);
  EXPECT_EQ(first.used_bytes, std::uint64_t{20} << 30);
  EXPECT_EQ(first.total_bytes, std::uint64_t{80} << 30);
  EXPECT_EQ(first.celsius, 64U);
  EXPECT_EQ(first.watts, 412.5);
  EXPECT_EQ(first.megahertz, 1980U);
}

TEST_F(Gpus, ThatAreAllSlicedAreListedByTheirSlices) {
  EXPECT_EQ(list_slices(LOCKSTEP_FAKE_NVML), "");
  setenv("FAKE_NVML_SLICES", "1", 1);
  EXPECT_EQ(list_slices(LOCKSTEP_FAKE_NVML), "") << "CUDA shows the GPU that is whole";
  setenv("FAKE_NVML_SLICES", "2", 1);
  EXPECT_EQ(list_slices(LOCKSTEP_FAKE_NVML), "MIG-0,MIG-0,MIG-1,MIG-1");
  EXPECT_EQ(list_slices("/nowhere/libnvidia-ml.so.1"), "");
}

TEST_F(Gpus, HavePlacesAndPeers) {
  const GpuPlaces places = read_gpu_places(LOCKSTEP_FAKE_NVML);
  EXPECT_EQ(places.addresses, (std::vector<std::string>{"0000:17:00.0", "0000:18:00.0"}));
  ASSERT_EQ(places.pairs.size(), 1U);
  EXPECT_EQ(places.pairs[0].first, 0);
  EXPECT_EQ(places.pairs[0].second, 1);
  EXPECT_FALSE(places.pairs[0].by_nvlink);
  EXPECT_EQ(places.pairs[0].obstacle, "the chipset does not support it");
  EXPECT_TRUE(read_gpu_places("/nowhere/libnvidia-ml.so.1").addresses.empty());
}

TEST_F(Gpus, WhatAGpuDoesNotTellIsNone) {
  const GpuReport report = read_gpus(LOCKSTEP_FAKE_NVML);
  ASSERT_EQ(report.gpus.size(), 2U);
  EXPECT_FALSE(report.gpus[1].celsius);
  EXPECT_FALSE(report.gpus[1].watts);
  EXPECT_EQ(report.gpus[1].percent, 91U);
}

TEST_F(Gpus, AProcessIsShownWithTheRankOfItsEnvironment) {
  std::string program = "/bin/sleep";
  std::string seconds = "60";
  char* arguments[] = {program.data(), seconds.data(), nullptr};
  std::string rank = "RANK=3";
  std::string other = "LOCAL_RANK=1";
  char* environment[] = {other.data(), rank.data(), nullptr};
  pid_t child = 0;
  ASSERT_EQ(posix_spawn(&child, program.c_str(), nullptr, nullptr, arguments, environment), 0);
  setenv("FAKE_NVML_PID", std::to_string(child).c_str(), 1);
  GpuReport report = read_gpus(LOCKSTEP_FAKE_NVML);
  // The environment is readable only after the kernel has set up the new program.
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (!report.gpus.front().processes.front().rank && std::chrono::steady_clock::now() < end) {
    report = read_gpus(LOCKSTEP_FAKE_NVML);
  }
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  ASSERT_EQ(report.gpus.front().processes.size(), 1U);
  const GpuProcess& process = report.gpus.front().processes.front();
  EXPECT_EQ(process.pid, child);
  EXPECT_EQ(process.bytes, std::uint64_t{3} << 30);
  EXPECT_EQ(process.rank, 3);
}

TEST_F(Gpus, AProcessThatIsGoneHasNoRank) {
  setenv("FAKE_NVML_PID", "999999999", 1);
  EXPECT_FALSE(read_gpus(LOCKSTEP_FAKE_NVML).gpus.front().processes.front().rank);
}

TEST_F(Gpus, WithoutALibraryThereIsNoneAndTheReasonIsSaid) {
  const GpuReport report = read_gpus("libthere-is-no-such-driver.so.1");
  EXPECT_TRUE(report.gpus.empty());
  EXPECT_THAT(report.problem, HasSubstr("no NVIDIA driver was found"));
}

TEST_F(Gpus, ADriverThatDoesNotAnswerIsSaidInItsOwnWords) {
  setenv("FAKE_NVML_FAILS", "1", 1);
  EXPECT_THAT(read_gpus(LOCKSTEP_FAKE_NVML).problem, HasSubstr("Driver Not Loaded"));
}

TEST_F(Gpus, ADriverWithoutGpusIsAProblemToo) {
  setenv("FAKE_NVML_EMPTY", "1", 1);
  EXPECT_THAT(read_gpus(LOCKSTEP_FAKE_NVML).problem, HasSubstr("finds no GPU"));
}

TEST(ProcessCount, ReadsNumbersAndRefusesTheRest) {
  EXPECT_EQ(resolve_process_count("3").count, 3);
  for (const char* text : {"0", "-1", "", "two", "2x", "1.5"}) {
    EXPECT_THROW((void)resolve_process_count(text), UsageError) << text;
  }
}

TEST(ProcessCount, CpuFollowsTheAffinity) {
  cpu_set_t before;
  ASSERT_EQ(::sched_getaffinity(0, sizeof before, &before), 0);
  EXPECT_EQ(resolve_process_count("cpu").count, usable_cpus());
  cpu_set_t one;
  CPU_ZERO(&one);
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &before) && CPU_COUNT(&one) == 0) CPU_SET(cpu, &one);
  }
  ASSERT_EQ(::sched_setaffinity(0, sizeof one, &one), 0);
  EXPECT_EQ(resolve_process_count("cpu").count, 1);
  EXPECT_THAT(resolve_process_count("cpu").reason, ::testing::StartsWith("1 usable CPU"));
  ::sched_setaffinity(0, sizeof before, &before);
}

TEST(ProcessCount, HiddenGpusDoNotCount) {
  for (const char* list : {"", "-1"}) {
    ::setenv("CUDA_VISIBLE_DEVICES", list, 1);
    EXPECT_EQ(count_gpus(), 0);
    EXPECT_EQ(resolve_process_count("auto").count, count_cpus());
    EXPECT_THAT(resolve_process_count("auto").reason, ::testing::HasSubstr("no visible GPU"));
    EXPECT_THROW((void)resolve_process_count("gpu"), UsageError);
  }
  ::unsetenv("CUDA_VISIBLE_DEVICES");
}

TEST(ProcessCount, IsTheGpusOnlyWhereRanksComputeOnThem) {
  const RankPlaces cuda{.gpus = 2, .cpus = 8, .cpu_words = "8 usable CPUs"};
  EXPECT_EQ(choose_process_count("auto", cuda).count, 2);
  EXPECT_EQ(choose_process_count("gpu", cuda).count, 2);
  EXPECT_EQ(choose_training_count(cuda).count, 2);
  RankPlaces without = cuda;
  without.obstacle = {cuda::Lack::kParts, "this build of Lockstep has no CUDA", "build it with a libtorch for CUDA"};
  const std::string idle = "2 visible GPUs are idle, since this build of Lockstep has no CUDA";
  EXPECT_EQ(choose_process_count("auto", without).count, 8);
  EXPECT_EQ(choose_process_count("auto", without).reason, idle + ", 8 usable CPUs");
  EXPECT_EQ(choose_training_count(without).count, 1);
  EXPECT_EQ(choose_training_count(without).reason, idle);
  EXPECT_EQ(choose_process_count("2", without).count, 2);
  try {
    (void)choose_process_count("gpu", without);
    ADD_FAILURE() << "no error";
  } catch (const UsageError& error) {
    EXPECT_THAT(error.what(), HasSubstr(idle));
    EXPECT_THAT(error.what(), HasSubstr("build it with a libtorch for CUDA; or use 'cpu', or 2 if"));
  }
}

TEST(ProcessCount, IsNoMoreThanTheReplicasThatHaveWork) {
  const ProcessCount gpus{.count = 4, .reason = "4 GPUs are visible"};
  EXPECT_EQ(limit_to_replicas(gpus, 3).count, 3);
  EXPECT_EQ(limit_to_replicas(gpus, 3).reason, "4 GPUs are visible and the run has 3 replicas");
  for (const std::int64_t replicas : {0, 4, 8}) {
    EXPECT_EQ(limit_to_replicas(gpus, replicas).count, 4) << replicas;
    EXPECT_EQ(limit_to_replicas(gpus, replicas).reason, gpus.reason);
  }
}

TEST(ProcessCount, NoMoreGpusThanTheMachineHas) {
  const int all = count_gpus();
  ::setenv("CUDA_VISIBLE_DEVICES", "0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19", 1);
  EXPECT_EQ(count_gpus(), all);
  ::unsetenv("CUDA_VISIBLE_DEVICES");
}

}  // namespace placement_test
}  // namespace lockstep
