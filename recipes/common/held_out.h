// SPDX-License-Identifier: Apache-2.0
// The settings that hold out part of the training set as the test set.
#pragma once

#include <cstdint>

#include "lockstep/base/config.h"

namespace lockstep::common {

/// Adds data.val_fraction and data.split_seed to `fields`.
inline void describe_held_out(ConfigFields& fields, double& fraction, std::int64_t& seed) {
  fields
      .add("data.val_fraction", &fraction,
           "share of data.train's images held out as the test set, instead of data.test; 0: none")
      .in({.least = 0, .most = 1, .below = true});
  fields.add("data.split_seed", &seed, "seed for choosing data.val_fraction's images, by name").in({0, 1e15});
}

}  // namespace lockstep::common
