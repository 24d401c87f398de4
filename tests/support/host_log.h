// SPDX-License-Identifier: Apache-2.0
// The fake GPUs report here every wait that a real GPU would cause, and every operator. HostWaits counts them.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace lockstep::testing {

void note_wait(const std::string& what);
void note_call(const std::string& name);

/// Runs `work` and returns its waits in order.
[[nodiscard]] std::vector<std::string> waits_of(const std::function<void()>& work);

}  // namespace lockstep::testing
