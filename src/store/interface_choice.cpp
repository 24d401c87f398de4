// SPDX-License-Identifier: Apache-2.0
#include "lockstep/store/interface_choice.h"

#include <fmt/format.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <sys/socket.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string_view>

#include "lockstep/base/env.h"
#include "lockstep/base/error.h"
#include "lockstep/base/file_system.h"
#include "lockstep/base/split.h"

namespace lockstep::store {
namespace {

constexpr int kActivePort = 4;  // IBV_PORT_ACTIVE

bool is_ipv6(const std::string& address) { return address.find(':') != std::string::npos; }

// NCCL's list of names, with a prefix that decides how they match.
struct Filter {
  bool is_exact = false;
  bool excludes = false;
  std::vector<std::string> names;

  [[nodiscard]] bool takes(const std::string& name) const {
    const bool is_listed = std::any_of(names.begin(), names.end(), [&](const std::string& listed) {
      return is_exact ? name == listed : name.compare(0, listed.size(), listed) == 0;
    });
    return is_listed != excludes;
  }
};

Filter nccl_filter(std::string_view text) {
  Filter filter;
  for (; !text.empty() && (text[0] == '^' || text[0] == '='); text.remove_prefix(1)) {
    (text[0] == '^' ? filter.excludes : filter.is_exact) = true;
  }
  filter.names = text::split_words(text, ',');
  return filter;
}

std::string described(const std::vector<Interface>& interfaces) {
  std::string text;
  for (const Interface& each : interfaces) {
    text += fmt::format("{}{} ({})", text.empty() ? "" : ", ", each.name, each.address);
  }
  return text.empty() ? "no interface that is up" : text;
}

template <class Takes>
std::optional<InterfaceChoice> first_of(const std::vector<Interface>& interfaces, const InterfaceWishes& wishes,
                                        const std::string& reason, const Takes& takes) {
  const Interface* found = nullptr;
  for (const Interface& each : interfaces) {
    const bool is_wanted_kind = !wishes.towards || is_ipv6(each.address) == is_ipv6(*wishes.towards);
    if (!takes(each.name) || (found != nullptr && (found->name != each.name || !is_wanted_kind))) continue;
    if (is_wanted_kind) return InterfaceChoice{each.name, each.address, reason};
    found = &each;
  }
  if (found == nullptr) return std::nullopt;
  return InterfaceChoice{found->name, found->address, reason};
}

[[noreturn]] void throw_no_fit(const char* variable, const std::string& value, const std::vector<Interface>& all) {
  throw UsageError(fmt::format("{} is '{}', which matches no interface of this host", variable, value),
                   fmt::format("this host has {}; without {} the ranks use the interface that leads to rank 0",
                               described(all), variable));
}

struct Named {
  const char* variable;
  const std::string& value;
};

InterfaceChoice first_named(const Named& wish, const std::vector<Interface>& interfaces,
                            const InterfaceWishes& wishes) {
  const std::string reason = fmt::format("{} names it", wish.variable);
  for (const std::string& name : text::split_words(wish.value, ',')) {
    const auto is_it = [&](const std::string& each) { return each == name; };
    if (auto choice = first_of(interfaces, wishes, reason, is_it)) return *choice;
  }
  throw_no_fit(wish.variable, wish.value, interfaces);
}

}  // namespace

std::vector<Interface> list_interfaces() {
  std::vector<Interface> interfaces;
  std::vector<Interface> loopbacks;
  ifaddrs* first = nullptr;
  if (::getifaddrs(&first) != 0) return {};
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> guard(first, ::freeifaddrs);
  for (const ifaddrs* each = first; each != nullptr; each = each->ifa_next) {
    if (each->ifa_addr == nullptr || (each->ifa_flags & IFF_UP) == 0) continue;
    const bool is_six = each->ifa_addr->sa_family == AF_INET6;
    if (!is_six && each->ifa_addr->sa_family != AF_INET) continue;
    const socklen_t size = is_six ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
    char text[NI_MAXHOST] = {};
    if (::getnameinfo(each->ifa_addr, size, text, sizeof text, nullptr, 0, NI_NUMERICHOST) != 0) continue;
    const bool is_loopback = (each->ifa_flags & IFF_LOOPBACK) != 0;
    (is_loopback ? loopbacks : interfaces).push_back({each->ifa_name, text, is_loopback});
  }
  interfaces.insert(interfaces.end(), loopbacks.begin(), loopbacks.end());
  return interfaces;
}

std::vector<std::string> list_fabric_ports(const std::filesystem::path& devices) {
  std::vector<std::string> active;
  std::error_code ignored;
  for (const auto& device : std::filesystem::directory_iterator(devices, ignored)) {
    for (const auto& port : std::filesystem::directory_iterator(device.path() / "ports", ignored)) {
      int state = 0;
      std::ifstream(port.path() / "state") >> state;  // "4: ACTIVE"
      if (state != kActivePort) continue;
      active.push_back(fmt::format("{}:{}", device.path().filename().string(), port.path().filename().string()));
    }
  }
  std::sort(active.begin(), active.end());
  return active;
}

std::optional<std::string> address_towards(const std::string& host) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_DGRAM;
  addrinfo* found = nullptr;
  if (::getaddrinfo(host.c_str(), "9", &hints, &found) != 0) return std::nullopt;
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> guard(found, ::freeaddrinfo);
  for (const addrinfo* entry = found; entry != nullptr; entry = entry->ai_next) {
    const UniqueFd socket(::socket(entry->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    sockaddr_storage own{};
    socklen_t size = sizeof(own);
    if (!socket.valid() || ::connect(socket.get(), entry->ai_addr, entry->ai_addrlen) != 0 ||
        ::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&own), &size) != 0) {
      continue;
    }
    char text[NI_MAXHOST] = {};
    if (::getnameinfo(reinterpret_cast<const sockaddr*>(&own), size, text, sizeof(text), nullptr, 0, NI_NUMERICHOST) ==
        0) {
      return text;
    }
  }
  return std::nullopt;
}

InterfaceWishes wishes_towards(const std::string& store_host) {
  return {.own = env::get("LOCKSTEP_SOCKET_IFNAME"),
          .gloo = env::get("GLOO_SOCKET_IFNAME"),
          .nccl = env::get("NCCL_SOCKET_IFNAME"),
          .towards = address_towards(store_host)};
}

std::optional<InterfaceChoice> choose_interface(const InterfaceWishes& wishes,
                                                const std::vector<Interface>& interfaces) {
  if (wishes.own) return first_named({"LOCKSTEP_SOCKET_IFNAME", *wishes.own}, interfaces, wishes);
  if (wishes.gloo) return first_named({"GLOO_SOCKET_IFNAME", *wishes.gloo}, interfaces, wishes);
  if (wishes.nccl) {
    const Filter filter = nccl_filter(*wishes.nccl);
    const auto takes = [&](const std::string& name) { return filter.takes(name); };
    // As in NCCL, the loopback interface comes last and counts only if no other interface matches.
    if (auto choice = first_of(interfaces, wishes, "NCCL_SOCKET_IFNAME allows it", takes)) return choice;
    throw_no_fit("NCCL_SOCKET_IFNAME", *wishes.nccl, interfaces);
  }
  if (!wishes.towards) return std::nullopt;
  const auto found = std::find_if(interfaces.begin(), interfaces.end(),
                                  [&](const Interface& each) { return each.address == *wishes.towards; });
  return InterfaceChoice{found == interfaces.end() ? "" : found->name, *wishes.towards, "it leads to rank 0's store"};
}

std::string nccl_interface(const InterfaceWishes& wishes, const std::vector<Interface>& interfaces) {
  if (wishes.nccl) return "";
  const auto choice = choose_interface(wishes, interfaces);
  if (!choice || choice->name.empty()) return "";
  const bool is_loopback = std::any_of(interfaces.begin(), interfaces.end(), [&](const Interface& each) {
    return each.name == choice->name && each.is_loopback;
  });
  const bool has_port =
      choice->name.find(':') != std::string::npos;  // NCCL would read the alias eth0:1 as port 1 of eth0
  return is_loopback || has_port ? "" : "=" + choice->name;
}

}  // namespace lockstep::store
