// SPDX-License-Identifier: Apache-2.0
// Tests of UCX only; the tests of collectives, hosts and failures run over it as well.
#include <dlfcn.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>

#include <ATen/core/ivalue.h>  // before any other torch header
#include <ATen/ops/full.h>
#include <cstdio>
#include <functional>
#include <string_view>
#include <thread>

#include "comm/backends/ucx/ucx.h"
#include "lockstep/base/env.h"
#include "support/carriers.h"
#include "support/run_ranks.h"
#include "support/tree_model.h"

namespace lockstep {
namespace ucx_test {

using ::testing::ContainsRegex;
using testing::current_test;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using testing::RankProcesses;

class Ucx : public ::testing::Test {
 protected:
  void SetUp() override { SKIP_WITHOUT_UCX("ucx"); }

  static testing::RanksOptions two(const std::string& backend = "ucx") {
    return {.world = 2, .env = testing::backend_variables(backend)};
  }
};

/// The library whose function handles a signal; empty for the system's default or a function of this program.
std::string handler_of(int signal) {
  struct sigaction action {};
  sigaction(signal, nullptr, &action);
  Dl_info info{};
  if (dladdr(reinterpret_cast<void*>(action.sa_handler), &info) == 0) return "";
  return info.dli_fname;
}

void look_at_signals_and_variables(Job& job) {
  EXPECT_EQ(job.backend(), "ucx");
  for (const int signal : {SIGHUP, SIGILL, SIGBUS, SIGFPE, SIGSEGV, SIGPIPE, SIGTERM}) {
    EXPECT_THAT(handler_of(signal), Not(HasSubstr("libuc"))) << "signal " << signal;
  }
  EXPECT_THAT(env::all(), Each(Not(HasSubstr("UCX_"))));
}

TEST_F(Ucx, TakesNoSignalsAndLeavesNoVariables) {
  testing::run_ranks(current_test(), look_at_signals_and_variables, two());
}

void reduce_until_it_fails(Job& job) {
  const at::Tensor values = at::full({1 << 20}, 1.0);
  job.print_all("it runs");
  while (true) job.group().all_reduce(values, {.op = ReduceOp::kMean}).wait();
}

TEST_F(Ucx, PrintsNothingWhereARankDiesInTheMiddleOfAMessage) {
  RankProcesses ranks(current_test(), reduce_until_it_fails, two());
  ASSERT_TRUE(ranks.wait_for_log(0, "it runs"));
  ASSERT_TRUE(ranks.wait_for_log(1, "it runs"));
  kill(ranks.pid(1), SIGKILL);
  const auto ends = ranks.wait();
  EXPECT_EQ(ends[0].code, 75) << ends[0].log;
  EXPECT_THAT(ends[0].log, HasSubstr("rank 1 on"));
  EXPECT_THAT(ends[0].log, Not(HasSubstr("UCX  ")));
}

/// Sums of all sizes: some sent eagerly, some in parts that the receiver requests.
void tell_digest(Job& job) {
  std::size_t digest = 0;
  for (const std::int64_t count : {1, 3000, 70'001, 2'000'003}) {
    const at::Tensor values = comm::random_values(at::kFloat, count, job.rank());
    job.group().all_reduce(values, {.op = ReduceOp::kMean}).wait();
    const std::string_view bytes(static_cast<const char*>(values.data_ptr()), values.nbytes());
    digest = digest * 31 + std::hash<std::string_view>()(bytes);
  }
  std::printf("digest %zx\n", digest);
}

std::string digest_over(const std::string& backend) {
  RankProcesses ranks(current_test(), tell_digest, {.world = 3, .env = testing::backend_variables(backend)});
  std::string digest;
  for (const auto& end : ranks.wait()) {
    EXPECT_EQ(end.code, 0) << end.log;
    const std::string own = end.log.substr(std::min(end.log.find("digest "), end.log.size()));
    EXPECT_TRUE(digest.empty() || digest == own) << "the ranks differ over " << backend;
    digest = own;
  }
  return digest;
}

TEST_F(Ucx, GivesTheBitsOfEveryOtherWay) {
  const std::string digest = digest_over("ucx");
  EXPECT_THAT(digest, HasSubstr("digest "));
  EXPECT_EQ(digest, digest_over("tcp"));
  EXPECT_EQ(digest, digest_over("shm"));
}

void reduce_for_a_while(Job& job) {
  for (int step = 0; step < 400; ++step) {
    const at::Tensor values = at::full({1 << 18}, 1.0 + job.rank());
    job.group().all_reduce(values).wait();
    EXPECT_EQ(values.min().item<float>(), 3.0F);
    EXPECT_EQ(values.max().item<float>(), 3.0F);
    if (step == 3) job.print_all("it runs");
  }
}

TEST_F(Ucx, GoesOnWhereARankWasStoppedInTheMiddle) {
  RankProcesses ranks(current_test(), reduce_for_a_while, two());
  ASSERT_TRUE(ranks.wait_for_log(1, "it runs"));
  for (int round = 0; round < 3; ++round) {
    kill(ranks.pid(1), SIGSTOP);
    std::this_thread::sleep_for(std::chrono::milliseconds(150));
    kill(ranks.pid(1), SIGCONT);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  for (const auto& end : ranks.wait()) EXPECT_EQ(end.code, 0) << end.log;
}

/// The ports of network sockets that a child of this program would inherit.
std::vector<int> inherited_ports() {
  std::vector<int> ports;
  for (int fd = 3; fd < 1024; ++fd) {
    sockaddr_storage own{};
    socklen_t size = sizeof own;
    if (getsockname(fd, reinterpret_cast<sockaddr*>(&own), &size) != 0 || own.ss_family != AF_INET) continue;
    if ((fcntl(fd, F_GETFD) & FD_CLOEXEC) == 0)
      ports.push_back(ntohs(reinterpret_cast<const sockaddr_in&>(own).sin_port));
  }
  return ports;
}

TEST_F(Ucx, LeavesNoConnectionToProgramsThatARankStarts) {
  testing::run_ranks(
      current_test(),
      [](Job& job) {
        for (int i = 0; i < 300; ++i) job.group().all_reduce(at::full({1 << 18}, 1.0)).wait();
        EXPECT_EQ(job.backend(), "ucx");
        EXPECT_THAT(inherited_ports(), IsEmpty());
      },
      two());
}

/// Shuts down this process's connections, except the one to the store.
void shut_connections() {
  const std::string store = env::get("LOCKSTEP_STORE").value_or("");
  const int port = std::stoi(store.substr(store.rfind(':') + 1));
  for (int fd = 3; fd < 1024; ++fd) {
    sockaddr_storage peer{};
    socklen_t size = sizeof peer;
    if (getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &size) != 0 || peer.ss_family != AF_INET) continue;
    if (ntohs(reinterpret_cast<const sockaddr_in&>(peer).sin_port) != port) shutdown(fd, SHUT_RDWR);
  }
}

TEST_F(Ucx, SaysWhyAConnectionWasLostWhoseRankLives) {
  RankProcesses ranks(
      current_test(),
      [](Job& job) {
        const at::Tensor values = at::full({1 << 18}, 1.0);
        job.group().all_reduce(values).wait();
        if (job.rank() == 1) shut_connections();
        job.group().all_reduce(values).wait();
      },
      two());
  const auto ends = ranks.wait();
  EXPECT_EQ(ends[0].code, 75) << ends[0].log;
  EXPECT_THAT(ends[0].log + ends[1].log, ContainsRegex("was lost, but its process is alive: [A-Z][a-z]+"));
}

/// The user's own choice of devices takes precedence over ours.
TEST_F(Ucx, NamesTheDevicesWhereNoneIsReachable) {
  auto options = two();
  options.env["UCX_NET_DEVICES"] = "none-such";
  options.env["UCX_TLS"] = "tcp";
  RankProcesses ranks(
      current_test(), [](Job&) { ADD_FAILURE() << "it connected"; }, options);
  for (const auto& end : ranks.wait()) {
    EXPECT_NE(end.code, 0);
    EXPECT_THAT(end.log, HasSubstr("UCX"));
    EXPECT_THAT(end.log, HasSubstr("next"));
  }
}

}  // namespace ucx_test
}  // namespace lockstep
