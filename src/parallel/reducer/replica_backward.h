// SPDX-License-Identifier: Apache-2.0
// The backward of one replica: the gradients that have arrived, and those that will not.
#pragma once

#include <ATen/core/ivalue.h>  // before any other torch header: otherwise Clang cannot compile libtorch 1.13
#include <ATen/core/Tensor.h>

#include <cstddef>
#include <memory>
#include <vector>

#include "lockstep/parallel/distributed_data_parallel.h"
#include "parallel/reducer/forward_pass.h"

namespace lockstep::parallel {

/// The state of a replica: idle, or running its backward, from the first node that it reaches to the engine's final
/// callback. A synced backward is `started` once it is known to be synced and the buckets take its gradients. Vectors
/// have one entry for each parameter, unless stated otherwise.
struct ReplicaBackward {
  bool sync = true;                                       ///< the gradients of later forwards are reduced
  bool armed = false;                                     ///< a forward has not had its backward yet
  bool last_sync = true;                                  ///< the value of `sync` in the last forward
  std::vector<std::weak_ptr<ForwardPass>> forwards = {};  ///< forwards whose backward may still run
  bool running = false;
  bool reached = false;  ///< the backward has passed through an output of a forward
  bool whole = false;    ///< the call was backward(), not autograd::grad() for some inputs
  bool synced = false;
  bool started = false;
  std::size_t arrivals = 0;      ///< number of calls to hooks
  std::vector<int> counts = {};  ///< number of calls to hooks for each parameter
  std::vector<bool> contributed = {};
  std::vector<std::size_t> order = {};     ///< parameters in order of arrival, in the first step of a static graph
  std::vector<int> expected = {};          ///< `counts` of that step
  std::vector<at::Tensor> gradients = {};  ///< accumulated gradients, while another replica runs

  void begin(std::size_t parameters);
  /// Ends the backward: forgets the forwards that it passed through, and forwards whose graph is gone.
  void end();
  /// Returns true in the first synced step of a static graph.
  [[nodiscard]] bool is_recording(const DdpOptions& options) const {
    return options.static_graph && synced && expected.empty();
  }
  /// Returns the parameters in the order of their last arrival, which completes a gradient.
  [[nodiscard]] std::vector<std::size_t> recorded_order() const;
  /// Returns the parameters that have not contributed.
  [[nodiscard]] std::vector<std::size_t> missing() const;
  /// Returns the parameters without a gradient on which no output of the searched forwards depends.
  [[nodiscard]] std::vector<std::size_t> unreachable() const;
};

}  // namespace lockstep::parallel
