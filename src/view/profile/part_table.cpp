// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <map>
#include <optional>

#include "lockstep/view/profile.h"
#include "view/profile/call_order.h"

namespace lockstep::view {
namespace {

enum CallPart { kData, kCopy, kForward, kBackward, kExposed, kOptimizer, kOther, kEvaluation, kSaving, kPartCount };

constexpr std::array<std::string_view, kPartCount> kNames = {
    "data", "copy", "forward", "backward", "exposed communication", "optimizer", "other", "evaluation", "saving"};

/// Returns the part of a call. The names are the names of spans in data, train, parallel and optim.
std::optional<CallPart> part_of(const ProfiledCall& call) {
  static const std::map<std::string_view, CallPart> parts = {{"DataLoader::next", kData},
                                                             {"lockstep::prepare_batch", kCopy},
                                                             {"forward", kForward},
                                                             {"loss", kForward},
                                                             {"backward", kBackward},
                                                             {"DistributedDataParallel::end_backward", kExposed},
                                                             {"ZeroRedundancyOptimizer::gather", kExposed},
                                                             {"optimizer", kOptimizer},
                                                             {"lockstep::optimizer_step", kOptimizer},
                                                             {"lockstep::average_update", kOptimizer},
                                                             {"evaluate", kEvaluation},
                                                             {"save", kSaving}};
  if (call.kind == CallKind::kCollective) return kExposed;  // in a thread that runs steps, the loop waits for it
  if (call.kind == CallKind::kEngine) return kBackward;
  const auto found = parts.find(call.name);
  return found == parts.end() ? std::nullopt : std::optional(found->second);
}

struct OpenPart {
  CallPart part;
  std::int64_t end_ns;
};

/// Assigns each moment since the start of the profile to the innermost open part. Forward and data inside an evaluation
/// count as evaluation.
class PartClock {
 public:
  PartClock(std::int64_t begin_ns, std::int64_t end_ns) : at_(begin_ns), end_(end_ns) {}

  void enter(CallPart part, std::int64_t begin_ns, std::int64_t end_ns) {
    go_to(begin_ns);
    const bool keeps = !open_.empty() && (open_.back().part == kEvaluation || open_.back().part == kSaving);
    // The replicas of a rank take turns, so an open part in one thread may enclose parts in another thread.
    open_.push_back({keeps ? open_.back().part : part, std::min(end_ns, open_.empty() ? end_ : open_.back().end_ns)});
  }

  [[nodiscard]] const std::array<std::int64_t, kPartCount>& finish() {
    go_to(end_);
    return sums_;
  }

 private:
  void go_to(std::int64_t now) {
    now = std::min(now, end_);
    while (!open_.empty() && open_.back().end_ns <= now) {
      spend(open_.back().part, open_.back().end_ns);
      open_.pop_back();
    }
    spend(open_.empty() ? kOther : open_.back().part, now);
  }
  void spend(CallPart part, std::int64_t until) {
    if (until <= at_) return;
    sums_[part] += until - at_;
    at_ = until;
  }

  std::int64_t at_;
  std::int64_t end_;
  std::vector<OpenPart> open_;
  std::array<std::int64_t, kPartCount> sums_{};
};

}  // namespace

std::vector<PartRow> part_table(const Profile& profile) {
  PartClock clock(profile.begin_ns, profile.end_ns);
  const auto wanted = [&](const ProfiledCall& call) { return runs_steps(profile, call) && part_of(call).has_value(); };
  for (const ProfiledCall* call : calls_in_order(profile, false, wanted)) {
    clock.enter(*part_of(*call), call->begin_ns, call->end_ns);
  }
  const auto& sums = clock.finish();
  std::vector<PartRow> rows;
  for (std::size_t part = 0; part < kPartCount; ++part) {
    if (part <= kOther || sums[part] > 0) rows.push_back({kNames[part], sums[part]});
  }
  return rows;
}

}  // namespace lockstep::view
