// SPDX-License-Identifier: Apache-2.0
#include "support/double/recording.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>

#include "support/double/streams.h"

namespace lockstep::testing::make_believe {
namespace {

constexpr const char* kNotNow = "CUDA error: operation not permitted when stream is capturing";

/// Returns a reference to the flag that says whether this thread has begun a recording.
bool& records_here() {
  static thread_local bool records = false;
  return records;
}

std::atomic<int>& replay_count() {
  static std::atomic<int> count{0};
  return count;
}

}  // namespace

void refuse_in_recording() {
  if (records_here()) throw std::runtime_error(kNotNow);
}

void Recording::refuse(const std::string& why) {
  broken_ = true;
  throw std::runtime_error("CUDA error: " + why);
}

void Recording::refuse_to_wait() {
  broken_ = true;
  throw std::runtime_error(kNotNow);
}

/// The last replay is done, because a running replay would keep this object alive.
Recording::~Recording() { Ledger::instance().waited(replayed_); }

void Recording::begin(DeviceStream& origin) {
  const std::lock_guard lock(mutex_);
  origin.record(shared_from_this());
  branches_.push_back({.stream = &origin});
  records_here() = true;
}

void Recording::leave() {
  records_here() = false;
  over_ = true;
  for (const Branch& branch : branches_) branch.stream->record(nullptr);
  for (auto at = saved_.rbegin(); at != saved_.rend(); ++at) {
    std::memcpy(at->first, at->second.data(), at->second.size());
  }
  saved_.clear();
}

void Recording::end() {
  const std::lock_guard lock(mutex_);
  leave();
  for (auto& [address, bytes] : own_) std::memset(const_cast<void*>(address), 0xff, bytes);
  if (broken_) throw std::runtime_error("CUDA error: operation failed due to a previous error during capture");
  const Clock& joined = branches_.front().clock;
  for (std::size_t i = 1; i < branches_.size(); ++i) {
    const int branch = static_cast<int>(i);
    if (joined.at(branch) >= branches_[i].clock.at(branch)) continue;
    throw std::runtime_error("CUDA error: capturing stream has unjoined work");
  }
}

void Recording::abandon() {
  const std::lock_guard lock(mutex_);
  if (!over_) leave();
}

std::size_t Recording::branch_of(DeviceStream& stream) {
  const auto at =
      std::find_if(branches_.begin(), branches_.end(), [&](const Branch& branch) { return branch.stream == &stream; });
  if (at != branches_.end()) return static_cast<std::size_t>(at - branches_.begin());
  stream.record(shared_from_this());
  branches_.push_back({.stream = &stream, .number = Ledger::instance().add_stream("a graph's branch")});
  return branches_.size() - 1;
}

void Recording::add(DeviceStream& stream, const std::string& name, const std::vector<Access>& accesses,
                    std::function<void()> work) {
  const std::lock_guard lock(mutex_);
  if (broken_) throw std::runtime_error("CUDA error: operation failed due to a previous error during capture");
  const std::size_t branch = branch_of(stream);
  Clock& clock = branches_[branch].clock;
  clock.set(static_cast<int>(branch), clock.at(static_cast<int>(branch)) + 1);
  steps_.push_back({.branch = branch, .name = name, .accesses = accesses, .work = std::move(work)});
}

std::size_t Recording::mark(DeviceStream& stream) {
  const std::lock_guard lock(mutex_);
  const std::size_t branch = branch_of(stream);
  marks_.push_back(branches_[branch].clock);
  steps_.push_back({.kind = Kind::kMark, .branch = branch, .mark = marks_.size() - 1});
  return marks_.size() - 1;
}

void Recording::hold(DeviceStream& stream, std::size_t mark) {
  const std::lock_guard lock(mutex_);
  if (over_) refuse("operation not permitted on an event last recorded in a capturing stream");
  const std::size_t branch = branch_of(stream);
  branches_[branch].clock.join(marks_[mark]);
  steps_.push_back({.kind = Kind::kHold, .branch = branch, .mark = mark});
}

void Recording::save(const std::vector<Access>& accesses) {
  const std::lock_guard lock(mutex_);
  for (const Access& access : accesses) {
    if (!access.writes || access.bytes == 0) continue;
    const auto after = own_.upper_bound(access.begin);
    if (after != own_.begin()) {
      const auto& [begin, bytes] = *std::prev(after);
      if (access.begin < static_cast<const std::byte*>(begin) + bytes) continue;
    }
    saved_.emplace_back(const_cast<void*>(access.begin),
                        std::string(static_cast<const char*>(access.begin), access.bytes));
  }
}

void Recording::own(const at::Storage& made) {
  const std::lock_guard lock(mutex_);
  kept_.push_back(made);
  if (made.nbytes() > 0) own_[made.data()] = made.nbytes();
}

/// Enters the accesses and their order in the ledger. Returns false if memory was freed.
bool Recording::account(int number) {
  Ledger& ledger = Ledger::instance();
  for (const Step& step : steps_) {
    if (!ledger.has_taken(step.name, step.accesses)) return false;
  }
  branches_.front().number = number;
  std::vector<Clock> marks(marks_.size());
  for (const Step& step : steps_) {
    const int stream = branches_[step.branch].number;
    if (step.kind == Kind::kMark) marks[step.mark] = ledger.record(stream);
    if (step.kind == Kind::kHold) ledger.hold(stream, marks[step.mark]);
    if (step.kind == Kind::kWork) ledger.run(stream, step.name, step.accesses);
  }
  replayed_ = ledger.record(number);
  return true;
}

void Recording::run() const {
  for (const Step& step : steps_) {
    if (step.work) step.work();
  }
}

int Recording::replays() { return replay_count(); }

void Recording::replay(DeviceStream& stream) {
  ++replay_count();
  if (!account(stream.number())) return;
  if (!draws_) return stream.lane().push([self = shared_from_this()] { self->run(); });
  const Lane::Turn turn(stream.lane());
  run();
}

}  // namespace lockstep::testing::make_believe
