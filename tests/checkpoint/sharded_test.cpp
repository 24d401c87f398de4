// SPDX-License-Identifier: Apache-2.0
// Ways of saving: by several ranks together, with one call per save, and while the state is changing.
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <thread>
#include <utility>

#include "checkpoint/faulty_file_system.h"
#include "checkpoint/formats/manifest_json.h"
#include "checkpoint/states.h"
#include "lockstep/base/error.h"
#include "lockstep/base/trace.h"
#include "lockstep/checkpoint/async_saver.h"
#include "lockstep/checkpoint/checkpoint_writer.h"
#include "lockstep/checkpoint/inspect.h"
#include "lockstep/checkpoint/safetensors.h"
#include "support/fake_cuda.h"
#include "support/temp_dir.h"

namespace lockstep {
namespace sharded_test {

namespace fs = std::filesystem;
using test::FaultyFileSystem;
using test::is_of;
using test::states_of;
using test::TempDir;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

// Checkpoints that several ranks write together: threads here, each with its own disk that may fail.

FileSystem& good() { return FileSystem::system(); }

ShardedContent content_of(std::int64_t seed, int rank, int world) {
  ShardedContent content;
  for (const auto& [name, state] : states_of(seed)) content.parts[name] = part_of(state, rank, world);
  content.texts["config.yml"] = rank == 0 ? "seed: 1\n" : fmt::format("seed: 1\nworkers: {}\n", rank);
  return content;
}

struct Outcome {
  fs::path path;
  std::string error;
};

/// One save by `world` threads. `disks`: one per rank; ranks without one use the system's disk.
std::vector<Outcome> save_together(const fs::path& folder, std::int64_t step, int world,
                                   const std::vector<FileSystem*>& disks = {}) {
  const auto store = make_local_store();
  std::vector<Outcome> outcomes(static_cast<std::size_t>(world));
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < world; ++rank) {
    ranks.emplace_back([&, rank] {
      const auto r = static_cast<std::size_t>(rank);
      FileSystem& files = r < disks.size() ? *disks[r] : good();
      const auto peers = store_peers(*store, {.rank = rank, .world_size = world});
      try {
        outcomes[r].path =
            commit_sharded_checkpoint(files, *peers, folder, {.step = step}, content_of(step, rank, world));
      } catch (const Error& error) {
        outcomes[r].error = error.what();
      }
    });
  }
  for (std::thread& rank : ranks) rank.join();
  return outcomes;
}

TEST(Sharded, EachRankWritesItsPartAndAnyReaderSeesTheWhole) {
  for (const int world : {1, 2, 3, 5}) {
    SCOPED_TRACE(world);
    const test::TempDir run;
    for (const Outcome& outcome : save_together(run / "checkpoints", 7, world)) {
      EXPECT_EQ(outcome.error, "");
      EXPECT_EQ(outcome.path, run / "checkpoints/step-00000007");
    }
    EXPECT_TRUE(is_of(load_checkpoint(run.path().string()), 7));
    EXPECT_EQ(load_checkpoint(run.path().string()).text("config.yml"), "seed: 1\n");
    EXPECT_THAT(good().list(run / "checkpoints"), ElementsAre("step-00000007"));
  }
}

TEST(Sharded, HasTheFilesAndTheFormatThatThePageNames) {
  const test::TempDir run;
  save_together(run / "checkpoints", 7, 2);
  EXPECT_THAT(
      good().list(run / "checkpoints/step-00000007"),
      ElementsAre("config.yml", "manifest.json", "model.part-1-of-2.safetensors", "model.part-2-of-2.safetensors",
                  "trainer.part-1-of-2.safetensors", "trainer.part-2-of-2.safetensors"));
  EXPECT_EQ(load_checkpoint(run.path().string()).manifest().format_version, 2);
}

TEST(Sharded, HasTheTextsOfRankZeroThoughOtherHostsHaveOtherSettings) {
  const test::TempDir run;
  for (const Outcome& outcome : save_together(run / "checkpoints", 7, 4)) EXPECT_EQ(outcome.error, "");
  EXPECT_EQ(verify_checkpoint(good(), run / "checkpoints/step-00000007").problem(), "");
  EXPECT_EQ(load_checkpoint(run.path().string()).text("config.yml"), "seed: 1\n");
}

TEST(Sharded, TheDigestDoesNotDependOnTheNumberOfParts) {
  const test::TempDir one;
  const test::TempDir three;
  save_together(one / "checkpoints", 7, 1);
  save_together(three / "checkpoints", 7, 3);
  EXPECT_EQ(checkpoint_digest(load_checkpoint(one.path().string())),
            checkpoint_digest(load_checkpoint(three.path().string())));
}

TEST(Sharded, AFailureOnAnyRankIsTheSameErrorOnAllAndLosesNothing) {
  for (int failing = 0; failing < 3; ++failing) {
    for (std::int64_t n = 0;; ++n) {
      SCOPED_TRACE(fmt::format("verb {} of rank {} fails", n, failing));
      const test::TempDir run;
      commit_checkpoint(good(), run / "checkpoints", {.step = 3}, states_of(3));
      std::vector<FaultyFileSystem> faulty;
      faulty.reserve(3);
      for (int rank = 0; rank < 3; ++rank)
        faulty.emplace_back(rank == failing ? n : -1, FaultyFileSystem::Fault::kOnce);
      const auto outcomes = save_together(run / "checkpoints", 7, 3, {&faulty[0], &faulty[1], &faulty[2]});
      for (const Outcome& outcome : outcomes) EXPECT_EQ(outcome.error, outcomes[0].error);
      const bool saved = outcomes[0].error.empty();
      EXPECT_TRUE(is_of(load_checkpoint(run.path().string()), saved ? 7 : 3));
      EXPECT_TRUE(is_of(load_checkpoint((run / "checkpoints/step-00000003").string()), 3));
      const std::string& verb = faulty[static_cast<std::size_t>(failing)].failed_verb();
      EXPECT_TRUE(saved || (verb != "fsync" && !verb.empty())) << outcomes[0].error;
      if (!saved && failing > 0) {
        EXPECT_THAT(outcomes[0].error, HasSubstr(fmt::format("rank {}: ", failing)));
      }
      if (verb.empty()) break;
      ASSERT_LT(n, 200);
    }
  }
}

TEST(Sharded, APartThatIsMissingMakesTheCheckpointTorn) {
  const test::TempDir run;
  commit_checkpoint(good(), run / "checkpoints", {.step = 3}, states_of(3));
  save_together(run / "checkpoints", 7, 3);
  fs::remove(run / "checkpoints/step-00000007/model.part-2-of-3.safetensors");
  EXPECT_TRUE(is_of(load_checkpoint(run.path().string()), 3)) << "the one before is taken";
}

/// A checkpoint in two parts with correct hashes; `slice`: the position that the first claims for its piece.
fs::path step_with_slice(const fs::path& folder, const std::string& slice) {
  const fs::path step = folder / "step-00000001";
  good().make_folder(step);
  Manifest manifest{.format_version = 2, .meta = {.step = 1}, .libtorch = "1.13.1", .instruction_set = "AVX2"};
  for (const auto& [part, words] : {std::pair(1, slice), std::pair(2, std::string(R"({"begin": 2, "shape": [4]})"))}) {
    const std::string name = fmt::format("model.part-{}-of-2.safetensors", part);
    manifest.files[name] = write_safetensors(good(), step / name, {{"w", at::zeros({2})}}, {{"slice.w", words}});
  }
  write_file_atomically(good(), step / "manifest.json", checkpoint::manifest_to_json(manifest));
  return step;
}

TEST(Sharded, WhatCannotBeReadIsNotCalledWholeThoughItsHashesAreRight) {
  const test::TempDir run;
  const std::string deep = std::string(200'000, '[') + std::string(200'000, ']');
  for (const std::string& slice : {deep, R"({"begin": )" + deep + R"(, "shape": [4]})", std::string("[]"),
                                   std::string(R"({"begin": 1, "shape": [4]})")}) {
    const VerifyReport report = verify_checkpoint(good(), step_with_slice(run.path(), slice));
    EXPECT_THAT(report.problem(), HasSubstr("is unchanged since it was written, but cannot be read"))
        << slice.substr(0, 30);
    EXPECT_FALSE(find_newest_valid(good(), run.path()).has_value());
  }
  const fs::path whole = step_with_slice(run.path(), R"({"begin": 0, "shape": [4]})");
  EXPECT_EQ(verify_checkpoint(good(), whole).problem(), "");
  EXPECT_EQ(load_checkpoint(whole.string()).state("model").size(), 1U);
}

TEST(StorePeers, ASecondGroupOfObjectsDoesNotReadTheAnswersOfTheFirst) {
  const auto store = make_local_store();
  const auto peers_of = [&](int rank) { return store_peers(*store, {.rank = rank, .world_size = 2}); };
  {
    const auto first = peers_of(0);
    EXPECT_EQ(first->broadcast("old"), "old");
    EXPECT_EQ(peers_of(1)->broadcast(""), "old");
  }
  const auto other = peers_of(1);
  auto heard = std::async(std::launch::async, [&] { return other->broadcast(""); });
  EXPECT_EQ(peers_of(0)->broadcast("new"), "new");
  EXPECT_EQ(heard.get(), "new");
}

TEST(Sharded, SaysWhoseEntryCannotBeSaved) {
  const auto store = make_local_store();
  const test::TempDir run;
  std::string error;
  std::thread other([&] {
    const auto peers = store_peers(*store, {.rank = 1, .world_size = 2});
    ShardedContent content = content_of(1, 1, 2);
    content.parts["model"].entries["w"] = at::Tensor();
    EXPECT_THROW(commit_sharded_checkpoint(good(), *peers, run / "checkpoints", {}, content), UsageError);
  });
  const auto peers = store_peers(*store, {.rank = 0, .world_size = 2});
  try {
    commit_sharded_checkpoint(good(), *peers, run / "checkpoints", {}, content_of(1, 0, 2));
  } catch (const UsageError& e) {
    error = e.message();
  }
  other.join();
  EXPECT_EQ(error, "rank 1: cannot save 'w': the tensor is undefined");
}

/// The error from a save by one rank whose `failing`-th check() fails.
std::string save_checked(const fs::path& folder, int failing) {
  ShardedContent content = content_of(1, 0, 1);
  int calls = 0;
  content.check = [&] {
    if (++calls == failing) throw PeerError("the group has failed");
  };
  try {
    commit_sharded_checkpoint(good(), *no_peers(), folder, {.step = 1}, content);
  } catch (const PeerError& error) {
    return error.message();
  }
  return "";
}

TEST(Sharded, WhatFailsItsCheckAfterWritingOrBeforeTheNameIsNotThere) {
  for (const int failing : {1, 2}) {
    const test::TempDir run;
    EXPECT_EQ(save_checked(run / "checkpoints", failing), "the group has failed");
    EXPECT_TRUE(good().list(run / "checkpoints").empty()) << failing;
  }
  const test::TempDir run;
  EXPECT_EQ(save_checked(run / "checkpoints", 3), "") << "there are two";
  EXPECT_TRUE(is_of(load_checkpoint(run.path().string()), 1));
}

// One call per save: it commits, then updates the names, then prunes.

StateParts parts_of(std::int64_t seed) {
  StateParts parts;
  for (const auto& [name, state] : test::states_of(seed)) parts[name].entries = state;
  return parts;
}

std::vector<std::string> files_of(const std::filesystem::path& folder) { return FileSystem::system().list(folder); }

TEST(CheckpointWriter, CommitsNamesAndPrunesInOneCall) {
  const TempDir run;
  CheckpointWriter writer(FileSystem::system(), {.folder = run.path(), .retention = {.keep_last = 1}});
  writer.save(parts_of(1), {.meta = {.step = 1}, .names = {"best"}});
  writer.save(parts_of(2), {.meta = {.step = 2}});
  writer.save(parts_of(3), {.meta = {.step = 3}});
  EXPECT_THAT(files_of(run.path()), ElementsAre("best", "step-00000001", "step-00000003"));
  EXPECT_EQ(writer.newest(), run / "step-00000003");
}

/// As on NFS, as long as another process reads a file of the old checkpoint.
TEST(CheckpointWriter, SavesThoughAnOldCheckpointCannotBeRemovedAndRemovesItLater) {
  const TempDir run;
  FaultyFileSystem files(-1, FaultyFileSystem::Fault::kOnce);
  CheckpointWriter writer(files, {.folder = run.path(), .retention = {.keep_last = 1}});
  writer.save(parts_of(1), {.meta = {.step = 1}});
  files.fail_every("remove");
  writer.save(parts_of(2), {.meta = {.step = 2}});
  EXPECT_EQ(writer.newest(), run / "step-00000002");
  EXPECT_THAT(files_of(run.path()), ElementsAre(StartsWith(".tmp-step-00000001"), "step-00000002"));
  files.fail_every("");
  writer.save(parts_of(3), {.meta = {.step = 3}});
  EXPECT_THAT(files_of(run.path()), ElementsAre("step-00000003"));
}

TEST(CheckpointWriter, TellsEachDurableCheckpointOnce) {
  const TempDir run;
  CheckpointWriter writer(FileSystem::system(), {.folder = run.path(), .background = true});
  writer.save_in_background(parts_of(1), {.meta = {.step = 1}, .names = {"best"}});
  writer.wait();
  const auto saved = writer.take_saved();
  ASSERT_EQ(saved.size(), 1U);
  EXPECT_EQ(saved.front().path, run / "step-00000001");
  EXPECT_THAT(saved.front().names, ElementsAre("best"));
  EXPECT_TRUE(writer.take_saved().empty());
}

TEST(CheckpointWriter, GivesTheNewestAFurtherName) {
  const TempDir run;
  CheckpointWriter writer(FileSystem::system(), {.folder = run.path()});
  writer.save(parts_of(1), {.meta = {.step = 1}});
  writer.name_newest({"best_stg1"});
  EXPECT_EQ(find_named_checkpoint(FileSystem::system(), run.path(), "best_stg1"), run / "step-00000001");
}

/// Counts the sections "save" of the thread that created it.
class SaveSections final : public trace::Sink {
 public:
  SaveSections() { EXPECT_TRUE(trace::add_sink(*this)); }
  ~SaveSections() override { trace::remove_sink(*this); }
  SaveSections(const SaveSections&) = delete;
  SaveSections& operator=(const SaveSections&) = delete;

  void begin(const trace::Event& event) noexcept override { count(event, begun_); }
  void end(const trace::Event& event) noexcept override { count(event, ended_); }
  [[nodiscard]] bool is_open() const { return begun_ > ended_; }
  /// Returns the number of sections since the last call. All of them must have ended.
  [[nodiscard]] int take() {
    EXPECT_EQ(begun_, ended_);
    ended_ = 0;
    return std::exchange(begun_, 0);
  }

 private:
  void count(const trace::Event& event, int& number) const noexcept {
    if (event.name == "save" && std::this_thread::get_id() == thread_) ++number;
  }

  std::thread::id thread_ = std::this_thread::get_id();
  int begun_ = 0;
  int ended_ = 0;
};

// Under a launcher, the ranks that wait for rank 0 have patience with it only in a section of that name.
TEST(CheckpointWriter, EachCallThatMayBlockIsASaveSection) {
  const test::TempDir run;
  SaveSections sections;
  bool was_open = false;
  CheckpointWriter writer(FileSystem::system(),
                          {.folder = run.path(), .check = [&] { was_open = sections.is_open(); }});
  writer.save(parts_of(1), {.meta = {.step = 1}});
  EXPECT_TRUE(was_open);
  EXPECT_GE(sections.take(), 1);
  writer.name_newest({"best"});
  EXPECT_GE(sections.take(), 1);
  commit_checkpoint(good(), run.path(), {.step = 2}, states_of(2));
  EXPECT_GE(sections.take(), 1);
  (void)prune_checkpoints(good(), run.path(), {.keep_last = 1});
  EXPECT_GE(sections.take(), 1);
}

TEST(CheckpointWriter, WaitingForASaveInTheBackgroundIsASaveSectionToo) {
  const test::TempDir run;
  SaveSections sections;
  CheckpointWriter writer(FileSystem::system(), {.folder = run.path(), .background = true});
  writer.save_in_background(parts_of(1), {.meta = {.step = 1}});
  EXPECT_GE(sections.take(), 1);
  writer.wait();
  EXPECT_GE(sections.take(), 1);
}

/// A vanished checkpoint is a disk fault, not bad data: a caller that then saves elsewhere expects IoError.
TEST(CheckpointWriter, CallsACheckpointThatVanishedADiskError) {
  const TempDir run;
  CheckpointWriter writer(FileSystem::system(), {.folder = run / "checkpoints"});
  writer.save(parts_of(1), {.meta = {.step = 1}});
  std::filesystem::remove_all(run / "checkpoints");
  EXPECT_THROW(writer.name_newest({"best"}), IoError);
}

TEST(CheckpointWriter, NamesNothingThatItsCheckForbids) {
  const TempDir run;
  CheckpointWriter writer(FileSystem::system(),
                          {.folder = run.path(), .check = [] { throw PeerError("rank 1 is gone"); }});
  EXPECT_THROW(writer.save(parts_of(1), {.meta = {.step = 1}, .names = {"best"}}), PeerError);
  EXPECT_TRUE(files_of(run.path()).empty());
}

TEST(CheckpointWriter, ThrowsWhatWentWrongInTheBackgroundAtTheNextCheck) {
  const TempDir run;
  CheckpointWriter writer(FileSystem::system(), {.folder = run.path(), .background = true, .check = [] {
                                                   throw PeerError("rank 1 is gone");
                                                 }});
  writer.save_in_background(parts_of(1), {.meta = {.step = 1}});
  EXPECT_THROW(writer.wait(), PeerError);
  writer.check();
}

TEST(CheckpointWriter, DropsWhatHasNoNameYetOnceItIsGivenUp) {
  const TempDir run;
  CheckpointWriter writer(FileSystem::system(), {.folder = run.path()});
  writer.give_up();
  EXPECT_THROW(writer.save(parts_of(1), {.meta = {.step = 1}}), PeerError);
  EXPECT_TRUE(files_of(run.path()).empty());
}

TEST(CheckpointWriter, WithoutAThreadRefusesToSaveInTheBackground) {
  const TempDir run;
  CheckpointWriter writer(FileSystem::system(), {.folder = run.path()});
  EXPECT_THROW(writer.save_in_background(parts_of(1), {.meta = {.step = 1}}), UsageError);
  EXPECT_THAT(files_of(run.path()), Not(Contains("step-00000001")));
}

}  // namespace sharded_test

namespace async_saver_test {

using test::same_state;
using test::states_of;

// A save continues while the state is changing, and writes the state as it was.

StateParts parts_of(std::int64_t seed) {
  StateParts parts;
  for (const auto& [name, state] : states_of(seed)) parts[name].entries = state;
  return parts;
}

at::Tensor& weight_of(StateParts& parts) { return std::get<at::Tensor>(parts["model"].entries["conv.weight"]); }

/// Holds a save until it is released.
struct Gate {
  std::promise<void> opened;
  std::shared_future<void> open = opened.get_future().share();
};

TEST(AsyncSaver, WritesTheStateAsItWasWhileTheTrainingChangesIt) {
  Gate gate;
  StateParts seen;
  StateParts state = parts_of(1);
  {
    AsyncSaver saver;
    saver.save(state, [&](const StateParts& copy) {
      gate.open.wait();
      seen = copy;
    });
    EXPECT_TRUE(saver.is_busy());
    weight_of(state).fill_(99);
    gate.opened.set_value();
  }
  EXPECT_TRUE(same_state(seen["model"].entries, states_of(1).at("model")));
  EXPECT_TRUE(same_state(seen["trainer"].entries, states_of(1).at("trainer")));
}

TEST(AsyncSaver, HasOneSaveUnderWayAtMost) {
  std::atomic<int> at_once = 0;
  std::atomic<int> most = 0;
  std::atomic<int> done = 0;
  AsyncSaver saver;
  for (int i = 0; i < 20; ++i) {
    saver.save(parts_of(i), [&](const StateParts&) {
      most = std::max(most.load(), ++at_once);
      --at_once;
      ++done;
    });
  }
  saver.wait();
  EXPECT_EQ(most, 1);
  EXPECT_EQ(done, 20);
  EXPECT_FALSE(saver.is_busy());
}

TEST(AsyncSaver, UsesTheMemoryOfTheSaveBefore) {
  AsyncSaver saver;
  const void* first = nullptr;
  const void* second = nullptr;
  const auto address_into = [](const void*& target) {
    return [&target](const StateParts& copy) {
      target = std::get<at::Tensor>(copy.at("model").entries.at("conv.weight")).data_ptr();
    };
  };
  saver.reserve(parts_of(1));
  saver.save(parts_of(1), address_into(first));
  saver.save(parts_of(2), address_into(second));
  saver.wait();
  EXPECT_EQ(first, second);
  at::Tensor other = at::empty({5});
  saver.save({{"model", {.entries = {{"conv.weight", other}}, .slices = {}}}}, address_into(second));
  saver.wait();
  EXPECT_NE(first, second) << "a tensor of another shape has memory of its own";
}

TEST(AsyncSaver, WritesOnTheDeviceOfTheProcess) {
  const testing::FakeCuda gpus(3);
  AsyncSaver saver;
  int found = -1;
  saver.save(parts_of(1), [&](const StateParts&) { found = testing::FakeCuda::current(); });
  saver.wait();
  EXPECT_EQ(found, 3);
}

TEST(AsyncSaver, ThrowsWhatTheWriterThrewOnce) {
  AsyncSaver saver;
  saver.save(parts_of(1), [](const StateParts&) { throw IoError("the disk is full"); });
  EXPECT_THROW(saver.wait(), IoError);
  EXPECT_NO_THROW(saver.wait());
  saver.save(parts_of(1), [](const StateParts&) { throw IoError("the disk is full"); });
  while (saver.is_busy()) std::this_thread::yield();
  EXPECT_THROW(saver.check(), IoError);
  EXPECT_NO_THROW(saver.check());
}

TEST(AsyncSaver, TheNextSaveThrowsTheErrorOfTheOneBefore) {
  AsyncSaver saver;
  saver.save(parts_of(1), [](const StateParts&) { throw IoError("the disk is full"); });
  EXPECT_THROW(saver.save(parts_of(2), [](const StateParts&) {}), IoError);
}

// The error that ended the run is already on the console.
TEST(AsyncSaver, LeavesAnErrorThatOnlyFollowsAnotherAsAWarning) {
  const auto left_by = [](auto error) {
    ::testing::internal::CaptureStderr();
    {
      AsyncSaver().save(parts_of(1), [&](const StateParts&) { throw error; });
    }
    return ::testing::internal::GetCapturedStderr();
  };
  EXPECT_EQ(left_by(PeerError("it is dropped")), "warn: it is dropped\n");
  EXPECT_EQ(left_by(IoError("it is not saved")), "error: it is not saved\n");
}

TEST(AsyncSaver, CopiesLargeStatesBitForBit) {
  StateParts parts;
  // Sizes above and below the limit for two threads, odd sizes, and a start between two cache lines.
  for (const std::int64_t size : {1, 63, 1'000'003, 5'000'011}) {
    parts["model"].entries[std::to_string(size)] = at::arange(size, at::kFloat);
    parts["model"].entries[std::to_string(size) + ".moved"] = at::arange(size + 1, at::kFloat).narrow(0, 1, size);
  }
  AsyncSaver saver;
  saver.save(parts, [&](const StateParts& copy) {
    for (const auto& [name, value] : parts.at("model").entries) {
      EXPECT_TRUE(std::get<at::Tensor>(copy.at("model").entries.at(name)).equal(std::get<at::Tensor>(value))) << name;
    }
  });
  saver.wait();
}

TEST(AsyncSaver, KeepsLayoutsAndWhatCannotBeCopied) {
  StateParts parts;
  const at::Tensor channels_last = at::empty({2, 8, 3, 3}).fill_(3).contiguous(at::MemoryFormat::ChannelsLast);
  parts["model"].entries["w"] = channels_last;
  parts["model"].entries["strided"] = at::empty({6, 4}).fill_(5).slice(1, 0, 4, 2);
  parts["model"].entries["undefined"] = at::Tensor();
  AsyncSaver saver;
  saver.save(parts, [&](const StateParts& copy) {
    const StateDict& model = copy.at("model").entries;
    EXPECT_EQ(std::get<at::Tensor>(model.at("w")).strides(), channels_last.strides());
    EXPECT_TRUE(std::get<at::Tensor>(model.at("w")).equal(channels_last));
    EXPECT_TRUE(std::get<at::Tensor>(model.at("strided")).equal(at::empty({6, 2}).fill_(5)));
    EXPECT_FALSE(std::get<at::Tensor>(model.at("undefined")).defined()) << "who writes names it";
  });
  saver.wait();
}

}  // namespace async_saver_test
}  // namespace lockstep
