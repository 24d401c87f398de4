// SPDX-License-Identifier: Apache-2.0
// Waits for the name of a host whose entry in the DNS comes after the processes start, as in Kubernetes.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>

#pragma GCC visibility push(default)

namespace lockstep {

/// Waits until the name of a host can be resolved, for at most `limit` (none: LOCKSTEP_TIMEOUT). Tries about once a
/// second, and reports the wait after 3 s. Returns at once if waiting does not help. After the limit, or if
/// `is_asked_to_end` returns true, it returns too: the next use of the name then throws. Call it before
/// connect_store(), which does not count the seconds for which the resolver blocks. Blocks: for one lookup longer than
/// the limit at most.
void await_name(const std::string& host, const std::function<bool()>& is_asked_to_end = {},
                std::optional<std::chrono::milliseconds> limit = {});

}  // namespace lockstep

#pragma GCC visibility pop
