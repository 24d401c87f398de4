// SPDX-License-Identifier: Apache-2.0
#include "parallel/reducer/backward_faults.h"

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"

namespace lockstep::parallel {
namespace {

[[noreturn]] void fail(const FaultyBackward& fault, const std::string& message, const std::string& hint) {
  fault.replica.running = false;
  if (fault.group.world_size() > 1) fault.group.abort(message);
  throw UsageError(message, hint);
}

}  // namespace

void throw_bypassed(const FaultyBackward& fault) {
  fail(fault,
       "a backward came through the inner module, not through DistributedDataParallel: its gradients would stay on "
       "this rank",
       "call the wrapper, model(x), not model.module()(x), in training");
}

void throw_two_gradients(const FaultyBackward& fault, std::size_t index) {
  const std::string& name = fault.parameters.name(index);
  if (fault.replica.counts[index] > 1) {
    fail(fault, fmt::format("parameter '{}' got two gradients in one backward", name),
         "several recomputed (checkpointed) segments use it: set DdpOptions::static_graph, where all steps are alike");
  }
  fail(fault, fmt::format("parameter '{}' got a gradient, but no output of forward depends on it", name),
       "use it inside of forward only; for recomputed (checkpointed) segments set DdpOptions::static_graph instead of "
       "find_unused_parameters");
}

void throw_changed_graph(const FaultyBackward& fault, std::size_t index) {
  fail(fault,
       fmt::format("DdpOptions::static_graph is set, but the graph has changed: parameter '{}' got {} gradients in "
                   "this backward and {} in the first step's",
                   fault.parameters.name(index), fault.replica.counts[index], fault.replica.expected[index]),
       "leave static_graph off where steps differ; find_unused_parameters is for branches");
}

void throw_unused(const FaultyBackward& fault, const std::vector<std::size_t>& missing) {
  constexpr std::size_t kShown = 8;
  std::vector<std::string> names;
  for (const std::size_t index : missing) {
    if (names.size() < kShown) names.push_back(fault.parameters.name(index));
  }
  fail(fault,
       fmt::format("{} of {} parameters got no gradient in backward: {}{}", missing.size(), fault.parameters.size(),
                   text::join(names), missing.size() > kShown ? ", ..." : ""),
       "the loss does not depend on them: set DdpOptions::find_unused_parameters where that differs from step to step, "
       "static_graph where it does not, or requires_grad to false before wrapping");
}

}  // namespace lockstep::parallel
