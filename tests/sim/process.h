// SPDX-License-Identifier: Apache-2.0
// Runs each world in its own process: no world sees leftovers of another, and a crash fails only one world.
#pragma once

#include <functional>

namespace lockstep::sim {

/// Runs a world in its own process. Output of production code goes to the running simulated process, and an uncaught
/// exception to Kernel::on_wrong. Returns the wait status.
int run_alone(const std::function<void()>& world);

/// Restarts this program at fixed addresses: some sets are ordered by address, and a seed must give the same world on
/// every run.
void fix_addresses(char** argv);

}  // namespace lockstep::sim
