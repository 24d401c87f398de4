// SPDX-License-Identifier: Apache-2.0
// A store whose host has several addresses.
#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <future>
#include <string>

#include "lockstep/base/file_system.h"
#include "lockstep/store/store.h"
#include "support/temp_dir.h"

namespace lockstep {
namespace addresses_test {

// Runs `body` on a thread for which `hosts` replaces /etc/hosts. Returns false if the system does not allow that.
bool with_hosts(const std::filesystem::path& hosts, const std::function<void()>& body) {
  const auto run = [&] {
    const bool is_replaced = ::unshare(CLONE_NEWNS) == 0 &&
                             ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
                             ::mount(hosts.c_str(), "/etc/hosts", nullptr, MS_BIND, nullptr) == 0;
    if (is_replaced) body();
    return is_replaced;
  };
  return std::async(std::launch::async, run).get();
}

sockaddr_in at_loopback(std::uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

// A port of 127.0.0.1 whose queue of connections is full, so that the system drops the packets of others, as a firewall
// does.
class SilentPort {
 public:
  SilentPort() : listener_(make_socket()) {
    sockaddr_in address = at_loopback(0);
    socklen_t size = sizeof address;
    EXPECT_EQ(::bind(listener_.get(), reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(::listen(listener_.get(), 0), 0);
    EXPECT_EQ(::getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
    number_ = ntohs(address.sin_port);
    for (UniqueFd& filler : fillers_) {
      filler = make_socket();
      (void)::connect(filler.get(), reinterpret_cast<sockaddr*>(&address), size);
    }
  }

  [[nodiscard]] std::uint16_t number() const { return number_; }

 private:
  static UniqueFd make_socket() { return UniqueFd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)); }

  UniqueFd listener_;
  std::array<UniqueFd, 4> fillers_;
  std::uint16_t number_ = 0;
};

TEST(StoreWithTwoAddresses, IsReachedAtTheSecondIfPacketsToTheFirstAreDropped) {
  const test::TempDir folder;
  const auto hosts = folder / "hosts";
  const std::string lines = "127.0.0.1 two-addresses\n127.0.0.2 two-addresses\n";
  const UniqueFd file(::open(hosts.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  ASSERT_EQ(::write(file.get(), lines.data(), lines.size()), static_cast<ssize_t>(lines.size()));
  const SilentPort silent;
  const StoreServer server({.host = "127.0.0.2", .port = silent.number()});
  const bool is_possible = with_hosts(hosts, [&] {
    // A single attempt may take all of this time.
    const auto store = connect_store({.host = "two-addresses", .port = silent.number()}, std::chrono::seconds(3));
    store->set("key", "value");
    EXPECT_EQ(store->try_get("key"), "value");
  });
  if (!is_possible) GTEST_SKIP() << "no mount namespaces here";
}

}  // namespace addresses_test
}  // namespace lockstep
