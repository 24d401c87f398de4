// SPDX-License-Identifier: Apache-2.0
#include "store/strangers.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "lockstep/store/rare_warning.h"
#include "store/handshake.h"

namespace lockstep::store {
namespace strangers_test {

using std::chrono::milliseconds;

TEST(Strangers, OfOneAddressTakeNoPlaceOfAnother) {
  Strangers strangers({.of_an_address = 2, .in_all = 10});
  EXPECT_EQ(strangers.add(1, "a"), std::nullopt);
  EXPECT_EQ(strangers.add(2, "b"), std::nullopt);
  EXPECT_EQ(strangers.add(3, "a"), std::nullopt);
  EXPECT_EQ(strangers.add(4, "a"), 1U) << "the oldest of a, though b's is there too";
  EXPECT_EQ(strangers.add(5, "a"), 3U);
  EXPECT_EQ(strangers.size(), 3U);
}

TEST(Strangers, OfManyAddressesAreBoundedInAll) {
  Strangers strangers({.of_an_address = 2, .in_all = 3});
  (void)strangers.add(1, "a");
  (void)strangers.add(2, "b");
  (void)strangers.add(3, "b");
  EXPECT_EQ(strangers.add(4, "c"), 2U) << "the oldest of who has most";
  EXPECT_EQ(strangers.add(5, "d"), 1U) << "the oldest where each has one";
  EXPECT_EQ(strangers.size(), 3U);
}

TEST(Strangers, ThatBecameKnownOrLeftCountNoMore) {
  Strangers strangers({.of_an_address = 2, .in_all = 3});
  (void)strangers.add(1, "a");
  (void)strangers.add(2, "a");
  strangers.remove(1);
  strangers.remove(1);
  EXPECT_EQ(strangers.add(3, "a"), std::nullopt);
  EXPECT_EQ(strangers.give_up_one(), 2U);
  EXPECT_EQ(strangers.give_up_one(), 3U);
  EXPECT_EQ(strangers.give_up_one(), std::nullopt);
}

TEST(Strangers, LeaveMostDescriptorsToTheProcess) {
  EXPECT_EQ(stranger_limits(1024).in_all, 128U);
  EXPECT_EQ(stranger_limits(1024).of_an_address, 96U);
  EXPECT_EQ(stranger_limits(1'000'000).in_all, 512U);
  EXPECT_GE(stranger_limits(0).of_an_address, 2U);
}

TEST(RareWarning, ComesAtOnceAndThenOnceASecondWithTheCount) {
  RareWarning rare;
  const TimePoint start{std::chrono::hours(1)};
  EXPECT_EQ(rare.next(), std::nullopt);
  EXPECT_EQ(rare.add(start), 1U);
  EXPECT_EQ(rare.add(start + milliseconds(1)), std::nullopt);
  EXPECT_EQ(rare.add(start + milliseconds(999)), std::nullopt);
  EXPECT_EQ(rare.next(), start + milliseconds(1000));
  EXPECT_EQ(rare.due(start + milliseconds(999)), std::nullopt);
  EXPECT_EQ(rare.due(start + milliseconds(1000)), 2U);
  EXPECT_EQ(rare.due(start + milliseconds(5000)), std::nullopt) << "nothing is left to say";
  EXPECT_EQ(rare.next(), std::nullopt);
}

// The values of RFC 4231 would show HMAC alone; these are of Python's hmac over the words of docs/formats/store.md:
// hmac.digest(b"key", b"lockstep-store/2 client " + b"c" * 32 + b"s" * 32, "sha256").hex()
TEST(Handshake, ProvesWhatTheFormatSays) {
  const Nonces nonces{std::string(32, 'c'), std::string(32, 's')};
  std::string hex;
  for (const char byte : prove("key", Side::kClient, nonces)) {
    hex += fmt::format("{:02x}", static_cast<unsigned>(static_cast<unsigned char>(byte)));
  }
  EXPECT_EQ(hex, "649d0e0d31c5e79854e7bd784d9589d451de7ca8c96745034d747424b52c4223");
}

TEST(Handshake, AProofIsOfOneSideOneTokenAndTwoNumbers) {
  const Nonces nonces{make_nonce(), make_nonce()};
  const std::string proof = prove("token", Side::kClient, nonces);
  EXPECT_TRUE(is_proof(proof, "token", Side::kClient, nonces));
  EXPECT_FALSE(is_proof(proof, "token", Side::kServer, nonces));
  EXPECT_FALSE(is_proof(proof, "Token", Side::kClient, nonces));
  EXPECT_FALSE(is_proof(proof, "token", Side::kClient, {nonces.server, nonces.client}));
  EXPECT_FALSE(is_proof(proof.substr(1), "token", Side::kClient, nonces));
  EXPECT_FALSE(is_proof("", "token", Side::kClient, nonces));
  EXPECT_NE(make_nonce(), make_nonce());
}

}  // namespace strangers_test
}  // namespace lockstep::store
