// SPDX-License-Identifier: Apache-2.0
#include "lockstep/view/link_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

namespace lockstep::view {
namespace link_report_test {

using ::testing::HasSubstr;
using ::testing::Not;

LinkFacts two_hosts(const Link& link) {
  return {.hosts = {{0, "gpu-a", "10.0.0.5"}, {8, "gpu-b", "10.0.0.6"}}, .links = {link}};
}

TEST(LinkReport, AGoodLinkHasNoHint) {
  const LinkFacts facts = two_hosts({.from = 0, .to = 1, .round_trip_us = 85, .bytes_per_s = 1.1e9});
  EXPECT_EQ(links_text(facts),
            "from                      to                        round trip    bandwidth\n"
            "------------------------  ------------------------  ----------  -----------\n"
            "gpu-a (rank 0, 10.0.0.5)  gpu-b (rank 8, 10.0.0.6)       85 us  8.80 Gbit/s\n");
  EXPECT_FALSE(is_any_link_broken(facts));
}

TEST(LinkReport, ALongRoundTripHasAHint) {
  EXPECT_THAT(links_text(two_hosts({.from = 0, .to = 1, .round_trip_us = 999, .bytes_per_s = 1e9})),
              Not(HasSubstr("->")));
  EXPECT_THAT(links_text(two_hosts({.from = 0, .to = 1, .round_trip_us = 2500, .bytes_per_s = 1e9})),
              HasSubstr("-> 10.0.0.5 and 10.0.0.6: 2.50 ms a round trip"));
}

TEST(LinkReport, ASlowLinkIsNamed) {
  EXPECT_THAT(links_text(two_hosts({.from = 0, .to = 1, .round_trip_us = 90, .bytes_per_s = 12.5e6})),
              HasSubstr("-> 10.0.0.5 and 10.0.0.6: 100 Mbit/s, below 1 Gbit/s: 100 MB of gradients take 8.0 s\n"));
}

TEST(LinkReport, ABrokenLinkIsBad) {
  const LinkFacts facts = two_hosts({.from = 0, .to = 1, .problem = "cannot connect: Connection refused"});
  EXPECT_TRUE(is_any_link_broken(facts));
  EXPECT_THAT(links_text(facts), HasSubstr("-> 10.0.0.5 and 10.0.0.6: cannot connect: Connection refused. Every rank"));
  EXPECT_EQ(links_json(facts),
            "{\"link\": \"tcp\", \"from\": \"10.0.0.5\", \"to\": \"10.0.0.6\", \"round_trip_us\": null, "
            "\"gbit_per_s\": null, \"problem\": \"cannot connect: Connection refused\"}\n");
}

TEST(LinkReport, AFigureThatIsNoNumberIsNull) {
  const double infinity = std::numeric_limits<double>::infinity();
  EXPECT_THAT(links_json(two_hosts({.from = 0, .to = 1, .round_trip_us = 90.25, .bytes_per_s = infinity})),
              HasSubstr("\"round_trip_us\": 90.2, \"gbit_per_s\": null,"));
}

TEST(LinkReport, OneHostHasNoLink) {
  EXPECT_EQ(links_text({.hosts = {{0, "gpu-a", "127.0.0.1"}}}),
            "all ranks are on one host: there is no link to measure\n");
}

}  // namespace link_report_test
}  // namespace lockstep::view
