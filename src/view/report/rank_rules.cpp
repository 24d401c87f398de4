// SPDX-License-Identifier: Apache-2.0
// The causes that slow all ranks: a core that one rank shares, more work, tiny buckets, memory that runs out.
#include <fmt/format.h>

#include <algorithm>

#include "lockstep/base/text.h"
#include "view/report/rules.h"

namespace lockstep::view {
namespace {

double delayed(const RankFigures& rank) { return rank.training() > 0 ? rank.delayed / rank.training() : 0; }

double per_step(double seconds, std::int64_t steps) { return steps > 0 ? seconds / static_cast<double>(steps) : 0; }

double compute_of(const RankFigures& rank) { return per_step(rank.compute(), rank.steps); }
double cpu_of(const RankFigures& rank) { return per_step(rank.compute_cpu, rank.steps); }
double stretch_compute(const Stretch& stretch) { return per_step(stretch.compute, stretch.steps); }

double stretch_cpu(const Stretch& stretch) { return per_step(stretch.compute_cpu, stretch.steps); }

std::string since_words(const Ranks& ranks, std::int64_t rank) {
  const auto step = slower_since(ranks, rank, stretch_compute);
  return step ? fmt::format(" since step {}", text::thousands(*step)) : "";
}

/// Returns the part in which the rank loses most compared with the other ranks.
const char* slower_part(const Ranks& ranks, std::int64_t index) {
  const RankFigures& rank = ranks[static_cast<std::size_t>(index)];
  const char* name = "";
  double most = 0;
  for (const StepPart part : {StepPart::kForward, StepPart::kBackward, StepPart::kOptimizer}) {
    const double lost =
        rank.time_in(part) - median_of(
                                 ranks, [&](const RankFigures& other) { return other.time_in(part); }, index);
    if (lost <= most) continue;
    most = lost;
    name = name_of(part);
  }
  return name;
}

double slower_by(const Ranks& ranks, std::int64_t index, const RankValue& figure) {
  const double others = median_of(ranks, figure, index);
  return others > 0 ? figure(ranks[static_cast<std::size_t>(index)]) / others : 1;
}

std::uint64_t unsigned_of(std::int64_t bytes) { return static_cast<std::uint64_t>(std::max<std::int64_t>(bytes, 0)); }

}  // namespace

std::optional<Finding> find_busy_core(const Ranks& ranks, const ReportSettings& /*settings*/) {
  if (ranks.size() < 2) return std::nullopt;
  const std::int64_t worst = largest(ranks, delayed);
  const RankFigures& rank = ranks[static_cast<std::size_t>(worst)];
  const double others = median_of(ranks, delayed, worst);
  if (delayed(rank) < kSharedCore || others > delayed(rank) / 2) return std::nullopt;
  const double slower = slower_by(ranks, worst, compute_of);
  if (slower < kSlowerRank) return std::nullopt;
  return Finding{
      .cause = Cause::kBusyCore,
      .rank = rank.rank,
      .sentence = fmt::format("rank {} is {:.0f} % slower in {}{}: its core is shared; it waited {:.0f} % of the time "
                              "for a core, the others {:.0f} %",
                              rank.rank, percent(slower - 1), slower_part(ranks, worst), since_words(ranks, worst),
                              percent(delayed(rank)), percent(others)),
      .advice = fmt::format("check what else runs on {} (top), or give each rank its own cores", rank.host)};
}

std::optional<Finding> find_more_work(const Ranks& ranks, const ReportSettings& /*settings*/) {
  if (ranks.size() < 2) return std::nullopt;
  const std::int64_t worst = largest(ranks, cpu_of);
  const RankFigures& rank = ranks[static_cast<std::size_t>(worst)];
  if (rank.device > 0) return std::nullopt;  // the thread's CPU time does not include the GPU's work
  const double more = slower_by(ranks, worst, cpu_of);
  const bool is_crowded =
      std::any_of(ranks.begin(), ranks.end(), [](const RankFigures& each) { return delayed(each) > kCrowdedHost; });
  const double enough = is_crowded ? kMuchMoreWork : kMoreWork;
  if (more < enough || slower_by(ranks, worst, compute_of) < kMoreWork) return std::nullopt;
  if (!is_steady(ranks, worst, enough, stretch_cpu)) return std::nullopt;
  const auto exposed = [](const RankFigures& each) { return each.share(StepPart::kExposed); };
  const double waiting = median_of(ranks, exposed, worst);
  if (waiting - exposed(rank) < kWorthEvening) return std::nullopt;
  return Finding{
      .cause = Cause::kMoreWork,
      .rank = rank.rank,
      .sentence = fmt::format("rank {} uses {:.0f} % more CPU time per step than the others, most of it in {}{}, and "
                              "they wait for it {:.0f} % of the step: it has more work, or a slower core",
                              rank.rank, percent(more - 1), slower_part(ranks, worst), since_words(ranks, worst),
                              percent(waiting)),
      .advice = "give every rank the same work: images of similar size in a step, padding to one size, equal batches"};
}

std::optional<Finding> find_tiny_buckets(const Ranks& ranks, const ReportSettings& settings) {
  if (ranks.size() < 2 || settings.bucket_cap_mb >= kDefaultBucketMb) return std::nullopt;
  // All ranks wait for the rank that waits least, whose own wait is communication.
  const auto least = std::min_element(ranks.begin(), ranks.end(), [](const RankFigures& a, const RankFigures& b) {
    return a.share(StepPart::kExposed) < b.share(StepPart::kExposed);
  });
  const double mean = per_step(static_cast<double>(least->bucket_bytes), least->buckets);
  if (least->share(StepPart::kExposed) < kWorthLargerBuckets || least->buckets < kManyBuckets || mean > kTinyBucket) {
    return std::nullopt;
  }
  return Finding{.cause = Cause::kTinyBuckets,
                 .sentence = fmt::format("communication that backward does not hide takes {:.0f} % of the step: the "
                                         "gradients are sent in {} buckets of {} each",
                                         percent(least->share(StepPart::kExposed)), least->buckets,
                                         text::bytes(static_cast<std::uint64_t>(mean))),
                 .advice = fmt::format("set bucket_cap_mb={} (it is {})", kDefaultBucketMb, settings.bucket_cap_mb)};
}

std::optional<Finding> find_little_memory(const Ranks& ranks, const ReportSettings& settings) {
  const auto free_share = [](const RankFigures& rank) {
    return rank.host_memory > 0 ? static_cast<double>(rank.host_free) / static_cast<double>(rank.host_memory) : 1;
  };
  const std::int64_t worst = largest(ranks, [&](const RankFigures& rank) { return -free_share(rank); });
  const RankFigures& rank = ranks[static_cast<std::size_t>(worst)];
  if (free_share(rank) > kLeastFree) return std::nullopt;
  std::int64_t held = 0;
  std::int64_t count = 0;
  for (const RankFigures& each : ranks) {
    if (each.host != rank.host) continue;
    held += each.resident - (count == 0 ? 0 : each.shared);
    ++count;
  }
  return Finding{
      .cause = Cause::kMemory,
      .sentence = fmt::format("memory is near its limit: {} of {} are left on {}, where {} {}",
                              text::bytes(unsigned_of(rank.host_free)), text::bytes(unsigned_of(rank.host_memory)),
                              rank.host, count == 1 ? "the rank has taken" : fmt::format("{} ranks have taken", count),
                              text::bytes(unsigned_of(held))),
      .advice = fmt::format(
          "use batch_size={} with twice the accumulate_steps, a lower prefetch_factor, or a larger memory limit",
          std::max<std::int64_t>(settings.batch_size / 2, 1))};
}

}  // namespace lockstep::view
