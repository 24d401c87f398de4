// SPDX-License-Identifier: Apache-2.0
// Runs without a secret: the addresses of a network, and a store closed to all others.
#include "lockstep/store/trusted_network.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cstdlib>

#include "lockstep/base/error.h"
#include "lockstep/store/interface_choice.h"
#include "lockstep/store/store.h"
#include "support/fault_of.h"

namespace lockstep::store {
namespace trusted_network_test {

using ::testing::HasSubstr;

TEST(TrustedNetwork, HasTheAddressesThatAgreeInItsBitsAndThisMachinesOwn) {
  const TrustedNetwork four("192.168.1.7/23");
  EXPECT_EQ(four.text(), "192.168.0.0/23");
  for (const char* member : {"192.168.0.1", "192.168.1.255", "::ffff:192.168.1.2", "127.0.0.1", "::1"}) {
    EXPECT_TRUE(four.contains(member)) << member;
  }
  for (const char* other : {"192.168.2.1", "10.0.0.1", "fd00::1", "::ffff:10.0.0.1", "gpu-a", ""}) {
    EXPECT_FALSE(four.contains(other)) << other;
  }
  const TrustedNetwork six("fd00:1::5/64");
  EXPECT_EQ(six.text(), "fd00:1::/64");
  EXPECT_TRUE(six.contains("fd00:1::77"));
  EXPECT_FALSE(six.contains("fd00:1:0:1::77"));
  EXPECT_FALSE(six.contains("192.168.1.1"));
}

TEST(TrustedNetwork, HasAHostByEachOfItsAddresses) {
  EXPECT_TRUE(TrustedNetwork("10.0.0.0/8").contains_host("10.1.2.3"));
  EXPECT_TRUE(TrustedNetwork("10.0.0.0/8").contains_host("localhost"));
  EXPECT_FALSE(TrustedNetwork("10.0.0.0/8").contains_host("192.168.1.1"));
  EXPECT_FALSE(TrustedNetwork("10.0.0.0/8").contains_host("no-such-host.invalid"));
}

TEST(TrustedNetwork, ThatIsNoneOrTooWideIsAnErrorThatShowsOne) {
  for (const char* text : {"", "192.168.1.1", "192.168.1.0/33", "192.168.1/24", "0.0.0.0/0", "0.0.0.0/7", "::/0",
                           "gpu/24", "192.168.1.0/24 "}) {
    EXPECT_THAT(test::fault_of<UsageError>([&] { (void)TrustedNetwork(text); }),
                HasSubstr("is not a valid trusted network"))
        << text;
  }
}

TEST(TrustedNetwork, ClosesTheStoreToWhoIsElsewhere) {
  const std::vector<Interface> all = list_interfaces();
  const auto own = std::find_if(all.begin(), all.end(), [](const Interface& each) {
    return !each.is_loopback && each.address.find(':') == std::string::npos;
  });
  if (own == all.end()) GTEST_SKIP() << "this machine has no address that others reach";
  for (const bool is_trusted : {true, false}) {
    const TrustedNetwork network(is_trusted ? own->address + "/32" : "203.0.113.0/24");
    ::setenv("LOCKSTEP_TRUST_NETWORK", network.text().c_str(), 1);
    const StoreServer server({.host = own->address, .port = 0, .token = network.token()});
    ::unsetenv("LOCKSTEP_TRUST_NETWORK");
    const StoreAddress address{.host = own->address, .port = server.port(), .token = network.token()};
    if (is_trusted) {
      EXPECT_NO_THROW(connect_store(address, std::chrono::seconds(20))->set("key", "value"));
    } else {
      EXPECT_THROW((void)connect_store(address, std::chrono::milliseconds(300)), Error);
    }
  }
}

}  // namespace trusted_network_test
}  // namespace lockstep::store
