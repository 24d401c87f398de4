// SPDX-License-Identifier: Apache-2.0
#include "launch/nodes/membership.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "launch/nodes/addresses.h"
#include "lockstep/base/clock.h"
#include "lockstep/base/env.h"
#include "lockstep/base/error.h"
#include "lockstep/base/log.h"
#include "lockstep/base/text.h"
#include "lockstep/store/host_name.h"
#include "lockstep/store/port_holder.h"
#include "lockstep/store/reach_store.h"
#include "lockstep/store/secret.h"

namespace lockstep::launch {
namespace {

constexpr std::chrono::milliseconds kOwnStore = std::chrono::seconds(15);
// An agent's id is a secret shared with the coordinator: a process that knows it can speak for the agent.
constexpr std::size_t kIdDigits = 32;

std::string token_of(const AgentOptions& options) {
  if (options.nodes == 1) return make_token();
  const std::string token = !options.token.empty() ? options.token : env::get("LOCKSTEP_TOKEN").value_or("");
  require_secret(token, options.token.empty() ? "LOCKSTEP_TOKEN" : "the token of this run");
  return token;
}

StoreAddress address_of(const AgentOptions& options) {
  if (options.nodes == 1) return {.host = "127.0.0.1", .port = 0, .token = token_of(options)};
  return {.host = options.master_addr, .port = options.master_port, .token = token_of(options)};
}

std::string run_id_of(const AgentOptions& options) {
  if (!options.run_id.empty()) return options.run_id;
  return options.nodes > 1 ? "none" : make_token().substr(0, 16);
}

NodeInfo info_of(const AgentOptions& options, const std::string& id, const History& history) {
  return {.id = id,
          .host = host_id(),
          .wish = options.node_rank,
          .processes = options.processes,
          .min_nodes = options.min_nodes > 0 ? options.min_nodes : options.nodes,
          .max_nodes = options.nodes,
          .last_round = history.last_round,
          .restarts = history.restarts,
          .max_world_size = history.max_world_size,
          .peers = history.peers};
}

void require_free_master_port(const AgentOptions& options) {
  if (options.master_port == 0 || is_free(options.master_addr, options.master_port)) return;
  // A store there throws the error that names the cause: the name, the address or the program that uses the port.
  (void)StoreServer({.host = options.master_addr, .port = options.master_port, .token = make_token()});
}

// Connects to the store within `limit`. If this process's own store does not answer, its thread is out of memory, so
// waiting is useless.
std::shared_ptr<Store> reach(const StoreAddress& address, bool is_own, std::chrono::milliseconds limit,
                             std::chrono::milliseconds answer_limit, const std::function<bool()>& is_asked_to_end) {
  if (!is_own) return reach_store(address, limit, answer_limit, is_asked_to_end);
  limit = std::min(limit, kOwnStore);
  try {
    return reach_store(address, limit, answer_limit, is_asked_to_end);
  } catch (const TimeoutError&) {
    if (is_asked_to_end()) throw;
    throw ResourceError(
        fmt::format("the launcher's own store did not answer for {}", text::duration(Seconds(limit).count())),
        "check that this machine has free memory; ulimit -v shows the limit");
  }
}

}  // namespace

Membership::Membership(const AgentOptions& options, const History& history,
                       const std::function<bool()>& is_asked_to_end)
    : options_(options),
      id_(make_token().substr(0, kIdDigits)),
      address_(address_of(options)),
      run_id_(run_id_of(options)),
      silence_(node_silence(env::collective_timeout())) {
  serve_or_connect(is_asked_to_end);
  orders_ = std::make_unique<QueueReader>(address_, order_queue(id_));
  if (options.nodes > 1) {
    presence_ = std::make_unique<Presence>(
        address_, PresenceOptions{.keys = {kEventQueue}, .will = id_, .silence = silence_}, kReachAgain);
  }
  if (server_) coordinate();
  try {
    store_->append(kEventQueue, to_text({.kind = Event::Kind::kJoined, .node = info_of(options, id_, history)}));
  } catch (...) {
    // No answer came in time, but the message may still arrive.
    if (presence_) presence_->abandon();
    throw;
  }
}

Membership::~Membership() {
  if (presence_ && !has_left_) presence_->abandon();
  // The store's readers must end before its server does.
  presence_.reset();
  coordinator_.reset();
  orders_.reset();
  store_.reset();
}

void Membership::serve_or_connect(const std::function<bool()>& is_asked_to_end) {
  const bool is_range = options_.min_nodes > 0 && options_.min_nodes < options_.nodes;
  const bool may_be_any = is_range || options_.node_rank < 0;
  const TimePoint begin = SystemClock::instance().now();
  if (options_.nodes == 1) require_free_master_port(options_);
  // All nodes use the same name, so no node can serve or be reached before the name can be resolved.
  if (options_.nodes > 1) await_name(address_.host, is_asked_to_end);
  if (options_.node_rank <= 0) {
    try {
      server_ = std::make_unique<StoreServer>(StoreServer::Options{.host = address_.host,
                                                                   .port = address_.port,
                                                                   .token = address_.token,
                                                                   .kept = kKeptKeys,
                                                                   .inbox = kEventQueue});
      address_.port = server_->port();
      address_.inside = server_->door();
      if (options_.nodes > 1) warn_of_loopback(options_.master_addr);
    } catch (const UsageError& problem) {
      // Another agent at that address serves the store. If the address belongs to this machine, some process must be
      // listening on the port.
      const bool is_here = is_own(address_.host);
      if (!may_be_any || (is_here && port_holder(address_.port).empty())) throw;
      if (is_here) log::note("{}: joining the job there", problem.message());
    }
  } else if (names_loopback(options_.master_addr)) {
    log::warn("node {} looks for node 0 at {}, which is this machine: --master-addr must name node 0's machine",
              options_.node_rank, options_.master_addr);
  }
  const auto waited = std::chrono::duration_cast<std::chrono::milliseconds>(SystemClock::instance().now() - begin);
  const auto limit = std::max(env::collective_timeout() - waited, std::chrono::milliseconds(0));
  store_ = reach(address_, server_ != nullptr, limit, options_.nodes > 1 ? silence_ : std::chrono::milliseconds(0),
                 is_asked_to_end);
}

void Membership::coordinate() {
  const NodeInfo own = info_of(options_, id_, {});
  CoordinatorSpec spec{.address = address_,
                       .options = {.min_nodes = own.min_nodes,
                                   .max_nodes = own.max_nodes,
                                   .max_restarts = options_.max_restarts,
                                   .join_timeout = env::collective_timeout(),
                                   .last_call = options_.last_call,
                                   .silence = silence_,
                                   .take_in = options_.take_in},
                       .serving_id = id_};
  const bool is_given = options_.nodes == 1 && options_.master_port != 0;
  spec.free_port = [host = options_.master_addr, port = is_given ? options_.master_port : std::uint16_t{0}] {
    // A rank of the previous round that hangs in the kernel may still be listening on the given port.
    return port != 0 && is_free(host, port) ? port : find_free_port(host);
  };
  spec.remove_all = [this](const std::string& prefix) { server_->remove_all(prefix); };
  spec.on_failure = [this] { orders_->wake(); };
  coordinator_ = std::make_unique<Coordinator>(std::move(spec));
}

std::shared_ptr<Store> Membership::store_of(const Round& round) const { return with_prefix(store_, round.keys); }

std::optional<Order> Membership::take_order() {
  if (coordinator_) coordinator_->rethrow_failure();
  while (const auto text = orders_->take()) {
    if (auto order = parse_order(*text)) return order;
  }
  return std::nullopt;
}

std::optional<FailureRecord> Membership::lost() const {
  const std::string why = presence_ ? presence_->lost() : "";
  if (why.empty()) return std::nullopt;
  return lost_node_zero(address_, why, silence_);
}

std::optional<Round> Membership::round_of(const Order& order) const {
  Round round{.number = order.round,
              .restarts = order.restarts,
              .max_world_size = order.max_world_size,
              .min_world_size = order.min_world_size,
              .master_port = order.master_port,
              .keys = order.keys};
  round.place.nodes = static_cast<int>(order.members.size());
  round.place.node_rank = -1;
  round.place.world_size = 0;
  for (std::size_t i = 0; i < order.members.size(); ++i) {
    const Member& member = order.members[i];
    if (member.id == id_) {
      round.place.node_rank = static_cast<int>(i);
      round.place.first_rank = round.place.world_size;
      round.place.local_world_size = member.processes;
    }
    round.place.world_size += member.processes;
    round.hosts.push_back(member.host);
  }
  if (round.place.node_rank < 0) return std::nullopt;
  return round;
}

void Membership::report(NodeEnd end) {
  const int round = end.round;
  try {
    Event event{.kind = Event::Kind::kEnded, .end = std::move(end)};
    event.node.id = id_;
    store_->append(kEventQueue, to_text(event));
  } catch (const Error& problem) {
    log::debug("the end of round {} was not reported: {}", round, problem.message());
  }
}

std::string Membership::missing() const { return store_->try_get(kPresentKey).value_or("other nodes"); }

void Membership::leave(int signal, std::chrono::milliseconds patience) noexcept {
  try {
    if (lost()) return;
    Event event{.kind = Event::Kind::kLeft, .signal = signal};
    event.node.id = id_;
    store_->append(kEventQueue, to_text(event));
    has_left_ = true;
    if (coordinator_) coordinator_->wait_until_alone(patience);
  } catch (const std::exception&) {
    // The store is gone: no other agent needs this report.
  }
}

}  // namespace lockstep::launch
