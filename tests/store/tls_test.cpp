// SPDX-License-Identifier: Apache-2.0
// The store with TLS: what a listener sees, whom a client trusts, and that nobody can sit in between.
#include "lockstep/store/tls.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <asio.hpp>
#include <asio/ssl.hpp>
#include <functional>
#include <mutex>
#include <thread>

#include "lockstep/base/error.h"
#include "lockstep/store/presence.h"
#include "lockstep/store/store.h"
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

// Passes the bytes of one connection on, and keeps them.
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

// Has a certificate that the client trusts, and relays the handshake of a client to the store.
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
  const std::string value = "a value that nobody else should see";
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
  EXPECT_THAT(said, HasSubstr("shows a certificate that " + other_.certificate + " does not vouch for"));
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
              HasSubstr("refused our token"));
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
  const std::string said =
      said_by<TimeoutError>([&] { (void)connect_store(at(server->port(), own_.certificate), milliseconds(100)); });
  EXPECT_THAT(said, HasSubstr("when it is asked to encrypt"));
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

}  // namespace tls_test
}  // namespace lockstep
