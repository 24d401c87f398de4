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
  EXPECT_EQ(door_limits(1024).strangers.in_all, 128U);
  EXPECT_EQ(door_limits(1024).strangers.of_an_address, 96U);
  EXPECT_EQ(door_limits(1'000'000).strangers.in_all, 512U);
  EXPECT_GE(door_limits(0).strangers.of_an_address, 2U);
  const DoorLimits small = door_limits(1024);
  EXPECT_LE(small.strangers.in_all + small.knocked + small.known, 1024U - 100U) << "those who know the token, too";
}

TEST(Strangers, OfOneIpv6NetworkAreOneMachine) {
  EXPECT_EQ(stranger_address("2001:db8:1:2:3:4:5:6"), stranger_address("2001:db8:1:2:ffff::1"));
  EXPECT_NE(stranger_address("2001:db8:1:2::1"), stranger_address("2001:db8:1:3::1"));
  EXPECT_EQ(stranger_address("10.0.0.1"), "10.0.0.1");
  EXPECT_EQ(stranger_address("::ffff:10.0.0.1"), "::ffff:10.0.0.1");
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
// hmac.digest(b"key", b"lockstep-store/3 client " + b"c" * 32 + b"s" * 32, "sha256").hex()
std::string hex_of(const std::string& bytes) {
  std::string hex;
  for (const char byte : bytes) hex += fmt::format("{:02x}", static_cast<unsigned>(static_cast<unsigned char>(byte)));
  return hex;
}

TEST(Handshake, ProvesWhatTheFormatSays) {
  const Nonces nonces{std::string(32, 'c'), std::string(32, 's')};
  EXPECT_EQ(hex_of(prove("key", Side::kClient, nonces)),
            "6e19dbf68ecda0665f155baaf3bc363aac36e47019d71502681e78c2c9672cc5");
}

// key = hashlib.pbkdf2_hmac("sha256", b"key", b"lockstep-store/3 knock ", 65536)
// hmac.digest(key, b"lockstep-store/3 knock " + b"c" * 32 + b"s" * 32, "sha256").hex()
TEST(Handshake, KnocksAsTheFormatSays) {
  const Nonces nonces{std::string(32, 'c'), std::string(32, 's')};
  EXPECT_EQ(hex_of(knock(knock_key("key"), nonces)),
            "a377c34ee8faeb2f3bea094c8d9849793c71327073582f5edf5190dfc79b735e");
}

TEST(Handshake, AKnockIsNoProofAndOfTwoNumbers) {
  const Nonces nonces{make_nonce(), make_nonce()};
  const std::string key = knock_key("token");
  const std::string knocked = knock(key, nonces);
  EXPECT_TRUE(is_knock(knocked, key, nonces));
  EXPECT_FALSE(is_knock(knocked, knock_key("Token"), nonces));
  EXPECT_FALSE(is_knock(knocked, key, {nonces.server, nonces.client}));
  EXPECT_FALSE(is_proof(knocked, "token", Side::kClient, nonces));
  EXPECT_FALSE(is_proof(knocked, key, Side::kClient, nonces));
  EXPECT_FALSE(is_knock(prove("token", Side::kClient, nonces), key, nonces));
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
