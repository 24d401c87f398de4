// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>
#include <tuple>

#include "lockstep/view/profile.h"
#include "view/profile/call_order.h"

namespace lockstep::view {
namespace {

/// Sums up the calls, thread by thread. Each call closes the calls that ended before it began.
class OperatorSums {
 public:
  void add(const ProfiledCall& call) {
    while (!open_.empty() && (open_.back()->thread != call.thread || open_.back()->end_ns <= call.begin_ns)) leave();
    const std::int64_t took = call.end_ns - call.begin_ns;
    OperatorRow& row = rows_[call.name];
    row.calls += 1;
    row.self_ns += took;
    if (std::none_of(open_.begin(), open_.end(), [&](const auto* outer) { return outer->name == call.name; })) {
      row.total_ns += took;
    }
    row.bytes += call.bytes;
    row.flops += call.flops;
    if (!open_.empty()) rows_[open_.back()->name].self_ns -= took;
    open_.push_back(&call);
  }

  [[nodiscard]] std::vector<OperatorRow> rows() && {
    std::vector<OperatorRow> rows;
    for (auto& [name, row] : rows_) {
      row.name = name;
      rows.push_back(std::move(row));
    }
    std::sort(rows.begin(), rows.end(), [](const OperatorRow& a, const OperatorRow& b) {
      return std::tie(b.self_ns, a.name) < std::tie(a.self_ns, b.name);
    });
    return rows;
  }

 private:
  void leave() { open_.pop_back(); }

  std::map<std::string, OperatorRow> rows_;
  Calls open_;
};

}  // namespace

std::vector<OperatorRow> operator_table(const Profile& profile) {
  OperatorSums sums;
  const auto wanted = [&](const ProfiledCall& call) { return is_operator(call) && runs_steps(profile, call); };
  for (const ProfiledCall* call : calls_in_order(profile, true, wanted)) sums.add(*call);
  return std::move(sums).rows();
}

double flops_of(const Profile& profile) {
  const auto is_evaluation = [](const ProfiledCall& call) { return call.name == "evaluate"; };
  const Calls evaluations = calls_in_order(profile, false, is_evaluation);
  double sum = 0;
  for (const ProfiledCall& call : profile.calls) {
    const bool is_evaluated = std::any_of(evaluations.begin(), evaluations.end(), [&](const ProfiledCall* evaluation) {
      return evaluation->begin_ns <= call.begin_ns && call.begin_ns < evaluation->end_ns;
    });
    if (!is_evaluated) sum += call.flops;
  }
  return sum;
}

double seconds_of(const Profile& profile) {
  std::int64_t steps_ns = 0;
  for (const PartRow& part : part_table(profile)) {
    if (part.name != "evaluation" && part.name != "saving") steps_ns += part.ns;
  }
  return static_cast<double>(steps_ns) / 1e9;
}

}  // namespace lockstep::view
