// SPDX-License-Identifier: Apache-2.0
// The invariants of a world of saves, checked on each change to its disk.
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <nlohmann/json.hpp>
#include <utility>

#include "checkpoint/formats/folder_names.h"
#include "checkpoint/formats/hash.h"
#include "sim/saves/world.h"

namespace lockstep::sim::saves {
namespace {

/// Returns the elements of "weight" in a safetensors file, or the file's share of them.
std::vector<std::int64_t> weights_in(const std::string& bytes) {
  std::uint64_t header = 0;
  if (bytes.size() < sizeof header) return {};
  std::memcpy(&header, bytes.data(), sizeof header);
  const auto json = nlohmann::json::parse(bytes.substr(sizeof header, header), nullptr, false);
  if (json.is_discarded() || !json.contains("weight")) return {};
  const auto range = json["weight"]["data_offsets"].get<std::vector<std::size_t>>();
  std::vector<std::int64_t> values((range[1] - range[0]) / sizeof(std::int64_t));
  std::memcpy(values.data(), bytes.data() + sizeof header + header + range[0], range[1] - range[0]);
  return values;
}

/// Examines a step folder: finds bytes not listed in its manifest, and parts from different saves.
Found examine(const Disk& disk, const Disk::Node& folder) {
  const auto manifest = folder.names.find("manifest.json");
  if (manifest == folder.names.end()) return {.problem = "it has no manifest"};
  const auto json = nlohmann::json::parse(disk.at(manifest->second).bytes, nullptr, false);
  if (json.is_discarded()) return {.problem = "its manifest is torn"};
  Found found{.step = json.at("step")};
  std::vector<std::int64_t> values;
  for (const auto& [name, expected] : json.at("files").items()) {
    const auto file = folder.names.find(name);
    if (file == folder.names.end()) return {.problem = "it lacks " + name};
    const std::string& bytes = disk.at(file->second).bytes;
    if (checkpoint::digest_of(bytes) !=
        FileDigest{.bytes = expected.at("bytes"), .xxh3_128 = expected.at("xxh3_128")}) {
      return {.problem = name + " has other bytes than its manifest says"};
    }
    if (!name.starts_with("model")) continue;
    const auto more = weights_in(bytes);
    values.insert(values.end(), more.begin(), more.end());
  }
  if (std::ssize(values) != kElements) return {.problem = fmt::format("it has {} elements", values.size())};
  found.round = values[0] % 1000;
  const auto is_other = [&](std::int64_t value) { return value != found.step * 1000 + found.round; };
  if (std::any_of(values.begin(), values.end(), is_other)) found.problem = "it has parts of several saves";
  return found;
}

}  // namespace

const Found& World::look_at(const Disk& disk, int folder, const std::string& name) {
  const int number = disk.at(folder).names.at(name);
  const Disk::Node& node = disk.at(number);
  std::string key = std::to_string(number);
  for (const auto& [file, inside] : node.names) key += fmt::format(" {}:{}", inside, disk.at(inside).version);
  const auto [found, is_new] = looked_at_.try_emplace(key);
  if (is_new) found->second = examine(disk, node);
  return found->second;
}

std::map<std::int64_t, Found> World::check_disk(const Disk& disk, bool is_image) {
  std::map<std::int64_t, Found> whole;
  const int before = errno;
  const int folder = disk.find(0, kCheckpoints);
  errno = before;
  if (folder >= 0) {
    for (const auto& [name, node] : disk.at(folder).names) {
      const auto old = checkpoint::parse_old_name(name);
      const auto parsed = checkpoint::parse_step_name(old ? *old : name);
      if (!parsed || parsed->bad != 0) continue;
      const Found& found = look_at(disk, folder, name);
      if (old && found.problem.empty()) whole.try_emplace(parsed->step, found);
      if (old) continue;
      require(found.problem.empty(),
              fmt::format("{}{}: {}", name, is_image ? " after a power cut" : "", found.problem));
      require(found.step == parsed->step, name + " is of another step");
      whole[parsed->step] = found;
    }
  }
  const std::int64_t newest = whole.empty() ? 0 : whole.rbegin()->first;
  require(!saved_ || newest >= *saved_, fmt::format("step {} was saved, and is gone{}; the newest is {}",
                                                    saved_.value_or(0), is_image ? " after a power cut" : "", newest));
  return whole;
}

void World::check_image() {
  ++result_.images;
  Disk image = disk_;
  image.on_change = nullptr;
  image.lose_power(machine_.dice());
  (void)check_disk(image, true);
}

bool World::is_contested() {
  if (is_contested_ || (plan_.has_locks && !plan_.do_locks_expire)) return is_contested_;
  const auto is_old = [&](const Rank& rank) {
    return rank.rank == 0 && rank.round < begun_ && !rank.has_ended && !rank.process->host->is_frozen;
  };
  if (std::any_of(ranks_.begin(), ranks_.end(), is_old)) {
    tell("two rounds", "work in the folder, and no lock keeps the old one away: nothing is promised");
    is_contested_ = result_.is_contested = true;
  }
  return is_contested_;
}

void World::check_change(const std::string& from, const std::string& to) {
  if (is_contested()) return;
  const std::size_t whole = check_disk(disk_, false).size();
  const bool is_pruned =
      checkpoint::parse_step_name(from) && to.starts_with(".tmp-") && !checkpoint::parse_old_name(to);
  require(!is_pruned || whole >= static_cast<std::size_t>(plan_.keep_last),
          fmt::format("{} is pruned, and {} are left of {} to keep", from, whole, plan_.keep_last));
  if (machine_.dice().chance(0.02)) check_image();
  if (calls_until_ < 0 || machine_.current() == nullptr || --calls_until_ >= 0) return;
  caller_ = machine_.current()->process->host;
  machine_.at(machine_.now(), [this] { strike(); });
}

// Checks, at the start of a rank, that dead processes have left no unfinished entries.
void World::is_clean(const Rank& rank) {
  if (failures() != rank.failures_before || is_contested()) return;
  for (const char* path : {kRun, kCheckpoints}) {
    const int folder = disk_.find(0, path);
    if (folder < 0) continue;
    for (const auto& [name, node] : disk_.at(folder).names) {
      const auto pid = checkpoint::parse_temporary_pid(name);
      const auto is_owner = [&](const auto& p) {
        return p->number == *pid && p->host == rank.process->host && !p->is_dead;
      };
      const auto& all = machine_.processes();
      require(!pid || std::any_of(all.begin(), all.end(), is_owner), name + " is left after the next start");
    }
  }
}

void World::starts_from(const Rank& rank, std::int64_t step) {
  tell(rank.process->name, fmt::format("begins after step {}", step));
  begun_ = std::max(begun_, rank.round);
  if (is_contested()) return;
  const auto whole = check_disk(disk_, false);
  const std::int64_t newest = whole.empty() ? 0 : whole.rbegin()->first;
  const bool has_trouble = failures() != rank.failures_before;
  require(step == newest || has_trouble,
          fmt::format("a rank begins after step {}, and the newest is {}", step, newest));
  if (saved_ && step < *saved_) saved_ = step;  // steps that the disk has lost are saved again
}

void World::has_loaded(std::int64_t step, std::int64_t value, std::int64_t other) {
  require(is_contested() || (value / 1000 == step && value == other),
          fmt::format("step {} is loaded with {} and {}", step, value, other));
}

// Without a run folder, nothing syncs the names at startup: a rank may find the last step before it is durable.
void World::ends_with(std::int64_t step) {
  require(step == plan_.steps || is_contested_ || !plan_.has_run_folder,
          fmt::format("the last step of the run is {}", step));
}

void World::begins_save(Rank& rank) {
  rank.failures_before = failures();
  if (until_save_ == nullptr || rank.round != round_ || rank.process->host == until_save_) return;
  Host& host = *std::exchange(until_save_, nullptr);
  machine_.at(machine_.now() + machine_.dice().between(0, 80) * plan_.latency, [this, &host] { thaw(host); });
}

void World::has_saved(const Rank& rank, std::int64_t step) {
  tell(rank.process->name, fmt::format("has saved step {}", step));
  ++result_.saves;
  const bool is_held = plan_.has_locks && !plan_.do_locks_expire;
  require(rank.round >= begun_ || !is_held, "a rank of an old round saves");
  if (rank.round < begun_ || is_contested()) return;
  saved_ = std::max(saved_.value_or(0), step);
  for (int i = 0; i < 3; ++i) check_image();
  check_retention(rank, step);
}

// Checks that no more checkpoints are kept than the retention setting asks for. The one just saved is always kept, even
// if newer ones could not be read and the rank began after an older one.
void World::check_retention(const Rank& rank, std::int64_t saved) {
  const auto is_old = [&](const Rank& other) { return other.round != round_ && !other.has_ended; };
  if (failures() != rank.failures_before || std::any_of(ranks_.begin(), ranks_.end(), is_old)) return;
  const auto whole = check_disk(disk_, false);
  const int folder = disk_.find(0, kCheckpoints);
  const auto best = disk_.at(folder).names.find("best");
  const std::string named = best == disk_.at(folder).names.end() ? "" : disk_.at(best->second).bytes;
  auto left = plan_.keep_last;
  for (auto it = whole.rbegin(); it != whole.rend(); ++it) {
    if (left-- > 0 || it->first == saved) continue;
    if (plan_.keep_every > 0 && it->first % plan_.keep_every == 0) continue;
    require(named.starts_with(checkpoint::step_name(it->first) + " "), fmt::format("step {} is not pruned", it->first));
  }
}

}  // namespace lockstep::sim::saves
