// SPDX-License-Identifier: Apache-2.0
// Runs each world in its own process: no world sees the remains of another, and a crash fails only one world.
#pragma once

#include <functional>

namespace lockstep::sim {

/// Runs a world in its own process. Output of production code goes to the simulated process that runs, and an exception
/// that no thread catches goes to Kernel::on_wrong. Returns the wait status.
int run_alone(const std::function<void()>& world);

/// Starts this program again at fixed addresses: some sets are ordered by address, and a seed must give the same world
/// on every run.
void fix_addresses(char** argv);

}  // namespace lockstep::sim
