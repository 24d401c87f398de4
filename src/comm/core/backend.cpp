// SPDX-License-Identifier: Apache-2.0
#include "comm/core/backend.h"

namespace lockstep::comm {

void Backend::run(const Collective& collective) {
  if (collective.on_device) {
    meet(collective);
  } else if (is_reduction(collective.call.kind)) {
    reduce(collective);
  } else if (is_move(collective.call.kind)) {
    move(collective);
  } else {
    meet(collective);
  }
  note_finished(collective.call.sequence);
}

}  // namespace lockstep::comm
