// SPDX-License-Identifier: Apache-2.0
#include "train/loop/run_saver.h"

#include <ATen/ops/full.h>
#include <fmt/format.h>

#include <chrono>
#include <future>
#include <thread>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/log.h"
#include "lockstep/base/text.h"
#include "lockstep/comm/group_check.h"
#include "lockstep/tensor/device.h"
#include "train/ranks/same_outcome.h"

namespace lockstep::train {

namespace fs = std::filesystem;

namespace {

// How long a disk takes says nothing of the ranks' health: LOCKSTEP_TIMEOUT does not limit a save. A rank that dies in
// it is noticed by the group, and the save is given up (CheckpointPeers::abandon).
constexpr auto kAsLongAsItTakes = std::chrono::milliseconds::max();

void name_and_prune(const fs::path& folder, const fs::path& path, const std::vector<std::string>& names,
                    const TrainConfig::Checkpoint& options) {
  FileSystem& files = FileSystem::system();
  for (const std::string& name : names) name_checkpoint(files, folder, name, path);
  prune_checkpoints(files, folder, {.keep_last = options.keep_last, .keep_every = options.keep_every});
}

}  // namespace

RunSaver::RunSaver(const Job& job, const TrainConfig::Checkpoint& options, fs::path folder)
    : job_(job), options_(options), folder_(std::move(folder)), peers_(no_peers()) {
  static std::int64_t savers = 0;  // the same on every rank: each has words of its own in the store
  ++savers;
  if (options_.sharded) {
    peers_ = store_peers(job_.store(), {.prefix = fmt::format("lockstep/checkpoint/{}/", savers),
                                        .rank = job_.rank(),
                                        .world_size = job_.world_size(),
                                        .timeout = kAsLongAsItTakes});
  }
  if (options_.async && writes()) async_ = std::make_unique<AsyncSaver>();
}

/// After finish() there is nothing under way; without it the run ends with an error. A save under way is dropped: it
/// would wait for ranks that do not come any more, or keep what the error had spoilt.
RunSaver::~RunSaver() {
  dropped_ = true;
  peers_->abandon();
  async_.reset();
}

void RunSaver::start_at(std::int64_t step, const fs::path& path) {
  last_step_ = step;
  const std::lock_guard lock(mutex_);
  last_path_ = path;
}

/// Of a sharded save, until it is done on every rank. The threads that save ask each other through the store, which
/// cannot tell that one of them has died; the group can.
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

void RunSaver::reserve(const StateParts& parts) {
  if (async_) async_->reserve(parts);
}

void RunSaver::save(const StateParts& parts, const SaveOrder& order) {
  if (options_.sharded) return save_here(parts, order);
  if (!options_.async || order.last || !order.may_skip || options_.when_busy != "skip") {
    return do_on_main(job_, [&] { save_here(parts, order); });
  }
  // The others have nothing to wait for: rank 0 leaves out what it would have to wait for.
  if (job_.is_main()) save_here(parts, order);
}

/// What this rank does of save().
void RunSaver::save_here(const StateParts& parts, const SaveOrder& order) {
  if (check_ && job_.is_main() && !options_.sharded) check_();
  if (order.meta.step == last_step_) {
    finish_here();
    if (job_.is_main()) name_and_prune(folder_, last_path(), order.names, options_);
    return;
  }
  if (order.may_skip && async_ && options_.when_busy == "skip" && async_->is_busy()) {
    ++skipped_;
    log::note("the checkpoint of step {} is left out: the one before is still being written ({} so far)",
              text::thousands(order.meta.step), skipped_);
    return;
  }
  last_step_ = order.meta.step;
  if (!async_ || order.last) {
    finish_here();
    if (!options_.sharded) return write(parts, order);
    auto written = std::async(std::launch::async, [&] {
      tensor::adopt_device();
      write(parts, order);
    });
    try {
      wait_for_all([&] { return written.wait_for(std::chrono::seconds(0)) == std::future_status::ready; });
    } catch (...) {
      peers_->abandon();  // the thread would wait for a rank that is gone, and we for the thread
      throw;
    }
    return written.get();
  }
  if (options_.sharded) finish_here();
  async_->save(parts, [this, order](const StateParts& copy) { write(copy, order); });
  check_group(job_.group());  // the copy is there: what an abort cut short is known by now
}

/// A GPU's sum that an abort cut short looks like any other.
void RunSaver::check_whole(std::int64_t step) const {
  check_group(job_.group());
  if (check_ && job_.is_main()) check_();
  if (!dropped_) return;
  throw PeerError(fmt::format("the checkpoint of step {} is dropped: the run ended with an error while it was written",
                              text::thousands(step)));
}

void RunSaver::write(const StateParts& parts, const SaveOrder& order) {
  const ShardedContent content{parts, order.texts, [this, &order] { check_whole(order.meta.step); }};
  const fs::path path = commit_sharded_checkpoint(FileSystem::system(), *peers_, folder_, order.meta, content);
  if (!job_.is_main()) return;
  {
    const std::lock_guard lock(mutex_);
    last_path_ = path;
  }
  name_and_prune(folder_, path, order.names, options_);
  const std::lock_guard lock(mutex_);
  saved_.push_back({.step = order.meta.step, .path = path, .names = order.names});
}

void RunSaver::check() {
  if (async_) async_->check();
}

void RunSaver::finish() {
  if (options_.sharded || !options_.async) return finish_here();
  do_on_main(job_, [this] { finish_here(); });
}

void RunSaver::finish_here() {
  if (!async_) return;
  if (options_.sharded) wait_for_all([this] { return !async_->is_busy(); });
  async_->wait();
}

std::vector<SaveResult> RunSaver::take_saved() {
  const std::lock_guard lock(mutex_);
  return std::exchange(saved_, {});
}

fs::path RunSaver::last_path() const {
  const std::lock_guard lock(mutex_);
  return last_path_;
}

}  // namespace lockstep::train
