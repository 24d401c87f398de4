// SPDX-License-Identifier: Apache-2.0
#include "lockstep/store/strangers.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>

#include <algorithm>
#include <iterator>

namespace lockstep::store {

std::optional<Strangers::Id> Strangers::add(Id id, const std::string& address) {
  all_[id] = address;
  if (++by_address_[address] > limits_.per_address) return take_oldest(address);
  if (all_.size() <= limits_.total) return std::nullopt;
  const auto most = std::max_element(by_address_.begin(), by_address_.end(),
                                     [](const auto& a, const auto& b) { return a.second < b.second; });
  return take_oldest(most->second > 1 ? most->first : "");
}

void Strangers::remove(Id id) {
  const auto found = all_.find(id);
  if (found == all_.end()) return;
  const auto count = by_address_.find(found->second);
  if (--count->second == 0) by_address_.erase(count);
  all_.erase(found);
}

std::optional<Strangers::Id> Strangers::give_up_one() { return take_oldest(""); }

std::optional<Strangers::Id> Strangers::take_oldest(const std::string& address) {
  const auto found = std::find_if(all_.begin(), all_.end(),
                                  [&](const auto& stranger) { return address.empty() || stranger.second == address; });
  if (found == all_.end()) return std::nullopt;
  const Id id = found->first;
  remove(id);
  return id;
}

DoorLimits door_limits(std::uint64_t open_files) {
  const std::size_t total = std::clamp<std::size_t>(open_files / 8, 4, 512);
  return {.strangers = {.per_address = total / 4 * 3, .total = total},
          .knocked = total,
          .known = std::max<std::size_t>(open_files / 8 * 5, 4)};
}

std::string stranger_address(const std::string& address) {
  in6_addr six{};
  if (::inet_pton(AF_INET6, address.c_str(), &six) != 1 || IN6_IS_ADDR_V4MAPPED(&six)) return address;
  std::fill(std::begin(six.s6_addr) + 8, std::end(six.s6_addr), 0);
  char network[INET6_ADDRSTRLEN] = "";
  return fmt::format("{}/64", ::inet_ntop(AF_INET6, &six, network, sizeof network));
}

}  // namespace lockstep::store
