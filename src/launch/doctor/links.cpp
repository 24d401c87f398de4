// SPDX-License-Identifier: Apache-2.0
// Ranks meet through the launcher's store; the first rank of each node measures, and rank 0 collects what they found.
#include "launch/doctor/links.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <set>
#include <sstream>
#include <string>

#include "launch/doctor/link_socket.h"
#include "launch/nodes/addresses.h"
#include "lockstep/base/env.h"
#include "lockstep/base/error.h"
#include "lockstep/base/number.h"
#include "lockstep/launch/doctor.h"
#include "lockstep/store/interface_choice.h"
#include "lockstep/store/store.h"

namespace lockstep {
namespace launch {
namespace {

using std::chrono::milliseconds;

constexpr auto kLook = milliseconds(200);

struct Meeting {
  std::shared_ptr<Store> store;
  std::string store_host;
  milliseconds patience;
  int rank = 0;
  int world = 1;
};

struct Peer {
  view::LinkHost host;
  LinkAddress address;
};

Meeting meet_at_store() {
  const std::string address = env::get("LOCKSTEP_STORE").value_or("");
  const auto colon = address.rfind(':');
  const auto rank = env::get_int("RANK");
  const auto world = env::get_int("WORLD_SIZE");
  int port = 0;
  if (colon != std::string::npos) std::from_chars(address.data() + colon + 1, address.data() + address.size(), port);
  if (!rank || !world || port <= 0 || port > 65535 || *rank < 0 || *rank >= *world) {
    throw UsageError("lockstep doctor measures between hosts only under lockstep run",
                     "lockstep run --nnodes 2 ... -- lockstep doctor; alone it checks this machine");
  }
  Meeting meeting{.store_host = address.substr(0, colon),
                  .patience = env::collective_timeout(),
                  .rank = static_cast<int>(*rank),
                  .world = static_cast<int>(*world)};
  const StoreAddress at{.host = meeting.store_host,
                        .port = static_cast<std::uint16_t>(port),
                        .token = env::get("LOCKSTEP_STORE_TOKEN").value_or("")};
  const int restarts = static_cast<int>(env::get_int("TORCHELASTIC_RESTART_COUNT").value_or(0));
  meeting.store = with_prefix(connect_store(at, meeting.patience), attempt_prefix(restarts) + "lockstep/doctor/");
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

/// The interface that the ranks themselves would use.
std::string own_link_address(const Meeting& meeting) {
  const auto choice = store::choose_interface(store::wishes_towards(meeting.store_host), store::list_interfaces());
  if (choice) return choice->address;
  throw IoError(fmt::format("this host has no route to the store at {}", meeting.store_host));
}

std::vector<Peer> introduce(const Meeting& meeting, const LinkAddress& own, const std::vector<int>& ranks) {
  meeting.store->set(fmt::format("host/{}", meeting.rank),
                     fmt::format("{} {} {} {}", own.address, own.port, own.password, host_id()));
  std::vector<Peer> peers;
  for (const int rank : ranks) {
    std::istringstream words(meeting.store->get(fmt::format("host/{}", rank), meeting.patience));
    Peer peer{.host = {.rank = rank}};
    words >> peer.host.address >> peer.address.port >> peer.address.password;
    std::getline(words >> std::ws, peer.host.name);
    peer.address.address = peer.host.address;
    peers.push_back(std::move(peer));
  }
  return peers;
}

std::string link_key(int from, int to) { return fmt::format("link/{}-{}", from, to); }

void measure_with(const Meeting& meeting, const std::vector<Peer>& peers, int own, int partner) {
  std::string said;
  try {
    const UniqueFd fd = connect_link(peers[static_cast<std::size_t>(partner)].address, own);
    const LinkFigures figures = measure_link(fd.get());
    said = fmt::format("{} {}", figures.round_trip_us, figures.bytes_per_s);
  } catch (const IoError& problem) {
    said = fmt::format("-1 -1 {}", problem.message());
  }
  meeting.store->set(link_key(own, partner), said);
}

/// Until the partner comes, or has said that it cannot.
void serve_partner(const Meeting& meeting, LinkListener& listener, int own, int partner) {
  const auto end = std::chrono::steady_clock::now() + meeting.patience;
  while (std::chrono::steady_clock::now() < end) {
    const UniqueFd fd = listener.accept_from(partner, kLook);
    if (fd.valid()) return serve_link(fd.get());
    if (meeting.store->try_get(link_key(partner, own))) return;
  }
}

view::Link read_link(const Meeting& meeting, int from, int to) {
  view::Link link{.from = from, .to = to};
  try {
    std::istringstream words(meeting.store->get(link_key(from, to), meeting.patience));
    std::string round_trip;
    std::string rate;
    words >> round_trip >> rate;
    link.round_trip_us = text::parse_number(round_trip).value_or(-1);
    link.bytes_per_s = text::parse_number(rate).value_or(-1);
    std::getline(words >> std::ws, link.problem);
  } catch (const TimeoutError&) {
    link.problem = "it was not measured in time";
  }
  return link;
}

}  // namespace

int rounds_of(int count) { return count < 2 ? 0 : count + count % 2 - 1; }

// The circle method of tournaments: in round r the places i and j with i + j = r modulo the rounds meet, and the one
// that would meet itself meets the last.
int partner_of(int place, int round, int count) {
  const int rounds = rounds_of(count);
  const int last = rounds;  // beyond the hosts where their number is odd
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
  LinkListener listener(own_link_address(meeting));
  const std::vector<Peer> peers = introduce(meeting, listener.address(), ranks);
  for (int round = 0; round < rounds_of(count); ++round) {
    const int partner = partner_of(own, round, count);
    if (partner > own) measure_with(meeting, peers, own, partner);
    if (partner >= 0 && partner < own) serve_partner(meeting, listener, own, partner);
  }
  if (own != 0) return std::nullopt;
  view::LinkFacts facts;
  for (const Peer& peer : peers) facts.hosts.push_back(peer.host);
  for (int from = 0; from < count; ++from) {
    for (int to = from + 1; to < count; ++to) facts.links.push_back(read_link(meeting, from, to));
  }
  return facts;
}

}  // namespace lockstep
