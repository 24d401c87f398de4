// SPDX-License-Identifier: Apache-2.0
#include "simulate/wire.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace lockstep::simulate {
namespace {

// TCP in Linux: the window starts at ten segments and doubles after each round trip. During a pause it is halved for
// each retransmission timeout that passes.
constexpr double kFirstWindow = 10 * 1448;
constexpr double kLeastTimeout = 0.2;

double seconds_for(double bytes, double bytes_per_s) { return bytes_per_s > 0 ? bytes / bytes_per_s : 0; }

/// The start of the last rank, and the latest start of the other ranks.
struct LastTwo {
  double last;
  double before_last;
};

LastTwo last_two(const std::vector<double>& times, std::size_t stride) {
  LastTwo found{times.front(), std::numeric_limits<double>::lowest()};
  for (std::size_t i = stride; i < times.size(); i += stride) {
    found.before_last = std::max(found.before_last, std::min(times[i], found.last));
    found.last = std::max(found.last, times[i]);
  }
  return found;
}

}  // namespace

void Wire::run(const Phase& phase, std::vector<double>& times) {
  switch (phase.among) {
    case Among::kAll:
    case Among::kLeaders:
      if (phase.distance > 0) return pass_on(phase, times, phase.among == Among::kLeaders);
      return exchange(phase, times, phase.among == Among::kLeaders);
    case Among::kRoot:
      return send_from_root(phase, times, false);
    case Among::kRootOfLeaders:
      return send_from_root(phase, times, true);
    case Among::kHost:
      return meet(phase, times);
    case Among::kDevices:
      return run_on_devices(phase, times);
  }
}

double Wire::way() const { return cluster_.machines > 1 ? cluster_.network.latency_s : cluster_.local.latency_s; }

double Wire::on_sockets(const Phase& phase, int messages) const {
  return seconds_for(static_cast<double>(phase.bytes) * messages, cluster_.host.socket_bytes_per_s);
}

/// Returns the duration of a message on one of `flows` connections that share the machine's link.
double Wire::transfer(const Phase& phase, int flows, double now) {
  const auto bytes = static_cast<double>(phase.bytes);
  const double rate = cluster_.network.bytes_per_s / flows;
  const double trip = cluster_.network.latency_s * 2;
  if (rate <= 0) return 0;
  Connection& connection = connections_[static_cast<std::size_t>(phase.among)];
  const double timeout = kLeastTimeout + trip;
  if (connection.window == 0) connection.window = kFirstWindow;
  for (double idle = now - connection.last_used; idle > timeout && connection.window > kFirstWindow; idle -= timeout) {
    connection.window = std::max(connection.window / 2, kFirstWindow);
  }
  double left = bytes;
  double time = 0;
  while (connection.window < rate * trip && left > connection.window) {
    left -= connection.window;
    time += trip;
    connection.window *= 2;
  }
  time += left / rate;
  connection.last_used = now + time;
  return time;
}

/// A message is sent as soon as its sender begins; the kernel keeps it until the receiver reads it. So the last rank
/// already has the messages of the other ranks, and they get its message one latency later.
void Wire::exchange(const Phase& phase, std::vector<double>& times, bool leaders) {
  const int gpus = leaders ? 1 : cluster_.gpus;
  const int ranks = gpus * cluster_.machines;
  if (ranks == 1) return;
  const auto stride = static_cast<std::size_t>(leaders ? cluster_.gpus : 1);
  const LastTwo begin = last_two(times, stride);
  double network = 0;
  if (cluster_.machines > 1) network = transfer(phase, gpus * (ranks - gpus), begin.last);
  const double inside = seconds_for(static_cast<double>(phase.bytes) * gpus * (gpus - 1), cluster_.local.bytes_per_s);
  const double took = std::max({network, inside, on_sockets(phase, ranks - 1)}) + (ranks - 1) * cluster_.host.message_s;
  for (std::size_t i = 0; i < times.size(); i += stride) {
    const double others = times[i] < begin.last ? begin.last : begin.before_last;
    times[i] = std::max(times[i], others + way()) + took;
  }
}

/// Each rank sends to the rank at `distance` before it, and receives from the rank at `distance` after it.
void Wire::pass_on(const Phase& phase, std::vector<double>& times, bool leaders) {
  const int gpus = leaders ? 1 : cluster_.gpus;
  const int ranks = gpus * cluster_.machines;
  const auto stride = static_cast<std::size_t>(leaders ? cluster_.gpus : 1);
  const int leaving = cluster_.machines > 1 ? std::min({phase.distance, ranks - phase.distance, gpus}) : 0;
  const double network = leaving > 0 ? transfer(phase, leaving, last_two(times, stride).last) : 0;
  const double inside = seconds_for(static_cast<double>(phase.bytes) * (gpus - leaving), cluster_.local.bytes_per_s);
  const double took = std::max({network, inside, on_sockets(phase, 1)}) + cluster_.host.message_s;
  const std::vector<double> begin = times;
  for (int rank = 0; rank < ranks; ++rank) {
    const auto at = [&](int other) { return begin[static_cast<std::size_t>(other % ranks) * stride]; };
    times[static_cast<std::size_t>(rank) * stride] = std::max(at(rank), at(rank + phase.distance) + way()) + took;
  }
}

void Wire::send_from_root(const Phase& phase, std::vector<double>& times, bool leaders) {
  const int gpus = leaders ? 1 : cluster_.gpus;
  const int ranks = gpus * cluster_.machines;
  if (ranks == 1) return;
  const auto stride = static_cast<std::size_t>(leaders ? cluster_.gpus : 1);
  const double begin = times.front();
  double network = 0;
  if (ranks > gpus) network = transfer(phase, ranks - gpus, begin);
  const double inside = seconds_for(static_cast<double>(phase.bytes) * (gpus - 1), cluster_.local.bytes_per_s);
  const double took = std::max({network, inside, on_sockets(phase, ranks - 1)}) + (ranks - 1) * cluster_.host.message_s;
  times.front() = begin + took;
  for (std::size_t i = stride; i < times.size(); i += stride) times[i] = std::max(times[i], begin + way()) + took;
}

void Wire::meet(const Phase& phase, std::vector<double>& times) const {
  const auto gpus = static_cast<std::size_t>(cluster_.gpus);
  const double scale = static_cast<double>(gpus) / std::max(cluster_.host.reduce_ranks, 1);
  const double took = seconds_for(static_cast<double>(phase.bytes) * scale, cluster_.host.reduce_bytes_per_s) +
                      seconds_for(static_cast<double>(phase.copied), cluster_.host.copy_bytes_per_s);
  for (std::size_t first = 0; first < times.size(); first += gpus) {
    const auto begin = times.begin() + static_cast<std::ptrdiff_t>(first);
    const auto end = begin + static_cast<std::ptrdiff_t>(gpus);
    const double last = *std::max_element(begin, end);
    std::fill(begin, end, last + took);
  }
}

/// A ring uses its slowest link (ranks - 1) times, and twice as often for an all_reduce. Trees use it log2 times and
/// send all bytes twice. NCCL takes the faster one.
void Wire::run_on_devices(const Phase& phase, std::vector<double>& times) const {
  const double last = *std::max_element(times.begin(), times.end());
  const int ranks = cluster_.ranks();
  const bool leaves = cluster_.machines > 1;
  double rate = cluster_.local.bytes_per_s;
  if (leaves && cluster_.network.bytes_per_s > 0 && (rate <= 0 || cluster_.network.bytes_per_s < rate)) {
    rate = cluster_.network.bytes_per_s;
  }
  const int passes = phase.kind == CallKind::kAllReduce ? 2 : 1;
  const double bytes = static_cast<double>(phase.bytes);
  const double ring = passes * ((ranks - 1) * way() + seconds_for(bytes * (ranks - 1) / ranks, rate));
  const double hops = std::ceil(std::log2(ranks));
  const double tree = passes * (hops * way() + seconds_for(bytes, rate));
  const double took = phase.kind == CallKind::kAllReduce ? std::min(ring, tree) : ring;
  std::fill(times.begin(), times.end(), last + took + cluster_.host.message_s);
}

}  // namespace lockstep::simulate
