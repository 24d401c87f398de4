// SPDX-License-Identifier: Apache-2.0
// torch::save(model, "net.pt") and torch::load(model, "net.pt") for a wrapped model: the file holds the inner module,
// so that a program without the wrapper can read it too.
#pragma once

#include "lockstep/parallel/distributed_data_parallel.h"

#pragma GCC visibility push(default)

namespace torch::serialize {
class InputArchive;
class OutputArchive;
}  // namespace torch::serialize

namespace lockstep {

/// Writes the inner module. Call it on one rank: all ranks have the same weights. Collective: no.
/// Example: if (job.is_main()) torch::save(model, "net.pt");
template <class Net>
torch::serialize::OutputArchive& operator<<(torch::serialize::OutputArchive& archive,
                                            const DistributedDataParallel<Net>& model) {
  return archive << model.ptr();
}

/// Reads into the inner module. Call it on every rank, with the same file. Collective: no.
/// Example: torch::load(model, "net.pt");
template <class Net>
torch::serialize::InputArchive& operator>>(torch::serialize::InputArchive& archive,
                                           DistributedDataParallel<Net>& model) {
  std::shared_ptr<Net> net = model.ptr();
  return archive >> net;
}

}  // namespace lockstep

#pragma GCC visibility pop
