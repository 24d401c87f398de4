// SPDX-License-Identifier: Apache-2.0
#include "lockstep/simulate/cluster.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/number.h"

namespace lockstep::simulate {
namespace {

// TCP with timestamps carries 1,448 bytes in an Ethernet frame of 1,538 bytes, including preamble and gap. Exchanges
// use both directions, and every second frame of the opposite direction is acknowledged by a 90-byte frame.
constexpr double kPayload = 1448.0 / (1538.0 + 90.0 / 2);

struct Unit {
  std::string_view name;
  double factor;
};
constexpr std::array kRates = {Unit{"Kb", 1e3}, Unit{"Mb", 1e6}, Unit{"Gb", 1e9}, Unit{"Tb", 1e12}};
constexpr std::array kTimes = {Unit{"ns", 1e-9}, Unit{"us", 1e-6}, Unit{"ms", 1e-3}};

constexpr std::array kBackends = {
    std::pair{std::string_view("auto"), Backend::kAuto}, std::pair{std::string_view("tcp"), Backend::kTcp},
    std::pair{std::string_view("shm"), Backend::kShm}, std::pair{std::string_view("shm+tcp"), Backend::kHierarchical},
    std::pair{std::string_view("nccl"), Backend::kNccl}};

[[noreturn]] void refuse(std::string_view text, std::string_view why) {
  throw UsageError(fmt::format("the link '{}' {}", text, why),
                   "use a rate and a one-way latency, as in 100Gb/5us, 25Gb/20us or 50Mb/10ms");
}

/// Parses `part`, a number followed by a unit.
template <std::size_t Count>
double quantity(std::string_view part, const std::array<Unit, Count>& units, std::string_view whole) {
  const std::size_t letters = part.find_last_of("0123456789.") + 1;
  const auto number = text::parse_number(part.substr(0, letters));
  if (!number || !std::isfinite(*number)) refuse(whole, fmt::format("has no number in '{}'", part));
  const std::string_view unit = part.substr(letters);
  for (const Unit& known : units) {
    if (unit == known.name) return *number * known.factor;
  }
  refuse(whole, fmt::format("has the unknown unit '{}'", unit));
}

std::string time_text(double seconds) {
  if (seconds >= 1e-3) return fmt::format("{:.4g} ms", seconds * 1e3);
  return fmt::format("{:.4g} us", seconds * 1e6);
}

}  // namespace

Link parse_link(std::string_view text) {
  const std::size_t slash = text.find('/');
  if (slash == std::string_view::npos) refuse(text, "has no '/'");
  const double bits = quantity(text.substr(0, slash), kRates, text);
  const double way = quantity(text.substr(slash + 1), kTimes, text);
  if (bits <= 0) refuse(text, "has no positive rate");
  if (way < 0) refuse(text, "has a negative latency");
  return {.bytes_per_s = bits / 8 * kPayload, .latency_s = way};
}

std::string link_text(const Link& link) {
  if (link.bytes_per_s <= 0) return fmt::format("unlimited, {}", time_text(link.latency_s));
  const double rate = link.bytes_per_s;
  const std::string amount =
      rate >= 1e9 ? fmt::format("{:.3g} GB/s", rate / 1e9) : fmt::format("{:.3g} MB/s", rate / 1e6);
  return fmt::format("{}, {}", amount, time_text(link.latency_s));
}

Backend parse_backend(std::string_view text) {
  std::string known;
  for (const auto& [name, backend] : kBackends) {
    if (text == name) return backend;
    known += (known.empty() ? "" : ", ") + std::string(name);
  }
  throw UsageError(fmt::format("the backend '{}' is unknown", text), fmt::format("use one of {}", known));
}

std::string backend_text(Backend backend) {
  for (const auto& [name, value] : kBackends) {
    if (value == backend) return std::string(name);
  }
  return "auto";
}

Backend Cluster::chosen() const {
  if (backend == Backend::kNccl || backend == Backend::kTcp) return backend;
  if (machines == 1) return Backend::kShm;
  return gpus > 1 ? Backend::kHierarchical : Backend::kTcp;
}

}  // namespace lockstep::simulate
