// SPDX-License-Identifier: Apache-2.0
#include "store/server_state.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "lockstep/base/clock.h"
#include "lockstep/base/log.h"
#include "store/connection.h"
#include "store/handshake.h"

namespace lockstep::store {

ServerState::ServerState(asio::io_context& io, const StoreServer::Options& options, const DoorLimits& door)
    : token(options.token),
      knocks(options.certificate.empty() ? "" : knock_key(options.token)),
      kept(options.kept),
      inbox(options.inbox),
      limits(door),
      strangers(door.strangers),
      warning_timer(io) {
  if (options.certificate.empty()) return;
  const TlsContext context = server_tls(options.certificate, options.key);
  ::SSL_CTX_up_ref(context.get());  // asio's context releases one reference
  tls.emplace(context.get());
}

void ServerState::unlist(const ConnectionPtr& connection, const std::string& key) {
  const auto found = waiting_for.find(key);
  if (found == waiting_for.end()) return;
  auto& list = found->second;
  list.erase(std::remove(list.begin(), list.end(), connection), list.end());
  if (list.empty()) waiting_for.erase(found);
}

void ServerState::key_changed(const std::string& key) {
  if (const auto found = waiting_for.find(key); found != waiting_for.end() && table.find(key)) {
    const auto clients = std::move(found->second);
    waiting_for.erase(found);
    for (const auto& client : clients) client->go_on_waiting();
  }
}

std::int64_t ServerState::append(const std::string& queue, std::string value) {
  const std::int64_t last = table.append(queue, std::move(value));
  key_changed(queue + std::to_string(last));
  return last;
}

void ServerState::arrived(const ConnectionPtr& connection, const std::string& address) {
  const auto id = ++arrivals;
  connections.insert(connection);
  stranger_of[id] = connection;
  connection->start(id, address);
  if (const auto goes = strangers.add(id, stranger_address(address))) {
    const ConnectionPtr gone = stranger_of[*goes];
    gone->turn_away();
  }
}

bool ServerState::close_one_stranger() {
  const auto goes = strangers.give_up_one();
  if (!goes) return false;
  const ConnectionPtr gone = stranger_of[*goes];
  gone->turn_away();
  return true;
}

void ServerState::note_turned_away(const std::string& address) {
  if (const auto count = turned_away.add(SystemClock::instance().now())) return warn(*count, address);
  warning_timer.expires_at(*turned_away.next());  // until then, events are only counted
  warning_timer.async_wait([this, address](std::error_code problem) {
    if (problem) return;
    if (const auto count = turned_away.due(SystemClock::instance().now())) warn(*count, address);
  });
}

void ServerState::warn(std::size_t count, const std::string& address) const {
  log::warn(
      "{} did not prove that {} the job's token, and {} refused (the last came from {}). Possible causes: other "
      "programs, or nodes with another token{}",
      count == 1 ? "a connection to the store" : fmt::format("{} connections to the store", count),
      count == 1 ? "it knows" : "they know", count == 1 ? "was" : "were", address,
      tls ? " or no certificate to trust (--tls-ca)" : "");
}

namespace {

std::string answer_add(ServerState& state, const std::string& key, std::int64_t delta) {
  const auto sum = state.table.add(key, delta);
  if (!sum) return FrameWriter(Status::kBadRequest).string(not_a_counter_message(key)).take();
  state.key_changed(key);
  return FrameWriter(Status::kOk).number(*sum).take();
}

}  // namespace

std::string answer(ServerState& state, Verb verb, const std::string& key, FrameReader& request) {
  if (verb == Verb::kTryGet && request.complete()) {
    const auto value = state.table.find(key);
    return value ? FrameWriter(Status::kOk).string(*value).take() : FrameWriter(Status::kAbsent).take();
  }
  if (verb == Verb::kRemove && request.complete()) {
    return FrameWriter(state.table.remove(key) ? Status::kOk : Status::kAbsent).take();
  }
  if (verb == Verb::kAdd) {
    const std::int64_t delta = request.number();
    return request.complete() ? answer_add(state, key, delta) : "";
  }
  std::string first = request.string();
  if (verb == Verb::kSet && request.complete()) {
    state.table.set(key, std::move(first));
    state.key_changed(key);
    return FrameWriter(Status::kOk).take();
  }
  if (verb == Verb::kAppend && request.complete()) {
    return FrameWriter(Status::kOk).number(state.append(key, std::move(first))).take();
  }
  const std::string desired = request.string();
  if (verb != Verb::kCompareSet || !request.complete()) return "";
  auto reply = FrameWriter(Status::kOk).string(state.table.compare_set(key, first, desired)).take();
  state.key_changed(key);
  return reply;
}

bool is_for_all(const ServerState& state, Verb verb, const std::string& key) {
  if (state.kept.empty() || !key.starts_with(state.kept)) return true;
  if (!state.inbox.empty() && key.starts_with(state.inbox)) return verb == Verb::kAppend && key == state.inbox;
  return verb == Verb::kGet || verb == Verb::kTryGet || verb == Verb::kWait;
}

void say(const std::exception& problem) noexcept {
  try {
    log::error("store server: {}", problem.what());
  } catch (const std::exception&) {
    // There is no memory for the message.
  }
}

}  // namespace lockstep::store
