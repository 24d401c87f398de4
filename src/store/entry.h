// SPDX-License-Identifier: Apache-2.0
// Decides whether the server lets a client in, from the client's messages: a hello, then an unencrypted knock if
// connections are encrypted, then the proof. docs/formats/store.md has the grammar.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "store/handshake.h"
#include "store/wire.h"

namespace lockstep::store {

class Entry {
 public:
  /// kAnswer: send `frame` and read the next message. kEncrypt: send it, then encrypt. kKnown: send it; the client is
  /// let in. kRefuse: send it, then close. kTurnAway: close.
  struct Step {
    enum class Kind : std::uint8_t { kAnswer, kEncrypt, kKnown, kRefuse, kTurnAway };
    Kind kind = Kind::kTurnAway;
    std::string frame = {};
  };

  /// `knocks` is the knock key; if it is empty, the connection is not encrypted.
  Entry(const std::string& token, const std::string& knocks) : token_(token), knocks_(knocks) {}

  /// Returns the reply to a message. `binding` is the channel binding, as in Nonces.
  [[nodiscard]] Step take(std::string_view body, const std::string& binding);

 private:
  [[nodiscard]] Step greet(Verb verb, FrameReader& request);
  [[nodiscard]] Step take_knock(const std::string& proof);
  [[nodiscard]] Step take_proof(const std::string& proof);

  // Both must outlive this object.
  const std::string& token_;
  const std::string& knocks_;
  Nonces nonces_;
  bool has_knocked_ = false;
};

}  // namespace lockstep::store
