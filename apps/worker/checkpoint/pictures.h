// SPDX-License-Identifier: Apache-2.0
// Pictures of a data set as arguments of a network, to compare it with its exported file.
#pragma once

#include <string>

#include "lockstep/nn/torchscript.h"
#include "worker/trained.h"

namespace lockstep::worker {

/// Returns the function with examples whose first argument comes from an evaluation on `data`, as Task::make_dataset()
/// takes it. If `data` is empty: the checkpoint's test data if its files exist, else the function unchanged. A line on
/// stderr names the data. Throws: as the data set, if `data` is given.
[[nodiscard]] nn::NetworkFunction on_pictures(const Trained& trained, nn::NetworkFunction function,
                                              const std::string& data);

}  // namespace lockstep::worker
