// SPDX-License-Identifier: Apache-2.0
// The commands of `lockstep generate` that make sets for segmentation.
#pragma once

#include "worker/commands.h"

namespace lockstep::worker {

int generate_segmentation(const Arguments& arguments);
int generate_scribbles(const Arguments& arguments);
int generate_pseudo_labels(const Arguments& arguments);
int generate_distance_maps(const Arguments& arguments);
int generate_weak_labels(const Arguments& arguments);

}  // namespace lockstep::worker
