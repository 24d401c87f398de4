// SPDX-License-Identifier: Apache-2.0
// A rank of a world of saves. Production code does the work: the run folder and its lock, the search for the newest
// checkpoint, the writer and its thread, the commit, and the messages that ranks exchange through the store.
#include <ATen/core/ivalue.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/full.h>
#include <fmt/format.h>

#include <chrono>
#include <cstdlib>
#include <memory>
#include <optional>
#include <thread>

#include "lockstep/base/error.h"
#include "lockstep/base/file_system.h"
#include "lockstep/checkpoint/checkpoint.h"
#include "lockstep/checkpoint/checkpoint_writer.h"
#include "lockstep/checkpoint/inspect.h"
#include "lockstep/store/store.h"
#include "lockstep/train/run_folder.h"
#include "sim/saves/world.h"

namespace lockstep::sim::saves {
namespace {

constexpr const char* kStartKey = "sim/start";
constexpr std::chrono::seconds kPatience(600);
constexpr std::int64_t kMeans = 5;

FileSystem& files() { return FileSystem::system(); }

StateParts parts_of(std::int64_t value, int rank, int world_size) {
  StateDict model;
  model["weight"] = at::full({kElements}, value, at::kLong);
  model["mean"] = at::full({kMeans}, static_cast<double>(value), at::kFloat);
  StateDict run;
  run["step"] = value;
  return {{"model", part_of(model, rank, world_size)}, {"run", part_of(run, rank, world_size)}};
}

/// Finds where to start, like train/resume/start.cpp.
std::int64_t find_start(Rank& self) {
  remove_checkpoint_leftovers(files(), kCheckpoints);
  world().is_clean(self);
  if (!has_step_folders(files(), kCheckpoints)) return 0;
  const Checkpoint checkpoint = load_checkpoint(kRun, files());
  const StateDict model = checkpoint.state("model");
  const auto& weight = std::get<at::Tensor>(model.at("weight"));
  world().require(weight.numel() == kElements, "a loaded state has another size");
  const auto* values = weight.data_ptr<std::int64_t>();
  for (std::int64_t i = 0; i < kElements; ++i) world().has_loaded(checkpoint.step(), values[i], values[0]);
  return checkpoint.step();
}

/// A rank, from start to end.
class Training {
 public:
  explicit Training(Rank& self) : self_(self) {
    const auto& environment = self.process->environment;
    store_ =
        with_prefix(connect_store({.host = environment.at("STORE_HOST"), .port = 29'500, .token = "0123"}, kPatience),
                    fmt::format("rounds/{}/", self.round));
  }

  int run() {
    begin();
    CheckpointWriter writer(
        files(),
        {.folder = kCheckpoints,
         .retention = {.keep_last = world().plan().keep_last, .keep_every = world().plan().keep_every},
         .background = true},
        store_peers(*store_,
                    {.rank = self_.rank, .world_size = self_.world_size, .timeout = std::chrono::milliseconds::max()}));
    const Plan& plan = world().plan();
    while (step_ < plan.steps) {
      std::this_thread::sleep_for(std::chrono::nanoseconds(plan.step_time));
      ++step_;
      report(writer);
      if (self_.gives_up) throw PeerError("another rank is gone");
      if (step_ % plan.save_every == 0 || step_ == plan.steps) save(writer);
    }
    await(writer);
    return 0;
  }

 private:
  void begin() {
    if (self_.rank != 0) {
      step_ = std::strtoll(store_->get(kStartKey, kPatience).c_str(), nullptr, 10);
      return;
    }
    const auto wait = std::chrono::seconds(self_.round == 0 ? 0 : 30);
    if (world().plan().has_run_folder)
      folder_ = std::make_unique<RunFolder>(kRun, RunFolderOptions{.resume = true, .wait_for_lock = wait});
    step_ = find_start(self_);
    world().starts_from(self_, step_);
    if (folder_) folder_->write(folder_->settings_file(), fmt::format("round: {}\n", self_.round));
    store_->set(kStartKey, std::to_string(step_));
  }

  void save(CheckpointWriter& writer) {
    const Plan& plan = world().plan();
    await(writer);
    const std::int64_t value = world().value_of(step_, self_.round);
    SaveOrder order{.meta = {.step = step_, .configuration_hash = "0"}};
    if (self_.rank == 0) order.texts["config.yml"] = fmt::format("value: {}\n", value);
    if (plan.name_every > 0 && step_ / plan.save_every % plan.name_every == 0) order.names = {"best"};
    world().begins_save(self_);
    const StateParts parts = parts_of(value, self_.rank, self_.world_size);
    writer.save_in_background(parts, order);
    if (!plan.in_background) await(writer);
  }

  /// Waits like RunSaver::wait_for_all(): the group, not the writer, finds out that a rank is gone.
  void await(CheckpointWriter& writer) {
    while (writer.is_busy()) {
      if (self_.gives_up) {
        writer.give_up();
        throw PeerError("another rank is gone");
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    report(writer);
    writer.wait();
  }

  void report(CheckpointWriter& writer) {
    for (const SavedCheckpoint& saved : writer.take_saved()) world().has_saved(self_, saved.step);
  }

  Rank& self_;
  std::shared_ptr<Store> store_;
  std::unique_ptr<RunFolder> folder_;
  std::int64_t step_ = 0;
};

}  // namespace

int run_rank(Rank& self) {
  try {
    return Training(self).run();
  } catch (const InternalError& error) {
    world().require(false, error.message());
    return static_cast<int>(error.code());
  } catch (const Error& error) {
    world().tell(self.process->name, fmt::format("{}: {}", error.type(), error.message()));
    return static_cast<int>(error.code());
  }
}

void look_after(const Rank& self) {
  Rank person = self;
  std::optional<RunFolder> folder;
  if (world().plan().has_run_folder) folder.emplace(kRun, RunFolderOptions{.resume = true});
  const std::int64_t step = find_start(person);
  world().starts_from(person, step);
  world().ends_with(step);
}

}  // namespace lockstep::sim::saves
