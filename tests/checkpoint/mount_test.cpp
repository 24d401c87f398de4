// SPDX-License-Identifier: Apache-2.0
// The commit protocol on real disks that are full or read-only, mounted in this process's own namespace.
#include <ATen/ops/zeros.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <functional>
#include <memory>

#include "checkpoint/small_disk.h"
#include "checkpoint/states.h"
#include "lockstep/base/error.h"
#include "lockstep/checkpoint/inspect.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;
using test::SmallDisk;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

std::string no_mounts;  // why this machine does not allow mounts; empty if it does

FileSystem& files() { return FileSystem::system(); }

fs::path commit(const fs::path& folder, std::int64_t step, std::int64_t seed) {
  return commit_checkpoint(files(), folder, {.step = step}, test::states_of(seed), {{"config.yml", "seed: 1\n"}});
}

/// The IoError of `action` with its hint; "" if it throws none.
std::string io_error_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const IoError& error) {
    EXPECT_EQ(static_cast<int>(error.code()), 74);
    return error.what();
  }
  return "";
}

/// Fills a disk except for `free` pieces, for the object's lifetime.
class Filler {
 public:
  explicit Filler(fs::path path) : path_(std::move(path)) {}
  virtual ~Filler() { fs::remove_all(path_); }
  Filler(const Filler&) = delete;
  Filler& operator=(const Filler&) = delete;

 protected:
  fs::path path_;
};

class PageFiller final : public Filler {
 public:
  PageFiller(const fs::path& path, int free) : Filler(path) {
    const UniqueFd fd(::open(path_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    const std::string page(static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)), 'x');
    off_t size = 0;
    while (::write(fd.get(), page.data(), page.size()) == static_cast<ssize_t>(page.size())) {
      size += static_cast<off_t>(page.size());
    }
    EXPECT_EQ(::ftruncate(fd.get(), size - free * static_cast<off_t>(page.size())), 0);
  }
};

class EntryFiller final : public Filler {
 public:
  EntryFiller(const fs::path& path, int free) : Filler(path) {
    fs::create_directory(path_);
    int made = 0;
    while (UniqueFd(::open((path_ / std::to_string(made)).c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600)).valid()) {
      ++made;
    }
    for (int i = 0; i < free; ++i) fs::remove(path_ / std::to_string(--made));
  }
};

using MakeFiller = std::function<std::unique_ptr<Filler>(const fs::path&, int free)>;

/// Tries with no free piece, one, two, ... until a commit succeeds. Returns the number of failures.
int commit_into_ever_more_room(const MakeFiller& make_filler) {
  for (int free = 0; free < 40; ++free) {
    SCOPED_TRACE("free: " + std::to_string(free));
    const SmallDisk disk;
    const fs::path folder = disk / "checkpoints";
    name_checkpoint(files(), folder, "best", commit(folder, 10, 1));
    auto filler = make_filler(disk / "filler", free);
    const std::string error = io_error_of([&] { commit(folder, 20, 2); });
    if (error.empty()) return free;
    EXPECT_THAT(error, AllOf(StartsWith("the checkpoint of step 20 is not saved: cannot "),
                             HasSubstr(folder.string() + "/.tmp-step-00000020"), HasSubstr("No space left on device"),
                             HasSubstr("free space on that disk; --resume auto continues from")));
    EXPECT_THAT(files().list(folder), ElementsAre("best", "step-00000010"));
    EXPECT_TRUE(test::is_of(load_checkpoint(disk.path().string()), 1));
    filler.reset();
    commit(folder, 20, 2);
    EXPECT_THAT(files().list(folder), ElementsAre("best", "step-00000010", "step-00000020"));
    EXPECT_TRUE(test::is_of(load_checkpoint(disk.path().string()), 2));
  }
  ADD_FAILURE() << "no commit succeeds";
  return 0;
}

class Mounted : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!no_mounts.empty()) GTEST_SKIP() << no_mounts;
  }
};

TEST_F(Mounted, ADiskThatIsFullAtAnyPageKeepsTheEarlierCheckpoint) {
  const int failed = commit_into_ever_more_room(
      [](const fs::path& path, int free) { return std::make_unique<PageFiller>(path, free); });
  EXPECT_GE(failed, 4) << "each of the four files needs a page";
}

TEST_F(Mounted, ADiskWithoutRoomForAnotherFileKeepsTheEarlierCheckpoint) {
  const int failed = commit_into_ever_more_room(
      [](const fs::path& path, int free) { return std::make_unique<EntryFiller>(path, free); });
  EXPECT_EQ(failed, 5) << "four files and their folder";
}

TEST_F(Mounted, ACheckpointLargerThanTheDiskLeavesItAsItWas) {
  const SmallDisk disk;
  const fs::path folder = disk / "checkpoints";
  commit(folder, 10, 1);
  const auto before = fs::space(disk.path()).available;
  const CheckpointStates large{{"model", {{"w", at::zeros({1'000'000})}}}};
  EXPECT_THAT(
      io_error_of([&] { commit_checkpoint(files(), folder, {.step = 20}, large); }),
      AllOf(HasSubstr("/model.safetensors"), HasSubstr("No space left on device (the checkpoint needs 4.0 MB, ")));
  EXPECT_EQ(fs::space(disk.path()).available, before);
  EXPECT_TRUE(test::is_of(load_checkpoint(disk.path().string()), 1));
}

TEST_F(Mounted, ADiskWithoutRoomForMoreFilesSaysHowManyItTakes) {
  const SmallDisk disk;
  const fs::path folder = disk / "checkpoints";
  commit(folder, 10, 1);
  const EntryFiller filler(disk / "filler", 2);
  EXPECT_THAT(
      io_error_of([&] { commit(folder, 20, 2); }),
      HasSubstr("No space left on device (the checkpoint needs 5 files and folders, the disk has room for 2 more)"));
}

TEST_F(Mounted, AFullDiskLeavesANameAsItWas) {
  const SmallDisk disk;
  const fs::path folder = disk / "checkpoints";
  name_checkpoint(files(), folder, "best", commit(folder, 10, 1));
  const fs::path newer = commit(folder, 20, 2);
  {
    const PageFiller filler(disk / "filler", 0);
    EXPECT_THAT(io_error_of([&] { name_checkpoint(files(), folder, "best", newer); }), HasSubstr("No space left"));
    EXPECT_TRUE(test::is_of(load_checkpoint(disk.path().string() + ":best"), 1));
  }
  EXPECT_THAT(files().list(folder), ElementsAre("best", "step-00000010", "step-00000020"));
}

TEST_F(Mounted, AReadOnlyDiskIsAnIoErrorAndStillReads) {
  SmallDisk disk;
  const fs::path folder = disk / "checkpoints";
  commit(folder, 10, 1);
  name_checkpoint(files(), folder, "best", commit(folder, 20, 2));
  disk.make_read_only();
  const auto expect_refused = [&](const std::function<void()>& action) {
    EXPECT_THAT(io_error_of(action), AllOf(HasSubstr(disk.path().string()), HasSubstr("Read-only file system")));
  };
  expect_refused([&] { commit(folder, 30, 3); });
  expect_refused([&] { commit(folder, 20, 3); });
  expect_refused([&] { commit(disk / "elsewhere", 1, 1); });
  expect_refused([&] { name_checkpoint(files(), folder, "best", folder / "step-00000010"); });
  expect_refused([&] { prune_checkpoints(files(), folder, {.keep_last = 1}); });
  remove_checkpoint_leftovers(files(), folder);
  EXPECT_TRUE(test::is_of(load_checkpoint(disk.path().string()), 2));
  EXPECT_TRUE(test::is_of(load_checkpoint(disk.path().string() + ":best"), 2));
  disk.make_writable();
  commit(folder, 30, 3);
  EXPECT_THAT(files().list(folder), ElementsAre("best", "step-00000010", "step-00000020", "step-00000030"));
}

}  // namespace
}  // namespace lockstep

int main(int argc, char** argv) {
  lockstep::no_mounts = lockstep::test::enter_mount_namespace();
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
