// SPDX-License-Identifier: Apache-2.0
#include "comm/wiring/program_store.h"

#include <fmt/format.h>

#include <algorithm>
#include <thread>
#include <utility>
#include <vector>

#include "lockstep/base/awake_clock.h"
#include "lockstep/base/clock.h"
#include "lockstep/base/env.h"
#include "lockstep/base/error.h"
#include "lockstep/base/failure_record.h"
#include "lockstep/base/log.h"
#include "lockstep/base/standby.h"
#include "lockstep/base/text.h"
#include "lockstep/base/wait_notice.h"
#include "lockstep/base/whole_number.h"

namespace lockstep::comm {
namespace {

constexpr const char* kPrograms = "lockstep/programs/";
/// The prefix of the keys with which a program reports its progress to the launcher: kSavesKey, launch's kReplicasKey.
constexpr const char* kReports = "lockstep/train/";
/// The prefix of the counters of the ranks that have entered the program of a store that rank 0 serves.
constexpr const char* kEntered = "lockstep/entered/";
/// A key that no rank sets: a wait for it lasts until the store ends.
constexpr const char* kEnd = "lockstep/end";
/// The pause before a rank connects anew, since the port of a store that has just ended may still accept connections.
constexpr auto kPause = std::chrono::milliseconds(50);

/// The world size keeps a smaller world's count apart: torchrun does not count a restart that changes the world.
std::string count_key(const RankInfo& info, int rank) {
  return fmt::format("{}{}/{}", kPrograms, info.world_size, rank);
}

/// Returns true if the launcher uses the key too, or if it counts the programs.
bool is_shared(const std::string& key) {
  return key == kFirstFailureKey || key.starts_with(kReports) || key.starts_with(standby::kKey) ||
         key.starts_with(kPrograms);
}

/// A store whose keys begin with a prefix, except for the keys that all programs share.
class ProgramStore final : public Store {
 public:
  ProgramStore(std::shared_ptr<Store> whole, std::string prefix)
      : whole_(std::move(whole)), prefix_(std::move(prefix)) {}

  void set(const std::string& key, const std::string& value) override { whole_->set(full(key), value); }
  std::optional<std::string> try_get(const std::string& key) override { return whole_->try_get(full(key)); }
  std::string get(const std::string& key, std::chrono::milliseconds timeout) override {
    return whole_->get(full(key), timeout);
  }
  std::int64_t add(const std::string& key, std::int64_t delta) override { return whole_->add(full(key), delta); }
  std::int64_t append(const std::string& queue, const std::string& value) override {
    return whole_->append(full(queue), value);
  }
  std::string compare_set(const std::string& key, const std::string& expected, const std::string& desired) override {
    return whole_->compare_set(full(key), expected, desired);
  }
  void wait(const std::vector<std::string>& keys, std::chrono::milliseconds timeout) override {
    std::vector<std::string> names;
    for (const std::string& key : keys) names.push_back(full(key));
    whole_->wait(names, timeout);
  }
  bool remove(const std::string& key) override { return whole_->remove(full(key)); }
  void shut_down() noexcept override { whole_->shut_down(); }

 private:
  [[nodiscard]] std::string full(const std::string& key) const { return is_shared(key) ? key : prefix_ + key; }

  std::shared_ptr<Store> whole_;
  std::string prefix_;
};

/// Removes the failure of an earlier program of this rank: the script went on after it.
void forget_own_failure(Store& store, int rank) {
  const auto record = parse_failure(store.try_get(kFirstFailureKey).value_or(""));
  if (record && record->rank == rank) (void)store.remove(kFirstFailureKey);
}

TimePoint now() { return AwakeClock::instance().now(); }

std::chrono::milliseconds until(TimePoint end) {
  return std::max(std::chrono::ceil<std::chrono::milliseconds>(end - now()), std::chrono::milliseconds(0));
}

/// Returns true if this is the rank's first program in the store; false also if the store has just ended.
bool is_first_entry(Store& store, int rank) {
  try {
    return store.add(fmt::format("{}{}", kEntered, rank), 1) == 1;
  } catch (const PeerError&) {
    return false;
  }
}

/// Waits until the store has ended, but not beyond `end`.
void await_end(Store& store, TimePoint end) {
  try {
    (void)store.get(kEnd, until(end));
  } catch (const PeerError&) {
    // The store has ended.
  } catch (const TimeoutError&) {
    // The caller checks the time.
  }
}

}  // namespace

std::int64_t begin_program(std::shared_ptr<Store>& store, const RankInfo& info) {
  const std::int64_t program = store->add(count_key(info, info.rank), 1);
  if (program == 1) return program;
  forget_own_failure(*store, info.rank);
  store = std::make_shared<ProgramStore>(store, fmt::format("program/{}/", program));
  return program;
}

std::optional<std::string> other_program(Store& store, const RankInfo& info, std::int64_t program) {
  for (int rank = 0; rank < info.world_size; ++rank) {
    const auto count = parse_whole(store.try_get(count_key(info, rank)).value_or(""), {.least = 1});
    if (!count || *count == program) continue;
    return fmt::format("rank {} has started {}, rank {} has started {}", info.rank, text::counted(program, "program"),
                       rank, text::counted(*count, "program"));
  }
  return std::nullopt;
}

std::shared_ptr<Store> enter_program(const StoreConnector& connect, int rank, const std::string& place,
                                     std::chrono::milliseconds timeout) {
  const TimePoint end = now() + timeout;
  WaitNotice notice(SystemClock::instance().now());
  for (;;) {
    auto store = connect(until(end));
    if (is_first_entry(*store, rank)) return store;
    await_end(*store, std::min<TimePoint>(end, now() + (notice.next() - SystemClock::instance().now())));
    if (now() >= end) break;
    if (const auto waited = notice.due(SystemClock::instance().now())) {
      log::note("rank {} has left the program whose store is {}, and waits until rank 0 leaves it too ({} so far)",
                rank, place, text::duration(waited->count()));
    }
    std::this_thread::sleep_for(kPause);
  }
  throw TimeoutError(
      fmt::format("init timed out after {:.1f} s: rank 0's earlier program still serves its store at {}, which rank {} "
                  "joined before",
                  std::chrono::duration<double>(timeout).count(), place, rank),
      fmt::format("wait until rank 0 has ended its earlier program, or raise {}; if two processes are rank {}, give "
                  "each its own RANK",
                  env::timeout_variable(), rank));
}

}  // namespace lockstep::comm
