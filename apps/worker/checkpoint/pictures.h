// SPDX-License-Identifier: Apache-2.0
// Pictures of a data set as arguments of a network that is compared with its exported file.
#pragma once

#include <string>

#include "lockstep/nn/torchscript.h"
#include "worker/trained.h"

namespace lockstep::worker {

/// Returns the function with examples whose first argument is what an evaluation on `data` gives the network. `data`:
/// as Task::make_dataset() takes it; empty: the checkpoint's test data, if its files are there, else the function as it
/// is. A line on stderr names the data. Throws: what the data set throws, if `data` is given.
[[nodiscard]] nn::NetworkFunction on_pictures(const Trained& trained, nn::NetworkFunction function,
                                              const std::string& data);

}  // namespace lockstep::worker
