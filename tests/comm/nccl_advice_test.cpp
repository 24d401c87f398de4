// SPDX-License-Identifier: Apache-2.0
// The table against lines as NCCL prints them, with hosts, pids and addresses of our own.
#include "comm/core/device_advice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

namespace lockstep::comm {
namespace nccl_advice_test {

using ::testing::HasSubstr;

std::string log_file(const std::string& name) {
  std::ifstream file(std::string(LOCKSTEP_TEST_SOURCE_DIR) + "/tests/comm/nccl_logs/" + name + ".log");
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

struct Case {
  const char* log;
  const char* cause;
  const char* remedy;
};

class NcclLog : public ::testing::TestWithParam<Case> {};

TEST_P(NcclLog, NamesCauseAndRemedyOfARecordedLog) {
  const std::string log = log_file(GetParam().log);
  ASSERT_FALSE(log.empty()) << GetParam().log;
  const auto advice = nccl_advice(log);
  ASSERT_TRUE(advice.has_value()) << log;
  EXPECT_THAT(advice->cause, HasSubstr(GetParam().cause));
  EXPECT_THAT(advice->remedy, HasSubstr(GetParam().remedy));
}

INSTANTIATE_TEST_SUITE_P(
    Logs, NcclLog,
    ::testing::Values(Case{"duplicate_gpu", "same GPU", "one rank per GPU"},
                      Case{"small_dev_shm", "/dev/shm is too small", "--shm-size"},
                      Case{"full_dev_shm", "/dev/shm is full", "NCCL_SHM_DISABLE=1"},
                      Case{"wrong_interface", "wrong interface", "NCCL_SOCKET_IFNAME"},
                      Case{"no_interface", "no network interface", "NCCL_SOCKET_IFNAME"},
                      Case{"infiniband_timeout", "InfiniBand failed", "NCCL_IB_DISABLE=1"},
                      Case{"infiniband_acs", "access control (ACS)", "NCCL_NET_GDR_LEVEL=0"},
                      Case{"no_peer_access", "cannot reach each other's memory", "NCCL_P2P_DISABLE=1"},
                      Case{"version_mismatch", "different versions", "libnccl.so.2"},
                      Case{"unhandled_system_error", "a call to the system failed", "NCCL_DEBUG=INFO"},
                      Case{"peer_ended", "another rank ended", "ends first"}),
    [](const auto& one) { return std::string(one.param.log); });

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
