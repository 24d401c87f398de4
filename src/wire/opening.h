// SPDX-License-Identifier: Apache-2.0
// How two ranks open a connection, as one of the ends sees it. It takes bytes as they come, in pieces of any size, and
// returns bytes to send. Knows no socket and no clock. With encryption the called end knows the caller by its hello,
// and TLS does the rest. Without it, both ends prove that they know the key and see the same route.
#pragma once

#include <string>
#include <string_view>

#include "wire/hello.h"

namespace lockstep::wire {

class Opening {
 public:
  enum class Step {
    kUnderWay,  ///< send words(), then give it the bytes that come
    kOpen,      ///< the connection is open; with encryption TLS follows
    kRefused    ///< the other end does not know the key, or the route differs: send no more
  };

  /// The facts that an end knows beforehand.
  struct Facts {
    std::string key;       ///< wire_key()
    std::string listener;  ///< the nonce of the called rank
    Route route;           ///< as this end sees it
  };

  /// The end that calls.
  [[nodiscard]] static Opening call(Facts facts, const Hello& hello);
  /// The end that was called with `words`, which read_hello() has found to be `hello`.
  [[nodiscard]] static Opening answer(Facts facts, const Hello& hello, std::string words);

  /// Takes the bytes that came, and returns how many of them belonged to the opening; the others begin the other end's
  /// first message.
  std::size_t arrived(std::string_view bytes);

  [[nodiscard]] Step step() const noexcept { return step_; }
  /// The bytes to send; empty if there are none. Each is returned once.
  [[nodiscard]] std::string words();
  /// The number of bytes still missing from the other end.
  [[nodiscard]] std::size_t missing() const noexcept;
  [[nodiscard]] bool is_encrypted() const noexcept { return is_encrypted_; }
  [[nodiscard]] End end() const noexcept { return end_; }
  /// The pre-shared key of the TLS that follows.
  [[nodiscard]] std::string tls_key() const { return tls_key_of(facts_.key, hello_, facts_.listener); }

 private:
  Opening(End end, Facts facts, bool is_encrypted, std::string hello);
  void judge();

  End end_;
  Facts facts_;
  bool is_encrypted_;
  std::string hello_;   // its words
  std::string nonce_;   // of the called end
  std::string wanted_;  // the part of the other end's answer that has come
  std::string to_send_;
  Step step_ = Step::kUnderWay;
};

}  // namespace lockstep::wire
