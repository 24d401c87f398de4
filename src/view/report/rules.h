// SPDX-License-Identifier: Apache-2.0
// The rules of the step report: each looks for one cause in the figures and returns it, or none. Pure.
//
// A rule has to be right rather than quick: it compares ranks with each other if it can, so that load that hits all
// alike is no finding.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "lockstep/view/step_report.h"

namespace lockstep::view {

// Shorter stretches belong to the start of a run: first batches, first allocations.
inline constexpr std::int64_t kFewestSteps = 20;
inline constexpr double kShortestSeconds = 1.0;

// Steps that wait less lose less than a change of settings costs, and the starts of epochs alone cost some percent.
inline constexpr double kMuchWaiting = 0.15;
// Workers rest while the queue of batches is full; those that a step waits for hardly rest.
inline constexpr double kAlwaysBusy = 0.7;
// A worker that is neither on a core nor waiting for one is in a read, or another call that blocks.
inline constexpr double kMostlyBlocked = 0.5;
// Ranks with equal loads wait for the slowest by chance; the batches of that one cost as much as the others'.
inline constexpr double kCostlierBatch = 1.5;
// If workers already wait for a core, more of them would not help.
inline constexpr double kOftenDelayed = 0.3;
// The idle part of a core that is certain: measured use of cores differs by some percent.
inline constexpr double kSpareCores = 0.25;
// The share of the cores in use that counts as all of them.
inline constexpr double kAllCores = 0.85;

// A fair share of a core with one other process is half of it; under other load on the host a rank is a fifth behind by
// chance.
inline constexpr double kSharedCore = 0.25;
inline constexpr double kSlowerRank = 1.1;
// CPU time of equal work differs by up to some 10 % between cores that share caches.
inline constexpr double kMoreWork = 1.2;
// On cores that other programs use as well, CPU time differs by half, through caches and hyperthreads.
inline constexpr double kMuchMoreWork = 1.6;
inline constexpr double kCrowdedHost = 0.1;
// Load comes and goes; more work stays.
inline constexpr std::int64_t kFewestStretches = 3;
inline constexpr double kMostStretches = 0.8;
// The others' wait is the cost of unequal work.
inline constexpr double kWorthEvening = 0.08;

// Below this size a bucket's fixed costs are noticeable beside its bytes (docs/design/ddp.md).
inline constexpr double kTinyBucket = 2.0 * (1 << 20);
inline constexpr std::int64_t kManyBuckets = 8;
// The remedy is one setting, which has been changed: it is worth less waiting than the others.
inline constexpr double kWorthLargerBuckets = 0.08;
inline constexpr std::int64_t kDefaultBucketMb = 25;

// A step's peak easily exceeds the memory held at its end by this share.
inline constexpr double kLeastFree = 0.05;

using Ranks = std::vector<RankFigures>;
using RankValue = std::function<double(const RankFigures&)>;

[[nodiscard]] inline double percent(double share) { return 100 * share; }

/// Returns the median of `figure` over the ranks, without rank `but` (-1: none); of two values the lower one.
[[nodiscard]] double median_of(const Ranks& ranks, const RankValue& figure, std::int64_t but = -1);
/// Returns the index of the rank with the largest `figure`.
[[nodiscard]] std::int64_t largest(const Ranks& ranks, const RankValue& figure);

[[nodiscard]] double data_share(const RankFigures& rank);
/// Returns the share of the workers' busy time in which they were blocked.
[[nodiscard]] double blocked_share(const RankFigures& rank);
[[nodiscard]] double delayed_share(const WorkerFigures& workers);
[[nodiscard]] bool is_always_busy(const RankFigures& rank);
/// Returns the number of cores that `rank` may use and the run does not.
[[nodiscard]] double spare_cores(const Ranks& ranks, const RankFigures& rank);

[[nodiscard]] std::optional<Finding> find_slow_disk(const Ranks& ranks, const ReportSettings& settings);
[[nodiscard]] std::optional<Finding> find_few_workers(const Ranks& ranks, const ReportSettings& settings);
[[nodiscard]] std::optional<Finding> find_costly_loading(const Ranks& ranks, const ReportSettings& settings);
[[nodiscard]] std::optional<Finding> find_unbalanced_loader(const Ranks& ranks, const ReportSettings& settings);
[[nodiscard]] std::optional<Finding> find_busy_core(const Ranks& ranks, const ReportSettings& settings);
[[nodiscard]] std::optional<Finding> find_more_work(const Ranks& ranks, const ReportSettings& settings);
[[nodiscard]] std::optional<Finding> find_tiny_buckets(const Ranks& ranks, const ReportSettings& settings);
[[nodiscard]] std::optional<Finding> find_little_memory(const Ranks& ranks, const ReportSettings& settings);

/// Returns true if `rank` has cost `ratio` of the others' median in most stretches, at least since it became slower.
[[nodiscard]] bool is_steady(const Ranks& ranks, std::int64_t rank, double ratio,
                             const std::function<double(const Stretch&)>& cost);

/// Returns the first step from which on `rank` has been slower than the others; none if it always was, or the stretches
/// do not show it.
[[nodiscard]] std::optional<std::int64_t> slower_since(const Ranks& ranks, std::int64_t rank,
                                                       const std::function<double(const Stretch&)>& cost);

}  // namespace lockstep::view
