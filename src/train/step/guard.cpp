// SPDX-License-Identifier: Apache-2.0
#include "train/step/guard.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "lockstep/base/log.h"
#include "lockstep/base/text.h"
#include "lockstep/checkpoint/platform.h"
#include "lockstep/comm/objects.h"
#include "lockstep/comm/replicas.h"
#include "lockstep/optim/tensor_digest.h"
#include "lockstep/tensor/device.h"

namespace lockstep::train {
namespace {

// A kernel whose sums depend on the order of its threads is unlikely to produce the same bits this many times in a row.
constexpr int kProbes = 2;

std::string host_name(const Job& job) {
  char host[256] = {};
  ::gethostname(host, sizeof host - 1);
  return fmt::format("host {} (node {})", host, job.rank_info().node_rank);
}

std::string platform(const Job& job) {
  std::string platform = checkpoint::platform();
  return job.device().is_cpu() ? platform : platform + ", " + tensor::device_name(job.device());
}

/// Returns the ranks that are not in `without`, those on other hosts first.
std::vector<int> others(const std::vector<int>& without, const std::vector<std::string>& hosts) {
  std::vector<int> elsewhere;
  std::vector<int> beside;
  for (int rank = 0; rank < static_cast<int>(hosts.size()); ++rank) {
    if (std::count(without.begin(), without.end(), rank) > 0) continue;
    const bool shares = std::any_of(without.begin(), without.end(), [&](int other) {
      return hosts[static_cast<std::size_t>(other)] == hosts[static_cast<std::size_t>(rank)];
    });
    (shares ? beside : elsewhere).push_back(rank);
  }
  return elsewhere.empty() ? beside : elsewhere;
}

int carrier_of(int replica, int world, int replicas) {
  int rank = 0;
  while (replicas_of_rank(rank, world, replicas).end <= replica) ++rank;
  return rank;
}

/// Returns why the guard cannot run; empty if it can.
std::string obstacle(const Job& job, const std::vector<std::string>& platforms) {
  if (job.world_size() < 2) return "it needs at least two processes";
  for (std::size_t rank = 1; rank < platforms.size(); ++rank) {
    if (platforms[rank] == platforms[0]) continue;
    return fmt::format("rank 0 has {}, but rank {} has {}", platforms[0], rank, platforms[rank]);
  }
  return "";
}

}  // namespace

GuardRoles guard_roles(std::int64_t turn, int replicas, const std::vector<std::string>& hosts) {
  const int world = static_cast<int>(hosts.size());
  GuardRoles roles{.replica = static_cast<int>(turn % replicas)};
  roles.carrier = carrier_of(roles.replica, world, replicas);
  const std::vector<int> checkers = others({roles.carrier}, hosts);
  const auto round = static_cast<std::size_t>(turn / replicas);
  roles.checker = checkers[round % checkers.size()];
  const std::vector<int> thirds = others({roles.carrier, roles.checker}, hosts);
  if (!thirds.empty()) roles.third = thirds[round % thirds.size()];
  return roles;
}

std::uint64_t row_digest(const at::Tensor& row) { return optim::digest_of(row.detach().to(at::kDouble), "loss"); }

Guard::Guard(const Job& job, std::int64_t every, int replicas, NamedTensors parameters, State state)
    : job_(job), every_(every), replicas_(replicas), parameters_(std::move(parameters)), state_(std::move(state)) {
  hosts_ = all_gather_object(job_.group(), host_name(job_));
  const std::string why = obstacle(job_, all_gather_object(job_.group(), platform(job_)));
  serves_ = why.empty();
  if (!serves_) {
    if (job_.is_main()) log::warn("the guard cannot run: {}", why);
    return;
  }
  roles_ = guard_roles(0, replicas_, hosts_);
  probes_ = job_.device().is_cpu() ? 0 : kProbes;
  for (const auto& [name, parameter] : parameters_) {
    if (!parameter.requires_grad()) continue;
    hooks_.emplace_back(parameter, [this, name = name](const at::Tensor& gradient) { add_gradient(gradient, name); });
  }
}

bool Guard::begin(std::int64_t step, const NamedTensors& buffers) {
  if (proved_ < 0) proved_ = step - 1;
  if (!serves_ || step < 1 || step % every_ != 0) return false;
  step_ = step;
  roles_ = guard_roles(step / every_, replicas_, hosts_);
  buffers_.clear();
  for (const auto& [name, buffer] : buffers) buffers_.emplace_back(name, buffer.detach().clone());
  sum_ = 0;
  reductions_.clear();
  armed_ = true;
  return true;
}

/// It checks the replica, because other replicas of this rank have hooks on the same parameters.
void Guard::add_gradient(const at::Tensor& gradient, const std::string& name) {
  if (watches(running_)) sum_ += optim::digest_of(gradient, name);
}

void Guard::add(const at::Tensor& row, const std::string& reductions) {
  sum_ += row_digest(row);
  reductions_ = reductions;
}

void Guard::finish(const Recompute& recompute) {
  armed_ = false;
  const std::string reductions = broadcast_bytes(job_.group(), reductions_, roles_.carrier);
  if (probes_ > 0 && !repeats_itself(recompute, reductions)) return;
  std::uint64_t own = job_.rank() == roles_.carrier ? sum_ : 0;
  if (job_.rank() == roles_.checker) own = recompute(roles_.replica, reductions);
  const std::vector<std::int64_t> sums = compare(own);
  const auto found = [&](int rank) { return sums[static_cast<std::size_t>(rank)]; };
  if (found(roles_.carrier) != found(roles_.checker)) break_tie(sums, recompute, reductions);
  proved_ = step_ - 1;
}

/// Some GPU kernels add in the order in which their threads arrive, so bitwise equality cannot be expected.
bool Guard::repeats_itself(const Recompute& recompute, const std::string& reductions) {
  --probes_;
  const bool equal = job_.rank() != roles_.carrier || recompute(roles_.replica, reductions) == sum_;
  const auto all = all_gather_object(job_.group(), static_cast<std::int64_t>(equal));
  serves_ = std::count(all.begin(), all.end(), 0) == 0;
  if (!serves_ && job_.is_main()) {
    log::warn("the guard cannot run: {} computed replica {} of step {} twice, and the bits differ",
              place(roles_.carrier), roles_.replica, text::thousands(step_));
  }
  return serves_;
}

void Guard::compare_state(std::int64_t step) {
  if (!serves_) return;
  step_ = step;
  (void)compare(0);
}

std::vector<std::int64_t> Guard::compare(std::uint64_t own) {
  const std::array<std::uint64_t, 3> digests = {optim::digest_of(parameters_), optim::digest_of(state_()), own};
  const auto all = all_gather_object(job_.group(), std::vector<std::int64_t>(digests.begin(), digests.end()));
  const auto column = [&all](std::size_t index) {
    std::vector<std::int64_t> values;
    for (const auto& row : all) values.push_back(row.at(index));
    return values;
  };
  require_equal(column(0), "weights");
  require_equal(column(1), "values of the optimizer or the moving average");
  return column(2);
}

/// The update is the same on every rank, so a rank with different values has made a mistake.
void Guard::require_equal(const std::vector<std::int64_t>& all, const char* fault) {
  std::map<std::int64_t, int> counts;
  for (const std::int64_t each : all) ++counts[each];
  if (counts.size() == 1) return;
  const auto most =
      std::max_element(counts.begin(), counts.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  const bool majority = 2 * most->second > static_cast<int>(all.size());
  std::vector<int> odd;
  for (int rank = 0; rank < static_cast<int>(all.size()); ++rank) {
    if (majority && all[static_cast<std::size_t>(rank)] != most->first) odd.push_back(rank);
  }
  blame(odd, fmt::format("{} different {} from the others", odd.size() == 1 ? "has" : "have", fault));
}

/// A third rank also recomputes the replica. With only two ranks, both recompute it: after a transient error, their new
/// results agree.
void Guard::break_tie(const std::vector<std::int64_t>& first, const Recompute& recompute,
                      const std::string& reductions) {
  const bool two = roles_.third < 0;
  const bool asked = two ? job_.rank() == roles_.carrier || job_.rank() == roles_.checker : job_.rank() == roles_.third;
  const auto own = static_cast<std::int64_t>(asked ? recompute(roles_.replica, reductions) : 0);
  const auto again = all_gather_object(job_.group(), own);
  const auto at = [](const std::vector<std::int64_t>& values, int rank) {
    return values[static_cast<std::size_t>(rank)];
  };
  const std::int64_t carrier = at(first, roles_.carrier);
  const std::int64_t checker = at(first, roles_.checker);
  const bool for_checker = two ? at(again, roles_.carrier) == checker : at(again, roles_.third) == checker;
  const bool for_carrier = two ? at(again, roles_.checker) == carrier : at(again, roles_.third) == carrier;
  const std::string fault =
      fmt::format("computed a different loss or gradient for replica {} than other ranks", roles_.replica);
  if (for_checker == for_carrier) blame({}, fault);
  blame({for_checker ? roles_.carrier : roles_.checker}, fault);
}

std::string Guard::place(int rank) const {
  return fmt::format("rank {} on {}", rank, hosts_[static_cast<std::size_t>(rank)]);
}

void Guard::blame(const std::vector<int>& ranks, const std::string& fault) const {
  const std::string prefix = fmt::format("step {}: ", text::thousands(step_));
  const std::string go_on = fmt::format(
      "checkpoints after step {} are set aside, and a resumed run continues from there", text::thousands(proved_));
  if (!ranks.empty()) {
    std::vector<std::string> places;
    for (const int rank : ranks) places.push_back(place(rank));
    throw Miscomputed(proved_, fmt::format("{}{} {}", prefix, text::join(places), fault),
                      fmt::format("remove {} from the job and test the memory and processor; {}",
                                  ranks.size() == 1 ? "that host" : "these hosts", go_on),
                      ranks.front());
  }
  std::string carrier = place(roles_.carrier);
  throw Miscomputed(
      proved_,
      prefix + "ranks differ, and it is not known which one is faulty: " + place(roles_.checker) + " or " + carrier,
      "with three processes, the faulty one can be found; " + go_on);
}

}  // namespace lockstep::train
