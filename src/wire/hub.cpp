// SPDX-License-Identifier: Apache-2.0
#include "wire/hub.h"

#include <fmt/format.h>

#include <sstream>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/number.h"

namespace lockstep::wire {
namespace {

// The time limit of one wait on the store for a rank's address.
constexpr auto kAddressLook = std::chrono::milliseconds(100);

/// Returns the key of the connections. The first rank in the store chooses the seed.
std::string key_of(const HubOptions& options) {
  const std::string seed = options.store->compare_set(options.prefix + "seed", "", store::to_hex(store::make_nonce()));
  return wire_key(options.token, seed);
}

}  // namespace

Hub::Hub(HubOptions options)
    : options_(std::move(options)),
      own_nonce_(make_nonce()),
      key_(key_of(options_)),
      listener_({.address = options_.address,
                 .key = key_,
                 .nonce = own_nonce_,
                 .rank = options_.rank,
                 .size = options_.size,
                 .is_encrypted = options_.is_encrypted}) {
  const Endpoint at = listener_.endpoint();
  options_.store->set(place_key(options_.rank),
                      fmt::format("{} {} {}", at.address, at.port, store::to_hex(own_nonce_)));
}

std::string Hub::place_key(int rank) const { return fmt::format("{}at/{}", options_.prefix, rank); }

std::optional<Hub::Place> Hub::place_of(int rank) const {
  std::string said;
  try {
    said = options_.store->get(place_key(rank), kAddressLook);
  } catch (const TimeoutError&) {
    return std::nullopt;
  }
  std::istringstream words(said);
  std::string address;
  std::string port;
  std::string nonce;
  words >> address >> port >> nonce;
  return Place{.endpoint = {address, static_cast<std::uint16_t>(text::parse_number(port).value_or(0))},
               .nonce = store::from_hex(nonce)};
}

std::shared_ptr<Hub> open_hub(const HubOptions& options) { return std::make_shared<Hub>(options); }

}  // namespace lockstep::wire
