// SPDX-License-Identifier: Apache-2.0
// Waits for the name of a host whose entry in the DNS comes after the processes start, as in Kubernetes.
#pragma once

#include <functional>
#include <string>

#pragma GCC visibility push(default)

namespace lockstep {

/// Waits until the name of a host can be resolved, for at most LOCKSTEP_TIMEOUT. Tries about once a second, and reports
/// the wait after 3 s. Returns at once if waiting does not help. After the limit, or if `is_asked_to_end` returns true,
/// it returns too: the next use of the name then throws.
void await_name(const std::string& host, const std::function<bool()>& is_asked_to_end = {});

}  // namespace lockstep

#pragma GCC visibility pop
