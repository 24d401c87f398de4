// SPDX-License-Identifier: Apache-2.0
// Two hosts with two ranks each, as network namespaces with a wire between them that is slow, late or lossy.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <stdlib.h>
#include <unistd.h>

#include "lockstep/base/env.h"
#include "support/run_ranks.h"
#include "support/shell.h"
#include "support/tree_model.h"

namespace lockstep::comm {
namespace network_test {

using ::lockstep::testing::current_test;
using ::lockstep::testing::Output;
using ::lockstep::testing::run_shell;
using ::lockstep::testing::this_program;
using ::testing::HasSubstr;

constexpr std::int64_t kCount = 500'000;  // 2 MB

void reduce(Job& job) {
  std::vector<at::Tensor> inputs;
  for (int rank = 0; rank < job.world_size(); ++rank) inputs.push_back(random_values(at::kFloat, kCount, rank));
  const at::Tensor expected = model(inputs, ReduceOp::kMean);
  for (int repeat = 0; repeat < 3; ++repeat) {
    const at::Tensor mine = inputs[static_cast<std::size_t>(job.rank())].clone();
    job.group().all_reduce(mine, {.op = ReduceOp::kMean}).wait();
    ASSERT_TRUE(same_bits(mine, expected)) << "on rank " << job.rank();
  }
  job.print_all("the bits are right over {}", job.backend());
}

/// The namespaces of one test, gone at its end.
class TwoHosts {
 public:
  TwoHosts() : id_(std::to_string(getpid())) {
    const Output made = run_shell(
        fmt::format("ip netns add lwa{0} && ip netns add lwb{0} && ip -n lwa{0} tuntap add dev probe mode tun && "
                    "ip netns exec lwa{0} tc qdisc add dev probe root tbf rate 1mbit burst 32kb latency 50ms && "
                    "ip -n lwa{0} link del probe",
                    id_));
    if (made.code != 0) why_not_ = made.text.empty() ? "a tun device cannot be made" : made.text;
  }
  ~TwoHosts() { run_shell(fmt::format("ip netns del lwa{0}; ip netns del lwb{0}", id_)); }
  TwoHosts(const TwoHosts&) = delete;
  TwoHosts& operator=(const TwoHosts&) = delete;

  [[nodiscard]] const std::string& why_not() const { return why_not_; }

  /// Runs the test's body on four ranks; `link`: options of link.py, `shape`: of tc on both ends, `more`: variables.
  Output run(const std::string& link, const std::string& shape, const std::string& more) const {
    const std::string tc = shape.empty() ? "true"
                                         : fmt::format(
                                               "ip netns exec lwa{0} tc qdisc add dev wire root {1} && "
                                               "ip netns exec lwb{0} tc qdisc add dev wire root {1}",
                                               id_, shape);
    const std::string rank = fmt::format(
        "env LOCKSTEP_TEST_BODY={0} WORLD_SIZE=4 LOCAL_WORLD_SIZE=2 MASTER_ADDR=10.78.0.1 MASTER_PORT=4322 "
        "LOCKSTEP_TOKEN=two-hosts-of-a-test "
        "LOCKSTEP_TIMEOUT=60 OMP_NUM_THREADS=1 {1} {2} --gtest_filter={0}",
        current_test(), more, this_program());
    // The wire's own input is a pipe that closes when the ranks have ended.
    return run_shell(fmt::format(
        "coproc wire {{ /usr/bin/python3 {0}/tests/support/link.py lwa{1} 10.78.0.1 lwb{1} 10.78.0.2 {2}; }}; "
        "read -r state <&${{wire[0]}} && {3} || exit 9; ranks=(); codes=0; "
        "for r in 0 1 2 3; do host=$([ $r -lt 2 ] && echo lwa{1} || echo lwb{1}); "
        "RANK=$r ip netns exec $host {4} & ranks+=($!); done; "
        "for pid in ${{ranks[@]}}; do wait $pid || codes=1; done; "
        "exec {{out}}<&${{wire[0]}}; eval \"exec ${{wire[1]}}>&-\"; read -r carried <&$out; echo carried $carried; "
        "exit $codes",
        LOCKSTEP_TEST_SOURCE_DIR, id_, link, tc, rank));
  }

 private:
  std::string id_;
  std::string why_not_;
};

bool is_rank() { return env::get("LOCKSTEP_TEST_BODY") == current_test(); }

std::int64_t carried(const Output& output) {
  const auto at = output.text.find("carried ");
  return at == std::string::npos ? 0 : std::stoll(output.text.substr(at + 8));
}

TEST(Network, ThatIsLateAndLosesPacketsChangesNoBit) {
  if (is_rank()) testing::run_ranks(current_test(), reduce, {});
  const TwoHosts hosts;
  if (!hosts.why_not().empty()) GTEST_SKIP() << "network namespaces are not permitted here: " << hosts.why_not();
  const Output output = hosts.run("--delay-ms 1 --loss 0.005", "", "");
  EXPECT_EQ(output.code, 0) << output.text;
  EXPECT_THAT(output.text, HasSubstr("[3]: the bits are right over shm+gloo"));
}

TEST(Network, CarriesEachByteOncePerHostNotOncePerRank) {
  if (is_rank()) testing::run_ranks(current_test(), reduce, {});
  const TwoHosts hosts;
  if (!hosts.why_not().empty()) GTEST_SKIP() << "network namespaces are not permitted here: " << hosts.why_not();
  const std::string narrow = "tbf rate 400mbit burst 256kb latency 200ms";
  const Output together = hosts.run("", narrow, "");
  EXPECT_EQ(together.code, 0) << together.text;
  const Output flat = hosts.run("", narrow, "LOCKSTEP_BACKEND=gloo");
  EXPECT_EQ(flat.code, 0) << flat.text;
  EXPECT_THAT(flat.text, HasSubstr("[3]: the bits are right over gloo"));
  // Three reductions of 2 MB: each host sends and receives 2 MB, and acknowledgements.
  EXPECT_GT(carried(together), 3 * 2 * kCount * 4);
  EXPECT_LT(carried(together), 3 * 2 * kCount * 4 * 1.15);
  EXPECT_GT(carried(flat), 1.8 * static_cast<double>(carried(together)));
}

}  // namespace network_test
}  // namespace lockstep::comm
