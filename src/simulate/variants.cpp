// SPDX-License-Identifier: Apache-2.0
#include "lockstep/simulate/variants.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

namespace lockstep::simulate {
namespace {

constexpr std::int64_t kPieceBytes = std::int64_t{128} << 10;
constexpr std::int64_t kMostPieces = 512;                    // pieces of a bucket
constexpr std::int64_t kFirstBytes = std::int64_t{1} << 20;  // the limit of the first bucket by default
constexpr double kLeastCompression = 2;                      // PowerSgdOptions::min_compression_rate

// Costs of passes over the gradients, in units of a copy, which reads and writes four bytes per element.
constexpr double kToBf16 = 10.0 / 8;          // reads 4 and writes 2; divides in place, 2 and 2
constexpr double kFromBf16 = 6.0 / 8;         // reads 2 and writes 4
constexpr double kPowerSgdP = 16.0 / 8;       // adds the last error, 8 and 4; reads 4 for M Q
constexpr double kPowerSgdQ = 4.0 / 8;        // reads 4 for M^T P
constexpr double kPowerSgdResult = 24.0 / 8;  // writes P Q^T, 4; the new error, 8 and 4; the result, 4 and 4

double copying(double bytes, const HostCosts& host) {
  return host.copy_bytes_per_s > 0 ? bytes / host.copy_bytes_per_s : 0;
}

/// Delays the events after `offset`, and with `from_there` also the events at `offset`.
void insert_work(MeasuredStep& step, double offset, double seconds, bool from_there) {
  const auto shift = [&](double& time) {
    if (time > offset || (from_there && time == offset)) time += seconds;
  };
  for (Call& call : step.calls) {
    shift(call.called_s);
    if (call.waited_s >= 0) shift(call.waited_s);
  }
  shift(step.backward_s);
  shift(step.optimizer_end_s);
  step.compute_s += seconds;
}

bool is_bucket(const Call& call) { return call.bucket >= 0; }

/// Returns the time at which the rank waits for the buckets.
double end_of_backward(const MeasuredStep& step) {
  double end = 0;
  for (const Call& call : step.calls) {
    if (is_bucket(call)) end = std::max(end, std::max(call.called_s, call.waited_s));
  }
  return end;
}

struct Piece {
  std::int64_t bytes;
  double ready_s;
};

/// Returns the smallest size at which a measured bucket was closed, ignoring the first and the last bucket; 0 if
/// unknown.
std::int64_t measured_limit(const std::vector<std::int64_t>& buckets) {
  return buckets.size() < 3 ? 0 : *std::min_element(buckets.begin() + 1, buckets.end() - 1);
}

/// Returns true if a measured bucket stays whole in a plan with buckets of `wanted` bytes. The bytes beyond its limit
/// belong to one parameter, which no plan divides. If `wanted` is about the measured size or larger, planned buckets
/// end only where measured buckets end. A single bucket was never closed, so its limit is unknown.
bool stays_whole(const std::vector<std::int64_t>& buckets, std::size_t index, std::int64_t wanted) {
  if (index == 0 && buckets.size() > 1 && buckets[0] > 2 * kFirstBytes) return true;
  const std::int64_t limit = measured_limit(buckets);
  return limit > 0 && (buckets[index] > 2 * limit || wanted + wanted / 4 >= limit);
}

/// Returns a step's gradients in order of arrival, cut into pieces that no bucket of `wanted` bytes divides further.
std::vector<Piece> pieces_of(const MeasuredStep& step, std::int64_t wanted) {
  const std::vector<std::int64_t> buckets = bucket_bytes(step);
  std::size_t index = 0;
  std::vector<Piece> pieces;
  double before = step.backward_s;
  for (const Call& call : step.calls) {
    if (!is_bucket(call)) continue;
    before = std::min(before, call.called_s);
    const std::int64_t most = stays_whole(buckets, index++, wanted) ? 1 : kMostPieces;
    const std::int64_t count = std::clamp<std::int64_t>((call.bytes + kPieceBytes - 1) / kPieceBytes, 1, most);
    for (std::int64_t i = 0; i < count; ++i) {
      const double part = static_cast<double>(i + 1) / static_cast<double>(count);
      pieces.push_back(
          {call.bytes * (i + 1) / count - call.bytes * i / count, before + (call.called_s - before) * part});
    }
    before = call.called_s;
  }
  return pieces;
}

/// Replaces the step's buckets with `buckets`.
void replace_buckets(MeasuredStep& step, const std::vector<Call>& buckets) {
  std::vector<Call> calls;
  bool placed = false;
  for (const Call& call : step.calls) {
    if (!is_bucket(call)) {
      calls.push_back(call);
    } else if (!std::exchange(placed, true)) {
      calls.insert(calls.end(), buckets.begin(), buckets.end());
    }
  }
  step.calls = std::move(calls);
}

/// Returns the bytes that PowerSGD sends for each bucket. Parameters fill the buckets in reverse order of registration.
std::vector<PowerSgdBytes> bytes_by_bucket(const Workload& workload, std::int64_t rank) {
  std::vector<PowerSgdBytes> sent;
  auto shape = workload.shapes.rbegin();
  for (const std::int64_t bytes : bucket_bytes(workload.steps.front())) {
    PowerSgdBytes sum;
    std::int64_t taken = 0;
    for (; shape != workload.shapes.rend() && taken < bytes; ++shape) {
      const PowerSgdBytes one = power_sgd_bytes(*shape, rank);
      sum.p += one.p;
      sum.q += one.q;
      sum.plain += one.plain;
      taken += std::accumulate(shape->begin(), shape->end(), std::int64_t{4}, std::multiplies<>());
    }
    sum.plain += std::max<std::int64_t>(bytes - taken, 0);  // bytes of parameters whose shapes are unknown
    sent.push_back(sum);
  }
  return sent;
}

}  // namespace

Workload with_buckets(const Workload& workload, const PlanLimits& limits) {
  Workload changed = workload;
  if (workload.steps.empty()) return changed;
  std::vector<PlanItem> items;
  for (const Piece& piece : pieces_of(workload.steps.front(), limits.bytes)) items.push_back({.bytes = piece.bytes});
  std::vector<std::size_t> order(items.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto plan = plan_buckets(items, order, limits);
  for (MeasuredStep& step : changed.steps) {
    const std::vector<Piece> pieces = pieces_of(step, limits.bytes);
    const double end = end_of_backward(step);
    std::vector<Call> buckets;
    for (const auto& members : plan) {
      Call call{.bucket = static_cast<int>(buckets.size()), .waited_s = end};
      for (const std::size_t i : members) {
        call.bytes += pieces[i].bytes;
        call.called_s = std::max(call.called_s, pieces[i].ready_s);
      }
      buckets.push_back(call);
    }
    replace_buckets(step, buckets);
  }
  return changed;
}

Workload with_bf16(const Workload& workload, const HostCosts& host) {
  Workload changed = workload;
  for (MeasuredStep& step : changed.steps) {
    for (std::size_t i = 0; i < step.calls.size(); ++i) {
      if (!is_bucket(step.calls[i])) continue;
      insert_work(step, step.calls[i].called_s, copying(kToBf16 * static_cast<double>(step.calls[i].bytes), host),
                  true);
    }
    insert_work(step, end_of_backward(step), copying(kFromBf16 * static_cast<double>(gradient_bytes(step)), host),
                false);
    for (Call& call : step.calls) {
      if (is_bucket(call)) call.bytes = (call.bytes + 1) / 2;
    }
  }
  return changed;
}

PowerSgdBytes power_sgd_bytes(const std::vector<std::int64_t>& shape, std::int64_t rank) {
  const std::int64_t numel = std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
  const std::int64_t rows = shape.empty() ? 1 : std::max<std::int64_t>(shape.front(), 1);
  const std::int64_t columns = numel / rows;
  const std::int64_t used = std::min({rows, columns, rank});
  const bool pays = static_cast<double>((rows + columns) * used) * kLeastCompression < static_cast<double>(numel);
  if (!pays) return {.plain = numel * 4};
  return {.p = rows * used * 4, .q = columns * used * 4};
}

Workload with_power_sgd(const Workload& workload, std::int64_t rank, const HostCosts& host) {
  Workload changed = workload;
  if (workload.steps.empty()) return changed;
  const std::vector<PowerSgdBytes> sent = bytes_by_bucket(workload, rank);
  for (MeasuredStep& step : changed.steps) {
    const auto all = static_cast<double>(gradient_bytes(step));
    for (std::size_t i = 0; i < step.calls.size(); ++i) {
      if (!is_bucket(step.calls[i])) continue;
      insert_work(step, step.calls[i].called_s, copying(kPowerSgdP * static_cast<double>(step.calls[i].bytes), host),
                  true);
    }
    const double end = end_of_backward(step);
    const double between = copying(kPowerSgdQ * all, host);
    insert_work(step, end, between + copying(kPowerSgdResult * all, host), false);
    std::vector<Call> first;
    std::vector<Call> second;
    for (const Call& call : step.calls) {
      if (!is_bucket(call)) continue;
      const PowerSgdBytes& bytes = sent[second.size()];
      for (const std::int64_t part : {bytes.plain, bytes.p}) {
        Call round = call;
        round.bytes = part;
        if (part > 0) first.push_back(round);
      }
      second.push_back({.bytes = bytes.q, .bucket = call.bucket, .called_s = end + between, .waited_s = end + between});
    }
    std::erase_if(second, [](const Call& call) { return call.bytes == 0; });
    first.insert(first.end(), second.begin(), second.end());
    replace_buckets(step, first);
  }
  return changed;
}

Workload with_zero(const Workload& workload, int ranks) {
  Workload changed = workload;
  for (MeasuredStep& step : changed.steps) {
    std::vector<Call> gathers;
    for (Call& call : step.calls) {
      if (!is_bucket(call)) continue;
      call.kind = CallKind::kReduceScatter;
      gathers.push_back({.kind = CallKind::kAllGather, .bytes = call.bytes});
    }
    insert_work(step, step.optimizer_end_s, -step.optimizer_s * (1 - 1.0 / ranks), false);
    step.optimizer_end_s -= step.optimizer_s * (1 - 1.0 / ranks);
    for (Call& gather : gathers) gather.called_s = gather.waited_s = step.optimizer_end_s;
    const auto later = std::find_if(step.calls.begin(), step.calls.end(),
                                    [&](const Call& call) { return call.called_s > step.optimizer_end_s; });
    step.calls.insert(later, gathers.begin(), gathers.end());
  }
  return changed;
}

}  // namespace lockstep::simulate
