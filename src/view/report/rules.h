// SPDX-License-Identifier: Apache-2.0
// The rules of the step report: each is a pure function that looks for one cause in the metrics and returns it, or
// none.
//
// A rule prefers being right to being early. It compares ranks with each other if it can, so that load that affects all
// ranks alike is not a finding.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "lockstep/view/step_report.h"

namespace lockstep::view {

// Shorter stretches belong to the start of a run: first batches, first allocations.
inline constexpr std::int64_t kFewestSteps = 20;
inline constexpr double kShortestSeconds = 1.0;

// With less waiting, too little time is lost to justify changing settings; the starts of epochs alone cost a few
// percent.
inline constexpr double kMuchWaiting = 0.15;
// Workers idle while the batch queue is full. Workers that a step is waiting for are hardly ever idle.
inline constexpr double kAlwaysBusy = 0.7;
// A worker that neither runs nor waits for a core is in a read or another blocking call.
inline constexpr double kMostlyBlocked = 0.5;
// With equal loads one rank is the slowest by chance, but its batches cost as much as those of the other ranks.
inline constexpr double kCostlierBatch = 1.5;
// If workers already wait for a core, more workers would not help.
inline constexpr double kOftenDelayed = 0.3;
// The smallest idle share of a core that is certain, because measured core use varies by a few percent.
inline constexpr double kSpareCores = 0.25;
// The share of cores in use above which all cores count as busy.
inline constexpr double kAllCores = 0.85;

// Two processes on a core get half of it each. Under other load on the host a rank may be a fifth slower by chance.
inline constexpr double kSharedCore = 0.25;
inline constexpr double kSlowerRank = 1.1;
// CPU time for equal work differs by up to about 10 % between cores that share caches.
inline constexpr double kMoreWork = 1.2;
// On cores that other programs also use, CPU time differs by half, because of caches and hyperthreads.
inline constexpr double kMuchMoreWork = 1.6;
inline constexpr double kCrowdedHost = 0.1;
// Load from other programs comes and goes, but additional work remains.
inline constexpr std::int64_t kFewestStretches = 3;
inline constexpr double kMostStretches = 0.8;
// The wait of the other ranks above which unequal work is worth evening out.
inline constexpr double kWorthEvening = 0.08;

// Below this size a bucket's fixed costs are noticeable compared with its bytes (docs/design/ddp.md).
inline constexpr double kTinyBucket = 2.0 * (1 << 20);
inline constexpr std::int64_t kManyBuckets = 8;
// The remedy is just to reset one changed setting, so less waiting is enough for this finding than for others.
inline constexpr double kWorthLargerBuckets = 0.08;
inline constexpr std::int64_t kDefaultBucketMb = 25;

// A step's peak memory easily exceeds the memory at its end by this share.
inline constexpr double kLeastFree = 0.05;

using Ranks = std::vector<RankFigures>;
using RankValue = std::function<double(const RankFigures&)>;

[[nodiscard]] inline double percent(double share) { return 100 * share; }

/// Returns the median of `figure` over the ranks except rank `but` (-1: all ranks); the lower of two middle values.
[[nodiscard]] double median_of(const Ranks& ranks, const RankValue& figure, std::int64_t but = -1);
/// Returns the index of the rank with the largest `figure`.
[[nodiscard]] std::int64_t largest(const Ranks& ranks, const RankValue& figure);

[[nodiscard]] double data_share(const RankFigures& rank);
/// Returns the share of the workers' busy time in which they were blocked.
[[nodiscard]] double blocked_share(const RankFigures& rank);
[[nodiscard]] double delayed_share(const WorkerFigures& workers);
[[nodiscard]] bool is_always_busy(const RankFigures& rank);
/// Returns the number of cores that `rank` may use and that the run does not use.
[[nodiscard]] double spare_cores(const Ranks& ranks, const RankFigures& rank);

[[nodiscard]] std::optional<Finding> find_slow_disk(const Ranks& ranks, const ReportSettings& settings);
[[nodiscard]] std::optional<Finding> find_few_workers(const Ranks& ranks, const ReportSettings& settings);
[[nodiscard]] std::optional<Finding> find_costly_loading(const Ranks& ranks, const ReportSettings& settings);
[[nodiscard]] std::optional<Finding> find_unbalanced_loader(const Ranks& ranks, const ReportSettings& settings);
[[nodiscard]] std::optional<Finding> find_busy_core(const Ranks& ranks, const ReportSettings& settings);
[[nodiscard]] std::optional<Finding> find_more_work(const Ranks& ranks, const ReportSettings& settings);
[[nodiscard]] std::optional<Finding> find_tiny_buckets(const Ranks& ranks, const ReportSettings& settings);
[[nodiscard]] std::optional<Finding> find_little_memory(const Ranks& ranks, const ReportSettings& settings);

/// Returns true if the cost of `rank` was at least `ratio` times the others' median in most stretches, or in most since
/// it became slower.
[[nodiscard]] bool is_steady(const Ranks& ranks, std::int64_t rank, double ratio,
                             const std::function<double(const Stretch&)>& cost);

/// Returns the step from which `rank` has been slower than the other ranks; none if it always was, or if the stretches
/// do not show it.
[[nodiscard]] std::optional<std::int64_t> slower_since(const Ranks& ranks, std::int64_t rank,
                                                       const std::function<double(const Stretch&)>& cost);

}  // namespace lockstep::view
