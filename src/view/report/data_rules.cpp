// SPDX-License-Identifier: Apache-2.0
// The reasons why steps wait for data: the disk, too few workers, loading that needs more than the available cores, one
// rank's samples.
#include <fmt/format.h>

#include <algorithm>

#include "lockstep/base/text.h"
#include "view/report/rules.h"

namespace lockstep::view {
namespace {

/// Returns the rank that waits longest for data, which all other ranks wait for. If all load equally slowly, it is
/// chance which rank that is.
const RankFigures& slowest(const Ranks& ranks) { return ranks[static_cast<std::size_t>(largest(ranks, data_share))]; }

/// Returns how long the workers take for the batch of a step, including the time they are blocked but not the time they
/// wait for a core.
double loading_cost(const RankFigures& rank) {
  return rank.steps > 0 ? (rank.workers.busy - rank.workers.delayed) / static_cast<double>(rank.steps) : 0;
}

std::string workers_words(const RankFigures& rank) {
  if (rank.workers.count == 0) return "the training thread, which does the loading itself,";
  if (rank.workers.count == 1) return "its worker";
  return fmt::format("its {} workers", rank.workers.count);
}

std::string rate_words(const RankFigures& rank) {
  if (rank.seconds <= 0) return "";
  const double rate = static_cast<double>(rank.read_bytes) / rank.seconds;
  return text::bytes(static_cast<std::uint64_t>(std::max(0.0, rate))) + "/s";
}

bool waits_for_data(const RankFigures& rank) { return data_share(rank) >= kMuchWaiting && is_always_busy(rank); }

bool computes(const RankFigures& rank) { return blocked_share(rank) < kMostlyBlocked; }

bool has_spare(double spare, double cores) { return spare > std::max(kSpareCores, (1 - kAllCores) * cores); }

std::string more_workers(std::int64_t workers) {
  return fmt::format("workers={}", std::max<std::int64_t>(2 * workers, 2));
}

}  // namespace

double data_share(const RankFigures& rank) { return rank.share(StepPart::kData); }

double blocked_share(const RankFigures& rank) {
  const WorkerFigures& workers = rank.workers;
  return workers.busy > 0 ? std::max(0.0, workers.busy - workers.cpu - workers.delayed) / workers.busy : 0;
}

double delayed_share(const WorkerFigures& workers) { return workers.busy > 0 ? workers.delayed / workers.busy : 0; }

bool is_always_busy(const RankFigures& rank) {
  if (rank.workers.count == 0) return rank.workers.busy > 0;
  return rank.workers.busy >= kAlwaysBusy * static_cast<double>(rank.workers.count) * rank.training();
}

std::optional<Finding> find_slow_disk(const Ranks& ranks, const ReportSettings& /*settings*/) {
  const RankFigures& rank = slowest(ranks);
  if (!waits_for_data(rank) || computes(rank)) return std::nullopt;
  return Finding{
      .cause = Cause::kSlowDisk,
      .sentence = fmt::format("waiting for data takes {:.0f} % of the step: {} {} blocked {:.0f} % of the time, mostly "
                              "in reads ({})",
                              percent(data_share(rank)), workers_words(rank),
                              rank.workers.count == 1 || rank.workers.count == 0 ? "is" : "are",
                              percent(blocked_share(rank)), rate_words(rank)),
      .advice =
          "use a faster disk, or copy the data to a local one; lockstep pack turns many reads into a few large ones; "
          "more workers overlap their reads"};
}

std::optional<Finding> find_few_workers(const Ranks& ranks, const ReportSettings& settings) {
  const RankFigures& rank = slowest(ranks);
  if (!waits_for_data(rank) || !computes(rank) || delayed_share(rank.workers) > kOftenDelayed) return std::nullopt;
  const double spare = spare_cores(ranks, rank);
  if (!has_spare(spare, rank.cores)) return std::nullopt;
  return Finding{
      .cause = Cause::kFewWorkers,
      .sentence = fmt::format("waiting for data takes {:.0f} % of the step: {} always busy, and this run leaves {:.1f} "
                              "of {:.0f} cores idle",
                              percent(data_share(rank)),
                              workers_words(rank) + (rank.workers.count > 1 ? " are" : " is"), spare, rank.cores),
      .advice = fmt::format("set {} (it is {}), or pack the set once: lockstep pack", more_workers(settings.workers),
                            settings.workers)};
}

std::optional<Finding> find_costly_loading(const Ranks& ranks, const ReportSettings& /*settings*/) {
  const RankFigures& rank = slowest(ranks);
  if (!waits_for_data(rank) || !computes(rank)) return std::nullopt;
  if (has_spare(spare_cores(ranks, rank), rank.cores)) return std::nullopt;
  return Finding{.cause = Cause::kCostlyLoading,
                 .sentence = fmt::format("waiting for data takes {:.0f} % of the step, and the run uses all of the "
                                         "{:.0f} cores: loading the samples needs more CPU time than these cores have",
                                         percent(data_share(rank)), rank.cores),
                 .advice = "pack the set once (lockstep pack), or use a host with more cores for each rank"};
}

std::optional<Finding> find_unbalanced_loader(const Ranks& ranks, const ReportSettings& /*settings*/) {
  if (ranks.size() < 2) return std::nullopt;
  const std::int64_t worst = largest(ranks, data_share);
  const RankFigures& rank = ranks[static_cast<std::size_t>(worst)];
  const double others = median_of(ranks, data_share, worst);
  if (data_share(rank) < kMuchWaiting || others > data_share(rank) / 2) return std::nullopt;
  if (loading_cost(rank) < kCostlierBatch * median_of(ranks, loading_cost, worst)) return std::nullopt;
  // Threads that wait for a core are a different cause.
  if (delayed_share(rank.workers) > kOftenDelayed) return std::nullopt;
  const std::string why = computes(rank) ? fmt::format("its samples cost {:.2f} s of CPU time per worker and second",
                                                       rank.workers.busy > 0 ? rank.workers.cpu / rank.workers.busy : 0)
                                         : fmt::format("{} blocked {:.0f} % of the time, mostly in reads",
                                                       workers_words(rank) + (rank.workers.count > 1 ? " are" : " is"),
                                                       percent(blocked_share(rank)));
  return Finding{
      .cause = Cause::kUnbalancedLoader,
      .rank = rank.rank,
      .sentence = fmt::format("rank {} waits for data {:.0f} % of the step, the others {:.0f} %: {}", rank.rank,
                              percent(data_share(rank)), percent(others), why),
      .advice =
          computes(rank)
              ? "spread expensive samples evenly (shuffle, or a sampler by size), or pack the set once: lockstep pack"
              : "check the disk of that host, or copy the set to a local one"};
}

}  // namespace lockstep::view
