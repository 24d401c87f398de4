// SPDX-License-Identifier: Apache-2.0
// Calls in the order of a thread, outer calls before inner calls.
#pragma once

#include <algorithm>
#include <vector>

#include "lockstep/view/profile.h"

namespace lockstep::view {

using Calls = std::vector<const ProfiledCall*>;

inline bool runs_steps(const Profile& profile, const ProfiledCall& call) {
  return profile.threads.at(static_cast<std::size_t>(call.thread)).runs_steps;
}

/// Returns the calls for which `is_wanted` is true, by thread if `by_thread`, then by start.
template <class Wanted>
[[nodiscard]] Calls calls_in_order(const Profile& profile, bool by_thread, Wanted is_wanted) {
  Calls calls;
  for (const ProfiledCall& call : profile.calls) {
    if (is_wanted(call)) calls.push_back(&call);
  }
  std::stable_sort(calls.begin(), calls.end(), [by_thread](const ProfiledCall* a, const ProfiledCall* b) {
    if (by_thread && a->thread != b->thread) return a->thread < b->thread;
    if (a->begin_ns != b->begin_ns) return a->begin_ns < b->begin_ns;
    return a->end_ns > b->end_ns;
  });
  return calls;
}

inline bool is_operator(const ProfiledCall& call) {
  return call.kind != CallKind::kSection && call.kind != CallKind::kCollective;
}

}  // namespace lockstep::view
