// SPDX-License-Identifier: Apache-2.0
// How two ranks open a connection, as one of the ends sees it: bytes go in as they come, in pieces of any size, and
// bytes come out. Knows no socket and no clock. With encryption the called end knows the caller by its hello, and TLS
// does the rest; without it both ends prove that they know the key and see the same route.
#pragma once

#include <string>
#include <string_view>

#include "wire/hello.h"

namespace lockstep::wire {

class Opening {
 public:
  enum class Step {
    kUnderWay,  ///< send words(), then give it what comes
    kOpen,      ///< the connection is open; with encryption TLS follows
    kRefused    ///< the other end does not know the key, or the route differs: nothing more is to be said
  };

  /// What an end knows beforehand.
  struct Facts {
    std::string key;       ///< wire_key()
    std::string listener;  ///< the nonce of the called rank
    Route route;           ///< as this end sees it
  };

  /// The end that calls.
  [[nodiscard]] static Opening call(Facts facts, const Hello& hello);
  /// The end that was called with `words`, which read_hello() has found to be `hello`.
  [[nodiscard]] static Opening answer(Facts facts, const Hello& hello, std::string words);

  /// Takes what came and returns how much of it belonged to the opening; what follows is the other end's first message.
  std::size_t arrived(std::string_view bytes);

  [[nodiscard]] Step step() const noexcept { return step_; }
  /// What is to be sent; empty where nothing is. Each word is returned once.
  [[nodiscard]] std::string words();
  /// How many bytes of the other end are still missing.
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
  std::string wanted_;  // what came of the other end's answer
  std::string to_send_;
  Step step_ = Step::kUnderWay;
};

}  // namespace lockstep::wire
