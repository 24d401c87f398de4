// SPDX-License-Identifier: Apache-2.0
#include "comm/core/backend.h"

namespace lockstep::comm {

void Backend::run(const Collective& collective) {
  if (collective.on_device) {
    meet(collective);
  } else if (is_reduction(collective.what.kind)) {
    reduce(collective);
  } else if (is_move(collective.what.kind)) {
    move(collective);
  } else {
    meet(collective);
  }
  note_finished(collective.what.sequence);
}

}  // namespace lockstep::comm
