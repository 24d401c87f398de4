// SPDX-License-Identifier: Apache-2.0
// System facts about ports, names and interfaces. The only thing sent is a lookup of this host's own name.
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <fstream>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "launch/doctor/machine_facts.h"
#include "launch/nodes/addresses.h"
#include "lockstep/base/env.h"
#include "lockstep/store/interface_choice.h"

namespace lockstep::launch {
namespace {

constexpr const char* kFarAway = "198.51.100.1";  // reserved for documentation, so no host has it (RFC 5737)
constexpr auto kResolverPatience = std::chrono::seconds(2);

std::string numeric(const sockaddr* address) {
  const socklen_t size = address->sa_family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
  char text[NI_MAXHOST] = {};
  if (::getnameinfo(address, size, text, sizeof text, nullptr, 0, NI_NUMERICHOST) != 0) return "";
  return text;
}

std::vector<std::string> resolve(const std::string& name) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (::getaddrinfo(name.c_str(), nullptr, &hints, &found) != 0) return {};
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(found, &::freeaddrinfo);
  std::vector<std::string> addresses;
  for (const addrinfo* each = found; each != nullptr; each = each->ai_next) {
    const std::string text = numeric(each->ai_addr);
    if (std::find(addresses.begin(), addresses.end(), text) == addresses.end()) addresses.push_back(text);
  }
  return addresses;
}

struct Answer {
  std::mutex mutex;
  std::condition_variable has_come;
  std::optional<std::vector<std::string>> addresses;
};

/// Resolves a name. The resolver cannot be interrupted, so its thread is abandoned if it does not answer in time.
std::optional<std::vector<std::string>> resolve_in_time(const std::string& name) {
  const auto answer = std::make_shared<Answer>();
  std::thread([answer, name] {
    auto addresses = resolve(name);
    const std::lock_guard lock(answer->mutex);
    answer->addresses = std::move(addresses);
    answer->has_come.notify_all();
  }).detach();
  std::unique_lock lock(answer->mutex);
  answer->has_come.wait_for(lock, kResolverPatience, [&] { return answer->addresses.has_value(); });
  return answer->addresses;
}

int link_speed(const std::string& name) {
  int megabits = 0;
  std::ifstream("/sys/class/net/" + name + "/speed") >> megabits;
  return std::max(megabits, 0);
}

std::vector<view::InterfaceFacts> interfaces() {
  std::vector<view::InterfaceFacts> all;
  for (const store::Interface& each : store::list_interfaces()) {
    all.push_back({.name = each.name,
                   .address = each.address,
                   .is_loopback = each.is_loopback,
                   .megabits = link_speed(each.name)});
  }
  return all;
}

}  // namespace

view::PortFacts read_ports() {
  view::PortFacts ports;
  ports.is_free = is_free("0.0.0.0", static_cast<std::uint16_t>(ports.default_port));
  std::ifstream("/proc/sys/net/ipv4/ip_local_port_range") >> ports.ephemeral_low >> ports.ephemeral_high;
  return ports;
}

view::NetworkFacts read_network() {
  view::NetworkFacts network{.host_name = host_name(), .interfaces = interfaces()};
  const auto addresses = resolve_in_time(network.host_name);
  network.has_answer = addresses.has_value();
  network.host_addresses = addresses.value_or(std::vector<std::string>());
  const std::string outward = store::address_towards(kFarAway).value_or("");
  for (const view::InterfaceFacts& each : network.interfaces) {
    if (each.address == outward && !each.is_loopback) network.outward = each.name;
  }
  for (const char* variable :
       {"GLOO_SOCKET_IFNAME", "LOCKSTEP_SOCKET_IFNAME"}) {  // the last variable wins, as it does for the ranks
    const auto value = env::get(variable);
    if (!value) continue;
    network.interface_variable = variable;
    network.named_interface = value->substr(0, value->find(','));
  }
  network.fabric_ports = store::list_fabric_ports();
  network.wire = env::get("LOCKSTEP_WIRE").value_or("");
  return network;
}

}  // namespace lockstep::launch
