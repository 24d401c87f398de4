// SPDX-License-Identifier: Apache-2.0
// Wrappers made from a Job keep it alive.
#pragma once

#include <concepts>
#include <memory>
#include <type_traits>

#pragma GCC visibility push(default)

namespace lockstep {

class ProcessGroup;

namespace parallel {

/// Keeps the owner of a group alive. Empty if the caller keeps it alive.
using GroupOwner = std::shared_ptr<const void>;

/// Any class with a group(), such as Job.
template <class Job>
concept HasGroup = requires(Job& job) {
  { job.group() } -> std::convertible_to<ProcessGroup&>;
};

/// Returns a copy of `job`, which keeps its group alive. Empty for a class whose copies are not cheap (may throw): the
/// caller keeps such an object alive.
template <HasGroup Job>
GroupOwner owner_of(Job& job) {
  if constexpr (std::is_nothrow_copy_constructible_v<Job>) return std::make_shared<const Job>(job);
  return nullptr;
}

}  // namespace parallel
}  // namespace lockstep

#pragma GCC visibility pop
