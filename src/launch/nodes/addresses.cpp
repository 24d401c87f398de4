// SPDX-License-Identifier: Apache-2.0
#include "launch/nodes/addresses.h"

#include <arpa/inet.h>
#include <limits.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <fstream>
#include <memory>
#include <random>

#include "lockstep/base/env.h"
#include "lockstep/base/file_system.h"
#include "lockstep/base/log.h"
#include "lockstep/store/store.h"

namespace lockstep::launch {

bool is_free(const std::string& host, std::uint16_t port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found) != 0) return false;
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(found, &::freeaddrinfo);
  const UniqueFd fd(::socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int on = 1;
  ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  return ::bind(fd.get(), found->ai_addr, found->ai_addrlen) == 0 && ::listen(fd.get(), 1) == 0;
}

bool is_own(const std::string& host) { return is_free(host, 0); }

bool names_loopback(const std::string& host) {
  return host == "localhost" || host == "::1" || host.rfind("127.", 0) == 0;
}

void warn_of_loopback(const std::string& host) {
  sockaddr_in address{};
  addrinfo hints{};
  hints.ai_family = AF_INET;
  addrinfo* found = nullptr;
  if (names_loopback(host) || ::getaddrinfo(host.c_str(), nullptr, &hints, &found) != 0) return;
  address.sin_addr = reinterpret_cast<const sockaddr_in*>(found->ai_addr)->sin_addr;
  ::freeaddrinfo(found);
  if ((ntohl(address.sin_addr.s_addr) >> 24U) == 127) {
    log::warn("--master-addr {} is a loopback address on this machine (see /etc/hosts): other machines cannot reach it",
              host);
  }
}

std::uint16_t find_free_port(const std::string& host) {
  int low = 32768;
  std::ifstream("/proc/sys/net/ipv4/ip_local_port_range") >> low;
  std::random_device random;
  constexpr int kFirst = 10000;
  for (int attempt = 0; attempt < 100 && low > kFirst + 1000; ++attempt) {
    const auto port = static_cast<std::uint16_t>(kFirst + random() % static_cast<unsigned>(low - kFirst));
    if (is_free(host, port)) return port;
  }
  // Either the port range is unusual, or the address does not belong to this machine, in which case StoreServer throws.
  return StoreServer({.host = host, .port = 0, .token = make_token()}).port();
}

std::string host_name() {
  char name[HOST_NAME_MAX + 1] = "";
  ::gethostname(name, sizeof name - 1);
  return name;
}

std::string host_id() { return env::get("LOCKSTEP_HOST_ID").value_or(host_name()); }

}  // namespace lockstep::launch
