// SPDX-License-Identifier: Apache-2.0
// Exchanges messages with a set of ranks through UCX. Private to this folder.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "comm/backends/ucx/inherited_sockets.h"
#include "comm/backends/ucx/ucx_library.h"
#include "comm/network/transport.h"

namespace lockstep::comm {

/// UCX's context in this process: the devices and transports that it uses.
class UcxContext {
 public:
  struct Settings {
    std::string devices;  ///< the devices to use: "mlx5_0:1,eth0"; empty: all
    int peers = 0;        ///< approximate number of ranks that will be connected
  };

  /// Throws: ResourceError.
  explicit UcxContext(const Settings& settings);
  ~UcxContext();
  UcxContext(const UcxContext&) = delete;
  UcxContext& operator=(const UcxContext&) = delete;

  [[nodiscard]] ucp_context_h get() const noexcept { return context_; }

 private:
  ucp_context_h context_ = nullptr;
};

/// A UCX worker with an endpoint for each rank that it knows. Between two ranks messages match in order. Thread-safe:
/// only wake(); one thread at a time may call the other functions.
class UcxWorker {
 public:
  /// `rank` is this process's rank. Throws: ResourceError.
  UcxWorker(std::shared_ptr<UcxContext> context, int rank);
  /// Waits a short time for the remaining messages to be sent.
  ~UcxWorker();
  UcxWorker(const UcxWorker&) = delete;
  UcxWorker& operator=(const UcxWorker&) = delete;

  /// Returns the address that other ranks pass to add().
  [[nodiscard]] const std::string& address() const noexcept { return address_; }
  [[nodiscard]] bool knows(int peer) const { return endpoints_.count(peer) != 0; }
  /// Starts connecting to `peer`. Throws: PeerError if UCX cannot reach that address.
  void add(int peer, const std::string& address);

  /// Sends and receives all messages, in both directions at once. Returns the rank that caused a failure; none on
  /// success. After a failure, or once `stop` is true, messages may still be in flight: only drop() may follow.
  /// Blocks: until all messages are sent and received, a failure, or `stop`.
  [[nodiscard]] std::optional<int> carry(const std::vector<Message>& sends, const std::vector<Message>& receives,
                                         const std::atomic<bool>& stop);
  /// Returns the reason for the failure, in UCX's words; empty if carry() was stopped.
  [[nodiscard]] const std::string& why() const noexcept { return why_; }
  /// Makes carry() check `stop` now.
  void wake() noexcept;

  /// Ends everything at once: the messages' memory is no longer read or written.
  void drop() noexcept;

 private:
  struct Endpoint {
    UcxWorker* worker = nullptr;
    ucp_ep_h handle = nullptr;
    bool failed = false;
  };

  /// A message in flight.
  struct Operation {
    UcxWorker* worker = nullptr;
    const Endpoint* endpoint = nullptr;
    int rank = 0;
    std::size_t bytes = 0;
    void* request = nullptr;
    ucs_status_t status = UCS_INPROGRESS;
  };

  static void on_error(void* endpoint, ucp_ep_h handle, ucs_status_t status);
  static void on_sent(void* request, ucs_status_t status, void* operation);
  static void on_received(void* request, ucs_status_t status, const ucp_tag_recv_info_t* info, void* operation);

  void begin(const Message& message, bool receiving);
  void end(Operation& operation, ucs_status_t status) noexcept;
  void wait(const std::atomic<bool>& stop);
  void sleep();
  [[nodiscard]] std::optional<int> suspect() const;
  void free_requests() noexcept;
  void close(bool is_forced) noexcept;
  void finish_closing(std::vector<void*>& requests) noexcept;

  const Ucp& ucp_;
  const std::shared_ptr<UcxContext> context_;
  const int rank_;
  const InheritedSockets sockets_;
  std::uint64_t exchanges_ = 0;  ///< number of exchanges since the last endpoint was added
  ucp_worker_h worker_ = nullptr;
  int events_ = -1;  ///< descriptor of UCX's events; readable if there is work to do
  std::string address_;
  std::map<int, Endpoint> endpoints_;
  std::vector<Operation> operations_;
  std::size_t left_ = 0;     ///< number of operations that have not ended
  bool has_failed_ = false;  ///< an operation or an endpoint has failed
  std::string why_;          ///< the reason for the first failure
};

}  // namespace lockstep::comm
