// SPDX-License-Identifier: Apache-2.0
#include "train/report/save_counter.h"

#include "lockstep/base/env.h"
#include "lockstep/base/error.h"
#include "lockstep/launch/agent.h"

namespace lockstep::train {

void SaveCounter::on_start(const RunStart& /*event*/) { add(0); }

void SaveCounter::on_save(const SaveResult& /*event*/) { add(1); }

void SaveCounter::add(std::int64_t saves) {
  try {
    job_.store().add(kSavesKey, saves);
  } catch (const Error&) {
    // The launcher's heartbeat reports the loss of the store.
  }
}

void publish_replicas(const Job& job, std::int64_t replicas) {
  if (!job.is_main() || !has_launcher()) return;
  try {
    job.store().set(kReplicasKey, std::to_string(replicas));
  } catch (const Error&) {
    // The launcher's heartbeat reports the loss of the store.
  }
}

bool has_launcher() { return env::get("LOCKSTEP_STORE").has_value(); }

}  // namespace lockstep::train
