// SPDX-License-Identifier: Apache-2.0
// Clients in the process that serves the store, and what they may do that no client from outside may.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "lockstep/base/error.h"
#include "lockstep/store/presence.h"
#include "lockstep/store/store.h"
#include "store/wire.h"
#include "support/certificate.h"
#include "support/temp_dir.h"

namespace lockstep {
namespace inside_test {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;

constexpr auto kLong = seconds(60);
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

}  // namespace inside_test
}  // namespace lockstep
