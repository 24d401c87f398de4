// SPDX-License-Identifier: Apache-2.0
#include "train/step/alike_ranks.h"

#include <ATen/ops/full.h>
#include <xxhash.h>

#include <cstdint>
#include <exception>

#include "lockstep/comm/group_check.h"

namespace lockstep::train {
namespace {

/// Makes the values the least of all ranks.
void take_least(ProcessGroup& group, const at::Tensor& values) {
  try {
    group.all_reduce(values, {.op = ReduceOp::kMin}).wait();
  } catch (const std::exception&) {
    check_group(group);  // what failed on the GPU is the reason
    throw;
  }
}

/// The number of no key is 0, that of a key never is.
std::int64_t number_of(const std::optional<std::string>& key) {
  return key ? static_cast<std::int64_t>(XXH3_64bits(key->data(), key->size()) | 1) : 0;
}

}  // namespace

bool all_have(ProcessGroup& group, const std::optional<std::string>& key) {
  const std::int64_t mine = number_of(key);
  const at::Tensor least = at::full({2}, mine, at::kLong);
  auto* values = least.data_ptr<std::int64_t>();
  values[1] = ~mine;
  take_least(group, least);
  return key && values[0] == mine && values[1] == ~mine;
}

bool all_are(ProcessGroup& group, bool here) {
  const at::Tensor all = at::full({}, here ? 1 : 0, at::kLong);
  take_least(group, all);
  return *all.data_ptr<std::int64_t>() == 1;
}

}  // namespace lockstep::train
