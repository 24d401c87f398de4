// SPDX-License-Identifier: Apache-2.0
#include "train/loop/run_saver.h"

#include <ATen/ops/full.h>

#include <chrono>
#include <future>
#include <thread>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/log.h"
#include "lockstep/base/text.h"
#include "lockstep/base/trace.h"
#include "lockstep/comm/group_check.h"
#include "lockstep/tensor/device.h"
#include "train/ranks/same_outcome.h"

namespace lockstep::train {

namespace fs = std::filesystem;

namespace {

// A slow disk is not a failed rank, so LOCKSTEP_TIMEOUT does not apply to saves. If a rank dies during a save, the
// group notices and the save is abandoned (CheckpointPeers::abandon).
constexpr auto kAsLongAsItTakes = std::chrono::milliseconds::max();

/// The prefix is not the default one, so that the program's own objects of store_peers() do not count.
std::unique_ptr<CheckpointPeers> peers_of(const Job& job, bool sharded) {
  if (!sharded) return no_peers();
  return store_peers(job.store(), {.prefix = "lockstep/checkpoint/trainer/",
                                   .rank = job.rank(),
                                   .world_size = job.world_size(),
                                   .timeout = kAsLongAsItTakes});
}

}  // namespace

RunSaver::RunSaver(const Job& job, const TrainConfig::Checkpoint& options, fs::path folder)
    : job_(job),
      options_(options),
      writer_(FileSystem::system(),
              {.folder = std::move(folder),
               .retention = {.keep_last = options.keep_last, .keep_every = options.keep_every},
               .background = options.async && writes(),
               .check = [this] { require_whole(); }},
              peers_of(job, options.sharded)) {}

void RunSaver::start_at(std::int64_t step, const fs::path& path) {
  last_step_ = step;
  writer_.start_at(path);
}

/// Waits until a sharded save is done on every rank. The saving threads coordinate through the store, which cannot
/// detect that a rank has died; the group can.
/// Collective: yes. Throws: PeerError.
void RunSaver::wait_for_all(const std::function<bool()>& done) const {
  constexpr std::chrono::milliseconds kPause{5};
  for (;;) {
    const at::Tensor all = at::full({1}, done() ? 1 : 0, at::kLong);
    job_.group().all_reduce(all, {.op = ReduceOp::kMin}).wait();
    if (all.item<std::int64_t>() == 1) return;
    std::this_thread::sleep_for(kPause);
  }
}

void RunSaver::save(const StateParts& parts, const RunSave& request) {
  const trace::Span span({.name = "save"});
  if (options_.sharded) return save_here(parts, request);
  if (!options_.async || request.last || !request.may_skip || options_.when_busy != "skip") {
    return do_on_main(job_, [&] { save_here(parts, request); });
  }
  // The other ranks do not wait, because rank 0 skips the save if it would have to wait.
  if (job_.is_main()) save_here(parts, request);
}

/// Performs this rank's part of save().
void RunSaver::save_here(const StateParts& parts, const RunSave& request) {
  if (check_ && job_.is_main() && !options_.sharded) check_();
  if (request.order.meta.step == last_step_) {
    finish_here();
    return writer_.name_newest(request.order.names);
  }
  const bool skips = request.may_skip && options_.when_busy == "skip";
  if (skips && writer_.is_busy()) {
    ++skipped_;
    log::note("the checkpoint of step {} is skipped: the previous one is still being written ({} skipped so far)",
              text::thousands(request.order.meta.step), skipped_);
    return;
  }
  if (skips && writer_.has_failed()) return;  // here only rank 0 would throw; after the next step, all ranks do
  last_step_ = request.order.meta.step;
  if (options_.async && !request.last) {
    if (options_.sharded) finish_here();
    writer_.save_in_background(parts, request.order);
    check_group(job_.group());  // after the copy, the group knows about aborted collectives
    return;
  }
  finish_here();
  if (!options_.sharded) return writer_.save(parts, request.order);
  save_together(parts, request);
}

/// A sharded save runs in a thread of its own even if training waits for it, so that this thread can check the group
/// for dead ranks.
void RunSaver::save_together(const StateParts& parts, const RunSave& request) {
  auto written = std::async(std::launch::async, [&] {
    tensor::adopt_device();
    writer_.save(parts, request.order);
  });
  try {
    wait_for_all([&] { return written.wait_for(std::chrono::seconds(0)) == std::future_status::ready; });
  } catch (...) {
    writer_.give_up();  // otherwise the saving thread would wait for a dead rank, and this thread for the saving thread
    throw;
  }
  written.get();
}

/// The group must be checked, because an aborted all-reduce on a GPU leaves a result that looks normal.
void RunSaver::require_whole() const {
  check_group(job_.group());
  if (check_ && job_.is_main()) check_();
}

void RunSaver::finish() {
  if (options_.sharded || !options_.async) return finish_here();
  do_on_main(job_, [this] { finish_here(); });
}

void RunSaver::finish_here() {
  if (!options_.async || !writes()) return;
  if (options_.sharded) wait_for_all([this] { return !writer_.is_busy(); });
  writer_.wait();
}

std::vector<SaveResult> RunSaver::take_saved() {
  std::vector<SaveResult> events;
  for (SavedCheckpoint& saved : writer_.take_saved()) {
    events.push_back({.step = saved.step, .path = std::move(saved.path), .names = std::move(saved.names)});
  }
  return events;
}

}  // namespace lockstep::train
