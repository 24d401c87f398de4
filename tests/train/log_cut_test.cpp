// SPDX-License-Identifier: Apache-2.0
// A log is cut piece by piece, because the log of a long run may be larger than memory.
#include "train/report/log_cut.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "support/temp_dir.h"

namespace lockstep {
namespace log_cut_test {

namespace fs = std::filesystem;
using test::TempDir;
using ::testing::ElementsAre;
using train::cut_log;
using train::LogCut;

/// The machine's file system, without reading a whole file.
class PiecewiseFiles final : public FileSystem {
 public:
  std::unique_ptr<WritableFile> create(const fs::path& path) override {
    ++created;
    return real().create(path);
  }
  std::string read(const fs::path& path, std::uint64_t /*most*/) override {
    throw DataError(path.string() + " was read as a whole");
  }
  std::unique_ptr<ReadableFile> open(const fs::path& path) override { return real().open(path); }
  bool exists(const fs::path& path) override { return real().exists(path); }
  std::vector<std::string> list(const fs::path& folder) override { return real().list(folder); }
  void make_folder(const fs::path& folder) override { real().make_folder(folder); }
  void rename(const fs::path& from, const fs::path& to) override {
    if (!renames) throw IoError("cannot rename to " + to.string());
    real().rename(from, to);
  }
  void remove(const fs::path& path) override { real().remove(path); }
  void sync_folder(const fs::path& folder) override { real().sync_folder(folder); }

  int created = 0;
  bool renames = true;

 private:
  static FileSystem& real() { return FileSystem::system(); }
};

constexpr const char* kBegin = R"({"event": "start"}
{"event": "step", "step": 1, "loss": 0.5}
{"event": "step", "step": 2, "loss": null}
)";
constexpr const char* kLater = R"({"event": "step", "step": 3, "loss": 0.25}
{"event": "epoch", "epoch": 2, "step": 4}
)";
constexpr const char* kNote = "{\"event\": \"note\"}\n";
constexpr const char* kTorn = "{\"event\": \"st";

/// Writes `text` as the log of `folder` and returns its path.
fs::path log_in(const TempDir& folder, const std::string& text) {
  write_file_atomically(FileSystem::system(), folder / "log.jsonl", text);
  return folder / "log.jsonl";
}

std::string content(const fs::path& path) { return FileSystem::system().read(path); }

TEST(LogCut, IsTheSameForPiecesOfAnySize) {
  const TempDir folder;
  for (std::size_t piece = 1; piece < 200; ++piece) {
    PiecewiseFiles files;
    const fs::path log = log_in(folder, std::string(kBegin) + kLater + kNote + kTorn);
    const LogCut cut = cut_log(files, log, {.step = 2}, piece);
    EXPECT_TRUE(cut.replaced) << piece;
    EXPECT_EQ(cut.damaged, 1) << piece;
    EXPECT_EQ(content(log), std::string(kBegin) + kNote) << piece;
  }
  EXPECT_THAT(FileSystem::system().list(folder.path()), ElementsAre("log.jsonl"));
}

TEST(LogCut, WritesNothingIfEveryLineIsKept) {
  const TempDir folder;
  for (const std::string& text : {std::string(), std::string(kBegin) + kLater}) {
    PiecewiseFiles files;
    const fs::path log = log_in(folder, text);
    EXPECT_FALSE(cut_log(files, log, {.step = 4}, 16).replaced);
    EXPECT_EQ(files.created, 0);
    EXPECT_EQ(content(log), text);
  }
}

TEST(LogCut, GivesAWholeLastLineTheNewlineThatTheKillTook) {
  const TempDir folder;
  PiecewiseFiles files;
  const std::string whole = kBegin;
  const fs::path log = log_in(folder, whole.substr(0, whole.size() - 1));
  const LogCut cut = cut_log(files, log, {.step = 2}, 16);
  EXPECT_TRUE(cut.replaced);
  EXPECT_EQ(cut.damaged, 0);
  EXPECT_EQ(content(log), whole);
}

TEST(LogCut, ThatFailsLeavesTheLogAlone) {
  const TempDir folder;
  PiecewiseFiles files;
  files.renames = false;
  const std::string before = std::string(kBegin) + kLater;
  const fs::path log = log_in(folder, before);
  EXPECT_THROW((void)cut_log(files, log, {.step = 2}, 16), IoError);
  EXPECT_EQ(content(log), before);
  EXPECT_THAT(FileSystem::system().list(folder.path()), ElementsAre("log.jsonl"));
}

}  // namespace log_cut_test
}  // namespace lockstep
