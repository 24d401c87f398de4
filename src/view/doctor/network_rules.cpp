// SPDX-License-Identifier: Apache-2.0
// Rules for ports, names, interfaces and clocks.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "lockstep/base/text.h"
#include "view/doctor/rules.h"

namespace lockstep::view {
namespace {

constexpr int kGigabit = 1000;
constexpr double kSlowReading = 300;

bool names_loopback(const std::string& address) { return address == "::1" || address.starts_with("127."); }

/// Returns true for the bridges of containers and virtual machines, which do not lead to other hosts.
bool is_bridge(const std::string& name) {
  constexpr std::array<std::string_view, 6> kStarts = {"docker", "br-", "virbr", "veth", "cni", "lxc"};
  return std::any_of(kStarts.begin(), kStarts.end(), [&](auto start) { return name.starts_with(start); });
}

const InterfaceFacts* interface_of(const NetworkFacts& facts, const std::string& name) {
  const auto found = std::find_if(facts.interfaces.begin(), facts.interfaces.end(),
                                  [&](const InterfaceFacts& each) { return each.name == name; });
  return found == facts.interfaces.end() ? nullptr : &*found;
}

std::string speed_text(int megabits) {
  return megabits >= kGigabit ? fmt::format("{:g} Gbit/s", megabits / 1000.0) : fmt::format("{} Mbit/s", megabits);
}

/// Returns "eth0 192.0.2.2 (10 Gbit/s)": the first address of each interface.
std::string interfaces_text(const NetworkFacts& facts) {
  std::vector<std::string> parts;
  std::vector<std::string> seen;
  for (const InterfaceFacts& each : facts.interfaces) {
    if (each.is_loopback || std::find(seen.begin(), seen.end(), each.name) != seen.end()) continue;
    seen.push_back(each.name);
    parts.push_back(each.name + " " + each.address);
    if (each.megabits > 0) parts.back() += fmt::format(" ({})", speed_text(each.megabits));
  }
  return text::join(parts);
}

}  // namespace

Check check_ports(const PortFacts& facts) {
  Check check{.name = "ports",
              .value = fmt::format("{} is {}, ephemeral {} to {}", facts.default_port, facts.is_free ? "free" : "taken",
                                   facts.ephemeral_low, facts.ephemeral_high)};
  if (!facts.is_free) {
    add_finding(check, Health::kWarn,
                "for a job of several nodes with rank 0 here, choose another port with --master-port; on one node "
                "Lockstep finds a free one");
  }
  if (facts.ephemeral_low <= facts.default_port && facts.default_port <= facts.ephemeral_high) {
    add_finding(
        check, Health::kWarn,
        "any connection may take the default port for a while: run sysctl net.ipv4.ip_local_port_range='32768 60999'");
  }
  if (facts.ephemeral_high - facts.ephemeral_low < 1000) {
    add_finding(check, Health::kWarn,
                "ranks need a port for each connection: run sysctl net.ipv4.ip_local_port_range='32768 60999'");
  }
  return check;
}

Check check_host_name(const NetworkFacts& facts) {
  Check check{.name = "host name"};
  constexpr const char* kRemedy =
      "put this host's address before its name in /etc/hosts, or pass other programs the address (--master-addr); "
      "Lockstep's ranks do not need the name";
  if (!facts.has_answer) {
    check.value = fmt::format("{}, no answer from the resolver", facts.host_name);
    add_finding(check, Health::kWarn, "every program that looks up a name waits: check /etc/resolv.conf");
    return check;
  }
  if (facts.host_addresses.empty()) {
    check.value = fmt::format("{}, which has no address", facts.host_name);
    add_finding(check, Health::kWarn, kRemedy);
    return check;
  }
  check.value = fmt::format("{} is {}", facts.host_name, text::join(facts.host_addresses));
  const bool is_loopback = std::all_of(facts.host_addresses.begin(), facts.host_addresses.end(), names_loopback);
  // Without another address, no other host can reach this host.
  if (is_loopback && !facts.outward.empty()) {
    add_finding(check, Health::kWarn,
                fmt::format("other hosts cannot reach {} at that address: {}", facts.host_name, kRemedy));
  }
  return check;
}

Check check_interfaces(const NetworkFacts& facts) {
  Check check{.name = "interfaces", .value = interfaces_text(facts)};
  if (check.value.empty()) {
    check.value = "only the loopback: this host cannot join a job of several hosts";
  } else if (facts.outward.empty()) {
    check.value += "; none leads to other hosts";
  } else {
    check.value += fmt::format("; {} leads to other hosts", facts.outward);
  }
  if (is_bridge(facts.outward)) {
    add_finding(
        check, Health::kWarn,
        fmt::format("the route leads through {}, a container bridge: LOCKSTEP_SOCKET_IFNAME=NAME chooses another",
                    facts.outward));
  }
  if (!facts.named_interface.empty() && interface_of(facts, facts.named_interface) == nullptr) {
    add_finding(check, Health::kBad,
                fmt::format("{} is '{}', which matches no interface of this host", facts.interface_variable,
                            facts.named_interface));
  }
  if (!facts.fabric_ports.empty() && facts.wire != "ucx") {
    add_finding(
        check, Health::kWarn,
        fmt::format(
            "InfiniBand or RoCE is active ({}): --wire ucx (needs libucx0) sends tensors in host memory over it",
            text::join(facts.fabric_ports)));
  }
  const InterfaceFacts* outward = interface_of(facts, facts.outward);
  if (outward != nullptr && outward->megabits > 0 && outward->megabits < kGigabit) {
    add_finding(check, Health::kWarn,
                fmt::format("gradients of several hosts pass through {}: check the cable and the switch",
                            speed_text(outward->megabits)));
  }
  return check;
}

Check check_clock(const ClockFacts& facts) {
  Check check{.name = "clock",
              .value = fmt::format("{}, {:.0f} ns a reading", facts.source.empty() ? "unknown source" : facts.source,
                                   facts.reading_ns)};
  if (facts.is_synchronised) {
    check.value += *facts.is_synchronised ? fmt::format(", synchronised (error below {:.3f} s)", facts.error_s)
                                          : ", not synchronised";
  }
  if (facts.source == "hpet" || facts.source == "acpi_pm" || facts.reading_ns > kSlowReading) {
    add_finding(check, Health::kWarn,
                "every timer of a step reads the clock: set clocksource=tsc on the kernel's command line, unless dmesg "
                "says that the TSC is unstable");
  }
  if (facts.is_synchronised && !*facts.is_synchronised) {
    add_finding(check, Health::kWarn,
                "the times in the logs of several hosts do not match: start chrony or systemd-timesyncd; a virtual "
                "machine may use its host's clock");
  }
  return check;
}

}  // namespace lockstep::view
