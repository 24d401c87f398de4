// SPDX-License-Identifier: Apache-2.0
// Sends gradients in 16 bits.
#include <ATen/core/ivalue.h>  // before any other torch header: otherwise Clang cannot compile libtorch 1.13

#include "lockstep/parallel/communication_hook.h"

namespace lockstep::hooks {
namespace {

CommunicationHook compress(at::ScalarType dtype) {
  return [dtype](GradBucket& bucket) -> HookStage {
    std::vector<at::Tensor> values;
    for (int local = 0; local < bucket.block().size(); ++local) {
      // The division comes before the sum, as in PyTorch, since float16 could overflow.
      values.push_back(bucket.gradient(local).to(dtype, /*non_blocking=*/false, /*copy=*/true).div_(bucket.divisor()));
    }
    ReplicaSum sum = bucket.all_reduce(values);
    return {.works = {sum.work}, .then = [&bucket, sum] {
              bucket.result().copy_(sum.value());
              return HookStage{};
            }};
  };
}

}  // namespace

CommunicationHook bf16_compress() { return compress(at::kBFloat16); }
CommunicationHook fp16_compress() { return compress(at::kHalf); }

}  // namespace lockstep::hooks
