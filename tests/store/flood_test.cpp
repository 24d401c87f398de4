// SPDX-License-Identifier: Apache-2.0
// A store with a certificate while strangers flood it: it signs for none of them, and keeps no client out.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <atomic>
#include <thread>

#include "lockstep/base/file_system.h"
#include "lockstep/store/store.h"
#include "store/tls.h"
#include "support/certificate.h"
#include "support/temp_dir.h"

namespace lockstep {
namespace flood_test {

using std::chrono::seconds;

constexpr auto kLong = seconds(60);

// Of a stranger, who needs no token for it.
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

// Says the same words from 50 addresses, and forgets each connection when a hundred are open.
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

}  // namespace flood_test
}  // namespace lockstep
