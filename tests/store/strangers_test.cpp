// SPDX-License-Identifier: Apache-2.0
// Too many clients from outside, and clients in the same process.
#include <arpa/inet.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <atomic>
#include <functional>
#include <thread>

#include "lockstep/base/error.h"
#include "lockstep/base/file_system.h"
#include "lockstep/store/presence.h"
#include "lockstep/store/proof.h"
#include "lockstep/store/rare_warning.h"
#include "lockstep/store/store.h"
#include "lockstep/store/strangers.h"
#include "store/handshake.h"
#include "store/tls.h"
#include "store/wire.h"
#include "support/certificate.h"
#include "support/temp_dir.h"

namespace lockstep::store {
namespace strangers_test {

using std::chrono::milliseconds;

TEST(Proofs, AreOfBytesThatGoThereAndBackAsHexadecimal) {
  const std::string bytes("\x00\x7f\xff", 3);
  EXPECT_EQ(to_hex(bytes), "007fff");
  EXPECT_EQ(from_hex("007fff"), bytes);
  EXPECT_EQ(from_hex("zz"), "");
}

TEST(Strangers, OfOneAddressTakeNoPlaceOfAnother) {
  Strangers strangers({.per_address = 2, .total = 10});
  EXPECT_EQ(strangers.add(1, "a"), std::nullopt);
  EXPECT_EQ(strangers.add(2, "b"), std::nullopt);
  EXPECT_EQ(strangers.add(3, "a"), std::nullopt);
  EXPECT_EQ(strangers.add(4, "a"), 1U) << "the oldest of a, though b's is there too";
  EXPECT_EQ(strangers.add(5, "a"), 3U);
  EXPECT_EQ(strangers.size(), 3U);
}

TEST(Strangers, OfManyAddressesAreBoundedInAll) {
  Strangers strangers({.per_address = 2, .total = 3});
  (void)strangers.add(1, "a");
  (void)strangers.add(2, "b");
  (void)strangers.add(3, "b");
  EXPECT_EQ(strangers.add(4, "c"), 2U) << "the oldest of the address with most";
  EXPECT_EQ(strangers.add(5, "d"), 1U) << "the oldest if each has one";
  EXPECT_EQ(strangers.size(), 3U);
}

TEST(Strangers, ThatBecameKnownOrLeftCountNoMore) {
  Strangers strangers({.per_address = 2, .total = 3});
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
  EXPECT_EQ(door_limits(1024).strangers.total, 128U);
  EXPECT_EQ(door_limits(1024).strangers.per_address, 96U);
  EXPECT_EQ(door_limits(1'000'000).strangers.total, 512U);
  EXPECT_GE(door_limits(0).strangers.per_address, 2U);
  const DoorLimits small = door_limits(1024);
  EXPECT_LE(small.strangers.total + small.knocked + small.known, 1024U - 100U) << "those who know the token, too";
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

// The values of RFC 4231 would test only HMAC; these come from Python's hmac over the strings in docs/formats/store.md:
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

namespace lockstep {
namespace strangers_test {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;

// A store with a certificate under a flood of strangers: it signs nothing for them, and still lets every client in.

constexpr auto kLong = seconds(60);

// A stranger's client hello, which needs no token.
std::string client_hello(const std::string& trust) {
  store::TlsClient client(store::client_tls(trust));
  (void)client.shake_hands();
  return client.records();
}

UniqueFd connect_from(int host, std::uint16_t port) {
  UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in from{};
  from.sin_family = AF_INET;
  from.sin_addr.s_addr = htonl(INADDR_LOOPBACK + static_cast<std::uint32_t>(host));
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(port);
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::bind(fd.get(), reinterpret_cast<sockaddr*>(&from), sizeof from) != 0 ||
      ::connect(fd.get(), reinterpret_cast<sockaddr*>(&to), sizeof to) != 0) {
    return UniqueFd();
  }
  return fd;
}

// Sends the same bytes from 50 addresses, dropping the oldest connection when a hundred are open.
class Flood {
 public:
  Flood(std::uint16_t port, std::string words) {
    thread_ = std::thread([this, port, words = std::move(words)] {
      std::vector<UniqueFd> open(100);
      for (int i = 0; !is_over_; ++i) {
        UniqueFd fd = connect_from(1 + i % 50, port);
        if (fd.valid()) (void)!::send(fd.get(), words.data(), words.size(), MSG_NOSIGNAL);
        open[static_cast<std::size_t>(i) % open.size()] = std::move(fd);
        ++count_;
      }
    });
  }
  ~Flood() {
    is_over_ = true;
    thread_.join();
  }
  [[nodiscard]] int count() const { return count_; }

 private:
  std::atomic<bool> is_over_ = false;
  std::atomic<int> count_ = 0;
  std::thread thread_;
};

class FloodedStore : public ::testing::Test {
 protected:
  const test::TempDir folder_;
  const std::string token_ = make_token();
  const test::Certificate files_ = test::make_certificate(folder_.path(), "store");
  const StoreServer server_{{.token = token_, .certificate = files_.certificate, .key = files_.key}};
};

TEST_F(FloodedStore, SignsForNoStranger) {
  const UniqueFd stranger = connect_from(1, server_.port());
  const std::string words = client_hello(files_.certificate);
  ASSERT_EQ(::send(stranger.get(), words.data(), words.size(), MSG_NOSIGNAL), static_cast<ssize_t>(words.size()));
  char byte = 0;
  EXPECT_LE(::recv(stranger.get(), &byte, 1, 0), 0) << "it answered a ClientHello";
}

TEST_F(FloodedStore, LetsEveryClientInBesideThousandsOfHellos) {
  const Flood first(server_.port(), client_hello(files_.certificate));
  const Flood second(server_.port(), client_hello(files_.certificate));
  while (first.count() < 1000) std::this_thread::yield();
  for (int i = 0; i < 20; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    const auto client = connect_store({.port = server_.port(), .token = token_, .trust = files_.certificate}, kLong);
    client->set("rank/" + std::to_string(i), "1");
    EXPECT_LT(std::chrono::steady_clock::now() - begin, seconds(3)) << "client " << i << " was kept out";
  }
}

// Clients in the store's own process, and what they may do that outside clients may not.

constexpr auto kNow = milliseconds(0);

std::string refused(const std::function<void()>& body) {
  try {
    body();
  } catch (const UsageError& error) {
    return error.what();
  }
  return "(nothing was thrown)";
}

class Inside : public ::testing::Test {
 protected:
  [[nodiscard]] StoreAddress outside() const { return {.port = server_.port(), .token = token_, .trust = ""}; }
  [[nodiscard]] StoreAddress inside() const {
    auto address = outside();
    address.inside = server_.door();
    return address;
  }
  [[nodiscard]] std::shared_ptr<Store> client(const StoreAddress& address) const {
    return connect_store(address, kLong);
  }

  const std::string token_ = make_token();
  const StoreServer server_{{.token = token_, .certificate = "", .kept = "own/", .inbox = "own/in/"}};
};

TEST_F(Inside, AClientMeetsThoseFromOutside) {
  client(inside())->set("key", "value");
  EXPECT_EQ(client(outside())->get("key", kLong), "value");
}

TEST_F(Inside, AClientNeedsNeitherPortNorCertificate) {
  const test::TempDir folder;
  const auto files = test::make_certificate(folder.path(), "store");
  const StoreServer encrypted({.token = token_, .certificate = files.certificate, .key = files.key});
  const StoreAddress address{
      .host = "192.0.2.1", .port = 1, .token = token_, .trust = "missing.crt", .inside = encrypted.door()};
  const auto store = client(address);
  store->set("key", "value");
  EXPECT_EQ(store->get("key", kLong), "value");
  { const Presence presence(address, {.keys = {"lost"}, .will = "w", .silence = kLong}, kLong); }
  EXPECT_FALSE(store->try_get("lost"));
}

TEST_F(Inside, TheEndOfTheServerEndsItsClients) {
  auto server = std::make_unique<StoreServer>(StoreServer::Options{.token = token_, .certificate = ""});
  const StoreAddress address{.token = token_, .inside = server->door()};
  const auto store = client(address);
  server.reset();
  EXPECT_THROW(store->set("key", "value"), PeerError);
  EXPECT_THROW((void)connect_store(address, milliseconds(20)), TimeoutError);
}

TEST_F(Inside, KeptKeysAreOnlyReadFromOutside) {
  const auto own = client(inside());
  own->set("own/key", "value");
  EXPECT_EQ(client(outside())->get("own/key", kLong), "value");
  EXPECT_EQ(client(outside())->try_get("own/key"), "value");
  for (const auto& write : std::vector<std::function<void(Store&)>>{
           [](Store& store) { store.set("own/key", "forged"); },
           [](Store& store) { store.add("own/count", 7); },
           [](Store& store) { (void)store.compare_set("own/new", "", "forged"); },
           [](Store& store) { (void)store.remove("own/key"); },
           [](Store& store) { store.append("own/other/", "forged"); },
       }) {
    EXPECT_THAT(refused([&] { write(*client(outside())); }), HasSubstr("belongs to the launcher of node 0"));
  }
  EXPECT_EQ(own->try_get("own/key"), "value");
  EXPECT_FALSE(own->try_get("own/new"));
  EXPECT_FALSE(own->try_get("own/count"));
}

TEST_F(Inside, AnInboxTakesFromAllAndShowsToNobodyOutside) {
  client(outside())->append("own/in/", "event");
  EXPECT_EQ(client(inside())->get("own/in/1", kLong), "event");
  for (const auto& look : std::vector<std::function<void(Store&)>>{
           [](Store& store) { (void)store.try_get("own/in/1"); },
           [](Store& store) { (void)store.get("own/in/1", kNow); },
           [](Store& store) {
             store.wait({"other", "own/in/2"}, kNow);
           },
           [](Store& store) { (void)store.remove("own/in/1"); },
           [](Store& store) { store.set("own/in/count", "1000"); },
           [](Store& store) { store.append("own/in/1", "x"); },
       }) {
    EXPECT_THAT(refused([&] { look(*client(outside())); }), HasSubstr("belongs to the launcher of node 0"));
  }
  EXPECT_EQ(client(inside())->append("own/in/", "next"), 2);
}

TEST_F(Inside, ALastWillWritesWhatItsClientMay) {
  EXPECT_THROW(Presence(outside(), {.keys = {"own/key"}, .will = "w", .silence = kLong}, kLong), PeerError);
  EXPECT_THROW(Presence(outside(), {.keys = {"own/other/"}, .will = "w", .silence = kLong}, kLong), PeerError);
  { const Presence presence(outside(), {.keys = {"own/in/"}, .will = "w", .silence = kLong}, kLong); }
  EXPECT_FALSE(client(inside())->try_get("own/in/1")) << "it left by itself";
}

TEST_F(Inside, ClientsFromOutsideFillTheStoreToItsLimitOnly) {
  const std::string large(store::kMaxFrameBytes - 100, 'x');
  const auto floods = client(outside());
  std::string said;
  for (int i = 0; i < 20 && said.empty(); ++i) {
    try {
      floods->set("flood/" + std::to_string(i), large);
    } catch (const ResourceError& error) {
      said = error.what();
    }
  }
  EXPECT_THAT(said, HasSubstr("is full: its keys and values take 536.9 MB"));
  EXPECT_TRUE(floods->remove("flood/0"));
  floods->set("again", large);
  EXPECT_THROW(floods->set("and again", large), ResourceError);
  client(inside())->set("own/key", large);
}

}  // namespace strangers_test
}  // namespace lockstep
