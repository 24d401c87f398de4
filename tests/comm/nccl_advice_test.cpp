// SPDX-License-Identifier: Apache-2.0
// The table against lines of NCCL's own output, with made-up hosts, pids and addresses.
#include "comm/core/device_advice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace lockstep::comm {
namespace nccl_advice_test {

using ::testing::HasSubstr;
using ::testing::Not;

struct Case {
  const char* name;
  const char* cause;
  const char* remedy;
  const char* log;
};

constexpr Case kCases[] = {
    {"duplicate_gpu", "same GPU", "one rank per GPU", R"(
node1:4101:4190 [0] init.cc:497 NCCL WARN Duplicate GPU detected : rank 1 and rank 0 both on CUDA device 1000
node1:4101:4190 [0] NCCL INFO init.cc:867 -> 5
invalid usage (run with NCCL_DEBUG=WARN for details), NCCL version 2.19.3
)"},
    {"same_gpu_since_2_30", "same GPU", "one rank per GPU", R"(
NCCL WARN Multiple Ranks are using the same GPU/Partition: rank 1 and rank 0
node1:4101:4190 [0] NCCL INFO init.cc:867 -> 5
invalid usage (run with NCCL_DEBUG=WARN for details), NCCL version 2.30.7
)"},
    {"small_dev_shm", "/dev/shm is too small", "--shm-size", R"(
node1:9621:9691 [2] misc/shmutils.cc:71 NCCL WARN Error: failed to extend /dev/shm/nccl-a1B2c3 to 5967876 bytes
node1:9621:9691 [2] misc/shmutils.cc:112 NCCL WARN Error while creating shared memory segment /dev/shm/nccl-a1B2c3 (size 5967872)
node1:9621:9691 [2] NCCL INFO transport/shm.cc:114 -> 2
unhandled system error, NCCL version 2.18.1
)"},
    {"full_dev_shm", "/dev/shm is full", "NCCL_SHM_DISABLE=1", R"(
node1:2143:2561 [1] include/shm.h:28 NCCL WARN Call to posix_fallocate failed : No space left on device
node1:2143:2561 [1] NCCL INFO include/shm.h:41 -> 2
)"},
    {"wrong_interface", "the wrong one", "NCCL_SOCKET_IFNAME", R"(
node1:400:475 [0] NCCL INFO Bootstrap : Using docker0:172.17.0.1<0>
node1:400:475 [0] misc/socket.cc:483 NCCL WARN socketStartConnect: Connect to 172.17.0.1<45763> failed : Software caused connection abort
node1:400:475 [0] NCCL INFO bootstrap.cc:270 -> 2
unhandled system error (run with NCCL_DEBUG=INFO for details), NCCL version 2.18.1
)"},
    {"no_interface", "no network interface", "NCCL_SOCKET_IFNAME", R"(
node2:81:81 [0] NCCL INFO NCCL_SOCKET_IFNAME set by environment to eth7
node2:81:81 [0] bootstrap.cc:45 NCCL WARN Bootstrap : no socket interface found
internal error, NCCL version 2.14.3
)"},
    {"infiniband_timeout", "InfiniBand failed", "NCCL_IB_DISABLE=1", R"(
node1:710:755 [3] misc/ibvwrap.cc:262 NCCL WARN Call to ibv_modify_qp failed with error Connection timed out
node1:710:755 [3] NCCL INFO transport/net_ib.cc:685 -> 2
unhandled system error, NCCL version 2.14.3
)"},
    {"infiniband_acs", "access control (ACS)", "NCCL_NET_GDR_LEVEL=0", R"(
node4:565:573 [0] transport/net_ib.cc:1295 NCCL WARN NET/IB : Got completion from peer 10.0.0.9<40121> with error 4, opcode 0, len 0, vendor err 81 (Send)
)"},
    {"no_peer_access", "cannot reach each other's memory", "NCCL_P2P_DISABLE=1", R"(
node1:31:97 [1] transport/p2p.cc:275 NCCL WARN Cuda failure 'peer access is not supported between these two devices'
unhandled cuda error, NCCL version 2.20.5
)"},
    {"version_mismatch", "different versions", "libnccl.so.2", R"(
node2:1301:1340 [5] bootstrap.cc:111 NCCL WARN Message truncated : received 1024 bytes instead of 256
node2:1301:1340 [5] NCCL INFO bootstrap.cc:560 -> 3
internal error - please report this issue to the NCCL developers, NCCL version 2.20.5
)"},
    {"unhandled_system_error", "a system call failed", "NCCL_DEBUG=INFO", R"(
NCCL error: unhandled system error (run with NCCL_DEBUG=INFO for details), NCCL version 2.14.3
ncclSystemError: System call (e.g. socket, malloc) or external library call failed or device error.
)"},
    {"lost_connection", "no rank is known to have ended", "NCCL_SOCKET_IFNAME", R"(
node1:3996:4004 [0] misc/socket.cc:49 NCCL WARN socketProgress: Connection closed by remote peer node2<57557>
node1:3996:4004 [0] NCCL INFO misc/socket.cc:749 -> 6
remote process exited or there was a network error, NCCL version 2.18.3
)"},
    {"remote_process_exited", "no rank is known to have ended", "NCCL_DEBUG=INFO", R"(
remote process exited or there was a network error, NCCL version 2.28.9
)"},
};

class NcclLog : public ::testing::TestWithParam<Case> {};

TEST_P(NcclLog, NamesCauseAndRemedyOfARecordedLog) {
  const auto advice = nccl_advice(GetParam().log);
  ASSERT_TRUE(advice.has_value()) << GetParam().log;
  EXPECT_THAT(advice->cause, HasSubstr(GetParam().cause));
  EXPECT_THAT(advice->remedy, HasSubstr(GetParam().remedy));
}

TEST_P(NcclLog, IsACauseOfItsOwnAndPointsToNoOtherFailure) {
  const auto advice = nccl_advice(GetParam().log);
  ASSERT_TRUE(advice);
  for (const char* words : {"only follows", "ends first", "is the cause", "above", "first failure", "first error"}) {
    EXPECT_THAT(advice->cause + advice->remedy, Not(HasSubstr(words)));
  }
}

INSTANTIATE_TEST_SUITE_P(Logs, NcclLog, ::testing::ValuesIn(kCases),
                         [](const auto& one) { return std::string(one.param.name); });

TEST(NcclAdvice, TheSpecialReasonWinsOverTheGeneralOneThatStandsBesideIt) {
  const auto advice = nccl_advice(
      "unhandled system error\nError while creating shared memory segment /dev/shm/nccl-a1B2c3 (size 9637888)");
  ASSERT_TRUE(advice);
  EXPECT_THAT(advice->cause, HasSubstr("/dev/shm"));
}

TEST(NcclAdvice, HasNoneForWordsThatItDoesNotKnow) { EXPECT_FALSE(nccl_advice("NCCL INFO Init COMPLETE")); }

TEST(NcclAdvice, AHangOfGpusThatAllRanksReachedPointsToPeerAccess) {
  EXPECT_THAT(nccl_hang_advice().cause, HasSubstr("IOMMU"));
  EXPECT_THAT(nccl_hang_advice().remedy, HasSubstr("NCCL_P2P_DISABLE=1"));
}

}  // namespace nccl_advice_test
}  // namespace lockstep::comm
