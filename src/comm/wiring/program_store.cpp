// SPDX-License-Identifier: Apache-2.0
#include "comm/wiring/program_store.h"

#include <fmt/format.h>

#include <utility>
#include <vector>

#include "lockstep/base/failure_record.h"
#include "lockstep/base/standby.h"
#include "lockstep/base/text.h"
#include "lockstep/base/whole_number.h"

namespace lockstep::comm {
namespace {

constexpr const char* kPrograms = "lockstep/programs/";
/// The prefix of the keys with which a program reports its progress to the launcher: kSavesKey, launch's kReplicasKey.
constexpr const char* kReports = "lockstep/train/";

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

}  // namespace lockstep::comm
