// SPDX-License-Identifier: Apache-2.0
// The helpers that the rules share: ranges of options, and threads.
#include "optim/rule.h"

#include <fmt/format.h>

#include <cmath>

#include "lockstep/base/error.h"
#include "lockstep/tensor/threads.h"

namespace lockstep::optim {
namespace {

constexpr std::int64_t kUpdatedPerThread = 1 << 16;

}  // namespace

void in_parts(const Memory& memory, const std::function<void(const Memory& part)>& update) {
  // Elements are independent, so splitting them among threads changes no bits.
  tensor::parallel_for(0, memory.count, kUpdatedPerThread,
                       [&](std::int64_t begin, std::int64_t end) { update(part_of(memory, begin, end)); });
}

void require_option(bool ok, const OptionValue& given, const char* range) {
  if (ok) return;
  throw UsageError(fmt::format("{}'s {} is {}, which is not {}", given.optimizer, given.option, given.value, range));
}

void require_betas(const char* optimizer, const std::array<double, 2>& betas) {
  require_option(betas[0] >= 0 && betas[0] < 1, {optimizer, "first beta", betas[0]}, "in [0, 1)");
  require_option(betas[1] >= 0 && betas[1] < 1, {optimizer, "second beta", betas[1]}, "in [0, 1)");
}

void require_not_negative(const OptionValue& given) {
  require_option(given.value >= 0 && std::isfinite(given.value), given, ">= 0");
}

}  // namespace lockstep::optim
