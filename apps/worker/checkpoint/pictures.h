// SPDX-License-Identifier: Apache-2.0
// Uses images from a data set as arguments of a network, to compare the network with its exported file.
#pragma once

#include <string>

#include "lockstep/nn/torchscript.h"
#include "worker/trained.h"

namespace lockstep::worker {

/// Returns the function with examples whose first argument comes from `data`, a path for Task::make_dataset(). If
/// `data` is empty, uses the checkpoint's test data; if those files do not exist, returns the function unchanged. A
/// line on stderr names the data. Throws: anything the data set throws, if `data` is given.
[[nodiscard]] nn::NetworkFunction on_pictures(const Trained& trained, nn::NetworkFunction function,
                                              const std::string& data);

}  // namespace lockstep::worker
