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

std::string between(const LinkFacts& facts, const Link& link) {
  return text::printable_line(
      fmt::format("{} and {}", host_of(facts, link.from).address, host_of(facts, link.to).address));
}

std::vector<std::string> hints_of(const LinkFacts& facts) {
  std::vector<std::string> hints;
  for (const Link& link : facts.links) {
    if (!link.problem.empty()) {
      hints.push_back(
          fmt::format("{}: {}. Every rank must reach every other: look at firewalls, or choose the interface "
                      "by LOCKSTEP_SOCKET_IFNAME",
                      between(facts, link), text::printable_line(link.problem)));
      continue;
    }
    if (link.round_trip_us > kLongTrip) {
      hints.push_back(
          fmt::format("{}: {} a round trip, and each large sum takes one and a half: are they in one place and not "
                      "behind a VPN? accumulate_steps makes collectives rarer",
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
  std::vector<std::vector<std::string>> rows;
  for (const Link& link : facts.links) {
    rows.push_back({host_text(host_of(facts, link.from)), host_text(host_of(facts, link.to)),
                    link.round_trip_us < 0 ? "-" : trip_text(link.round_trip_us),
                    link.bytes_per_s < 0 ? "-" : bandwidth_text(link.bytes_per_s)});
  }
  if (rows.empty()) return "all ranks are on one host: there is no link to measure\n";
  std::string page = render_table({{.title = "from", .align = Align::kLeft},
                                   {.title = "to", .align = Align::kLeft},
                                   {.title = "round trip"},
                                   {.title = "bandwidth"}},
                                  rows);
  for (const std::string& hint : hints_of(facts)) page += "-> " + hint + "\n";
  return page;
}

std::string links_json(const LinkFacts& facts) {
  std::string lines;
  const auto number = [](double value, int decimals) {
    return value < 0 ? "null" : text::json_number(value, decimals);
  };
  for (const Link& link : facts.links) {
    lines += fmt::format(R"({{"link": "tcp", "from": {}, "to": {}, "round_trip_us": {}, "gbit_per_s": {}, )"
                         R"("problem": {}}})"
                         "\n",
                         text::json_quote(host_of(facts, link.from).address),
                         text::json_quote(host_of(facts, link.to).address), number(link.round_trip_us, 1),
                         number(link.bytes_per_s < 0 ? -1 : link.bytes_per_s * 8 / 1e9, 3),
                         link.problem.empty() ? "null" : text::json_quote(link.problem));
  }
  return lines;
}

bool is_any_link_broken(const LinkFacts& facts) {
  return std::any_of(facts.links.begin(), facts.links.end(), [](const Link& link) { return !link.problem.empty(); });
}

}  // namespace lockstep::view
