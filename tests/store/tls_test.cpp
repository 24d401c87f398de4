// SPDX-License-Identifier: Apache-2.0
// Access: certificates, the secret and the proof of knowing it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>
#include <asio.hpp>
#include <asio/ssl.hpp>

#include <fstream>
#include <functional>
#include <mutex>
#include <thread>

#include "lockstep/base/error.h"
#include "lockstep/store/presence.h"
#include "lockstep/store/secret.h"
#include "lockstep/store/store.h"
#include "lockstep/store/tls.h"
#include "store/entry.h"
#include "store/wire.h"
#include "support/certificate.h"
#include "support/temp_dir.h"

namespace lockstep {
namespace tls_test {

using asio::ip::tcp;
using std::chrono::milliseconds;
using std::chrono::seconds;
using test::Certificate;
using test::make_certificate;
using ::testing::HasSubstr;
using ::testing::Not;

// The store with TLS: the bytes that an eavesdropper sees, the servers that a client trusts, and no chance for a man in
// the middle.

constexpr auto kLong = seconds(60);

template <class E>
std::string said_by(const std::function<void()>& body) {
  try {
    body();
  } catch (const E& error) {
    return std::string(error.what()) + " | " + error.hint();
  }
  return "(nothing was thrown)";
}

tcp::endpoint loopback(std::uint16_t port) { return {asio::ip::address_v4::loopback(), port}; }

// Relays the bytes of one connection, and records them.
class Listener {
 public:
  explicit Listener(std::uint16_t target) : acceptor_(io_, loopback(0)), here_(io_), there_(io_) {
    there_.connect(loopback(target));
    up_ = std::thread([this] {
      acceptor_.accept(here_);
      down_ = std::thread([this] { pass(there_, here_); });
      pass(here_, there_);
    });
  }
  ~Listener() {
    std::error_code ignored;
    here_.shutdown(tcp::socket::shutdown_both, ignored);
    there_.shutdown(tcp::socket::shutdown_both, ignored);
    up_.join();
    down_.join();
  }
  [[nodiscard]] std::uint16_t port() const { return acceptor_.local_endpoint().port(); }
  [[nodiscard]] std::string heard() {
    const std::lock_guard lock(mutex_);
    return heard_;
  }

 private:
  void pass(tcp::socket& from, tcp::socket& to) {
    std::array<char, 4096> bytes;
    std::error_code problem;
    while (!problem) {
      const std::size_t got = from.read_some(asio::buffer(bytes), problem);
      {
        const std::lock_guard lock(mutex_);
        heard_.append(bytes.data(), got);
      }
      if (!problem) asio::write(to, asio::buffer(bytes, got), problem);
    }
  }

  asio::io_context io_;
  tcp::acceptor acceptor_;
  tcp::socket here_;
  tcp::socket there_;
  std::mutex mutex_;
  std::string heard_;
  std::thread up_;
  std::thread down_;
};

// Has a certificate that the client trusts, and relays a client's handshake to the store.
class Interceptor {
 public:
  Interceptor(const Certificate& files, std::uint16_t target) : acceptor_(io_, loopback(0)) {
    thread_ = std::thread([this, files, target] {
      asio::ssl::context serves(asio::ssl::context::tls_server);
      serves.use_certificate_chain_file(files.certificate);
      serves.use_private_key_file(files.key, asio::ssl::context::pem);
      asio::ssl::context asks(asio::ssl::context::tls_client);
      asio::ssl::stream<tcp::socket> victim(io_, serves);
      asio::ssl::stream<tcp::socket> store(io_, asks);
      acceptor_.accept(victim.next_layer());
      store.next_layer().connect(loopback(target));
      for (int turn = 0; turn < 2; ++turn) {  // hello and knock
        pass(victim.next_layer(), store.next_layer());
        pass(store.next_layer(), victim.next_layer());
        ++passed_;
      }
      victim.handshake(asio::ssl::stream_base::server);
      store.handshake(asio::ssl::stream_base::client);
      pass(victim, store);
      pass(store, victim);
      ++passed_;
    });
  }
  ~Interceptor() { thread_.join(); }
  [[nodiscard]] std::uint16_t port() const { return acceptor_.local_endpoint().port(); }
  [[nodiscard]] int passed() const { return passed_; }

 private:
  template <class Stream>
  static void pass(Stream& from, Stream& to) {
    std::string frame(store::kHeaderBytes, '\0');
    asio::read(from, asio::buffer(frame));
    frame.resize(store::kHeaderBytes + store::read_length(frame.data()));
    asio::read(from, asio::buffer(frame.data() + store::kHeaderBytes, frame.size() - store::kHeaderBytes));
    asio::write(to, asio::buffer(frame));
  }

  asio::io_context io_;
  tcp::acceptor acceptor_;
  std::atomic<int> passed_ = 0;
  std::thread thread_;
};

class StoreTls : public ::testing::Test {
 protected:
  [[nodiscard]] std::unique_ptr<StoreServer> serve(const Certificate& files) const {
    return std::make_unique<StoreServer>(
        StoreServer::Options{.token = token_, .certificate = files.certificate, .key = files.key});
  }
  [[nodiscard]] StoreAddress at(std::uint16_t port, const std::string& trust) const {
    return {.port = port, .token = token_, .trust = trust};
  }

  test::TempDir folder_;
  const std::string token_ = make_token();
  const Certificate own_ = make_certificate(folder_.path(), "store");
  const Certificate other_ = make_certificate(folder_.path(), "other");
};

TEST_F(StoreTls, AListenerHearsNoValueOnceACertificateIsGiven) {
  const std::string value = "a value that no one else should see";
  for (const bool is_encrypted : {false, true}) {
    const auto server = serve(is_encrypted ? own_ : Certificate{});
    Listener listener(server->port());
    const auto store = connect_store(at(listener.port(), is_encrypted ? own_.certificate : ""), kLong);
    store->set("key", value);
    EXPECT_EQ(store->get("key", kLong), value);
    if (is_encrypted) {
      EXPECT_THAT(listener.heard(), Not(HasSubstr(value)));
    } else {
      EXPECT_THAT(listener.heard(), HasSubstr(value));
    }
  }
}

TEST_F(StoreTls, LargeValuesWaitsAndHeartbeatsPassThrough) {
  const auto server = serve(own_);
  const auto address = at(server->port(), own_.certificate);
  const auto store = connect_store(address, kLong);
  std::string large(20'000'000, '\0');
  for (std::size_t i = 0; i < large.size(); ++i) large[i] = static_cast<char>(i * 2'654'435'761U >> 24U);
  std::string seen;
  std::thread waits([&] { seen = connect_store(address, kLong)->get("large", kLong); });
  store->set("large", large);
  waits.join();
  EXPECT_TRUE(seen == large);
  { const Presence presence(address, {.keys = {"lost"}, .will = "w", .silence = seconds(60)}, kLong); }
  EXPECT_FALSE(store->try_get("lost")) << "it left by itself";
}

TEST_F(StoreTls, ACertificateOfAnotherIsRefusedByName) {
  const auto server = serve(own_);
  const std::string said =
      said_by<UsageError>([&] { (void)connect_store(at(server->port(), other_.certificate), kLong); });
  EXPECT_THAT(said, HasSubstr("could not be verified with " + other_.certificate));
  EXPECT_THAT(said, HasSubstr("--tls-ca or LOCKSTEP_TLS_CA"));
}

TEST_F(StoreTls, ACertificateThatAnotherSignedIsTrustedByItselfOrByItsAuthority) {
  const Certificate leaf = make_certificate(folder_.path(), "leaf", {.signer = other_});
  const auto server = serve(leaf);
  EXPECT_NE(connect_store(at(server->port(), leaf.certificate), kLong), nullptr);
  EXPECT_NE(connect_store(at(server->port(), other_.certificate), kLong), nullptr);
  EXPECT_THROW((void)connect_store(at(server->port(), own_.certificate), kLong), UsageError);
}

TEST_F(StoreTls, ACertificateThatHasEndedIsRefused) {
  const Certificate old = make_certificate(folder_.path(), "old", {.seconds = -86'400});
  const auto server = serve(old);
  EXPECT_THAT(said_by<UsageError>([&] { (void)connect_store(at(server->port(), old.certificate), kLong); }),
              HasSubstr("certificate has expired"));
}

TEST_F(StoreTls, WhoRelaysTheHandshakeGetsNeitherSideToBelieve) {
  const auto server = serve(own_);
  Interceptor between(own_, server->port());
  EXPECT_THAT(said_by<UsageError>([&] { (void)connect_store(at(between.port(), own_.certificate), kLong); }),
              HasSubstr("refused this program's token"));
  EXPECT_GE(between.passed(), 2) << "it was the proof that failed, not the connection";
}

TEST_F(StoreTls, AClientWithoutACertificateDoesNotGetIn) {
  const auto server = serve(own_);
  ::testing::internal::CaptureStderr();
  EXPECT_THROW((void)connect_store(at(server->port(), ""), milliseconds(100)), TimeoutError);
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), HasSubstr("no certificate to trust (--tls-ca)"));
  EXPECT_NE(connect_store(at(server->port(), own_.certificate), kLong), nullptr);
}

TEST_F(StoreTls, AServerWithoutACertificateIsNamedAsSuch) {
  const auto server = serve({});
  std::string said;
  for (const auto limit : {milliseconds(100), milliseconds(5000)}) {  // an emulator needs longer to answer
    said = said_by<TimeoutError>([&] { (void)connect_store(at(server->port(), own_.certificate), limit); });
    if (said.find("when encryption is requested") != std::string::npos) break;
  }
  EXPECT_THAT(said, HasSubstr("when encryption is requested"));
  EXPECT_THAT(said, HasSubstr("--tls-cert"));
}

TEST_F(StoreTls, FilesThatCannotBeUsedAreNamed) {
  const std::string missing = folder_ / "missing.crt";
  EXPECT_THAT(said_by<UsageError>([&] { (void)serve({missing, own_.key}); }), HasSubstr(missing));
  EXPECT_THAT(said_by<UsageError>([&] { (void)serve({own_.certificate, ""}); }), HasSubstr("--tls-key"));
  EXPECT_THAT(said_by<UsageError>([&] {
                (void)serve({own_.certificate, other_.key});
              }),
              HasSubstr(other_.key + " is not the private key of the certificate " + own_.certificate));
  const auto server = serve(own_);
  EXPECT_THAT(said_by<UsageError>([&] { (void)connect_store(at(server->port(), own_.key), kLong); }),
              HasSubstr(own_.key + " holds no certificate to trust"));
}

TEST_F(StoreTls, TheEnvironmentNamesTheFiles) {
  ::setenv("LOCKSTEP_TLS_CERT", own_.certificate.c_str(), 1);
  ::setenv("LOCKSTEP_TLS_KEY", own_.key.c_str(), 1);
  EXPECT_EQ(StoreAddress{}.trust, own_.certificate);
  EXPECT_EQ(StoreServer::Options{}.key, own_.key);
  ::setenv("LOCKSTEP_TLS_CA", other_.certificate.c_str(), 1);
  EXPECT_EQ(StoreAddress{}.trust, other_.certificate);
  EXPECT_EQ(StoreServer::Options{}.certificate, own_.certificate);
  for (const char* name : {"LOCKSTEP_TLS_CERT", "LOCKSTEP_TLS_KEY", "LOCKSTEP_TLS_CA"}) ::unsetenv(name);
  EXPECT_EQ(StoreAddress{}.trust, "");
}

class TokenFile : public ::testing::Test {
 protected:
  std::filesystem::path write(const std::string& content, mode_t mode) const {
    const auto file = folder_ / "token";
    std::filesystem::remove(file);
    std::ofstream(file) << content;
    ::chmod(file.c_str(), mode);
    return file;
  }
  static std::string usage_error(const std::function<void()>& body) {
    try {
      body();
    } catch (const UsageError& error) {
      return error.what();
    }
    return "(no usage error)";
  }

  test::TempDir folder_;
};

TEST_F(TokenFile, ThatIsNewIsThisUsersAndIsReadBack) {
  const auto file = folder_ / "job.token";
  const mode_t before = ::umask(0);
  write_token_file(file);
  ::umask(before);
  struct stat status {};
  ASSERT_EQ(::stat(file.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777U, 0600U);
  EXPECT_EQ(read_token_file(file).size(), 64U);
  EXPECT_THAT(usage_error([&] { write_token_file(file); }), HasSubstr("already exists"));
  std::filesystem::create_symlink(folder_ / "elsewhere", folder_ / "link");
  EXPECT_THAT(usage_error([&] { write_token_file(folder_ / "link"); }), HasSubstr("already exists"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "elsewhere"));
}

TEST_F(TokenFile, MustNotBeOpenToOthers) {
  const std::string token = make_token();
  EXPECT_EQ(read_token_file(write(token + "\n", 0600)), token);
  EXPECT_EQ(read_token_file(write(token, 0400)), token);
  for (const mode_t mode : {0644U, 0640U, 0660U, 0602U}) {
    const auto file = write(token, mode);
    EXPECT_THAT(usage_error([&] { (void)read_token_file(file); }), HasSubstr("chmod 600 " + file.string())) << mode;
  }
}

TEST_F(TokenFile, OfAnotherUserIsRefused) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give a file away";
  const auto file = write(make_token(), 0600);
  ASSERT_EQ(::chown(file.c_str(), 4711, 4711), 0);
  EXPECT_THAT(usage_error([&] { (void)read_token_file(file); }), HasSubstr("belongs to user 4711"));
}

TEST_F(TokenFile, IsARegularFile) {
  const auto fifo = folder_ / "fifo";
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  EXPECT_THAT(usage_error([&] { (void)read_token_file(fifo); }), HasSubstr("not a regular file"))
      << "and it is not waited for";
  EXPECT_THAT(usage_error([&] { (void)read_token_file("/dev/zero"); }), HasSubstr("not a regular file"));
  EXPECT_THAT(usage_error([&] { (void)read_token_file(folder_.path()); }), HasSubstr("not a regular file"));
  EXPECT_THROW((void)read_token_file(folder_ / "missing"), DataError);
}

TEST_F(TokenFile, HoldsASecretOfOneLine) {
  const auto problem = [&](const std::string& content) {
    const auto file = write(content, 0600);
    return usage_error([&] { (void)read_token_file(file); });
  };
  EXPECT_THAT(problem(""), HasSubstr("0 characters"));
  EXPECT_THAT(problem("sesame\n"), HasSubstr("6 characters, but a secret has 16"));
  EXPECT_THAT(problem(std::string(10'000, 'x')), HasSubstr("characters"));
  EXPECT_THAT(problem("0123456789abcdef\n0123456789abcdef"), HasSubstr("a single line of"));
  EXPECT_THAT(problem("0123456789abcdef\x1b[0m"), HasSubstr("printable ASCII"));
  EXPECT_THAT(usage_error([] { require_secret("none", "LOCKSTEP_TOKEN"); }), HasSubstr("LOCKSTEP_TOKEN holds 4"));
}

TEST(Loopback, IsWhatNoOtherMachineReaches) {
  for (const char* host : {"127.0.0.1", "127.9.9.9", "::1", "localhost"}) EXPECT_TRUE(is_loopback(host)) << host;
  for (const char* host : {"10.0.0.1", "0.0.0.0", "::", "192.0.2.1", "no.such.host.invalid", "128.0.0.1"}) {
    EXPECT_FALSE(is_loopback(host)) << host;
  }
}

}  // namespace tls_test
}  // namespace lockstep

namespace lockstep::store {
namespace tls_test {

using Kind = Entry::Step::Kind;

const std::string kToken = "a token of some length";
const std::string kPlain;

// A client's request, without the frame header.
std::string words(FrameWriter& frame) { return frame.take().substr(kHeaderBytes); }
std::string hello(const std::string& nonce, std::string_view magic = kMagic) {
  return words(FrameWriter(Verb::kHello).string(magic).string(nonce));
}
std::string said(Verb verb, const std::string& bytes) { return words(FrameWriter(verb).string(bytes)); }

Status status_of(const Entry::Step& step) {
  return step.frame.empty() ? Status::kBadRequest : static_cast<Status>(step.frame[kHeaderBytes]);
}
std::string field_of(const Entry::Step& step) {
  FrameReader answer(std::string_view(step.frame).substr(kHeaderBytes));
  (void)answer.byte();
  return answer.string();
}

// A client that has said hello.
struct Guest {
  explicit Guest(const std::string& knocks) : entry(kToken, knocks) {
    nonces.client = make_nonce();
    nonces.server = field_of(entry.take(hello(nonces.client), ""));
  }
  Entry entry;
  Nonces nonces;
};

TEST(Entry, WithoutACertificateAProofOpensIt) {
  Guest guest(kPlain);
  const auto step = guest.entry.take(said(Verb::kProve, prove(kToken, Side::kClient, guest.nonces)), "");
  EXPECT_EQ(step.kind, Kind::kKnown);
  EXPECT_TRUE(is_proof(field_of(step), kToken, Side::kServer, guest.nonces));
}

TEST(Entry, WithACertificateAKnockComesBeforeTheProof) {
  const std::string key = knock_key(kToken);
  Guest guest(key);
  EXPECT_EQ(guest.entry.take(said(Verb::kKnock, knock(key, guest.nonces)), "").kind, Kind::kEncrypt);
  guest.nonces.binding = "of the connection";
  const std::string proof = prove(kToken, Side::kClient, guest.nonces);
  EXPECT_EQ(Guest(key).entry.take(said(Verb::kProve, proof), "").kind, Kind::kRefuse) << "it did not knock";
  EXPECT_EQ(guest.entry.take(said(Verb::kProve, proof), guest.nonces.binding).kind, Kind::kKnown);
}

TEST(Entry, AProofOfAnotherConnectionIsRefused) {
  const std::string key = knock_key(kToken);
  Guest guest(key);
  (void)guest.entry.take(said(Verb::kKnock, knock(key, guest.nonces)), "");
  guest.nonces.binding = "there";
  const auto step = guest.entry.take(said(Verb::kProve, prove(kToken, Side::kClient, guest.nonces)), "here");
  EXPECT_EQ(step.kind, Kind::kRefuse);
  EXPECT_EQ(status_of(step), Status::kRefused);
}

TEST(Entry, AKnockThatWasOverheardOpensNothing) {
  const std::string key = knock_key(kToken);
  const Guest first(key);
  Guest again(key);
  const auto step = again.entry.take(said(Verb::kKnock, knock(key, first.nonces)), "");
  EXPECT_EQ(step.kind, Kind::kRefuse);
  EXPECT_EQ(status_of(step), Status::kRefused);
}

TEST(Entry, AKnockWithTheTokenItselfAsItsKeyIsRefused) {
  const std::string key = knock_key(kToken);
  Guest guest(key);
  EXPECT_EQ(guest.entry.take(said(Verb::kKnock, knock(kToken, guest.nonces)), "").kind, Kind::kRefuse);
}

TEST(Entry, OneSideThatEncryptsAloneHearsThatTheOtherDoesNot) {
  const std::string key = knock_key(kToken);
  Guest plain_server(kPlain);
  EXPECT_EQ(status_of(plain_server.entry.take(said(Verb::kKnock, knock(key, plain_server.nonces)), "")),
            Status::kOtherMode);
  Guest plain_client(key);
  EXPECT_EQ(
      status_of(plain_client.entry.take(said(Verb::kProve, prove(kToken, Side::kClient, plain_client.nonces)), "")),
      Status::kOtherMode);
}

TEST(Entry, AnotherVersionHearsSo) {
  Entry entry(kToken, kPlain);
  const auto step = entry.take(hello(make_nonce(), "lockstep-store/2"), "");
  EXPECT_EQ(step.kind, Kind::kRefuse);
  EXPECT_EQ(status_of(step), Status::kOtherVersion);
  EXPECT_LE(step.frame.size(), kMaxHelloBytes);
}

TEST(Entry, AnythingElseIsTurnedAway) {
  const std::string other_verb = said(Verb::kSet, "key");
  for (const std::string& body : {std::string(), std::string("GET / HTTP/1.1"), other_verb, hello("short")}) {
    EXPECT_EQ(Entry(kToken, kPlain).take(body, "").kind, Kind::kTurnAway);
  }
  for (const std::string& body : {std::string(), hello(make_nonce()), other_verb}) {
    EXPECT_EQ(Guest(kPlain).entry.take(body, "").kind, Kind::kTurnAway) << "after a hello";
  }
}

}  // namespace tls_test
}  // namespace lockstep::store
