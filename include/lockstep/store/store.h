// SPDX-License-Identifier: Apache-2.0
// The key-value store through which the ranks and launchers of a job meet. Free of libtorch, so that the launcher
// starts at once. Grammar of the wire: docs/formats/store.md.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/store/tls.h"

#pragma GCC visibility push(default)

namespace lockstep {

/// A client's view of a store. Values are bytes. Keys that start with "lockstep/" are Lockstep's own.
/// Thread-safe: yes. Every function blocks for a round trip; get() and wait() block up to `timeout`.
/// Throws: PeerError if the server is gone; TimeoutError naming the keys that were not set in time.
class Store {
 public:
  virtual ~Store() = default;

  /// Sets a key, whether or not it has a value. Throws: PeerError, TimeoutError.
  virtual void set(const std::string& key, const std::string& value) = 0;
  /// Returns the present value; none if the key is unset. Does not wait for the key.
  [[nodiscard]] virtual std::optional<std::string> try_get(const std::string& key) = 0;
  /// Waits until the key is set, and returns its value.
  [[nodiscard]] virtual std::string get(const std::string& key, std::chrono::milliseconds timeout) = 0;
  /// Adds to a decimal counter (unset is 0) and returns the sum.
  virtual std::int64_t add(const std::string& key, std::int64_t delta) = 0;
  /// Sets `desired` if the value is `expected` ("" and unset count as equal). Returns the value afterwards.
  virtual std::string compare_set(const std::string& key, const std::string& expected, const std::string& desired) = 0;
  /// Appends to a queue, whose name ends with "/", and returns N: the value is that of the key `queue` + N, N from 1.
  virtual std::int64_t append(const std::string& queue, const std::string& value) = 0;
  /// Waits until all keys are set.
  virtual void wait(const std::vector<std::string>& keys, std::chrono::milliseconds timeout) = 0;
  /// Removes the key. Returns true if it was set.
  virtual bool remove(const std::string& key) = 0;
  /// Ends every waiting call of this client, in any thread, and all later ones, with PeerError.
  virtual void shut_down() noexcept {}
};

/// The way into a store for clients in the server's own process; no strangers queue there. See StoreServer::door().
class StoreDoor;

/// A store's address and the secret that opens it.
struct StoreAddress {
  std::string host = "127.0.0.1";          ///< name or address of the server's host
  std::uint16_t port = 0;                  ///< its port
  std::string token;                       ///< the secret that a client must prove to know
  std::string trust = tls_trust();         ///< PEM file of trusted certificates; empty: the connection is not encrypted
  std::shared_ptr<StoreDoor> inside = {};  ///< of a server in this process: its clients need no network
};

/// Connects; tries again until the server listens, and reports the wait after 3 s. If the server then leaves a request
/// unanswered for `answer_limit`, it counts as lost (0: LOCKSTEP_TIMEOUT, 5 s at least and a minute at most).
/// Throws: TimeoutError naming host and port; UsageError for a wrong token, and for a certificate that is not trusted.
[[nodiscard]] std::shared_ptr<Store> connect_store(const StoreAddress& address, std::chrono::milliseconds timeout,
                                                   std::chrono::milliseconds answer_limit = {});

/// Returns the same store with `prefix` before every key.
[[nodiscard]] std::shared_ptr<Store> with_prefix(std::shared_ptr<Store> store, std::string prefix);

/// The counter, in a round's part of the store, of the checkpoints that the program has committed. A program that
/// counts them sets it to 0 at its start.
inline constexpr const char* kSavesKey = "lockstep/train/saves";

/// Makes a store inside this process, for tests and a world of one.
[[nodiscard]] std::shared_ptr<Store> make_local_store();

/// Serves a store from its own thread until it is destroyed; its clients then get PeerError.
class StoreServer {
 public:
  /// The address of a StoreServer, and the clients that it answers.
  struct Options {
    std::string host = "127.0.0.1";               ///< the one address it listens on
    std::uint16_t port = 0;                       ///< 0: any free port
    std::string token;                            ///< the secret that clients must prove; empty: none
    std::string certificate = tls_certificate();  ///< PEM file to show; empty: connections are not encrypted
    std::string key = tls_key();                  ///< PEM file of the certificate's private key
    std::string kept = {};   ///< a prefix of keys that clients from outside may only read; empty: no such keys
    std::string inbox = {};  ///< a queue among them to which they may append, and which they may not read
  };
  /// Throws: UsageError naming host and port if the port is in use, or with a file that is no certificate or not its
  /// key.
  explicit StoreServer(const Options& options);
  ~StoreServer();
  StoreServer(const StoreServer&) = delete;
  StoreServer& operator=(const StoreServer&) = delete;

  /// Returns the port on which it listens.
  [[nodiscard]] std::uint16_t port() const noexcept;
  /// Returns the way in for clients of this process, for StoreAddress::inside. They have rights that other clients
  /// lack: see Options::kept.
  [[nodiscard]] std::shared_ptr<StoreDoor> door() const noexcept;
  /// Removes soon all keys that begin with `prefix`. Thread-safe: yes.
  void remove_all(const std::string& prefix);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

/// Returns 32 random bytes of the system's generator as hexadecimal.
[[nodiscard]] std::string make_token();

}  // namespace lockstep

#pragma GCC visibility pop
