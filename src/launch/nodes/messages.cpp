// SPDX-License-Identifier: Apache-2.0
#include "launch/nodes/messages.h"

#include <fmt/format.h>
#include <signal.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>

#include "lockstep/base/error.h"
#include "lockstep/base/json.h"
#include "lockstep/base/printable.h"

namespace lockstep::launch {
namespace {

using Json = nlohmann::json;

constexpr int kInternal = static_cast<int>(ExitCode::kInternal);
// Limits on messages, which any process with the token can send.
constexpr std::size_t kMostBytes = 1U << 20U;
constexpr std::size_t kMostName = 1024;
constexpr int kMostProcesses = 65'536;
// The limit on each text of a failure, so that a rank's long error fits in a message. The rank's log has the whole
// text.
constexpr std::size_t kMostWords = 16U << 10U;

// Returns the text of `key`, sanitized for a terminal; "" if it is missing or has another type.
std::string text_at(const Json& json, const char* key) {
  const auto found = json.find(key);
  return found != json.end() && found->is_string() ? text::printable_line(found->get<std::string>()) : "";
}

int int_at(const Json& json, const char* key, int fallback) {
  const auto found = json.find(key);
  if (found == json.end() || !found->is_number_integer()) return fallback;
  const auto value = found->get<std::int64_t>();
  return value >= -1 && value <= 1'000'000 ? static_cast<int>(value) : fallback;
}

// Returns the exit code, which has eight bits: 256 would become 0, meaning success.
int code_at(const Json& json) {
  const int code = int_at(json, "code", kInternal);
  return code >= 0 && code <= 255 ? code : kInternal;
}

int signal_at(const Json& json, const char* key) {
  const int number = int_at(json, key, 0);
  return number >= 0 && number < NSIG ? number : 0;
}

bool bool_at(const Json& json, const char* key) {
  const auto found = json.find(key);
  return found != json.end() && found->is_boolean() && found->get<bool>();
}

std::vector<Json> list_at(const Json& json, const char* key) {
  const auto found = json.find(key);
  return found != json.end() && found->is_array() ? found->get<std::vector<Json>>() : std::vector<Json>();
}

Json record_json(const std::optional<FailureRecord>& record) {
  if (!record) return Json();
  FailureRecord part = *record;
  for (std::string* words : {&part.type, &part.message, &part.hint, &part.host}) {
    words->resize(std::min(words->size(), kMostWords));
  }
  return parse_json(to_json(part));
}

std::optional<FailureRecord> record_at(const Json& json, const char* key) {
  const auto found = json.find(key);
  if (found == json.end() || !found->is_object()) return std::nullopt;
  return parse_failure(found->dump(-1, ' ', false, Json::error_handler_t::replace));
}

Json node_json(const NodeInfo& node) {
  return {{"id", node.id},
          {"host", node.host},
          {"wish", node.wish},
          {"processes", node.processes},
          {"min_nodes", node.min_nodes},
          {"max_nodes", node.max_nodes},
          {"last_round", node.last_round},
          {"restarts", node.restarts},
          {"max_world_size", node.max_world_size},
          {"peers", node.peers}};
}

NodeInfo node_of(const Json& json) {
  NodeInfo node{.id = text_at(json, "id"),
                .host = text_at(json, "host"),
                .wish = int_at(json, "wish", -1),
                .processes = int_at(json, "processes", 0),
                .min_nodes = int_at(json, "min_nodes", 1),
                .max_nodes = int_at(json, "max_nodes", 1),
                .last_round = int_at(json, "last_round", -1),
                .restarts = int_at(json, "restarts", 0),
                .max_world_size = int_at(json, "max_world_size", 0)};
  for (const Json& peer : list_at(json, "peers")) {
    if (peer.is_string()) node.peers.push_back(text::printable_line(peer.get<std::string>()));
  }
  return node;
}

Json end_json(const NodeEnd& end) {
  return {{"round", end.round},
          {"is_success", end.is_success},
          {"place", end.place},
          {"interrupted_by", end.interrupted_by},
          {"left_by_request", end.left_by_request},
          {"has_lost_store", end.has_lost_store},
          {"is_consequence", end.is_consequence},
          {"code", end.code},
          {"cause", record_json(end.cause)}};
}

NodeEnd end_of(const Json& json) {
  return {.round = int_at(json, "round", -1),
          .is_success = bool_at(json, "is_success"),
          .place = text_at(json, "place"),
          .interrupted_by = signal_at(json, "interrupted_by"),
          .left_by_request = bool_at(json, "left_by_request"),
          .has_lost_store = bool_at(json, "has_lost_store"),
          .is_consequence = bool_at(json, "is_consequence"),
          .code = code_at(json),
          .cause = record_at(json, "cause")};
}

constexpr const char* kEventNames[] = {"joined", "ended", "left", "lost"};
constexpr const char* kOrderNames[] = {"run", "stop", "again", "end", "refuse", "hold"};

template <class Kind, std::size_t kCount>
std::optional<Kind> kind_of(const std::string& name, const char* const (&names)[kCount]) {
  for (std::size_t i = 0; i < kCount; ++i) {
    if (name == names[i]) return static_cast<Kind>(i);
  }
  return std::nullopt;
}

std::string dump(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

}  // namespace

std::string order_queue(const std::string& id) { return fmt::format("lockstep/nodes/orders/{}/", id); }

std::string round_keys(const std::string& nonce, int round) { return fmt::format("rounds/{}/{}/", nonce, round); }

std::string to_text(const Event& event) {
  return dump({{"event", kEventNames[static_cast<std::size_t>(event.kind)]},
               {"node", node_json(event.node)},
               {"end", end_json(event.end)},
               {"signal", event.signal},
               {"why", event.why}});
}

std::optional<Event> parse_event(const std::string& text) {
  if (text.size() > kMostBytes) return std::nullopt;
  if (const auto end = text.find('\n'); end != std::string::npos) {
    Event lost{.kind = Event::Kind::kLost, .why = text.substr(0, end)};
    lost.node.id = text.substr(end + 1);
    const bool is_will = lost.why == "closed" || lost.why == "silent";
    return is_will && !lost.node.id.empty() ? std::optional(lost) : std::nullopt;
  }
  const Json json = json_or_null(text);
  if (!json.is_object()) return std::nullopt;
  const auto kind = kind_of<Event::Kind>(text_at(json, "event"), kEventNames);
  Event event{.node = node_of(json.value("node", Json::object())),
              .end = end_of(json.value("end", Json::object())),
              .signal = signal_at(json, "signal"),
              .why = text_at(json, "why")};
  if (!kind || event.node.id.empty()) return std::nullopt;
  event.kind = *kind;
  const bool can_join = event.node.processes >= 1 && event.node.processes <= kMostProcesses &&
                        !event.node.host.empty() && event.node.host.size() <= kMostName &&
                        event.node.id.size() <= kMostName;
  if (event.kind == Event::Kind::kJoined && !can_join) return std::nullopt;
  return event;
}

std::string to_text(const Order& order) {
  Json members = Json::array();
  for (const Member& member : order.members) {
    members.push_back({{"id", member.id}, {"host", member.host}, {"processes", member.processes}});
  }
  return dump({{"order", kOrderNames[static_cast<std::size_t>(order.kind)]},
               {"reason", order.reason},
               {"cause", record_json(order.cause)},
               {"round", order.round},
               {"restarts", order.restarts},
               {"max_world_size", order.max_world_size},
               {"min_world_size", order.min_world_size},
               {"master_port", order.master_port},
               {"keys", order.keys},
               {"members", members},
               {"is_graceful", order.is_graceful},
               {"code", order.code}});
}

std::optional<Order> parse_order(const std::string& text) {
  const Json json = json_or_null(text);
  if (!json.is_object()) return std::nullopt;
  const auto kind = kind_of<Order::Kind>(text_at(json, "order"), kOrderNames);
  if (!kind) return std::nullopt;
  Order order{.kind = *kind,
              .reason = text_at(json, "reason"),
              .cause = record_at(json, "cause"),
              .round = int_at(json, "round", 0),
              .restarts = int_at(json, "restarts", 0),
              .max_world_size = int_at(json, "max_world_size", 0),
              .min_world_size = int_at(json, "min_world_size", 0),
              .master_port = static_cast<std::uint16_t>(int_at(json, "master_port", 0)),
              .keys = text_at(json, "keys"),
              .is_graceful = bool_at(json, "is_graceful"),
              .code = code_at(json)};
  for (const Json& member : list_at(json, "members")) {
    if (!member.is_object()) return std::nullopt;
    order.members.push_back({text_at(member, "id"), text_at(member, "host"), int_at(member, "processes", 1)});
  }
  if (order.kind == Order::Kind::kRun && order.members.empty()) return std::nullopt;
  return order;
}

}  // namespace lockstep::launch
