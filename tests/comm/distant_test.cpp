// SPDX-License-Identifier: Apache-2.0
// Ranks of several hosts are connected when they first have something to say to each other; until then only the hosts'
// first ranks are.
#include <gmock/gmock.h>
#include <signal.h>
#include <unistd.h>

#include <ATen/core/ivalue.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <sstream>

#include "comm/core/failure.h"
#include "lockstep/base/error.h"
#include "lockstep/comm/process_group.h"
#include "support/run_ranks.h"

namespace lockstep {
namespace distant_test {

using testing::current_test;
using ::testing::HasSubstr;
using testing::RankProcesses;

// Ranks 0 and 1 on one host, ranks 2 and 3 on another.
testing::RanksOptions two_hosts(const std::string& timeout) {
  return {.world = 4, .env = {{"LOCKSTEP_TIMEOUT", timeout}}, .host_sizes = {2, 2}};
}

/// This process's sockets that are connected over TCP.
std::set<std::string> sockets() {
  std::set<std::string> established;
  for (const char* table : {"/proc/self/net/tcp", "/proc/self/net/tcp6"}) {
    std::ifstream file(table);
    std::string line;
    while (std::getline(file, line)) {
      std::istringstream words(line);
      std::vector<std::string> fields{std::istream_iterator<std::string>(words), {}};
      if (fields.size() > 9 && fields[3] == "01") established.insert("socket:[" + fields[9] + "]");
    }
  }
  std::set<std::string> own;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    const std::string target = std::filesystem::read_symlink(entry.path(), ignored).string();
    if (established.count(target) > 0) own.insert(target);
  }
  return own;
}

int connections() { return static_cast<int>(sockets().size()); }

void count_connections(Job& job) {
  auto& group = job.group();
  auto values = at::full({4}, 1.0 + job.rank());
  std::vector<at::Tensor> parts;
  auto part = at::empty({1});
  const int at_first = connections();
  group.all_reduce(values).wait();
  group.broadcast(values, 3).wait();
  group.all_gather(at::full({4}, 1.0 * job.rank()), parts).wait();
  group.reduce_scatter(values, part).wait();
  group.barrier().wait();
  EXPECT_EQ(connections(), at_first) << "sums, broadcasts and gathers need the hosts' first ranks alone";
  std::vector<at::Tensor> counts;
  group.all_gather(at::full({1}, 1.0 * at_first), counts).wait();
  for (const int first : {0, 2}) {
    EXPECT_EQ(counts[static_cast<std::size_t>(first)].item<float>(),
              counts[static_cast<std::size_t>(first) + 1].item<float>() + 1)
        << "the first rank of a host is connected with that of the other host, and the second with nobody";
  }
  EXPECT_EQ(values[0].item<float>(), 10.0F);
  EXPECT_EQ(part[0].item<float>(), 40.0F);
  for (int rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(parts[static_cast<std::size_t>(rank)][3].item<float>(), static_cast<float>(rank));
  }

  if (job.rank() == 1) group.send(values, 3).wait();
  if (job.rank() == 3) group.recv(values, 1).wait();
  const bool talks = job.rank() == 1 || job.rank() == 3;
  EXPECT_EQ(connections(), at_first + (talks ? 1 : 0)) << "a message between two ranks connects these two";

  const int before = connections();
  std::set<std::string> connected;
  for (int repeat = 0; repeat < 2; ++repeat) {
    auto all = at::full({4}, 1.0 * job.rank());
    auto turned = at::empty({4});
    group.all_to_all(all, turned).wait();
    EXPECT_EQ(turned[2].item<float>(), 2.0F);
    EXPECT_EQ(connections(), before + 3) << "what each rank has for each other connects them";
    if (repeat == 0) connected = sockets();
    EXPECT_EQ(sockets(), connected) << "once";
  }
  group.barrier().wait();  // nobody leaves while another counts
}

TEST(Distant, RanksConnectWhenTheyHaveSomethingToSayToEachOther) {
  testing::run_ranks(current_test(), count_connections, two_hosts("60"));
}

// Each message needs an answer before the next one goes the same way.
void talk_both_ways(Job& job) {
  const int peer = job.rank() == 1 ? 3 : 1;
  auto values = at::full({4}, 0.0);
  for (int round = 0; round < 3 && job.rank() % 2 == 1; ++round) {
    if (job.rank() == 1) job.group().send(at::full({4}, round + 1.0), peer).wait();
    job.group().recv(values, peer).wait();
    EXPECT_EQ(values[3].item<float>(), static_cast<float>(round + 1));
    if (job.rank() == 3) job.group().send(values, peer).wait();
  }
  job.group().barrier().wait();
}

TEST(Distant, TwoRanksAnswerEachOther) { testing::run_ranks(current_test(), talk_both_ways, two_hosts("20")); }

void broadcast_from_each(Job& job) {
  for (int root = 0; root < job.world_size(); ++root) {
    for (const std::int64_t count : {0, 1, 1000, 300'000}) {
      auto values = at::full({count}, job.rank() == root ? root + 0.5 : -1.0);
      auto bucket = job.group().allocate_bucket(count, at::kFloat);
      bucket.copy_(values);
      job.group().broadcast(values, root).wait();
      job.group().broadcast(bucket, root).wait();
      EXPECT_EQ(values.eq(root + 0.5).sum().item<std::int64_t>(), count) << "from rank " << root;
      EXPECT_EQ(bucket.eq(root + 0.5).sum().item<std::int64_t>(), count) << "from rank " << root << ", a bucket";
    }
  }
}

TEST(Distant, BroadcastsReachEveryRankFromEveryOther) {
  testing::run_ranks(current_test(), broadcast_from_each,
                     {.world = 6, .env = {{"LOCKSTEP_TIMEOUT", "60"}}, .host_sizes = {1, 3, 2}});
}

// The connection that the first of these calls needs cannot be made: the other host's ranks do not ask for it.
void scatter_on_one_host(Job& job) {
  auto values = at::full({4}, 1.0);
  try {
    if (job.rank() >= 2) {
      job.group().all_reduce(values).wait();
    } else {
      job.group().all_to_all(values, at::empty({4})).wait();
    }
    ADD_FAILURE() << "nothing was thrown";
  } catch (const UsageError& problem) {
    EXPECT_THAT(problem.message(), HasSubstr("all_to_all"));
    EXPECT_THAT(problem.message(), HasSubstr("all_reduce"));
  }
}

TEST(Distant, ADifferentCallIsNamedBeforeRanksConnect) {
  testing::run_ranks(current_test(), scatter_on_one_host, two_hosts("200"));
}

void wait_for_a_message(Job& job) {
  if (job.rank() == 1) {
    auto values = at::full({4}, 1.0);
    job.print_all("it waits for a message");
    job.group().recv(values, 3).wait();
  } else {
    job.store().wait({"never"}, std::chrono::seconds(50));
  }
}

TEST(Distant, AMessageThatNeverComesIsATimeoutThatNamesItsSender) {
  RankProcesses ranks(current_test(), wait_for_a_message, two_hosts("2"));
  ASSERT_TRUE(ranks.wait_for_log(1, "recv timed out after 2.0 s"));
  EXPECT_TRUE(ranks.wait_for_log(1, "rank 3 on"));
  for (const int rank : {0, 2, 3}) kill(ranks.pid(rank), SIGKILL);
  EXPECT_EQ(ranks.wait()[1].code, 76);
}

void die_instead_of_sending(Job& job) {
  auto values = at::full({4}, 1.0);
  job.barrier();
  if (job.rank() == 3) raise(SIGKILL);
  if (job.rank() == 1) job.group().recv(values, 3).wait();
  job.group().all_reduce(values).wait();
}

TEST(Distant, ARankThatDiesBeforeItSendsIsNamedAtOnce) {
  auto options = two_hosts("200");
  options.by_hand = true;  // no launcher tells the ranks who died
  RankProcesses ranks(current_test(), die_instead_of_sending, options);
  const auto ends = ranks.wait();  // within the deadline, far below the timeout
  EXPECT_EQ(ends[3].code, 128 + SIGKILL);
  for (const int rank : {0, 1, 2}) {
    const auto& end = ends[static_cast<std::size_t>(rank)];
    EXPECT_EQ(end.code, 75) << end.log;
    EXPECT_THAT(end.log, HasSubstr("rank 3 on"));
  }
}

// Rank 3 lives on, and its launcher says that it died.
void learn_of_a_death(Job& job) {
  job.barrier();
  if (job.rank() == 0) {
    comm::record_first_failure(job.store(), {.kind = FailureKind::kDied, .message = "killed by signal 9", .rank = 3});
  }
  if (job.rank() == 1) {
    auto values = at::full({4}, 1.0);
    try {
      job.group().recv(values, 3).wait();
      ADD_FAILURE() << "nothing was thrown";
    } catch (const PeerError& problem) {
      EXPECT_THAT(problem.message(), HasSubstr("rank 3"));
      EXPECT_THAT(problem.message(), HasSubstr("killed by signal 9"));
    }
    job.store().set("over", "1");
  }
  job.store().wait({"over"}, std::chrono::seconds(50));
}

TEST(Distant, WhatTheLauncherSaysOfASenderEndsTheWait) {
  testing::run_ranks(current_test(), learn_of_a_death, two_hosts("200"));
}

}  // namespace distant_test
}  // namespace lockstep
