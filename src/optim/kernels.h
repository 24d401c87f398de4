// SPDX-License-Identifier: Apache-2.0
// The kernels of the optimizers: each makes one pass over plain memory, with the widest instruction set of this
// processor. Each element's bits depend only on its own values, not on its position.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

namespace lockstep::optim {

/// Digests to which several threads add.
struct DigestCounts {
  std::atomic<std::uint64_t> gradients = 0;
  std::atomic<std::uint64_t> weights = 0;
};

/// The destination of a part's digest, and the inputs of its hashes.
struct DigestInto {
  DigestCounts* counts = nullptr;  ///< null: no digest
  std::uint64_t seed = 0;
  std::int64_t first = 0;  ///< index of the part's first element in the whole parameter
};

/// The memory of one parameter or of a part of it; the arrays do not overlap.
struct Memory {
  float* parameter = nullptr;
  const float* grad = nullptr;
  std::array<float*, 3> state = {};  ///< state, in the order of Rule::state()
  std::int64_t count = 0;            ///< number of elements in each array
  DigestInto digest = {};
};

/// Returns elements begin .. end - 1 of `whole`.
[[nodiscard]] inline Memory part_of(const Memory& whole, std::int64_t begin, std::int64_t end) {
  Memory part{
      .parameter = whole.parameter + begin, .grad = whole.grad + begin, .count = end - begin, .digest = whole.digest};
  part.digest.first += begin;
  for (std::size_t i = 0; i < part.state.size(); ++i) {
    if (whole.state[i] != nullptr) part.state[i] = whole.state[i] + begin;
  }
  return part;
}

/// A step's constants, rounded as in torch.optim. State: exp_avg, exp_avg_sq; with amsgrad also max_exp_avg_sq.
struct AdamStep {
  float grad_scale = 1;
  float decay = 1;  ///< factor on the parameter: 1 - lr * weight_decay
  float l2 = 0;     ///< share of the parameter that adam_l2_update() adds to the gradient
  float beta1 = 0;
  float one_minus_beta1 = 0;
  float beta2 = 0;
  float one_minus_beta2 = 0;
  float root_correction2 = 0;  ///< sqrt(1 - beta2^step)
  float eps = 0;
  float step_size = 0;  ///< lr / (1 - beta1^step)
  bool amsgrad = false;
};
void adamw_update(const Memory& memory, const AdamStep& step);
void adam_l2_update(const Memory& memory, const AdamStep& step);

/// State: exp_avg, exp_avg_sq.
struct LambStep {
  AdamStep adam = {};
  float over_correction1 = 0;  ///< 1 / (1 - beta1^step)
  float weight_decay = 0;
};
/// Updates the state, and writes the direction r + weight_decay * x to `direction`.
void lamb_moments(const Memory& memory, const LambStep& step, float* direction);
/// Recomputes the direction from the state, and sets parameter -= rate * direction.
void lamb_move(const Memory& memory, const LambStep& step, float rate);

/// State: exp_avg.
struct LionStep {
  float grad_scale = 1;
  float weight_decay = 0;
  float beta1 = 0;
  float one_minus_beta1 = 0;
  float beta2 = 0;
  float one_minus_beta2 = 0;
  float lr = 0;
};
void lion_update(const Memory& memory, const LionStep& step);

/// State: momentum_buffer, unless the momentum is zero.
struct SgdStep {
  float grad_scale = 1;
  float weight_decay = 0;
  float momentum = 0;   ///< 0 in a parameter's first step, in which the buffer becomes the gradient
  float new_share = 1;  ///< 1 - dampening; 1 in the first step
  float nesterov = 0;   ///< share of the buffer that is added to the gradient
  float lr = 0;
};
void sgd_update(const Memory& memory, const SgdStep& step);
void sgd_momentum_update(const Memory& memory, const SgdStep& step);
void sgd_nesterov_update(const Memory& memory, const SgdStep& step);

/// State: momentum_buffer.
struct LarsStep {
  float grad_scale = 1;
  float weight_decay = 0;
  float momentum = 0;
  float rate = 0;
};
void lars_update(const Memory& memory, const LarsStep& step);

/// State: square_avg; with momentum also momentum_buffer; with centered also grad_avg.
struct RmspropStep {
  float grad_scale = 1;
  float weight_decay = 0;
  float alpha = 0;
  float one_minus_alpha = 0;
  float eps = 0;
  float momentum = 0;
  float lr = 0;
  bool has_momentum = false;
  bool centered = false;
};
void rmsprop_update(const Memory& memory, const RmspropStep& step);

/// State: sum.
struct AdagradStep {
  float grad_scale = 1;
  float weight_decay = 0;
  float eps = 0;
  float lr = 0;
};
void adagrad_update(const Memory& memory, const AdagradStep& step);

/// Returns the sum of squares in double: element i is added to lane i % 16, and then the lanes are added in order.
[[nodiscard]] double sum_of_squares(const float* values, std::int64_t count);

}  // namespace lockstep::optim
