// SPDX-License-Identifier: Apache-2.0
// Ranks meet through the launcher's store; the first rank of each node measures, and rank 0 collects the results.
#include "launch/doctor/links.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <set>
#include <sstream>
#include <string>

#include "launch/doctor/link_meter.h"
#include "launch/nodes/addresses.h"
#include "lockstep/base/env.h"
#include "lockstep/base/error.h"
#include "lockstep/base/number.h"
#include "lockstep/launch/doctor.h"
#include "lockstep/store/interface_choice.h"
#include "lockstep/store/store.h"
#include "lockstep/wire/circle.h"

namespace lockstep {
namespace launch {
namespace {

using std::chrono::milliseconds;

constexpr auto kConnectTime = milliseconds(5000);
constexpr const char* kNotInTime = "the measurement did not finish in time";

struct Meeting {
  std::shared_ptr<Store> store;
  std::string store_host;
  milliseconds patience;
  std::string token = {};
  int rank = 0;
  int world = 1;
};

/// One hub per measured wire.
using Hubs = std::vector<std::shared_ptr<wire::Hub>>;

/// Two hosts, by index. The later one connects to the other, as its ranks would.
struct HostPair {
  int called = 0;
  int caller = 0;
};

Meeting meet_at_store() {
  const std::string address = env::get("LOCKSTEP_STORE").value_or("");
  const auto colon = address.rfind(':');
  const auto rank = env::get_int("RANK");
  const auto world = env::get_int("WORLD_SIZE");
  int port = 0;
  if (colon != std::string::npos) std::from_chars(address.data() + colon + 1, address.data() + address.size(), port);
  if (!rank || !world || port <= 0 || port > 65535 || *rank < 0 || *rank >= *world) {
    throw UsageError(
        "lockstep doctor measures between hosts only under lockstep run",
        "use lockstep run --nnodes 2 ... -- lockstep doctor; lockstep doctor alone checks only this machine");
  }
  Meeting meeting{.store_host = address.substr(0, colon),
                  .patience = env::collective_timeout(),
                  .token = env::get("LOCKSTEP_STORE_TOKEN").value_or(""),
                  .rank = static_cast<int>(*rank),
                  .world = static_cast<int>(*world)};
  const StoreAddress at{.host = meeting.store_host, .port = static_cast<std::uint16_t>(port), .token = meeting.token};
  const std::string round = env::get("LOCKSTEP_STORE_PREFIX").value_or("");
  meeting.store = with_prefix(connect_store(at, meeting.patience), round + "lockstep/doctor/");
  return meeting;
}

std::vector<int> nodes_of_ranks(const Meeting& meeting) {
  const std::string node = std::to_string(env::get_int("GROUP_RANK").value_or(0));
  meeting.store->set(fmt::format("node/{}", meeting.rank), node);
  std::vector<int> nodes;
  for (int rank = 0; rank < meeting.world; ++rank) {
    nodes.push_back(std::atoi(meeting.store->get(fmt::format("node/{}", rank), meeting.patience).c_str()));
  }
  return nodes;
}

/// Returns this host's address on the interface that the ranks would use.
std::string own_link_address(const Meeting& meeting) {
  const auto choice = store::choose_interface(store::wishes_towards(meeting.store_host), store::list_interfaces());
  if (choice) return choice->address;
  throw IoError(fmt::format("this host cannot reach the store at {}", meeting.store_host));
}

/// Opens the hubs; the hub of the ranks' own wire comes first.
Hubs open_hubs(const Meeting& meeting, const std::string& address, std::string_view wire) {
  Hubs hubs;
  for (const bool is_encrypted : {wire == "tls", wire != "tls"}) {
    hubs.push_back(wire::open_hub({.store = meeting.store,
                                   .prefix = is_encrypted ? "tls/" : "plain/",
                                   .rank = meeting.rank,
                                   .size = meeting.world,
                                   .address = address,
                                   .token = meeting.token,
                                   .is_encrypted = is_encrypted,
                                   .timeout = meeting.patience}));
  }
  return hubs;
}

std::vector<view::LinkHost> introduce(const Meeting& meeting, const std::string& address,
                                      const std::vector<int>& ranks) {
  meeting.store->set(fmt::format("host/{}", meeting.rank), fmt::format("{} {}", address, host_id()));
  std::vector<view::LinkHost> hosts;
  for (const int rank : ranks) {
    std::istringstream words(meeting.store->get(fmt::format("host/{}", rank), meeting.patience));
    view::LinkHost host{.rank = rank};
    words >> host.address;
    std::getline(words >> std::ws, host.name);
    hosts.push_back(std::move(host));
  }
  return hosts;
}

std::string link_key(HostPair pair) { return fmt::format("link/{}-{}", pair.called, pair.caller); }
std::string ready_key(HostPair pair) { return fmt::format("ready/{}-{}", pair.called, pair.caller); }

/// Returns a number unique to the pair of hosts.
std::uint64_t circle_of(HostPair pair) {
  return static_cast<std::uint64_t>(pair.called) << 32U | static_cast<std::uint64_t>(pair.caller);
}

void measure_with(const Meeting& meeting, const Hubs& hubs, HostPair pair, int peer) {
  std::vector<view::LinkSpeed> speeds;
  std::string problem;
  try {
    // The other host may still be measuring its link to a third host.
    (void)meeting.store->get(ready_key(pair), meeting.patience);
    for (const auto& hub : hubs) {
      wire::Circle circle(hub, circle_of(pair));
      speeds.push_back(measure_link(circle, peer, kConnectTime));
    }
  } catch (const IoError& broken) {
    problem = broken.message();
  } catch (const TimeoutError&) {
    problem = kNotInTime;
  }
  std::string said;
  speeds.resize(hubs.size());
  for (const view::LinkSpeed& speed : speeds) said += fmt::format("{} {} ", speed.round_trip_us, speed.bytes_per_s);
  meeting.store->set(link_key(pair), said + problem);
}

/// Serves until the partner has measured, or has reported that it cannot.
void serve_partner(const Meeting& meeting, const Hubs& hubs, HostPair pair, int peer) {
  meeting.store->set(ready_key(pair), "1");
  for (const auto& hub : hubs) {
    wire::Circle circle(hub, circle_of(pair));
    serve_link(circle, peer, [&] { return meeting.store->try_get(link_key(pair)).has_value(); });
  }
}

view::LinkSpeed read_speed(std::istream& words) {
  std::string round_trip;
  std::string rate;
  words >> round_trip >> rate;
  return {.round_trip_us = text::parse_number(round_trip).value_or(-1),
          .bytes_per_s = text::parse_number(rate).value_or(-1)};
}

view::Link read_link(const Meeting& meeting, HostPair pair) {
  view::Link link{.from = pair.called, .to = pair.caller};
  try {
    std::istringstream words(meeting.store->get(link_key(pair), meeting.patience));
    const view::LinkSpeed speed = read_speed(words);
    link.round_trip_us = speed.round_trip_us;
    link.bytes_per_s = speed.bytes_per_s;
    link.other = read_speed(words);
    std::getline(words >> std::ws, link.problem);
  } catch (const TimeoutError&) {
    link.problem = kNotInTime;
  }
  return link;
}

/// Returns the name of the ranks' wire.
std::string wire_in_use() {
  const std::string wire = env::get("LOCKSTEP_WIRE").value_or("tls");
  return wire == "plain" || wire == "ucx" ? wire : "tls";
}

}  // namespace

int rounds_of(int count) { return count < 2 ? 0 : count + count % 2 - 1; }

// The circle method for round-robin tournaments: in round r, places i and j with i + j = r modulo the number of rounds
// meet, and the place that would meet itself meets the last one.
int partner_of(int place, int round, int count) {
  const int rounds = rounds_of(count);
  const int last = rounds;  // not a host if the number of hosts is odd
  int partner = last;
  if (place != last) {
    partner = ((round - place) % rounds + rounds) % rounds;
    if (partner == place) partner = last;
  } else {
    for (int each = 0; each < rounds; ++each) {
      if (2 * each % rounds == round % rounds) partner = each;
    }
  }
  return partner < count ? partner : -1;
}

std::vector<int> first_ranks(const std::vector<int>& nodes) {
  std::vector<int> ranks;
  std::set<int> seen;
  for (std::size_t rank = 0; rank < nodes.size(); ++rank) {
    if (seen.insert(nodes[rank]).second) ranks.push_back(static_cast<int>(rank));
  }
  return ranks;
}

}  // namespace launch

std::optional<view::LinkFacts> measure_links() {
  using namespace launch;  // NOLINT(google-build-using-namespace): this file's only public function
  const Meeting meeting = meet_at_store();
  const std::vector<int> ranks = first_ranks(nodes_of_ranks(meeting));
  const auto found = std::find(ranks.begin(), ranks.end(), meeting.rank);
  if (found == ranks.end()) return std::nullopt;
  const int own = static_cast<int>(found - ranks.begin());
  const int count = static_cast<int>(ranks.size());
  const std::string wire = wire_in_use();
  const std::string address = own_link_address(meeting);
  const Hubs hubs = open_hubs(meeting, address, wire);
  view::LinkFacts facts{.hosts = introduce(meeting, address, ranks), .wire = wire};
  for (int round = 0; round < rounds_of(count); ++round) {
    const int partner = partner_of(own, round, count);
    if (partner < 0) continue;
    const int peer = ranks[static_cast<std::size_t>(partner)];
    if (partner < own) measure_with(meeting, hubs, {partner, own}, peer);
    if (partner > own) serve_partner(meeting, hubs, {own, partner}, peer);
  }
  if (own != 0) return std::nullopt;
  for (int from = 0; from < count; ++from) {
    for (int to = from + 1; to < count; ++to) facts.links.push_back(read_link(meeting, {from, to}));
  }
  return facts;
}

}  // namespace lockstep
