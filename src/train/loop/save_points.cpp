// SPDX-License-Identifier: Apache-2.0
#include "train/loop/save_points.h"

#include <utility>

#include "lockstep/view/digest_chain.h"
#include "train/settings/configuration.h"

namespace lockstep::train {

bool SavePoints::is_due(const RunState& run) const {
  const std::int64_t every = plan_.config.checkpoint.every_steps;
  return every > 0 && run.step % every == 0;
}

void SavePoints::make_room(const RunState& run) {
  if (std::exchange(made_room_, true)) return;
  // If rank 0 gathers the state from shards, the whole state does not exist yet.
  const bool gathered = plan_.config.optimizer.zero && !plan_.config.checkpoint.sharded;
  if (plan_.config.checkpoint.every_steps > 0 && saver_.writes() && !gathered) saver_.reserve(parts(run));
}

StateParts SavePoints::parts(const RunState& run) {
  const bool sharded = plan_.config.checkpoint.sharded;
  const SaveShare share{.rank = sharded ? job_.rank() : 0, .world = sharded ? job_.world_size() : 1};
  StateParts parts = learner_.state_parts(share);
  StateDict state = to_state(run);
  state["recipe"] = plan_.recipe;
  parts["run"] = part_of(state, share.rank, share.world);
  return parts;
}

void SavePoints::save(RunState& run, const SaveReason& reason) {
  const bool sharded = plan_.config.checkpoint.sharded;
  run.loss_sum = learner_.loss().sum();
  run.loss_count = learner_.loss().count();
  // All ranks must call the same collectives, so the decision must not depend on facts that only rank 0 has.
  const bool first_time = std::exchange(asked_step_, run.step) != run.step;
  if (first_time && !sharded) learner_.steps().weights().optimizer().consolidate_state_dict();
  if (first_time) learner_.steps().guard().compare_state(run.step);
  if (first_time && sharded) learner_.steps().buffers().sync();  // the saved buffers are replica 0's
  const bool writes = saver_.writes() && saver_.last_step() != run.step;
  const SaveOrder order{.meta = {.step = run.step,
                                 .replicas = plan_.config.replicas,
                                 .threads = plan_.config.threads,
                                 .configuration_hash = configuration_hash(plan_.settings, plan_.config.rows()),
                                 .digest_fold = run.digest_fold == 0 ? "" : view::fold_text(run.digest_fold)},
                        .texts = {{"config.yml", plan_.settings}},
                        .names = reason.names,
                        .finite = {.required = plan_.config.checkpoint.require_finite, .learnt = learner_.learnt()}};
  saver_.save(writes ? parts(run) : StateParts{}, {order, reason.may_skip, reason.last});
}

}  // namespace lockstep::train
