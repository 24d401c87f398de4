// SPDX-License-Identifier: Apache-2.0
#include "parallel/reducer/autograd_hooks.h"

#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/utils/lambda_post_hook.h>
#include <torch/csrc/autograd/variable.h>

namespace lockstep::parallel {

AutogradHooks::~AutogradHooks() {
  for (std::size_t i = 0; i < hooks_.size(); ++i) accumulators_[i]->del_post_hook(hooks_[i]);
}

void AutogradHooks::attach(const NamedTensors& parameters, const Ready& ready) {
  using torch::autograd::variable_list;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    auto accumulator = torch::autograd::impl::grad_accumulator(parameters[i].second);
    auto hook = [ready, i](const variable_list& outputs, const variable_list& gradients) {
      ready(i, gradients.front().defined());
      return outputs;
    };
    hooks_.push_back(accumulator->add_post_hook(std::make_unique<torch::autograd::utils::LambdaPostHook>(hook)));
    parameter_of_[accumulator.get()] = i;
    accumulators_.push_back(std::move(accumulator));
  }
}

}  // namespace lockstep::parallel
