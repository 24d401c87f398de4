// SPDX-License-Identifier: Apache-2.0
// How the server lets a client in, as a pure function of the client's words: a hello; if connections are encrypted, a
// knock in the clear; then the proof. Grammar: docs/formats/store.md.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "store/handshake.h"
#include "store/wire.h"

namespace lockstep::store {

class Entry {
 public:
  /// kAnswer: send `frame`, and go on. kEncrypt: send it, and encrypt all that follows. kKnown: send it; the client is
  /// in. kRefuse: send it, and close. kTurnAway: close.
  struct Step {
    enum class Kind : std::uint8_t { kAnswer, kEncrypt, kKnown, kRefuse, kTurnAway };
    Kind kind = Kind::kTurnAway;
    std::string frame = {};
  };

  /// `knocks`: the key of knocks; empty: the connection is not encrypted.
  Entry(const std::string& token, const std::string& knocks) : token_(token), knocks_(knocks) {}

  /// `binding`: of the encrypted connection, as in Nonces.
  [[nodiscard]] Step take(std::string_view body, const std::string& binding);

 private:
  [[nodiscard]] Step greet(Verb verb, FrameReader& request);
  [[nodiscard]] Step take_knock(const std::string& proof);
  [[nodiscard]] Step take_proof(const std::string& proof);

  // Both outlive it.
  const std::string& token_;
  const std::string& knocks_;
  Nonces nonces_;
  bool has_knocked_ = false;
};

}  // namespace lockstep::store
