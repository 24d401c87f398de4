// SPDX-License-Identifier: Apache-2.0
#include "comm/backends/ucx/ucx_worker.h"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <chrono>
#include <string_view>
#include <thread>
#include <utility>

#include "lockstep/base/env.h"
#include "lockstep/base/error.h"
#include "lockstep/base/log.h"
#include "lockstep/base/signal_guard.h"

namespace lockstep::comm {
namespace {

using SteadyClock = std::chrono::steady_clock;

// How long a thread polls for a message without sleeping: small messages arrive within about 10 us.
constexpr auto kSpin = std::chrono::microseconds(20);
// UCX wakes a sleeping thread; this interval guards against a lost wake-up.
constexpr int kLookMs = 100;
constexpr auto kCloseLimit = std::chrono::milliseconds(1000);

void check(ucs_status_t status, const char* call) {
  if (status == UCS_OK) return;
  throw ResourceError(fmt::format("{} failed: {}", call, ucx_library().functions.status_string(status)),
                      "UCX_LOG_LEVEL=info shows more; without --wire ucx the ranks use TCP");
}

/// UCX's settings, except those that the user has set through an environment variable.
class Config {
 public:
  Config() { check(ucp_.config_read(nullptr, nullptr, &config_), "ucp_config_read"); }
  ~Config() { ucp_.config_release(config_); }
  Config(const Config&) = delete;
  Config& operator=(const Config&) = delete;

  void set(const char* variable, const std::string& value) { set(variable, variable + kPrefix.size(), value); }

  /// Sets a transport's setting.
  void set_of_transport(const char* variable, std::string_view transport, const std::string& value) {
    set(variable, variable + kPrefix.size() + (ucx_library().takes_full_names ? 0 : transport.size()), value);
  }
  [[nodiscard]] const ucp_config_t* get() const noexcept { return config_; }

 private:
  static constexpr std::string_view kPrefix = "UCX_";

  void set(const char* variable, const char* name, const std::string& value) {
    if (env::get(variable)) return;
    const ucs_status_t status = ucp_.config_modify(config_, name, value.c_str());
    if (status != UCS_OK) log::debug("UCX does not recognize {}: {}", name, ucp_.status_string(status));
  }

  const Ucp& ucp_ = ucx_library().functions;
  ucp_config_t* config_ = nullptr;
};

}  // namespace

UcxContext::UcxContext(const Settings& settings) {
  Config config;
  // The shm backend carries bytes within a host; UCX's shared memory would leave a dead rank's segments behind.
  config.set("UCX_TLS", "^sm");
  if (!settings.devices.empty()) config.set("UCX_NET_DEVICES", settings.devices);
  // Otherwise a thread that connects to a dead host would block for two minutes.
  config.set_of_transport("UCX_TCP_CONN_NB", "TCP_", "y");
  // Large messages need fewer calls: `lockstep bench all-reduce` of 100 MiB took 0.7 to 0.9 times as long as with 64
  // KiB.
  config.set_of_transport("UCX_TCP_RX_SEG_SIZE", "TCP_", "256k");
  ucp_params_t params{};
  params.field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_MT_WORKERS_SHARED | UCP_PARAM_FIELD_ESTIMATED_NUM_EPS;
  params.features = UCP_FEATURE_TAG | UCP_FEATURE_WAKEUP;
  params.mt_workers_shared = 1;  // each worker may have its own thread
  params.estimated_num_eps = static_cast<std::size_t>(std::max(settings.peers, 1));
  const SignalGuard guard;
  const Ucp& ucp = ucx_library().functions;
  check(ucp.init_version(UCP_API_MAJOR, UCP_API_MINOR, &params, config.get(), &context_), "ucp_init");
}

UcxContext::~UcxContext() { ucx_library().functions.cleanup(context_); }

UcxWorker::UcxWorker(std::shared_ptr<UcxContext> context, int rank)
    : ucp_(ucx_library().functions), context_(std::move(context)), rank_(rank) {
  const SignalGuard guard;  // UCX starts a thread
  ucp_worker_params_t params{};
  params.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
  params.thread_mode = UCS_THREAD_MODE_SERIALIZED;
  check(ucp_.worker_create(context_->get(), &params, &worker_), "ucp_worker_create");
  try {
    check(ucp_.worker_get_efd(worker_, &events_), "ucp_worker_get_efd");
    ucp_address_t* address = nullptr;
    std::size_t bytes = 0;
    check(ucp_.worker_get_address(worker_, &address, &bytes), "ucp_worker_get_address");
    address_.assign(reinterpret_cast<const char*>(address), bytes);
    ucp_.worker_release_address(worker_, address);
    sockets_.keep_back();
  } catch (...) {
    ucp_.worker_destroy(worker_);
    throw;
  }
}

UcxWorker::~UcxWorker() { close(false); }

void UcxWorker::drop() noexcept { close(true); }

void UcxWorker::on_error(void* endpoint, ucp_ep_h /*handle*/, ucs_status_t status) {
  log::debug("ucx: an endpoint failed: {}", ucx_library().functions.status_string(status));
  auto& failed = *static_cast<Endpoint*>(endpoint);
  failed.failed = true;
  std::string& why = failed.worker->why_;
  if (why.empty()) why = ucx_library().functions.status_string(status);
}

void UcxWorker::add(int peer, const std::string& address) {
  Endpoint& endpoint = endpoints_[peer];
  endpoint.worker = this;
  exchanges_ = 0;
  ucp_ep_params_t params{};
  params.field_mask =
      UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE | UCP_EP_PARAM_FIELD_ERR_HANDLER;
  params.address = reinterpret_cast<const ucp_address_t*>(address.data());
  params.err_mode = UCP_ERR_HANDLING_MODE_PEER;
  params.err_handler = {on_error, &endpoint};
  const ucs_status_t status = ucp_.ep_create(worker_, &params, &endpoint.handle);
  if (status == UCS_OK) return;
  endpoints_.erase(peer);
  throw PeerError(
      fmt::format("UCX cannot connect rank {} to rank {}: {}", rank_, peer, ucp_.status_string(status)),
      "every rank must reach every other; UCX_NET_DEVICES names the devices to use, UCX_TLS the transports");
}

std::optional<int> UcxWorker::carry(const std::vector<Message>& sends, const std::vector<Message>& receives,
                                    const std::atomic<bool>& stop) {
  operations_.reserve(sends.size() + receives.size());  // UCX keeps pointers to the operations
  for (const Message& message : receives) begin(message, true);
  for (const Message& message : sends) begin(message, false);
  wait(stop);
  if (left_ > 0 || has_failed_) return suspect();
  free_requests();
  // A UCX thread accepts the peer's connection, on a busy machine long after the first message.
  ++exchanges_;
  if ((exchanges_ & (exchanges_ - 1)) == 0) sockets_.keep_back();
  return std::nullopt;
}

void UcxWorker::begin(const Message& message, bool receiving) {
  if (message.bytes == 0) return;
  const Endpoint& endpoint = endpoints_.at(message.rank);
  Operation& operation =
      operations_.emplace_back(Operation{.worker = this, .endpoint = &endpoint, .rank = message.rank});
  operation.bytes = message.bytes;
  ++left_;
  ucp_request_param_t params{};
  params.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_MEMORY_TYPE |
                        UCP_OP_ATTR_FLAG_NO_IMM_CMPL;
  params.memory_type = UCS_MEMORY_TYPE_HOST;
  params.user_data = &operation;
  // A worker serves one purpose, so the sender's rank is enough as the tag.
  ucs_status_ptr_t request = nullptr;
  if (receiving) {
    params.cb.recv = on_received;
    request = ucp_.tag_recv_nbx(worker_, message.data, message.bytes, static_cast<ucp_tag_t>(message.rank),
                                ~ucp_tag_t{0}, &params);
  } else {
    params.cb.send = on_sent;
    request = ucp_.tag_send_nbx(endpoint.handle, message.data, message.bytes, static_cast<ucp_tag_t>(rank_), &params);
  }
  if (UCS_PTR_IS_ERR(request)) return end(operation, UCS_PTR_STATUS(request));
  operation.request = request;
}

void UcxWorker::end(Operation& operation, ucs_status_t status) noexcept {
  operation.status = status;
  --left_;
  if (status == UCS_OK) return;
  has_failed_ = true;
  if (why_.empty()) why_ = ucp_.status_string(status);
  log::debug("ucx: a message of {} bytes, rank {}: {}", operation.bytes, operation.rank, ucp_.status_string(status));
}

void UcxWorker::on_sent(void* /*request*/, ucs_status_t status, void* operation) {
  auto& sent = *static_cast<Operation*>(operation);
  sent.worker->end(sent, status);
}

void UcxWorker::on_received(void* /*request*/, ucs_status_t status, const ucp_tag_recv_info_t* info, void* operation) {
  auto& received = *static_cast<Operation*>(operation);
  const bool is_short = status == UCS_OK && info->length != received.bytes;
  received.worker->end(received, is_short ? UCS_ERR_MESSAGE_TRUNCATED : status);
}

/// Waits until all operations have ended, one of them can no longer end, or `stop` is true.
void UcxWorker::wait(const std::atomic<bool>& stop) {
  auto busy = SteadyClock::now();
  while (left_ > 0 && !has_failed_ && !stop) {
    if (ucp_.worker_progress(worker_) != 0) {
      busy = SteadyClock::now();
      continue;
    }
    has_failed_ = std::any_of(operations_.begin(), operations_.end(), [](const Operation& each) {
      return each.status == UCS_INPROGRESS && each.endpoint->failed;
    });
    if (SteadyClock::now() - busy < kSpin) continue;
    if (!has_failed_ && !stop) sleep();
    busy = SteadyClock::now();
  }
}

/// Waits for an event of UCX, or for wake().
void UcxWorker::sleep() {
  if (ucp_.worker_arm(worker_) != UCS_OK) return;  // there is something to do
  pollfd events{.fd = events_, .events = POLLIN, .revents = 0};
  (void)::poll(&events, 1, kLookMs);
}

void UcxWorker::wake() noexcept { (void)ucp_.worker_signal(worker_); }

/// Returns the rank to blame: that of a failed endpoint, else of a failed message, else of an unfinished message.
std::optional<int> UcxWorker::suspect() const {
  const auto find_rank = [&](auto&& is_so) -> std::optional<int> {
    const auto found = std::find_if(operations_.begin(), operations_.end(), is_so);
    return found == operations_.end() ? std::nullopt : std::optional<int>(found->rank);
  };
  auto rank = find_rank([](const Operation& each) { return each.status != UCS_OK && each.endpoint->failed; });
  if (!rank) rank = find_rank([](const Operation& each) { return each.status < 0; });
  return rank ? rank : find_rank([](const Operation& each) { return each.status != UCS_OK; });
}

void UcxWorker::free_requests() noexcept {
  for (const Operation& operation : operations_) {
    if (operation.request != nullptr) ucp_.request_free(operation.request);
  }
  operations_.clear();
  has_failed_ = false;
}

void UcxWorker::close(bool is_forced) noexcept {
  if (worker_ == nullptr) return;
  for (Operation& operation : operations_) {
    if (operation.status == UCS_INPROGRESS && operation.request != nullptr) {
      ucp_.request_cancel(worker_, operation.request);
    }
  }
  std::vector<void*> requests;
  for (auto& [rank, endpoint] : endpoints_) {
    ucp_request_param_t params{};
    params.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
    params.flags = is_forced || endpoint.failed ? UCP_EP_CLOSE_FLAG_FORCE : 0;
    ucs_status_ptr_t request = ucp_.ep_close_nbx(endpoint.handle, &params);
    if (UCS_PTR_IS_PTR(request)) requests.push_back(request);
  }
  finish_closing(requests);
  free_requests();
  endpoints_.clear();
  ucp_.worker_destroy(std::exchange(worker_, nullptr));
}

/// Waits for the endpoints to close. It takes longer if a stopped rank has not read all messages.
void UcxWorker::finish_closing(std::vector<void*>& requests) noexcept {
  const auto end = SteadyClock::now() + kCloseLimit;
  while ((!requests.empty() || left_ > 0) && SteadyClock::now() < end) {
    if (ucp_.worker_progress(worker_) == 0) std::this_thread::yield();
    requests.erase(std::remove_if(requests.begin(), requests.end(),
                                  [&](void* request) {
                                    if (ucp_.request_check_status(request) == UCS_INPROGRESS) return false;
                                    ucp_.request_free(request);
                                    return true;
                                  }),
                   requests.end());
  }
  for (void* request : requests) ucp_.request_free(request);
}

}  // namespace lockstep::comm
