// SPDX-License-Identifier: Apache-2.0
// Rank 0's listening socket, and the first message of a connecting rank. The socket's name is not a secret on the
// machine: any number of strangers may connect and send nothing. Rank 0 waits for none of them.
#pragma once

#include <sys/un.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <list>
#include <string>

#include "lockstep/base/file_system.h"
#include "lockstep/store/rare_warning.h"

namespace lockstep::comm {

inline constexpr std::size_t kNonceLetters = 64;

/// The first message of a connecting rank.
struct Hello {
  char nonce[kNonceLetters] = {};
  std::int32_t rank = 0;
};

/// Returns an abstract socket address. It belongs to the network namespace and leaves no file when its owner is killed.
/// `size` gets its length. Throws: ResourceError if the name does not fit.
[[nodiscard]] sockaddr_un abstract_address(const std::string& name, socklen_t& size);

/// Checks the peer's user. Throws: ResourceError if the peer is another user's process.
void check_same_user(int socket);

class Door {
 public:
  /// Opens the listening socket. Throws: ResourceError.
  Door(std::string nonce, int world);

  [[nodiscard]] const std::string& name() const { return name_; }

  /// Waits up to `limit` for guests. Passes the rank and the socket of each guest that has presented the nonce to
  /// `enter`, which throws if that rank may not enter.
  using Enter = std::function<void(int rank, UniqueFd socket)>;
  void look(std::chrono::milliseconds limit, const Enter& enter);

 private:
  struct Guest {
    UniqueFd socket;
    TimePoint since;
    Hello hello;
    std::size_t heard = 0;  ///< bytes of the hello that were read
  };
  using Guests = std::list<Guest>;

  void accept_all(TimePoint now, const Enter& enter);
  void drop_late(TimePoint now);
  void hear(Guests::iterator guest, const Enter& enter);
  void turn_away(Guests::iterator guest, const std::string& why);
  void warn(const std::string& why);

  const std::string nonce_;
  const std::string name_;
  UniqueFd listener_;
  Guests guests_;  // oldest first
  RareWarning refused_;
};

}  // namespace lockstep::comm
