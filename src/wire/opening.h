// SPDX-License-Identifier: Apache-2.0
// One end's part in opening a connection between two ranks. It takes received bytes, in pieces of any size, and returns
// bytes to send. It uses neither a socket nor a clock. With encryption the called end identifies the caller by its
// hello, and TLS does the rest. Without it, both ends prove that they know the key and see the same route.
#pragma once

#include <string>
#include <string_view>

#include "wire/hello.h"

namespace lockstep::wire {

class Opening {
 public:
  enum class Step {
    kUnderWay,  ///< send words(), then pass the received bytes to arrived()
    kOpen,      ///< the connection is open; with encryption TLS follows
    kRefused    ///< the other end does not know the key, or the route differs: send nothing more
  };

  /// The facts that an end knows before the opening.
  struct Facts {
    std::string key;       ///< wire_key()
    std::string listener;  ///< the nonce of the called rank
    Route route;           ///< the route that this end sees
  };

  /// Creates the opening of the calling end.
  [[nodiscard]] static Opening call(Facts facts, const Hello& hello);
  /// Creates the opening of the called end. It has received `words`, from which read_hello() has read `hello`.
  [[nodiscard]] static Opening answer(Facts facts, const Hello& hello, std::string words);

  /// Takes received bytes, and returns how many belong to the opening; the rest starts the other end's first message.
  std::size_t arrived(std::string_view bytes);

  [[nodiscard]] Step step() const noexcept { return step_; }
  /// Returns the bytes to send; empty if there are none. Each byte is returned once.
  [[nodiscard]] std::string words();
  /// Returns the number of bytes that the other end still has to send.
  [[nodiscard]] std::size_t missing() const noexcept;
  [[nodiscard]] bool is_encrypted() const noexcept { return is_encrypted_; }
  [[nodiscard]] End end() const noexcept { return end_; }
  /// Returns the pre-shared key of the TLS connection that follows.
  [[nodiscard]] std::string tls_key() const { return tls_key_of(facts_.key, hello_, facts_.listener); }

 private:
  Opening(End end, Facts facts, bool is_encrypted, std::string hello);
  void judge();

  End end_;
  Facts facts_;
  bool is_encrypted_;
  std::string hello_;   // bytes of the hello
  std::string nonce_;   // nonce of the called end
  std::string wanted_;  // the part of the other end's reply that has arrived
  std::string to_send_;
  Step step_ = Step::kUnderWay;
};

}  // namespace lockstep::wire
