// SPDX-License-Identifier: Apache-2.0
// The store: its keys, requests and interface.
#include <arpa/inet.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <future>
#include <thread>

#include "lockstep/base/error.h"
#include "lockstep/base/file_system.h"
#include "lockstep/store/store.h"
#include "store/handshake.h"
#include "store/table.h"
#include "store/wire.h"

namespace lockstep {
namespace store_test {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;

constexpr auto kLong = seconds(60);

template <class E>
std::string message_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const E& error) {
    return error.what();
  }
  return "(nothing was thrown)";
}

class Server {
 public:
  StoreAddress address() const { return {.host = "127.0.0.1", .port = server_->port(), .token = token_}; }
  std::shared_ptr<Store> client() const { return connect_store(address(), kLong); }
  void end() { server_.reset(); }

 private:
  std::string token_ = make_token();
  std::unique_ptr<StoreServer> server_ =
      std::make_unique<StoreServer>(StoreServer::Options{.host = "127.0.0.1", .port = 0, .token = token_});
};

// A raw connection: a stranger's, or that of a test that performs the handshake itself.
class RawClient {
 public:
  explicit RawClient(std::uint16_t port) : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::connect(fd_.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  }
  explicit RawClient(UniqueFd fd) : fd_(std::move(fd)) {}
  void send(const std::string& bytes) const { (void)!::send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL); }
  // Reads everything until the server closes the connection.
  std::string read_all() const {
    std::string all;
    char chunk[256];
    for (ssize_t got; (got = ::recv(fd_.get(), chunk, sizeof chunk, 0)) > 0;)
      all.append(chunk, static_cast<std::size_t>(got));
    return all;
  }
  // The body of the next frame; "" if there is none.
  std::string read_frame() const {
    char header[store::kHeaderBytes];
    if (::recv(fd_.get(), header, sizeof header, MSG_WAITALL) != sizeof header) return "";
    std::string body(store::read_length(header), '\0');
    return ::recv(fd_.get(), body.data(), body.size(), MSG_WAITALL) == static_cast<ssize_t>(body.size()) ? body : "";
  }
  bool is_closed_within(milliseconds limit) const {
    pollfd entry{fd_.get(), POLLIN, 0};
    char byte;
    return ::poll(&entry, 1, static_cast<int>(limit.count())) == 1 && ::recv(fd_.get(), &byte, 1, 0) <= 0;
  }
  // Performs a rank's handshake; true if the server knows the token as well.
  bool shake_hands(const std::string& token) const {
    store::Nonces both{.client = store::make_nonce(), .server = {}};
    send(hello(both.client));
    both.server = answer(read_frame());
    send(proof(store::prove(token, store::Side::kClient, both)));
    return store::is_proof(answer(read_frame()), token, store::Side::kServer, both);
  }

  static std::string hello(const std::string& nonce) {
    return store::FrameWriter(store::Verb::kHello).string(store::kMagic).string(nonce).take();
  }
  static std::string proof(const std::string& bytes) {
    return store::FrameWriter(store::Verb::kProve).string(bytes).take();
  }
  // A response's single field.
  static std::string answer(const std::string& body) {
    store::FrameReader reader(body);
    return reader.byte() == static_cast<std::uint8_t>(store::Status::kOk) ? reader.string() : "";
  }

 private:
  UniqueFd fd_;
};

// Listens at the store's address, without the token.
class RogueServer {
 public:
  RogueServer() : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    EXPECT_EQ(::bind(fd_.get(), reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(::listen(fd_.get(), 8), 0);
    ::getsockname(fd_.get(), reinterpret_cast<sockaddr*>(&address), &size);
    port_ = ntohs(address.sin_port);
  }
  std::uint16_t port() const { return port_; }
  RawClient accept() const { return RawClient(UniqueFd(::accept4(fd_.get(), nullptr, nullptr, SOCK_CLOEXEC))); }

 private:
  UniqueFd fd_;
  std::uint16_t port_ = 0;
};

std::string ok(const std::string& field) { return store::FrameWriter(store::Status::kOk).string(field).take(); }

std::size_t count_of(const std::string& text, const std::string& word) {
  std::size_t count = 0;
  for (auto at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) ++count;
  return count;
}

// Both kinds of store give the same guarantees.
class AnyStore : public ::testing::TestWithParam<bool> {
 protected:
  std::shared_ptr<Store> store() { return GetParam() ? server_.client() : local_; }

 private:
  Server server_;
  std::shared_ptr<Store> local_ = make_local_store();
};

INSTANTIATE_TEST_SUITE_P(Kinds, AnyStore, ::testing::Bool(),
                         [](const auto& kind) { return kind.param ? "Served" : "Local"; });

TEST_P(AnyStore, KeepsBytes) {
  const auto client = store();
  const std::string bytes("\0\xff\n", 3);
  client->set("k", bytes);
  EXPECT_EQ(client->get("k", kLong), bytes);
  EXPECT_EQ(client->try_get("k"), bytes);
  EXPECT_EQ(client->try_get("other"), std::nullopt);
  EXPECT_TRUE(client->remove("k"));
  EXPECT_FALSE(client->remove("k"));
  EXPECT_EQ(client->try_get("k"), std::nullopt);
}

TEST_P(AnyStore, CountsOverManyThreads) {
  const auto client = store();
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] {
      for (int j = 0; j < 50; ++j) client->add("n", 2);
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(client->add("n", -1), 799);
  EXPECT_EQ(client->get("n", kLong), "799");
}

TEST_P(AnyStore, CompareSetLetsTheFirstWin) {
  const auto client = store();
  EXPECT_EQ(client->compare_set("first", "", "a"), "a");
  EXPECT_EQ(client->compare_set("first", "", "b"), "a");
  EXPECT_EQ(client->compare_set("first", "a", "c"), "c");
}

TEST_P(AnyStore, AQueueNumbersItsEntries) {
  const auto client = store();
  auto waiting = std::async(std::launch::async, [&] { return client->get("q/2", kLong); });
  EXPECT_EQ(client->append("q/", "a"), 1);
  EXPECT_EQ(client->append("q/", "b"), 2);
  EXPECT_EQ(waiting.get(), "b");
  EXPECT_EQ(with_prefix(client, "q/")->get("1", kLong), "a");
}

TEST_P(AnyStore, AWaitInOneThreadLetsAnotherSet) {
  const auto client = store();
  auto waiting = std::async(std::launch::async, [&] { client->wait({"a", "b"}, kLong); });
  client->set("b", "1");
  client->set("a", "1");
  waiting.get();
}

TEST_P(AnyStore, AnEmptyWaitReturnsAtOnce) { store()->wait({}, milliseconds(0)); }

TEST_P(AnyStore, TimeoutNamesOnlyTheMissingKeys) {
  const auto client = store();
  client->set("there", "1");
  const auto message = message_of<TimeoutError>([&] { client->wait({"there", "rank/3"}, milliseconds(30)); });
  EXPECT_THAT(message, HasSubstr("'rank/3'"));
  EXPECT_THAT(message, ::testing::Not(HasSubstr("'there'")));
  EXPECT_THAT(message_of<TimeoutError>([&] { (void)client->get("rank/4", milliseconds(0)); }), HasSubstr("'rank/4'"));
  EXPECT_EQ(client->get("there", kLong), "1");
}

TEST_P(AnyStore, AddToTextIsAUsageErrorThatNamesTheKey) {
  const auto client = store();
  client->set("word", "x");
  EXPECT_THAT(message_of<UsageError>([&] { client->add("word", 1); }), HasSubstr("'word'"));
  EXPECT_EQ(client->get("word", kLong), "x");
}

TEST_P(AnyStore, PrefixesKeepJobsApart) {
  const auto plain = store();
  const auto a = with_prefix(plain, "a/");
  const auto b = with_prefix(plain, "b/");
  a->set("k", "1");
  EXPECT_EQ(b->try_get("k"), std::nullopt);
  EXPECT_EQ(plain->try_get("a/k"), "1");
  a->wait({"k"}, kLong);
  EXPECT_EQ(b->add("n", 4), 4);
  EXPECT_EQ(plain->get("b/n", kLong), "4");
  EXPECT_THAT(message_of<TimeoutError>([&] { b->wait({"k"}, milliseconds(0)); }), HasSubstr("'b/k'"));
}

TEST_P(AnyStore, ShutDownEndsAWait) {
  const auto client = store();
  auto waiting = std::async(std::launch::async, [&] { client->wait({"never"}, kLong); });
  client->set("before", "1");
  client->shut_down();
  EXPECT_THROW(waiting.get(), PeerError);
  EXPECT_THROW((void)client->try_get("before"), PeerError);
}

TEST(StoreServer, FiftyClientsWaitForOneKey) {
  Server server;
  std::atomic<int> came{0};
  std::vector<std::thread> threads;
  std::vector<std::string> ready;
  for (int i = 0; i < 50; ++i) {
    ready.push_back("ready/" + std::to_string(i));
    threads.emplace_back([&, key = ready.back()] {
      const auto client = server.client();
      client->set(key, "1");
      came += client->get("go", kLong) == "now" ? 1 : 0;
    });
  }
  const auto client = server.client();
  client->wait(ready, kLong);
  client->set("go", "now");
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(came, 50);
}

TEST(StoreServer, ItsEndIsAPeerErrorInEveryWaitingClient) {
  Server server;
  std::vector<std::future<void>> waiting;
  std::vector<std::string> ready;
  for (int i = 0; i < 10; ++i) {
    ready.push_back("ready/" + std::to_string(i));
    waiting.push_back(std::async(std::launch::async, [&, key = ready.back()] {
      const auto client = server.client();
      client->set(key, "1");
      client->wait({"never"}, kLong);
    }));
  }
  const auto client = server.client();
  client->wait(ready, kLong);
  server.end();
  for (auto& one : waiting) EXPECT_THROW(one.get(), PeerError);
  EXPECT_THROW(client->set("k", "v"), PeerError);
}

TEST(StoreServer, AWrongTokenIsAUsageError) {
  Server server;
  auto address = server.address();
  address.token.back() = address.token.back() == '0' ? '1' : '0';
  EXPECT_THAT(message_of<UsageError>([&] { (void)connect_store(address, kLong); }), HasSubstr("token"));
  address.token = "short";
  EXPECT_THROW((void)connect_store(address, kLong), UsageError);
  server.client()->set("k", "v");
}

TEST(StoreServer, ABusyPortIsAUsageErrorThatNamesIt) {
  Server server;
  const auto port = server.address().port;
  const auto message =
      message_of<UsageError>([&] { StoreServer second({.host = "127.0.0.1", .port = port, .token = "t"}); });
  EXPECT_THAT(message, HasSubstr("127.0.0.1:" + std::to_string(port)));
  EXPECT_THAT(message, HasSubstr("choose another"));
}

TEST(StoreServer, AHostThatIsNotOursIsAUsageError) {
  EXPECT_THROW(StoreServer({.host = "192.0.2.1", .port = 0, .token = "t"}), UsageError);
}

TEST(StoreServer, ListensOnItsOneAddressOnly) {
  Server server;
  auto address = server.address();
  address.host = "127.0.0.2";
  EXPECT_THROW((void)connect_store(address, milliseconds(50)), TimeoutError);
}

TEST(StoreServer, ClientsThatSendGarbageOrDieDisturbNobody) {
  Server server;
  const auto port = server.address().port;
  const auto good = server.client();
  auto waiting = std::async(std::launch::async, [&] { return good->get("key", kLong); });

  RawClient http(port);
  http.send("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_EQ(http.read_all(), "");  // "GET " as a length is far beyond a hello

  RawClient unknown(port);
  unknown.send(store::FrameWriter(store::Verb::kSet).string("key").string("forged").take());
  EXPECT_EQ(unknown.read_all(), "");

  RawClient oversize(port);
  EXPECT_TRUE(oversize.shake_hands(server.address().token));
  oversize.send("\xff\xff\xff\xff");
  EXPECT_EQ(oversize.read_all(), "");

  RawClient malformed(port);
  EXPECT_TRUE(malformed.shake_hands(server.address().token));
  malformed.send(std::string("\x02\0\0\0\x63zz", 6));
  EXPECT_THAT(malformed.read_all(), HasSubstr("malformed"));

  {
    RawClient torn(port), torn_later(port), waits_and_dies(port);
    torn.send("\x10");
    EXPECT_TRUE(torn_later.shake_hands(server.address().token));
    torn_later.send(std::string("\x40\0\0\0\x02half", 9));
    EXPECT_TRUE(waits_and_dies.shake_hands(server.address().token));
    waits_and_dies.send(store::FrameWriter(store::Verb::kGet).number(60000).string("key").take());
  }
  server.client()->set("key", "value");
  EXPECT_EQ(waiting.get(), "value");
}

TEST(StoreServer, LeavesNoSocketToProgramsThatItsProcessStarts) {
  Server server;
  const RawClient client(server.address().port);
  EXPECT_TRUE(client.shake_hands(server.address().token));
  int sockets = 0;
  for (int fd = 3; fd < 1024; ++fd) {
    sockaddr_in own{};
    socklen_t size = sizeof own;
    if (::getsockname(fd, reinterpret_cast<sockaddr*>(&own), &size) != 0 || own.sin_family != AF_INET) continue;
    if (ntohs(own.sin_port) != server.address().port) continue;
    ++sockets;
    EXPECT_NE(::fcntl(fd, F_GETFD) & FD_CLOEXEC, 0) << "descriptor " << fd;
  }
  EXPECT_EQ(sockets, 2);
}

TEST(StoreServer, TellsAStrangerNothing) {
  Server server;
  const auto port = server.address().port;
  for (const std::string& words :
       {RawClient::proof("x"), RawClient::hello("short"), RawClient::hello(store::make_nonce()) + RawClient::hello("x"),
        RawClient::hello(std::string(300, 'x')),
        store::FrameWriter(store::Verb::kHello).string("lockstep-store/1").string(server.address().token).take()}) {
    const RawClient stranger(port);
    stranger.send(words);
    const std::string said = stranger.read_all();
    EXPECT_LE(said.size(), ok(store::make_nonce()).size()) << "at most a random number";
  }
}

TEST(StoreServer, AHandshakeThatWasOverheardOpensNothing) {
  Server server;
  const RawClient first(server.address().port);
  const std::string nonce = store::make_nonce();
  first.send(RawClient::hello(nonce));
  const store::Nonces nonces{nonce, RawClient::answer(first.read_frame())};
  const std::string overheard = RawClient::proof(store::prove(server.address().token, store::Side::kClient, nonces));
  first.send(overheard);
  EXPECT_EQ(RawClient::answer(first.read_frame()).size(), 32U);

  const RawClient again(server.address().port);
  again.send(RawClient::hello(nonce) + overheard);
  (void)again.read_frame();
  EXPECT_THAT(again.read_all(), HasSubstr("wrong token"));
}

TEST(StoreServer, ClosesTheOldestStrangersAndKeepsWhoIsKnown) {
  Server server;
  const auto known = server.client();
  std::vector<std::unique_ptr<RawClient>> strangers;
  for (int i = 0; i < 600; ++i) {
    strangers.push_back(std::make_unique<RawClient>(server.address().port));
    if (i % 50 == 0) server.client()->set("rank/" + std::to_string(i), "1");
  }
  EXPECT_TRUE(strangers[0]->is_closed_within(seconds(3)));
  EXPECT_EQ(known->get("rank/550", kLong), "1");
}

TEST(StoreServer, WarnsOfManyStrangersInOneLine) {
  ::testing::internal::CaptureStderr();
  {
    Server server;
    for (int i = 0; i < 100; ++i) {
      const RawClient stranger(server.address().port);
      stranger.send("GET / HTTP/1.1\r\n\r\n");
      EXPECT_EQ(stranger.read_all(), "");
    }
  }
  const std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_THAT(said, HasSubstr("warn: a connection to the store did not prove that it knows the job's token"));
  EXPECT_THAT(said, HasSubstr("the last came from 127.0.0.1"));
  EXPECT_LE(count_of(said, "warn:"), 3U) << "a second has one line";
}

TEST(StoreClient, NeverSendsTheToken) {
  const RogueServer rogue;
  const std::string token = make_token();
  auto client = std::async(std::launch::async, [&] {
    (void)connect_store({.host = "127.0.0.1", .port = rogue.port(), .token = token}, kLong);
  });
  const RawClient connection = rogue.accept();
  std::string heard = connection.read_frame();
  connection.send(ok(store::make_nonce()));
  heard += connection.read_frame();
  EXPECT_THAT(heard, ::testing::Not(HasSubstr(token)));
  // The client's own proof, echoed back, does not count as the server's.
  connection.send(ok(heard.substr(heard.size() - 32)));
  EXPECT_THAT(message_of<UsageError>([&] { client.get(); }), HasSubstr("does not know this program's token"));
}

TEST(StoreClient, ComesAgainWhereTheServerHadNoRoom) {
  const RogueServer door;
  const std::string token = make_token();
  auto client = std::async(std::launch::async, [&] {
    return connect_store({.host = "127.0.0.1", .port = door.port(), .token = token}, kLong);
  });
  { const RawClient turned_away = door.accept(); }
  const RawClient second = door.accept();
  const std::string body = second.read_frame();
  const store::Nonces nonces{body.substr(body.size() - 32), store::make_nonce()};
  second.send(ok(nonces.server));
  (void)second.read_frame();
  second.send(ok(store::prove(token, store::Side::kServer, nonces)));
  EXPECT_NE(client.get(), nullptr);
}

TEST(StoreClient, SaysThatSomethingElseListensThere) {
  const RogueServer rogue;
  const auto message = message_of<TimeoutError>(
      [&] { (void)connect_store({.host = "127.0.0.1", .port = rogue.port(), .token = "t"}, milliseconds(50)); });
  EXPECT_THAT(message, HasSubstr("it accepts connections but sends nothing"));
  EXPECT_THAT(message, HasSubstr("a program listens there"));
}

TEST(StoreClient, KeepsTryingUntilTheServerListens) {
  std::uint16_t port = 0;
  { port = StoreServer({.host = "127.0.0.1", .port = 0, .token = "t"}).port(); }
  auto client = std::async(std::launch::async,
                           [&] { return connect_store({.host = "127.0.0.1", .port = port, .token = "t"}, kLong); });
  EXPECT_EQ(client.wait_for(milliseconds(60)), std::future_status::timeout);
  StoreServer server({.host = "127.0.0.1", .port = port, .token = "t"});
  client.get()->set("k", "v");
}

TEST(StoreClient, NoServerIsATimeoutThatNamesHostAndPort) {
  std::uint16_t port = 0;
  { port = StoreServer({.host = "127.0.0.1", .port = 0, .token = "t"}).port(); }
  const auto message = message_of<TimeoutError>(
      [&] { (void)connect_store({.host = "127.0.0.1", .port = port, .token = "t"}, milliseconds(60)); });
  EXPECT_THAT(message, HasSubstr("127.0.0.1:" + std::to_string(port)));
}

TEST(Token, IsLongAndNeverTheSame) {
  EXPECT_EQ(make_token().size(), 64U);
  EXPECT_NE(make_token(), make_token());
}

}  // namespace store_test
}  // namespace lockstep

namespace lockstep::store {
namespace store_test {

using ::testing::HasSubstr;

std::string_view body_of(const std::string& frame) { return std::string_view(frame).substr(kHeaderBytes); }

TEST(Wire, ReadsBackWhatItWrote) {
  const std::string frame =
      FrameWriter(Verb::kWait).number(-5).string(std::string("a\0b", 3)).strings({"x", "", "yy"}).take();
  EXPECT_EQ(read_length(frame.data()), frame.size() - kHeaderBytes);
  FrameReader reader(body_of(frame));
  EXPECT_EQ(reader.byte(), static_cast<std::uint8_t>(Verb::kWait));
  EXPECT_EQ(reader.number(), -5);
  EXPECT_EQ(reader.string(), std::string("a\0b", 3));
  EXPECT_EQ(reader.strings(), (std::vector<std::string>{"x", "", "yy"}));
  EXPECT_TRUE(reader.complete());
}

TEST(Wire, EveryTornBodyIsIncomplete) {
  const std::string frame =
      FrameWriter(Verb::kCompareSet).string("key").string("old").number(7).strings({"a", "b"}).take();
  for (std::size_t length = 0; length + 1 < frame.size() - kHeaderBytes; ++length) {
    FrameReader reader(body_of(frame).substr(0, length));
    reader.byte();
    reader.string();
    reader.string();
    reader.number();
    reader.strings();
    EXPECT_FALSE(reader.complete()) << length;
  }
}

TEST(Wire, ALengthBeyondTheBodyIsRefusedWithoutAllocatingIt) {
  FrameReader reader(std::string_view("\xff\xff\xff\xff", 4));
  EXPECT_EQ(reader.strings().size(), 1U);  // the first string failed
  EXPECT_FALSE(reader.ok());
}

TEST(Wire, BytesLeftOverAreNotComplete) {
  FrameReader reader("\x01more");
  reader.byte();
  EXPECT_TRUE(reader.ok());
  EXPECT_FALSE(reader.complete());
}

TEST(Table, AddRefusesTextAndOverflow) {
  Table table;
  EXPECT_EQ(table.add("n", 9223372036854775807), 9223372036854775807);
  EXPECT_EQ(table.add("n", 1), std::nullopt);
  table.set("word", "12x");
  EXPECT_EQ(table.add("word", 1), std::nullopt);
  EXPECT_EQ(table.find("word"), "12x");
}

TEST(Table, CompareSetTakesUnsetForEmpty) {
  Table table;
  EXPECT_EQ(table.compare_set("k", "something", "new"), "");
  EXPECT_EQ(table.find("k"), std::nullopt);
  EXPECT_EQ(table.compare_set("k", "", "first"), "first");
  EXPECT_EQ(table.compare_set("k", "", "second"), "first");
}

TEST(Table, RemovesAllKeysOfAPrefixWithTheirBytes) {
  Table table;
  table.set("rounds/1/key", "value");
  const std::size_t before = table.bytes();
  table.set("rounds/0/key", "value");
  table.append("rounds/0/queue/", "value");
  table.remove_all("rounds/0/");
  EXPECT_EQ(table.find("rounds/0/key"), std::nullopt);
  EXPECT_EQ(table.find("rounds/0/queue/1"), std::nullopt);
  EXPECT_EQ(table.find("rounds/1/key"), "value");
  EXPECT_EQ(table.bytes(), before);
}

TEST(Table, TimeoutMessageNamesAFewKeysOnly) {
  EXPECT_EQ(timeout_message({"a"}, 2), "the store did not get key 'a' within 2.0 s");
  const std::vector<std::string> many(20, "k");
  EXPECT_NE(timeout_message(many, 2).find("and 12 more"), std::string::npos);
}

}  // namespace store_test
}  // namespace lockstep::store
