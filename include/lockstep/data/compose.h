// SPDX-License-Identifier: Apache-2.0
// Compose: a chain of steps from an image to a sample, checked by the compiler. Built-in augmentations, users' classes
//          and lambdas can all be steps.
#pragma once

#include <concepts>
#include <tuple>
#include <type_traits>
#include <utility>

#include "lockstep/data/dataset.h"
#include "lockstep/data/picture.h"

#pragma GCC visibility push(default)

namespace lockstep {
namespace detail {

/// The second parameter of a step, after the value.
enum class StepNeeds { kContext, kRandom, kNothing, kUnknown };

template <class Step, class Value>
constexpr StepNeeds step_needs() {
  if constexpr (std::invocable<const Step&, Value, SampleContext&>) return StepNeeds::kContext;
  if constexpr (std::invocable<const Step&, Value, SampleRandom&>) return StepNeeds::kRandom;
  return std::invocable<const Step&, Value> ? StepNeeds::kNothing : StepNeeds::kUnknown;
}

/// Calls a step. `Value` is an lvalue or rvalue reference, as the step needs.
template <class Value, class Step>
decltype(auto) call_step(const Step& step, Value value, SampleContext& context) {
  constexpr StepNeeds kNeeds = step_needs<Step, Value>();
  if constexpr (kNeeds == StepNeeds::kContext) {
    return step(static_cast<Value>(value), context);
  } else if constexpr (kNeeds == StepNeeds::kRandom) {
    return step(static_cast<Value>(value), context.random);
  } else {
    return step(static_cast<Value>(value));
  }
}

/// A step that takes a non-const reference gets an lvalue; other steps get an rvalue, which they may keep.
template <class Step, class T>
using StepValue = std::conditional_t<step_needs<Step, T&&>() == StepNeeds::kUnknown, T&, T&&>;

/// Returns the result of `step`, or its argument if it returns nothing.
template <class T, class Step>
auto apply_step(const Step& step, T value, SampleContext& context) {
  static_assert(
      step_needs<Step, StepValue<Step, T>>() != StepNeeds::kUnknown,
      "a Compose step cannot take the previous step's result. A step must be callable, as const, with AnnotatedImage "
      "(after ToTensor: Sample), by value or reference, optionally followed by SampleContext& or SampleRandom&");
  using Result = decltype(call_step<StepValue<Step, T>>(step, std::declval<StepValue<Step, T>>(), context));
  if constexpr (std::is_void_v<Result>) {
    call_step<StepValue<Step, T>>(step, static_cast<StepValue<Step, T>>(value), context);
    return value;
  } else {
    std::remove_cvref_t<Result> result =
        call_step<StepValue<Step, T>>(step, static_cast<StepValue<Step, T>>(value), context);
    return result;
  }
}

template <class T>
T apply_steps(T value, SampleContext& /*context*/) {
  return value;
}

template <class T, class Step, class... Rest>
auto apply_steps(T value, SampleContext& context, const Step& step, const Rest&... rest) {
  return apply_steps(apply_step<T>(step, std::move(value), context), context, rest...);
}

}  // namespace detail

/// Steps in the order in which they are applied. A step takes the result of the previous step, an AnnotatedImage or a
/// Sample, by value or by reference, and optionally a SampleContext& or SampleRandom& after it. It returns the argument
/// of the next step, or nothing if it changed its own argument. A Compose is itself a step. Thread-safe: the steps must
/// be; several loader workers call them, as const, at once.
/// Example: Compose{RandomResizedCrop{}, HorizontalFlip{}, ToTensor{.normalize = Normalize{}}, [](Sample s) { return s;
///          }}
template <class... Steps>
class Compose {
 public:
  explicit Compose(Steps... steps) : steps_(std::move(steps)...) {}

  template <class T>
  requires std::same_as<T, AnnotatedImage> || std::same_as<T, Sample>
  auto operator()(T value, SampleContext& context) const {
    return std::apply([&](const Steps&... steps) { return detail::apply_steps(std::move(value), context, steps...); },
                      steps_);
  }

 private:
  std::tuple<Steps...> steps_;
};

}  // namespace lockstep

#pragma GCC visibility pop
