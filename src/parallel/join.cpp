// SPDX-License-Identifier: Apache-2.0
// A rank with data announces its collectives before it calls them; ranks without data then call the same.
#include "lockstep/parallel/join.h"

#include <ATen/ops/tensor.h>
#include <fmt/format.h>

#include <algorithm>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"

namespace lockstep {
namespace {

constexpr std::int64_t kNoData = -1;

ProcessGroup& group_of(const std::vector<Joinable*>& joinables) {
  if (joinables.empty()) throw UsageError("Join has nothing to join", "Join join{{&model}};");
  ProcessGroup& group = joinables.front()->join_group();
  for (Joinable* one : joinables) {
    if (&one->join_group() != &group) throw UsageError("the participants of a Join belong to different groups");
  }
  return group;
}

std::string ranks_text(const std::vector<int>& ranks) {
  std::vector<std::string> parts;
  for (const int rank : ranks) parts.push_back(std::to_string(rank));
  return (ranks.size() == 1 ? "rank " : "ranks ") + text::join(parts);
}

}  // namespace

JoinStatus JoinHandle::announce(int action) const { return join_->announce(index_, action); }
bool JoinHandle::throws_on_early_termination() const { return join_->options_.throw_on_early_termination; }

Join::Join(std::vector<Joinable*> joinables, const JoinOptions& options)
    : joinables_(std::move(joinables)), options_(options), group_(group_of(joinables_)) {
  for (std::size_t i = 0; i < joinables_.size(); ++i) joinables_[i]->set_join(JoinHandle(*this, static_cast<int>(i)));
}

Join::~Join() {
  for (Joinable* one : joinables_) one->set_join({});
}

std::vector<Join::Message> Join::exchange(const Message& own) {
  std::vector<at::Tensor> gathered;
  group_.all_gather(at::tensor({own.joinable, own.action}), gathered).wait();
  std::vector<Message> all;
  for (const at::Tensor& one : gathered) {
    all.push_back({one.data_ptr<std::int64_t>()[0], one.data_ptr<std::int64_t>()[1]});
  }
  return all;
}

JoinStatus Join::status_of(const std::vector<Message>& all) const {
  JoinStatus status{.divide_by_initial_world_size = options_.divide_by_initial_world_size};
  std::vector<int> without;
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    if (all[rank].joinable == kNoData) {
      without.push_back(static_cast<int>(rank));
    } else if (status.active++ == 0) {
      status.first_active = static_cast<int>(rank);
    }
  }
  if (status.active > 0 && !without.empty() && options_.throw_on_early_termination) {
    throw DataError(
        fmt::format("{} {} no more data, but {} other ranks do", ranks_text(without),
                    without.size() == 1 ? "has" : "have", status.active),
        "use the same number of batches on every rank, or leave JoinOptions::throw_on_early_termination off");
  }
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    const Message& first = all[static_cast<std::size_t>(status.first_active)];
    if (status.active == 0 || all[rank].joinable == kNoData) continue;
    if (all[rank].joinable != first.joinable || all[rank].action != first.action) {
      throw UsageError(
          fmt::format("inside a Join, rank {} is at a different collective from rank {}", rank, status.first_active),
          "every rank that has data must run the same forwards, backwards and optimizer steps");
    }
  }
  return status;
}

JoinStatus Join::announce(int joinable, int action) { return status_of(exchange({joinable, action})); }

/// Takes part in one announced collective. Returns false once no rank has data.
bool Join::shadow_one() {
  const std::vector<Message> all = exchange({kNoData, 0});
  const JoinStatus status = status_of(all);
  if (status.active == 0) return false;
  const Message& next = all[static_cast<std::size_t>(status.first_active)];
  joinables_[static_cast<std::size_t>(next.joinable)]->shadow(static_cast<int>(next.action), status);
  return true;
}

void Join::run(const std::function<void()>& body) {
  body();
  bool was_last = true;
  while (shadow_one()) was_last = false;
  // If several ranks ended together, the highest one counts, as in PyTorch.
  const std::vector<Message> all = exchange({was_last ? 1 : 0, 0});
  int source = 0;
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    if (all[rank].joinable == 1) source = static_cast<int>(rank);
  }
  for (Joinable* one : joinables_) one->after_join(source);
}

}  // namespace lockstep
