// SPDX-License-Identifier: Apache-2.0
#include "worker/bench/digest_cost.h"

#include <ATen/ops/randn_like.h>

#include <utility>
#include <vector>

#include "common/temporary_folder.h"
#include "lockstep/optim/make_optimizer.h"
#include "lockstep/view/digest_chain.h"

namespace lockstep::worker {
namespace {

/// Parameters with their own gradients, in the same memory layout.
NamedTensors copies_of(const NamedTensors& parameters) {
  NamedTensors copies;
  for (const auto& [name, parameter] : parameters) {
    at::Tensor copy = parameter.detach().clone();
    copy.set_requires_grad(true);
    copy.mutable_grad() = at::randn_like(copy.detach());
    copies.emplace_back(name, std::move(copy));
  }
  return copies;
}

double seconds_of_record() {
  const apps::TemporaryFolder folder("lockstep-digests");
  view::DigestWriter chain(folder.path(), {});
  std::int64_t step = 0;
  return median_seconds({.warmup = 10, .counted = 1000}, [&] { chain.add({.step = ++step}); });
}

}  // namespace

DigestCost measure_digests(std::int64_t pairs, const NamedTensors& parameters, const std::string& type,
                           const std::function<void()>& step) {
  constexpr std::int64_t kWarmup = 3;
  constexpr std::int64_t kPairsOfStep = 4;
  const NamedTensors copies = copies_of(parameters);
  const auto plain = make_optimizer(type, copies, {.lr = 0});
  const auto digesting = make_optimizer(type, copies, {.lr = 0});
  digesting->digest_updates();
  std::vector<double> steps;
  std::vector<double> without;
  std::vector<double> differences;
  for (std::int64_t i = -kWarmup; i < pairs; ++i) {
    if (i % kPairsOfStep == 0 || i < 0) steps.push_back(seconds_of(step));
    // The order changes from pair to pair, so that drift in the machine's speed favours neither side.
    const bool digests_first = i % 2 == 0;
    double seconds[2] = {};
    for (const bool digests : {digests_first, !digests_first}) {
      seconds[digests ? 1 : 0] = seconds_of([&] { (digests ? digesting : plain)->step(); });
    }
    if (i < 0) continue;
    without.push_back(seconds[0]);
    differences.push_back(seconds[1] - seconds[0]);
  }
  steps.erase(steps.begin(), steps.begin() + kWarmup);
  return {.pairs = pairs,
          .step = median_of(std::move(steps)),
          .update = median_of(std::move(without)),
          .digest = median_range(std::move(differences)),
          .record = seconds_of_record()};
}

}  // namespace lockstep::worker
