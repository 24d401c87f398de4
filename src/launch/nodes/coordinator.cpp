// SPDX-License-Identifier: Apache-2.0
#include "launch/nodes/coordinator.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "launch/nodes/members.h"
#include "lockstep/base/awake_clock.h"
#include "lockstep/base/error.h"
#include "lockstep/base/resources.h"
#include "lockstep/base/whole_number.h"

namespace lockstep::launch {
namespace {

// How often the program's checkpoints are counted while a node waits to be admitted.
constexpr auto kLookAtSaves = std::chrono::milliseconds(200);
constexpr auto kForever = std::chrono::hours(24 * 365);
constexpr auto kConnect = std::chrono::seconds(10);
constexpr std::size_t kNonceDigits = 16;

Order::Kind kind_of(Decision::Kind kind) {
  switch (kind) {
    case Decision::Kind::kStart:
      return Order::Kind::kRun;
    case Decision::Kind::kStop:
      return Order::Kind::kStop;
    case Decision::Kind::kAgain:
      return Order::Kind::kAgain;
    case Decision::Kind::kRefuse:
      return Order::Kind::kRefuse;
    case Decision::Kind::kHold:
      return Order::Kind::kHold;
    default:
      return Order::Kind::kEnd;
  }
}

// Returns the order for one agent, without the ids of other agents.
Order order_for(const std::string& id, Order order) {
  for (Member& member : order.members) {
    if (member.id != id) member.id.clear();
  }
  return order;
}

}  // namespace

Coordinator::Coordinator(CoordinatorSpec spec)
    : spec_(std::move(spec)),
      nonce_(make_token().substr(0, kNonceDigits)),
      store_(connect_store(spec_.address, kConnect)),
      state_(AwakeClock::instance().now()) {
  see_stops();
  state_.stopped_for = {};  // earlier stops do not count: nothing depended on this process
  thread_ = start_thread("that coordinates the nodes", [this] { run(); });
}

Coordinator::~Coordinator() {
  store_->shut_down();
  thread_.join();
}

void Coordinator::wait_until_alone(std::chrono::milliseconds patience) {
  std::unique_lock lock(mutex_);
  (void)wait_awake(changed_, lock, patience, [this] { return others_ == 0; });
}

void Coordinator::run() {
  try {
    serve();
  } catch (const PeerError&) {
    // The destructor has shut down the client.
  } catch (...) {
    {
      const std::lock_guard lock(mutex_);
      failure_ = std::current_exception();
    }
    if (spec_.on_failure) spec_.on_failure();
  }
}

void Coordinator::rethrow_failure() {
  const std::lock_guard lock(mutex_);
  if (failure_) std::rethrow_exception(failure_);
}

void Coordinator::serve() {
  for (;;) {
    observe();
    look(AwakeClock::instance().now());
    take_events();
  }
}

// Waits for an event, then takes all events that have arrived by then.
void Coordinator::take_events() {
  const auto key = [this] { return kEventQueue + std::to_string(next_event_); };
  auto wait = next_ == TimePoint::max()
                  ? std::chrono::milliseconds(kForever)
                  : std::chrono::ceil<std::chrono::milliseconds>(awake_slice(next_ - AwakeClock::instance().now()));
  if (has_joiners(state_, spec_.options)) wait = std::min<std::chrono::milliseconds>(wait, kLookAtSaves);
  std::optional<std::string> text;
  try {
    text = store_->get(key(), std::max(wait, std::chrono::milliseconds(0)));
  } catch (const TimeoutError&) {
    return;  // the passage of time alone may change the decision
  }
  for (; text; text = store_->try_get(key())) {
    see_stops();  // for each event: the process may have been stopped since it read the one before
    (void)store_->remove(key());
    ++next_event_;
    const auto event = parse_event(*text);
    if (event) apply(state_, *event, AwakeClock::instance().now(), spec_.options);
  }
}

// Detects that this process was stopped. The thread reads AwakeClock while it waits; that clock falls behind
// SystemClock if only this process is stopped.
void Coordinator::see_stops() {
  const TimePoint awake = AwakeClock::instance().now();
  const auto behind = SystemClock::instance().now() - awake;
  const auto stopped = behind - std::exchange(behind_, behind);
  if (stopped > kAwakeLook) observe_stop(state_, std::chrono::floor<std::chrono::milliseconds>(stopped), awake);
}

// Reads the facts that are only in the store: the ranks' claim once they have ended, and their checkpoints while a node
// waits.
void Coordinator::observe() {
  for (GroupNode& node : state_.nodes) node.is_serving = node.info.id == spec_.serving_id;
  {
    const std::lock_guard lock(mutex_);
    others_ = static_cast<std::size_t>(
        std::count_if(state_.nodes.begin(), state_.nodes.end(), [](const auto& node) { return !node.is_serving; }));
  }
  changed_.notify_all();
  const std::string prefix = round_keys(nonce_, state_.round);
  if (has_joiners(state_, spec_.options)) {
    const auto saves = store_->try_get(prefix + kSavesKey);
    observe_saves(state_, saves ? parse_whole(*saves, {}) : std::nullopt);
    observe_replicas_of(prefix);
  }
  const auto runs = [](const GroupNode& node) { return node.phase == GroupNode::Phase::kRunning; };
  if (state_.is_running && std::none_of(state_.nodes.begin(), state_.nodes.end(), runs)) {
    observe_replicas_of(prefix);
    state_.claim = parse_failure(store_->try_get(prefix + kFirstFailureKey).value_or(""));
  }
  if (!state_.is_running && !state_.is_over) {
    const std::string missing = missing_text(state_, spec_.options);
    if (std::exchange(present_, missing) != missing) store_->set(kPresentKey, missing);
  }
}

void Coordinator::observe_replicas_of(const std::string& prefix) {
  if (!spec_.options.is_range()) return;
  const auto replicas = store_->try_get(prefix + kReplicasKey);
  observe_replicas(state_, replicas ? parse_whole(*replicas, {.least = 1}) : std::nullopt);
}

void Coordinator::look(TimePoint at) {
  for (;;) {
    const Decision decision = decide(at, state_, spec_.options);
    next_ = decision.next;
    if (decision.kind == Decision::Kind::kWait) return;
    act(decision, at);
  }
}

void Coordinator::act(const Decision& decision, TimePoint at) {
  // A copy, since the nodes it concerns may be gone afterwards.
  const Decision whole = decision;
  carry_out(state_, whole, at);
  send(whole);
  if (whole.kind == Decision::Kind::kAgain) observe();
  // The previous round's keys are no longer read, and a job may have any number of rounds.
  const bool is_next = whole.kind == Decision::Kind::kStart && state_.round > 0;
  if (is_next && spec_.remove_all) spec_.remove_all(round_keys(nonce_, state_.round - 1));
}

void Coordinator::send(const Decision& decision) {
  const Order order = order_of(decision);
  std::map<std::string, std::int64_t> numbers;
  for (const std::string& id : decision.ids) {
    numbers[id] = store_->append(order_queue(id), to_text(order_for(id, order)));
  }
  if (order.kind == Order::Kind::kRun) remove_read(numbers);
}

// Removes orders that have been read. An order that starts a round names all nodes, so it is large. An agent that has
// finished a round, or has left, no longer needs the order that started that round, or any earlier order.
void Coordinator::remove_read(const std::map<std::string, std::int64_t>& next) {
  const auto before = std::exchange(orders_, {});
  for (const auto& [id, number] : next) orders_[id].run = number;
  for (auto [id, orders] : before) {
    while (orders.removed < orders.run) (void)store_->remove(order_queue(id) + std::to_string(++orders.removed));
    if (const auto found = orders_.find(id); found != orders_.end()) found->second.removed = orders.removed;
  }
}

Order Coordinator::order_of(const Decision& decision) {
  Order order{.kind = kind_of(decision.kind),
              .reason = decision.reason,
              .cause = decision.cause,
              .round = state_.round,
              .restarts = state_.restarts,
              .max_world_size = state_.max_world_size,
              .min_world_size = decision.min_world_size,
              .is_graceful = decision.is_graceful,
              .code = decision.code};
  if (order.kind != Order::Kind::kRun) return order;
  order.master_port = spec_.free_port();
  order.keys = round_keys(nonce_, state_.round);
  for (const std::string& id : decision.ids) {
    for (const GroupNode& node : state_.nodes) {
      if (node.info.id == id) order.members.push_back({id, node.info.host, node.info.processes});
    }
  }
  return order;
}

}  // namespace lockstep::launch
