// SPDX-License-Identifier: Apache-2.0
#include "lockstep/checkpoint/checkpoint_writer.h"

#include <fmt/format.h>

#include <atomic>
#include <mutex>
#include <utility>

#include "checkpoint/folder/folder.h"
#include "checkpoint/save/finite_check.h"
#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/base/trace.h"

namespace lockstep {

namespace fs = std::filesystem;

namespace {

constexpr const char* kSection = "save";  ///< while one rank is in it, a launcher lets the other ranks wait longer

/// Runs `work` on files that this run has written. A missing or changed file then means that the disk has failed, so a
/// DataError becomes an IoError: the caller may save elsewhere.
template <class Work>
auto on_own_disk(Work&& work) {
  try {
    return std::forward<Work>(work)();
  } catch (const checkpoint::NotFiniteError&) {
    throw;  // not the disk's fault
  } catch (const DataError& error) {
    throw IoError(error.message(),
                  "something else has changed the run's checkpoints folder; use this folder for this run only");
  }
}

}  // namespace

class CheckpointWriter::Impl {
 public:
  Impl(FileSystem& files, CheckpointWriterOptions options, std::unique_ptr<CheckpointPeers> peers)
      : files_(files), options_(std::move(options)), peers_(std::move(peers)) {
    if (options_.background) thread = std::make_unique<AsyncSaver>();
  }

  ~Impl() {
    give_up();
    thread.reset();
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  void write(const StateParts& parts, const SaveOrder& order) {
    const ShardedContent content{parts, order.texts, [this, &order] { require_wanted(order.meta.step); }, order.finite};
    const fs::path path =
        on_own_disk([&] { return commit_sharded_checkpoint(files_, *peers_, options_.folder, order.meta, content); });
    if (!is_main()) return;
    set_newest(path);
    name(path, order.names);
    const std::lock_guard lock(mutex_);
    saved_.push_back({.step = order.meta.step, .path = path, .names = order.names});
  }

  void name(const fs::path& path, const std::vector<std::string>& names) {
    if (!is_main()) return;
    on_own_disk([&] {
      for (const std::string& name : names) name_checkpoint(files_, options_.folder, name, path);
      checkpoint::prune_all_but(files_, options_.folder, options_.retention, path);
    });
  }

  void give_up() noexcept {
    given_up_ = true;
    peers_->abandon();
  }

  void set_newest(const fs::path& path) {
    const std::lock_guard lock(mutex_);
    newest_ = path;
  }

  [[nodiscard]] fs::path newest() const {
    const std::lock_guard lock(mutex_);
    return newest_;
  }

  [[nodiscard]] std::vector<SavedCheckpoint> take_saved() {
    const std::lock_guard lock(mutex_);
    return std::exchange(saved_, {});
  }

  std::unique_ptr<AsyncSaver> thread;  ///< if null, saves run on the calling thread

 private:
  [[nodiscard]] bool is_main() const { return peers_->rank() == 0; }

  void require_wanted(std::int64_t step) const {
    if (options_.check) options_.check();
    if (!given_up_) return;
    throw PeerError(
        fmt::format("the checkpoint of step {} is dropped: the run ended with an error while it was being written",
                    text::thousands(step)));
  }

  FileSystem& files_;
  CheckpointWriterOptions options_;
  std::unique_ptr<CheckpointPeers> peers_;
  std::atomic<bool> given_up_ = false;
  mutable std::mutex mutex_;
  fs::path newest_;
  std::vector<SavedCheckpoint> saved_;  ///< the saves that take_saved() has not returned yet
};

CheckpointWriter::CheckpointWriter(FileSystem& files, CheckpointWriterOptions options,
                                   std::unique_ptr<CheckpointPeers> peers)
    : impl_(std::make_unique<Impl>(files, std::move(options), std::move(peers))) {}

CheckpointWriter::~CheckpointWriter() = default;

void CheckpointWriter::reserve(const StateParts& parts) {
  if (impl_->thread) impl_->thread->reserve(parts);
}

void CheckpointWriter::save(const StateParts& parts, const SaveOrder& order) {
  const trace::Span span({.name = kSection});
  wait();
  impl_->write(parts, order);
}

void CheckpointWriter::save_in_background(const StateParts& parts, const SaveOrder& order) {
  if (!impl_->thread) throw UsageError("save_in_background() needs CheckpointWriterOptions::background");
  const trace::Span span({.name = kSection});
  impl_->thread->save(parts, [this, order](const StateParts& copy) { impl_->write(copy, order); });
}

void CheckpointWriter::name_newest(const std::vector<std::string>& names) {
  const trace::Span span({.name = kSection});
  impl_->name(impl_->newest(), names);
}

bool CheckpointWriter::is_busy() const { return impl_->thread && impl_->thread->is_busy(); }

bool CheckpointWriter::has_failed() const { return impl_->thread && impl_->thread->has_failed(); }

void CheckpointWriter::check() {
  if (impl_->thread) impl_->thread->check();
}

void CheckpointWriter::wait() {
  if (!impl_->thread) return;
  const trace::Span span({.name = kSection});
  impl_->thread->wait();
}

void CheckpointWriter::give_up() noexcept { impl_->give_up(); }

void CheckpointWriter::start_at(const fs::path& newest) { impl_->set_newest(newest); }

fs::path CheckpointWriter::newest() const { return impl_->newest(); }

std::vector<SavedCheckpoint> CheckpointWriter::take_saved() { return impl_->take_saved(); }

}  // namespace lockstep
