// SPDX-License-Identifier: Apache-2.0
#include "lockstep/store/trusted_network.h"

#include <fmt/format.h>

#include <algorithm>
#include <asio/io_context.hpp>
#include <asio/ip/address.hpp>
#include <asio/ip/network_v4.hpp>
#include <asio/ip/network_v6.hpp>
#include <asio/ip/tcp.hpp>

#include "lockstep/base/env.h"
#include "lockstep/base/error.h"

namespace lockstep::store {
namespace {

namespace ip = asio::ip;

constexpr int kWidest = 8;  // the shortest valid prefix length

/// Converts an IPv4-mapped IPv6 address into IPv4; returns other addresses unchanged.
ip::address plain(const ip::address& address) {
  const bool is_wrapped = address.is_v6() && address.to_v6().is_v4_mapped();
  return is_wrapped ? ip::address(ip::make_address_v4(ip::v4_mapped, address.to_v6())) : address;
}

template <class Network>
std::string text_of(const Network& network) {
  return network.prefix_length() < kWidest ? "" : network.canonical().to_string();
}

/// Returns the network's canonical text; empty if the text is not a network, or the network is too wide.
std::string network_text(const std::string& text) {
  std::error_code problem;
  const auto four = ip::make_network_v4(text, problem);
  if (!problem) return text_of(four);
  const auto six = ip::make_network_v6(text, problem);
  return problem ? "" : text_of(six);
}

/// Returns true if `address` is in the network.
bool is_in(const ip::address& address, const std::string& network) {
  const std::string length = network.substr(network.find('/'));
  return network_text(address.to_string() + length) == network;
}

}  // namespace

TrustedNetwork::TrustedNetwork(const std::string& text) : text_(network_text(text)) {
  if (text_.empty()) {
    throw UsageError(fmt::format("'{}' is not a valid trusted network", text),
                     fmt::format("use an address and a prefix length of at least {}, such as 192.168.1.0/24, or "
                                 "127.0.0.0/8 for this machine only",
                                 kWidest));
  }
}

bool TrustedNetwork::contains(const std::string& address) const {
  std::error_code problem;
  const ip::address numeric = plain(ip::make_address(address, problem));
  return !problem && (numeric.is_loopback() || is_in(numeric, text_));
}

bool TrustedNetwork::contains_host(const std::string& host) const {
  std::error_code problem;
  asio::io_context io;
  const auto found = ip::tcp::resolver(io).resolve(host, "", problem);
  return !problem && !found.empty() && std::all_of(found.begin(), found.end(), [&](const auto& entry) {
    return contains(entry.endpoint().address().to_string());
  });
}

std::optional<TrustedNetwork> trusted_network() {
  const auto text = env::get("LOCKSTEP_TRUST_NETWORK");
  return text ? std::optional<TrustedNetwork>(*text) : std::nullopt;
}

}  // namespace lockstep::store
