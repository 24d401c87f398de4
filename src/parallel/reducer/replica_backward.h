// SPDX-License-Identifier: Apache-2.0
// The backward of one replica: the gradients that have come, and those that will not.
#pragma once

#include <ATen/core/ivalue.h>  // before any other torch header: Clang cannot compile 1.13 as C++20 otherwise
#include <ATen/core/Tensor.h>

#include <cstddef>
#include <memory>
#include <vector>

#include "lockstep/parallel/distributed_data_parallel.h"
#include "parallel/reducer/forward_pass.h"

namespace lockstep::parallel {

/// A replica is idle, or its backward runs: from the first node that the backward reaches to the engine's final
/// callback. A synced backward is started once it is known to be synced and buckets take its gradients. Vectors have
/// one entry for each parameter, unless they say otherwise.
struct ReplicaBackward {
  bool sync = true;                                       ///< later forwards' gradients are reduced
  bool armed = false;                                     ///< a forward has no backward yet
  bool last_sync = true;                                  ///< the value of `sync` in the last forward
  std::vector<std::weak_ptr<ForwardPass>> forwards = {};  ///< forwards whose backward may come
  bool running = false;
  bool reached = false;  ///< the backward came through an output of a forward
  bool whole = false;    ///< it is a backward(), not the gradient of some inputs
  bool synced = false;
  bool started = false;
  std::size_t arrivals = 0;      ///< calls of hooks, in all
  std::vector<int> counts = {};  ///< calls of hooks, by parameter
  std::vector<bool> contributed = {};
  std::vector<std::size_t> order = {};     ///< parameters in order of arrival, in the first step of a static graph
  std::vector<int> expected = {};          ///< the counts of that step
  std::vector<at::Tensor> gradients = {};  ///< accumulated gradients, while another replica runs

  void begin(std::size_t parameters);
  /// Forgets the forwards that the backward came through, and those whose graph is gone.
  void end();
  /// Returns true in the first synced step of a static graph.
  [[nodiscard]] bool is_recording(const DdpOptions& options) const {
    return options.static_graph && synced && expected.empty();
  }
  /// Returns the parameters in the order in which their gradients are complete, by their last arrival.
  [[nodiscard]] std::vector<std::size_t> recorded_order() const;
  /// Returns the parameters that have not contributed.
  [[nodiscard]] std::vector<std::size_t> missing() const;
  /// Returns the parameters without a gradient on which no output of a forward depends; those forwards searched for
  /// them.
  [[nodiscard]] std::vector<std::size_t> unreachable() const;
};

}  // namespace lockstep::parallel
