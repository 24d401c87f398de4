// SPDX-License-Identifier: Apache-2.0
#include "launch/rendezvous.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <fstream>
#include <optional>
#include <random>
#include <string_view>
#include <utility>

#include "launch/failure.h"
#include "launch/lost_node.h"
#include "lockstep/base/clock.h"
#include "lockstep/base/env.h"
#include "lockstep/base/error.h"
#include "lockstep/base/log.h"
#include "lockstep/base/printable.h"
#include "lockstep/base/resources.h"
#include "lockstep/base/text.h"
#include "lockstep/base/wait_notice.h"
#include "lockstep/store/secret.h"

namespace lockstep::launch {
namespace {

constexpr auto kForever = std::chrono::hours(24 * 365);

std::string node_key(const char* what, int node) { return fmt::format("lockstep/agent/{}/{}", what, node); }

// False where nobody can listen there.
bool is_free(const std::string& host, std::uint16_t port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found) != 0) return false;
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(found, &::freeaddrinfo);
  const UniqueFd fd(::socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int on = 1;
  ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  return ::bind(fd.get(), found->ai_addr, found->ai_addrlen) == 0 && ::listen(fd.get(), 1) == 0;
}

std::string token_of(const AgentOptions& options) {
  if (options.nodes == 1) return make_token();
  const std::string token = !options.token.empty() ? options.token : env::get("LOCKSTEP_TOKEN").value_or("");
  require_secret(token, options.token.empty() ? "LOCKSTEP_TOKEN" : "the token of this run");
  return token;
}

void meet_alone(const AgentOptions& options, Meeting& meeting) {
  meeting.address = {.host = "127.0.0.1", .port = 0, .token = token_of(options)};
  meeting.server = std::make_unique<StoreServer>(
      StoreServer::Options{.host = meeting.address.host, .port = 0, .token = meeting.address.token});
  meeting.address.port = meeting.server->port();
  meeting.store = connect_store(meeting.address, env::collective_timeout());
  if (options.master_port != 0 && !is_free(options.master_addr, options.master_port)) {
    throw UsageError(fmt::format("{}:{} cannot be used: the port is busy or the address is not of this machine",
                                 options.master_addr, options.master_port),
                     "choose another --master-port, or leave it out: any free port is taken");
  }
  meeting.master_port = options.master_port != 0 ? options.master_port : find_free_port(options.master_addr);
}

bool names_loopback(const std::string& host) {
  return host == "localhost" || host == "::1" || host.rfind("127.", 0) == 0;
}

void warn_of_loopback(const std::string& host) {
  sockaddr_in address{};
  addrinfo hints{};
  hints.ai_family = AF_INET;
  addrinfo* found = nullptr;
  if (names_loopback(host) || ::getaddrinfo(host.c_str(), nullptr, &hints, &found) != 0) return;
  address.sin_addr = reinterpret_cast<const sockaddr_in*>(found->ai_addr)->sin_addr;
  ::freeaddrinfo(found);
  if ((ntohl(address.sin_addr.s_addr) >> 24U) == 127) {
    log::warn("--master-addr {} is a loopback address on this machine (see /etc/hosts): other machines cannot reach it",
              host);
  }
}

// The number that `text` starts with and goes on behind; none where there is no such number from 1 to `most`.
std::optional<int> take_number(std::string_view& text, int most) {
  int number = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (problem != std::errc() || number < 1 || number > most) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return number;
}

struct NodeSize {
  int processes = 0;
  int nodes = 0;
};

// What agree_on_places() has set, "PROCESSES NODES"; anything else comes from another program.
NodeSize parse_node(const std::string& said, int node) {
  constexpr int kMost = 1'000'000;
  std::string_view rest = said;
  const auto processes = take_number(rest, kMost);
  if (processes && rest.starts_with(' ')) {
    rest.remove_prefix(1);
    const auto nodes = take_number(rest, kMost);
    if (nodes && rest.empty()) return {*processes, *nodes};
  }
  throw PeerError(fmt::format("node {} said '{}' of its ranks, which is no number of ranks and nodes", node,
                              text::printable_line(said.substr(0, 40))),
                  "start the same version of Lockstep on every node");
}

// One limit and one notice for all nodes that join.
struct JoinWait {
  TimePoint deadline = SystemClock::instance().now() + env::collective_timeout();
  WaitNotice notice{SystemClock::instance().now()};
};

std::vector<int> missing_nodes(const AgentOptions& options, Store& store) {
  std::vector<int> missing;
  for (int node = 0; node < options.nodes; ++node) {
    if (!store.try_get(node_key("processes", node))) missing.push_back(node);
  }
  return missing;
}

std::string nodes_text(const std::vector<int>& nodes) {
  return fmt::format("{} {}", nodes.size() == 1 ? "node" : "nodes", fmt::join(nodes, ", "));
}

// What a node says of itself; the wait for it is told.
std::string wait_for_node(const AgentOptions& options, Store& store, int node, JoinWait& wait) {
  const auto limit = text::duration(Seconds(env::collective_timeout()).count());
  for (;;) {
    const auto until = std::min(wait.deadline, wait.notice.next());
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - SystemClock::instance().now());
    try {
      return store.get(node_key("processes", node), std::max(left, std::chrono::milliseconds(0)));
    } catch (const TimeoutError&) {
      // Told, and tried again, while there is time.
    }
    const TimePoint now = SystemClock::instance().now();
    const auto missing = missing_nodes(options, store);
    if (missing.empty()) continue;
    if (now >= wait.deadline) {
      throw TimeoutError(fmt::format("{} of {} did not join within {}", nodes_text(missing), options.nodes, limit),
                         fmt::format("start the same command there with --node-rank {}", missing.front()));
    }
    if (const auto waited = wait.notice.due(now)) {
      log::note("waiting at {}:{} since {} for {} of {}; LOCKSTEP_TIMEOUT ends this after {}", options.master_addr,
                options.master_port, text::duration(waited->count()), nodes_text(missing), options.nodes, limit);
    }
  }
}

// Each node says how many ranks it has; their sum is the world.
Place agree_on_places(const AgentOptions& options, Store& store) {
  const std::string mine = make_token();
  const std::string key = node_key("identity", options.node_rank);
  if (store.compare_set(key, "", mine) != mine) {
    throw UsageError(fmt::format("two agents have --node-rank {}", options.node_rank),
                     "give every node its own rank from 0 to nnodes - 1");
  }
  store.set(node_key("processes", options.node_rank), fmt::format("{} {}", options.processes, options.nodes));
  Place place{.local_rank = 0,
              .local_world_size = options.processes,
              .first_rank = 0,
              .world_size = 0,
              .node_rank = options.node_rank,
              .nodes = options.nodes};
  JoinWait wait;
  for (int node = 0; node < options.nodes; ++node) {
    const auto [processes, nodes] = parse_node(wait_for_node(options, store, node, wait), node);
    if (nodes != options.nodes) {
      throw UsageError(fmt::format("node {} was started with --nnodes {}, node {} with {}", node, nodes,
                                   options.node_rank, options.nodes));
    }
    if (node < options.node_rank) place.first_rank += processes;
    place.world_size += processes;
  }
  return place;
}

void meet_others(const AgentOptions& options, Meeting& meeting) {
  meeting.address = {.host = options.master_addr, .port = options.master_port, .token = token_of(options)};
  if (options.node_rank == 0) {
    warn_of_loopback(options.master_addr);
    meeting.server = std::make_unique<StoreServer>(
        StoreServer::Options{.host = options.master_addr, .port = options.master_port, .token = meeting.address.token});
  }
  if (options.node_rank != 0 && names_loopback(options.master_addr)) {
    log::warn("node {} looks for node 0 at {}, which is this machine: --master-addr names node 0's machine",
              options.node_rank, options.master_addr);
  }
  meeting.silence = node_silence(env::collective_timeout());
  meeting.store = connect_store(meeting.address, env::collective_timeout(), meeting.silence);
  if (options.node_rank == 0) {
    meeting.store->set("lockstep/agent/master_port", std::to_string(find_free_port(options.master_addr)));
  }
  meeting.place = agree_on_places(options, *meeting.store);
  const std::string said = meeting.store->get("lockstep/agent/master_port", env::collective_timeout());
  std::string_view rest = said;
  const auto port = take_number(rest, 65'535);
  if (!port || !rest.empty()) {
    throw PeerError(fmt::format("node 0 said '{}' for its port", text::printable_line(said.substr(0, 40))));
  }
  meeting.master_port = static_cast<std::uint16_t>(*port);
  meeting.presence =
      std::make_unique<Presence>(meeting.address,
                                 PresenceOptions{.keys = {kLostNodeKey, node_key("left", options.node_rank)},
                                                 .will = will_of(meeting.place, host_name()),
                                                 .silence = meeting.silence},
                                 meeting.silence);
}

}  // namespace

std::uint16_t find_free_port(const std::string& host) {
  int low = 32768;
  std::ifstream("/proc/sys/net/ipv4/ip_local_port_range") >> low;
  std::random_device random;
  constexpr int kFirst = 10000;
  for (int attempt = 0; attempt < 100 && low > kFirst + 1000; ++attempt) {
    const auto port = static_cast<std::uint16_t>(kFirst + random() % static_cast<unsigned>(low - kFirst));
    if (is_free(host, port)) return port;
  }
  // Either the range is unusual or the address is not ours: the latter is an error that names it.
  return StoreServer({.host = host, .port = 0, .token = make_token()}).port();
}

Meeting meet(const AgentOptions& options) {
  Meeting meeting;
  meeting.master_addr = options.master_addr;
  meeting.run_id = !options.run_id.empty() ? options.run_id : options.nodes > 1 ? "none" : make_token().substr(0, 16);
  meeting.place = {.local_rank = 0,
                   .local_world_size = options.processes,
                   .first_rank = 0,
                   .world_size = options.processes,
                   .node_rank = options.node_rank,
                   .nodes = options.nodes};
  if (options.nodes == 1) {
    meet_alone(options, meeting);
  } else {
    meet_others(options, meeting);
  }
  return meeting;
}

KeyWatcher::KeyWatcher(const StoreAddress& address, std::vector<std::string> keys)
    : store_(connect_store(address, env::collective_timeout())), event_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (!event_.valid()) throw_cannot("watch the store", errno);
  thread_ = start_thread("that watches the store", [this, wanted = std::move(keys)] {
    auto outcome = Found::kStoreIsGone;
    try {
      store_->wait(wanted, kForever);
      outcome = Found::kKeys;
    } catch (const std::exception&) {
      // The store is gone, or the destructor shut it down.
    }
    found_ = outcome;
    const std::uint64_t one = 1;
    (void)!::write(event_.get(), &one, sizeof one);
  });
}

KeyWatcher::~KeyWatcher() {
  store_->shut_down();
  thread_.join();
}

}  // namespace lockstep::launch
