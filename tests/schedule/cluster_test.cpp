// SPDX-License-Identifier: Apache-2.0
#include "lockstep/schedule/cluster.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "support/comma_locale.h"

namespace lockstep::schedule {
namespace cluster_test {

using ::testing::HasSubstr;

std::string refusal(const std::string& text) {
  try {
    (void)parse_link(text);
  } catch (const UsageError& error) {
    return error.message();
  }
  return "";
}

TEST(ParseLink, TakesTheRateOfTheLineAndTheTimeOfOneWay) {
  const Link link = parse_link("100Gb/5us");
  EXPECT_NEAR(link.bytes_per_s, 12.5e9 * 1448 / 1583, 1);
  EXPECT_DOUBLE_EQ(link.latency_s, 5e-6);
  EXPECT_DOUBLE_EQ(parse_link("50Mb/10ms").latency_s, 0.01);
  EXPECT_NEAR(parse_link("2.5Tb/900ns").bytes_per_s, 2.5e12 / 8 * 1448 / 1583, 1000);
  EXPECT_DOUBLE_EQ(parse_link("1Kb/0us").latency_s, 0);
}

TEST(ParseLink, NamesWhatIsWrong) {
  EXPECT_THAT(refusal("100Gb"), HasSubstr("has no '/'"));
  EXPECT_THAT(refusal("100GB/5us"), HasSubstr("has the unit 'GB'"));
  EXPECT_THAT(refusal("fast/5us"), HasSubstr("has no number in 'fast'"));
  EXPECT_THAT(refusal("0Gb/5us"), HasSubstr("carries nothing"));
  EXPECT_THAT(refusal("1Gb/-5us"), HasSubstr("below 0"));
  EXPECT_THAT(refusal("nanGb/5us"), HasSubstr("has no number"));
}

TEST(ParseLink, ReadsAPointInALocaleWithADecimalComma) {
  const test::CommaLocale comma;
  EXPECT_DOUBLE_EQ(parse_link("2.5Gb/0.5ms").latency_s, 0.0005);
  EXPECT_DOUBLE_EQ(parse_link("2.5Gb/5us").bytes_per_s * 10, parse_link("25Gb/5us").bytes_per_s);
  EXPECT_THAT(refusal("2,5Gb/5us"), HasSubstr("has no number in '2,5Gb'"));
}

TEST(LinkText, HasPayloadAndOneWay) {
  EXPECT_EQ(link_text(parse_link("100Gb/5us")), "11.4 GB/s, 5 us");
  EXPECT_EQ(link_text({.bytes_per_s = 5.9e6, .latency_s = 0.01}), "5.9 MB/s, 10 ms");
  EXPECT_EQ(link_text({}), "unlimited, 0 us");
}

TEST(ParseBackend, TakesTheNamesOfComm) {
  for (const char* name : {"auto", "gloo", "shm", "shm+gloo", "nccl"})
    EXPECT_EQ(backend_text(parse_backend(name)), name);
  EXPECT_THROW((void)parse_backend("mpi"), UsageError);
}

TEST(Cluster, ChoosesWhatCommWouldChoose) {
  EXPECT_EQ((Cluster{.gpus = 4, .machines = 1}).chosen(), Backend::kShm);
  EXPECT_EQ((Cluster{.gpus = 1, .machines = 4}).chosen(), Backend::kGloo);
  EXPECT_EQ((Cluster{.gpus = 2, .machines = 4}).chosen(), Backend::kHierarchical);
  EXPECT_EQ((Cluster{.gpus = 2, .machines = 4, .backend = Backend::kShm}).chosen(), Backend::kHierarchical);
  EXPECT_EQ((Cluster{.gpus = 2, .machines = 4, .backend = Backend::kGloo}).chosen(), Backend::kGloo);
}

}  // namespace cluster_test
}  // namespace lockstep::schedule
