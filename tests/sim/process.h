// SPDX-License-Identifier: Apache-2.0
// A world is a process: no world sees what another left, and a crash is one failed world.
#pragma once

#include <functional>

namespace lockstep::sim {

/// Runs a world in a process of its own, in which what production code prints goes to the simulated process that runs,
/// and an exception that no thread catches to Kernel::on_wrong. Returns its wait status.
int run_alone(const std::function<void()>& world);

/// Starts this program again at fixed addresses: some sets are ordered by them, and a seed's world is the same on every
/// run.
void fix_addresses(char** argv);

}  // namespace lockstep::sim
