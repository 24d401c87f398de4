// SPDX-License-Identifier: Apache-2.0
// Finds the tensors in the result of a forward: a backward and the search for unused parameters start from them.
#pragma once

#include <ATen/core/ivalue.h>  // before any other torch header: otherwise Clang cannot compile libtorch 1.13
#include <ATen/core/Tensor.h>

#include <tuple>
#include <type_traits>
#include <utility>

#pragma GCC visibility push(default)

namespace lockstep::parallel {

/// Calls `visit` for each tensor in `value`. It can search a tensor; optionals, pointers, pairs, tuples, containers and
/// maps of tensors; and a user's class that has `template <class Visit> void visit_tensors(Visit&& visit) const`.
/// Returns: false if a part of `value` has a type that cannot be searched.
template <class T, class Visit>
bool visit_tensors(const T& value, const Visit& visit) {
  if constexpr (std::is_convertible_v<const T&, const at::Tensor&>) {
    visit(static_cast<const at::Tensor&>(value));
    return true;
  } else if constexpr (std::is_arithmetic_v<T> || std::is_enum_v<T> || std::is_same_v<T, std::nullptr_t>) {
    return true;
  } else if constexpr (requires { value.visit_tensors(visit); }) {
    value.visit_tensors(visit);
    return true;
  } else if constexpr (requires { std::tuple_size<T>::value; }) {
    return std::apply([&](const auto&... parts) { return (visit_tensors(parts, visit) & ... & true); }, value);
  } else if constexpr (requires { value.begin() != value.end(); }) {
    bool all = true;
    for (const auto& part : value) all = visit_tensors(part, visit) && all;
    return all;
  } else if constexpr (requires { static_cast<bool>(value), *value; }) {
    return static_cast<bool>(value) ? visit_tensors(*value, visit) : true;
  } else {
    return false;
  }
}

}  // namespace lockstep::parallel

#pragma GCC visibility pop
