// SPDX-License-Identifier: Apache-2.0
// One of the ranks that meet in a store: it listens, publishes its address, and looks up the other ranks' addresses.
#pragma once

#include <optional>
#include <string>

#include "lockstep/wire/circle.h"
#include "wire/listener.h"

namespace lockstep::wire {

class Hub {
 public:
  explicit Hub(HubOptions options);

  [[nodiscard]] const HubOptions& options() const noexcept { return options_; }
  [[nodiscard]] Listener& listener() noexcept { return listener_; }
  /// Returns the result of wire_key().
  [[nodiscard]] const std::string& key() const noexcept { return key_; }
  /// Returns the nonce of this rank in the store.
  [[nodiscard]] const std::string& own_nonce() const noexcept { return own_nonce_; }

  /// The address of a rank, and its nonce.
  struct Place {
    Endpoint endpoint;
    std::string nonce;
  };
  /// Waits briefly for the address of a rank in the store. Returns none if the rank has not published it.
  [[nodiscard]] std::optional<Place> place_of(int rank) const;

 private:
  [[nodiscard]] std::string place_key(int rank) const;

  const HubOptions options_;
  const std::string own_nonce_;
  const std::string key_;
  Listener listener_;
};

}  // namespace lockstep::wire
