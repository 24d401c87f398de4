// SPDX-License-Identifier: Apache-2.0
// The key-value store through which the ranks and launchers of a job meet. It does not use libtorch, so that the
// launcher starts instantly. docs/formats/store.md has the wire format.
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

  /// Sets a key; an existing value is replaced. Throws: PeerError, TimeoutError.
  virtual void set(const std::string& key, const std::string& value) = 0;
  /// Returns the current value; none if the key is unset. Does not wait for the key.
  [[nodiscard]] virtual std::optional<std::string> try_get(const std::string& key) = 0;
  /// Waits until the key is set, and returns its value.
  [[nodiscard]] virtual std::string get(const std::string& key, std::chrono::milliseconds timeout) = 0;
  /// Adds `delta` to a decimal counter (0 if unset) and returns the sum.
  virtual std::int64_t add(const std::string& key, std::int64_t delta) = 0;
  /// Sets the key to `desired` if its value is `expected` (an unset key equals ""). Returns the resulting value.
  virtual std::string compare_set(const std::string& key, const std::string& expected, const std::string& desired) = 0;
  /// Appends to a queue, whose name ends with "/": sets the next key `queue` + N, counting N from 1. Returns N.
  virtual std::int64_t append(const std::string& queue, const std::string& value) = 0;
  /// Waits until all keys are set.
  virtual void wait(const std::vector<std::string>& keys, std::chrono::milliseconds timeout) = 0;
  /// Removes the key. Returns true if it was set.
  virtual bool remove(const std::string& key) = 0;
  /// Makes every waiting call on this client, on any thread, and all later calls fail with PeerError.
  virtual void shut_down() noexcept {}
};

/// Connects clients in the server's own process to its store, without the network. See StoreServer::door().
class StoreDoor;

/// A store's address and the secret that grants access to it.
struct StoreAddress {
  std::string host = "127.0.0.1";          ///< name or address of the server's host
  std::uint16_t port = 0;                  ///< its port
  std::string token;                       ///< the secret; clients prove that they know it
  std::string trust = tls_trust();         ///< PEM file of trusted certificates; empty: the connection is not encrypted
  std::shared_ptr<StoreDoor> inside = {};  ///< the door of a server in this process, to connect without the network
};

/// Connects. It retries until the server listens, and reports the wait after 3 s. If the server later leaves a request
/// unanswered for `answer_limit`, it is considered lost (0: LOCKSTEP_TIMEOUT, but at least 5 s and at most a minute).
/// Throws: TimeoutError naming host and port; UsageError for a wrong token, and for a certificate that is not trusted.
[[nodiscard]] std::shared_ptr<Store> connect_store(const StoreAddress& address, std::chrono::milliseconds timeout,
                                                   std::chrono::milliseconds answer_limit = {});

/// Returns the same store with `prefix` before every key.
[[nodiscard]] std::shared_ptr<Store> with_prefix(std::shared_ptr<Store> store, std::string prefix);

/// The number of checkpoints that the program has committed, under a round's prefix. A program that counts its
/// checkpoints sets it to 0 at its start.
inline constexpr const char* kSavesKey = "lockstep/train/saves";

/// Creates a store inside this process, for tests and a world of one.
[[nodiscard]] std::shared_ptr<Store> make_local_store();

/// Serves a store from its own thread until the object is destroyed; its clients then get PeerError.
class StoreServer {
 public:
  /// The settings of a StoreServer.
  struct Options {
    std::string host = "127.0.0.1";               ///< the only address on which it listens
    std::uint16_t port = 0;                       ///< 0: any free port
    std::string token;                            ///< the secret that clients must know; empty: none
    std::string certificate = tls_certificate();  ///< PEM file to present; empty: connections are not encrypted
    std::string key = tls_key();                  ///< PEM file of the certificate's private key
    std::string kept = {};   ///< a prefix of keys that clients of other processes may only read; empty: no such keys
    std::string inbox = {};  ///< prefix of a queue that such clients may append to, but not read
  };
  /// Throws: UsageError naming host and port if the port is in use, or naming an invalid certificate or key file.
  explicit StoreServer(const Options& options);
  ~StoreServer();
  StoreServer(const StoreServer&) = delete;
  StoreServer& operator=(const StoreServer&) = delete;

  /// Returns the port on which it listens.
  [[nodiscard]] std::uint16_t port() const noexcept;
  /// Returns the door for clients in this process (StoreAddress::inside), which Options::kept does not restrict.
  [[nodiscard]] std::shared_ptr<StoreDoor> door() const noexcept;
  /// Makes the server's thread remove all keys that begin with `prefix`. Thread-safe: yes.
  void remove_all(const std::string& prefix);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

/// Returns 32 bytes from the system's random generator as hexadecimal digits.
[[nodiscard]] std::string make_token();

}  // namespace lockstep

#pragma GCC visibility pop
