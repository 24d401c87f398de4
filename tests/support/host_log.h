// SPDX-License-Identifier: Apache-2.0
// Where the make-believe GPUs say what a real one is waited for, and what it ran. HostWaits counts it.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace lockstep::testing {

void note_wait(const std::string& what);
void note_call(const std::string& name);

/// Runs `work`, and returns what waited, in order.
[[nodiscard]] std::vector<std::string> waits_of(const std::function<void()>& work);

}  // namespace lockstep::testing
