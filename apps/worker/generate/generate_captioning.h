// SPDX-License-Identifier: Apache-2.0
// `lockstep generate captioning`: a set of pictures with captions.
#pragma once

#include "worker/commands.h"

namespace lockstep::worker {

int generate_captioning(const Arguments& arguments);

}  // namespace lockstep::worker
