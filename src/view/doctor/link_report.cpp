// SPDX-License-Identifier: Apache-2.0
#include "lockstep/view/link_report.h"

#include <fmt/format.h>

#include <algorithm>

#include "lockstep/base/number.h"
#include "lockstep/base/printable.h"
#include "lockstep/base/text.h"
#include "lockstep/view/table.h"

namespace lockstep::view {
namespace {

constexpr double kLongTrip = 1000;       // microseconds
constexpr double kGigabitBytes = 125e6;  // bytes per second

const LinkHost& host_of(const LinkFacts& facts, int place) { return facts.hosts.at(static_cast<std::size_t>(place)); }

std::string host_text(const LinkHost& host) {
  return text::printable_line(fmt::format("{} (rank {}, {})", host.name, host.rank, host.address));
}

std::string bandwidth_text(double bytes_per_s) {
  const double megabits = bytes_per_s * 8 / 1e6;
  return megabits >= 1000 ? fmt::format("{:.2f} Gbit/s", megabits / 1000) : fmt::format("{:.0f} Mbit/s", megabits);
}

std::string trip_text(double micros) {
  return micros >= 1000 ? fmt::format("{:.2f} ms", micros / 1000) : fmt::format("{:.0f} us", micros);
}

/// The two wires that are measured.
struct Wires {
  std::string own;
  std::string other;
};

Wires wires_of(const LinkFacts& facts) { return facts.wire == "tls" ? Wires{"tls", "plain"} : Wires{"plain", "tls"}; }

std::string between(const LinkFacts& facts, const Link& link) {
  return text::printable_line(
      fmt::format("{} and {}", host_of(facts, link.from).address, host_of(facts, link.to).address));
}

std::vector<std::string> hints_of(const LinkFacts& facts) {
  std::vector<std::string> hints;
  for (const Link& link : facts.links) {
    if (!link.problem.empty()) {
      hints.push_back(
          fmt::format("{}: {}. Every rank must reach every other: check the firewalls, or choose the interface with "
                      "LOCKSTEP_SOCKET_IFNAME",
                      between(facts, link), text::printable_line(link.problem)));
      continue;
    }
    if (link.round_trip_us > kLongTrip) {
      hints.push_back(fmt::format(
          "{}: {} per round trip, and each large all-reduce takes one and a half round trips: check that the hosts are "
          "in one place and not behind a VPN; accumulate_steps makes collectives less frequent",
          between(facts, link), trip_text(link.round_trip_us)));
    }
    if (link.bytes_per_s >= 0 && link.bytes_per_s < kGigabitBytes) {
      hints.push_back(fmt::format("{}: {}, below 1 Gbit/s: 100 MB of gradients take {:.1f} s", between(facts, link),
                                  bandwidth_text(link.bytes_per_s), 100e6 / std::max(link.bytes_per_s, 1.0)));
    }
  }
  return hints;
}

}  // namespace

std::string links_text(const LinkFacts& facts) {
  const auto trip = [](double micros) { return micros < 0 ? "-" : trip_text(micros); };
  const auto bandwidth = [](double rate) { return rate < 0 ? "-" : bandwidth_text(rate); };
  std::vector<std::vector<std::string>> rows;
  for (const Link& link : facts.links) {
    rows.push_back({host_text(host_of(facts, link.from)), host_text(host_of(facts, link.to)), trip(link.round_trip_us),
                    bandwidth(link.bytes_per_s), trip(link.other.round_trip_us), bandwidth(link.other.bytes_per_s)});
  }
  if (rows.empty()) return "all ranks are on one host: there is no link to measure\n";
  const Wires wires = wires_of(facts);
  std::string page = render_table({{.title = "from", .align = Align::kLeft},
                                   {.title = "to", .align = Align::kLeft},
                                   {.title = wires.own + " round trip"},
                                   {.title = wires.own + " bandwidth"},
                                   {.title = wires.other + " round trip"},
                                   {.title = wires.other + " bandwidth"}},
                                  rows);
  page += facts.wire == "ucx" ? "the ranks use ucx, which is not measured here\n"
                              : fmt::format("the ranks use {} (--wire, LOCKSTEP_WIRE)\n", wires.own);
  for (const std::string& hint : hints_of(facts)) page += "-> " + hint + "\n";
  return page;
}

std::string links_json(const LinkFacts& facts) {
  const auto number = [](double value, int decimals) {
    return value < 0 ? "null" : text::json_number(value, decimals);
  };
  const auto speed = [&](const std::string& before, double micros, double rate) {
    return fmt::format(R"("{0}round_trip_us": {1}, "{0}gbit_per_s": {2}, )", before, number(micros, 1),
                       number(rate < 0 ? -1 : rate * 8 / 1e9, 3));
  };
  const Wires wires = wires_of(facts);
  std::string lines;
  for (const Link& link : facts.links) {
    lines += fmt::format(R"({{"link": "tcp", "wire": "{}", "from": {}, "to": {}, )", wires.own,
                         text::json_quote(host_of(facts, link.from).address),
                         text::json_quote(host_of(facts, link.to).address));
    lines += speed("", link.round_trip_us, link.bytes_per_s);
    lines += fmt::format(R"("other_wire": "{}", )", wires.other);
    lines += speed("other_", link.other.round_trip_us, link.other.bytes_per_s);
    lines += fmt::format("\"problem\": {}}}\n", link.problem.empty() ? "null" : text::json_quote(link.problem));
  }
  return lines;
}

bool is_any_link_broken(const LinkFacts& facts) {
  return std::any_of(facts.links.begin(), facts.links.end(), [](const Link& link) { return !link.problem.empty(); });
}

}  // namespace lockstep::view
