// SPDX-License-Identifier: Apache-2.0
// Loading: folder names, every way to name a checkpoint, and every kind of damage.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "checkpoint/faulty_file_system.h"
#include "checkpoint/formats/folder_names.h"
#include "checkpoint/formats/hash.h"
#include "checkpoint/formats/manifest_json.h"
#include "checkpoint/formats/shared_read.h"
#include "checkpoint/states.h"
#include "lockstep/base/error.h"
#include "lockstep/checkpoint/inspect.h"
#include "support/temp_dir.h"

namespace lockstep {
namespace load_test {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;

// Every way to name a checkpoint, and every kind of damage to it.

FileSystem& files() { return FileSystem::system(); }

/// Without fsync: the real disk is not under test.
FileSystem& quick() {
  static test::FaultyFileSystem instance(-1, test::FaultyFileSystem::Fault::kOnce);
  return instance;
}

fs::path commit(const fs::path& folder, std::int64_t step) {
  return commit_checkpoint(quick(), folder, {.step = step, .configuration_hash = "c0ffee"}, test::states_of(step));
}

void put(const fs::path& path, const std::string& content) {
  files().create(path)->append(content.data(), content.size());
}

std::string error_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const DataError& error) {
    return error.what();
  }
  return "no DataError";
}

std::string load_error(const std::string& where) {
  return error_of([&] { (void)load_checkpoint(where); });
}

class Load : public ::testing::Test {
 protected:
  Load() {
    commit(folder_, 9);
    commit(folder_, 10);
    commit(folder_, 100'000'000);  // nine digits: the newest, though not last in lexicographic order
    name_checkpoint(quick(), folder_, "best", folder_ / "step-00000009");
  }

  test::TempDir run_;
  fs::path folder_ = run_ / "checkpoints";
};

TEST_F(Load, TakesAStepFolderARunItsCheckpointsAndAName) {
  const std::string run = run_.path().string();
  EXPECT_EQ(load_checkpoint(run + "/checkpoints/step-00000010").step(), 10);
  EXPECT_EQ(load_checkpoint(run + "/checkpoints/step-00000010/").step(), 10);
  EXPECT_EQ(load_checkpoint(run).step(), 100'000'000);
  EXPECT_EQ(load_checkpoint(run + "/").step(), 100'000'000);
  EXPECT_EQ(load_checkpoint(run + "/checkpoints").step(), 100'000'000);
  EXPECT_EQ(load_checkpoint(run + ":best").step(), 9);
}

TEST_F(Load, SaysWhatIsMissing) {
  const std::string run = run_.path().string();
  EXPECT_THAT(load_error(run + "/nowhere"), AllOf(HasSubstr(run + "/nowhere does not exist"), HasSubstr("RUN:NAME")));
  EXPECT_THAT(load_error(""), HasSubstr("the name of the checkpoint is empty"));
  EXPECT_THAT(load_error(run + ":bset"), AllOf(HasSubstr("named 'bset'"), HasSubstr("did you mean 'best'?")));
  EXPECT_THAT(load_error(run + ":../x"), HasSubstr("named '../x'"));
  EXPECT_THAT(load_error(run + "/checkpoints/best"), HasSubstr("is a file; a checkpoint is a folder"));
  const test::TempDir empty;
  EXPECT_THAT(load_error(empty.path().string()), HasSubstr("holds no checkpoint"));
  fs::create_directory(empty / "step-00000001");
  EXPECT_THAT(load_error((empty / "step-00000001").string()), HasSubstr("manifest.json does not exist"));
  EXPECT_THAT(load_error(empty.path().string()), HasSubstr("passes verification (1 checked); the first:"));
  const Checkpoint checkpoint = load_checkpoint(run);
  EXPECT_THAT(checkpoint.names(), ElementsAre("model", "trainer"));
  EXPECT_THAT(error_of([&] { (void)checkpoint.state("modle"); }),
              AllOf(HasSubstr("did you mean 'model'?"), HasSubstr("it has model, trainer")));
}

TEST_F(Load, SaysHowManyWereLookedAtAndWhatIsWrongWithTheFirstWhereNoneVerifies) {
  for (const char* name : {"step-00000009", "step-00000010", "step-100000000"}) {
    fs::resize_file(folder_ / name / "trainer.safetensors", 7);
  }
  EXPECT_THAT(load_error(run_.path().string()),
              AllOf(HasSubstr("no checkpoint in " + folder_.string() + " passes verification (3 checked); the first: "),
                    HasSubstr("step-100000000/trainer.safetensors is torn: 7 bytes, the manifest says "),
                    HasSubstr("lockstep checkpoint verify " + (folder_ / "step-100000000").string())));
  EXPECT_TRUE(has_step_folders(files(), folder_));
}

TEST_F(Load, TellsAFolderWithoutStepFoldersFromOneWithTornOnes) {
  const test::TempDir empty;
  EXPECT_FALSE(has_step_folders(files(), empty / "checkpoints"));
  EXPECT_FALSE(has_step_folders(files(), empty.path()));
  fs::create_directory(empty / ".tmp-step-00000001-5");
  put(empty / "best", "x");
  EXPECT_FALSE(has_step_folders(files(), empty.path()));
  fs::create_directory(empty / "step-00000001.bad-1");
  EXPECT_TRUE(has_step_folders(files(), empty.path()));
}

TEST_F(Load, ReadsTheTextsOfACheckpointAndVerifiesThemAgain) {
  const fs::path step =
      commit_checkpoint(quick(), folder_, {.step = 11}, test::states_of(11), {{"config.yml", "a: 1"}});
  const Checkpoint checkpoint = load_checkpoint(step.string());
  EXPECT_EQ(checkpoint.text("config.yml"), "a: 1");
  EXPECT_EQ(checkpoint.text("config.yaml"), std::nullopt);
  EXPECT_EQ(checkpoint.text("model.safetensors"), std::nullopt);
  EXPECT_EQ(checkpoint.text("manifest.json"), std::nullopt);
  put(step / "config.yml", "a: 2");
  EXPECT_THAT(error_of([&] { (void)checkpoint.text("config.yml"); }), HasSubstr("config.yml is torn: XXH3-128"));
  EXPECT_THAT(load_error(step.string()), HasSubstr("config.yml is torn"));
}

TEST_F(Load, NamesATornFileWithBothSizesOrBothHashes) {
  const fs::path step = folder_ / "step-00000010";
  const auto size = fs::file_size(step / "model.safetensors");
  const std::string content = files().read(step / "model.safetensors");
  put(step / "model.safetensors", content.substr(0, size - 1));
  EXPECT_THAT(load_error(step.string()),
              HasSubstr(fmt::format("step-00000010/model.safetensors is torn: {} bytes, the manifest says {}", size - 1,
                                    size)));
  std::string flipped = content;
  flipped[size - 2] = static_cast<char>(flipped[size - 2] ^ 1);
  put(step / "model.safetensors", flipped);
  EXPECT_THAT(load_error(step.string()),
              HasSubstr("model.safetensors is torn: XXH3-128 " + checkpoint::digest_of(flipped).xxh3_128 +
                        ", the manifest says " + checkpoint::digest_of(content).xxh3_128));
  fs::remove(step / "model.safetensors");
  EXPECT_THAT(load_error(step.string()), HasSubstr("model.safetensors does not exist"));
  fs::remove(step / "manifest.json");
  EXPECT_THAT(load_error(step.string()), HasSubstr("manifest.json does not exist"));
}

TEST_F(Load, NoticesDamageThatComesAfterOpening) {
  const Checkpoint checkpoint = load_checkpoint((folder_ / "step-00000010").string());
  fs::resize_file(checkpoint.path() / "trainer.safetensors", 20);
  EXPECT_TRUE(test::same_state(checkpoint.state("model"), test::states_of(10).at("model")));
  EXPECT_THAT(error_of([&] { (void)checkpoint.state("trainer"); }), HasSubstr("is torn: 20 bytes"));
}

TEST_F(Load, NoticesEveryTruncationAndEveryFlippedBitAndTakesTheOlderOne) {
  const fs::path step = folder_ / "step-100000000";
  for (const std::string& name : files().list(step)) {
    const std::string content = files().read(step / name);
    const auto expect_noticed = [&](const std::string& damaged, std::size_t at) {
      put(step / name, damaged);
      EXPECT_THAT(load_error(step.string()), HasSubstr((step / name).string())) << name << " at " << at;
    };
    for (std::size_t at = 0; at < content.size(); at += 5) {
      expect_noticed(content.substr(0, at), at);
      std::string flipped = content;
      flipped[at] = static_cast<char>(flipped[at] ^ (1 << (at % 8)));
      expect_noticed(flipped, at);
    }
    expect_noticed(content + "\n", content.size());
    EXPECT_EQ(load_checkpoint(run_.path().string()).step(), 10) << name;
    put(step / name, content);
  }
  EXPECT_EQ(load_checkpoint(run_.path().string()).step(), 100'000'000);
}

TEST_F(Load, NeverTakesAnotherFolderForADamagedName) {
  const std::string content = files().read(folder_ / "best");
  for (std::size_t at = 0; at < content.size(); ++at) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string flipped = content;
      flipped[at] = static_cast<char>(flipped[at] ^ (1 << bit));
      put(folder_ / "best", flipped);
      EXPECT_THAT(load_error(run_.path().string() + ":best"), HasSubstr("checkpoints/best")) << at;
    }
    put(folder_ / "best", content.substr(0, at));
    EXPECT_THAT(load_error(run_.path().string() + ":best"), HasSubstr("is torn")) << at;
  }
}

TEST_F(Load, FollowsANameToAFolderThatWasPutAside) {
  commit_checkpoint(quick(), folder_, {.step = 9}, test::states_of(77));
  EXPECT_TRUE(test::is_of(load_checkpoint(run_.path().string() + ":best"), 9));
  EXPECT_TRUE(test::is_of(load_checkpoint((folder_ / "step-00000009").string()), 77));
  files().remove(folder_ / "step-00000009.bad-1");
  EXPECT_THAT(load_error(run_.path().string() + ":best"), HasSubstr("gone or has changed"));
}

TEST(Manifest, IsRefusedWhereItsSealFitsButItsFieldsDoNot) {
  const auto sealed = [](const std::string& fields) {
    const std::string body = "{\n" + fields;
    return checkpoint::manifest_from_json(body + "  \"manifest_xxh3_128\": \"" + checkpoint::digest_of(body).xxh3_128 +
                                          "\"\n}\n");
  };
  const std::string rest =
      R"("step": 1, "replicas": 1, "threads": 1, "libtorch": "", "instruction_set": "", "configuration_hash": "",)";
  EXPECT_TRUE(sealed(R"("format_version": 1,)" + rest + R"("files": {},)").ok());
  EXPECT_TRUE(sealed(R"("format_version": 2,)" + rest + R"("files": {},)").ok());
  for (const int version : {0, 3}) {
    EXPECT_THAT(sealed(fmt::format(R"("format_version": {},)", version) + rest + R"("files": {},)").error(),
                HasSubstr(fmt::format("format is {}, but this program reads 1 and 2", version)));
  }
  EXPECT_THAT(sealed(R"("format_version": 1, "files": {},)").error(), HasSubstr("step"));
  EXPECT_FALSE(sealed(R"("format_version": "1",)" + rest + R"("files": {},)").ok());
  EXPECT_FALSE(sealed(R"("format_version": 1,)" + rest + R"("files": [1],)").ok());
  EXPECT_FALSE(sealed(R"("format_version": 1.0,)" + rest + R"("files": {},)").ok());
  for (const char* bytes : {"1.5", "1e39", "-1"}) {
    const std::string files = fmt::format(R"("files": {{"a.txt": {{"bytes": {}, "xxh3_128": "{:032}"}}}},)", bytes, 0);
    EXPECT_FALSE(sealed(R"("format_version": 1,)" + rest + files).ok()) << bytes;
  }
  for (const char* name : {"../x", "/etc/passwd", ".", "", "a/b"}) {
    const std::string files = fmt::format(R"("files": {{"{}": {{"bytes": 1, "xxh3_128": ""}}}},)", name);
    EXPECT_THAT(sealed(R"("format_version": 1,)" + rest + files).error(), HasSubstr("invalid file name")) << name;
  }
  const auto with_file = [&](const std::string& name) {
    return sealed(R"("format_version": 2,)" + rest +
                  fmt::format(R"("files": {{"{}": {{"bytes": 1, "xxh3_128": ""}}}},)", name));
  };
  EXPECT_THAT(with_file("model.part-2-of-3.safetensors").error(), HasSubstr("no model.part-1-of-3.safetensors"));
  EXPECT_THAT(with_file("model.part-1-of-2147483647.safetensors").error(), HasSubstr("no model.part-2-of-2147483647"));
  for (const char* name : {"model.part-0-of-2.safetensors", "model.part-3-of-2.safetensors", "model.part-x.safetensors",
                           "model.part-1-of-1.safetensors", "model.part-1-of-.safetensors"}) {
    EXPECT_THAT(with_file(name).error(), HasSubstr("it has the invalid file name")) << name;
  }
  EXPECT_FALSE(sealed(std::string(100'000, '[')).ok());
  EXPECT_FALSE(checkpoint::manifest_from_json("").ok());
}

std::string sealed_refusal(const std::string& body) {
  const auto manifest = checkpoint::manifest_from_json(body + "  \"manifest_xxh3_128\": \"" +
                                                       checkpoint::digest_of(body).xxh3_128 + "\"\n}\n");
  return manifest ? "taken" : manifest.error();
}

/// The error for a sealed manifest in which `key` has this value.
std::string refusal_of_value(const std::string& key, const std::string& value) {
  std::map<std::string, std::string> fields = {{"step", "1"},
                                               {"replicas", "1"},
                                               {"threads", "1"},
                                               {"libtorch", "\"\""},
                                               {"instruction_set", "\"\""},
                                               {"kernel_variables", "\"\""},
                                               {"configuration_hash", "\"\""},
                                               {"bytes", "1"},
                                               {"xxh3_128", fmt::format("\"{:032}\"", 0)}};
  fields.at(key) = value;
  std::string body = "{\n\"format_version\": 1,";
  for (const char* plain :
       {"step", "replicas", "threads", "libtorch", "instruction_set", "kernel_variables", "configuration_hash"}) {
    body += fmt::format("\"{}\": {},", plain, fields.at(plain));
  }
  return sealed_refusal(body + fmt::format(R"("files": {{"a.txt": {{"bytes": {}, "xxh3_128": {}}}}},)",
                                           fields.at("bytes"), fields.at("xxh3_128")));
}

TEST(Manifest, IsRefusedByKeyWhereASealedValueMakesNoSense) {
  EXPECT_EQ(refusal_of_value("step", "1"), "taken");
  EXPECT_EQ(refusal_of_value("step", "-5"), "'step' is -5; valid values are 0 to 1000000000000000");
  EXPECT_EQ(refusal_of_value("replicas", "0"), "'replicas' is 0; valid values are 1 to 1000000");
  EXPECT_THAT(refusal_of_value("replicas", "4294967298"), HasSubstr("'replicas' is 4294967298"));
  EXPECT_EQ(refusal_of_value("threads", "-1"), "'threads' is -1; valid values are 1 to 4096");
  EXPECT_THAT(refusal_of_value("threads", "1000000000"), HasSubstr("'threads' is 1000000000"));
  EXPECT_THAT(refusal_of_value("bytes", "18446744073709551615"), HasSubstr("'bytes' of \"a.txt\" is 184467440737"));
  for (const char* hash : {R"("")", R"("0123")", R"("../../../../../../../../../../etc/")"}) {
    EXPECT_THAT(refusal_of_value("xxh3_128", hash), HasSubstr("not a hash of 32 hexadecimal digits")) << hash;
  }
  EXPECT_THAT(refusal_of_value("libtorch", R"("1.13\u001b[2J")"), HasSubstr("its libtorch has characters other than"));
  EXPECT_THAT(refusal_of_value("kernel_variables", R"("A=\u0007")"), HasSubstr("its kernel_variables has characters"));
  EXPECT_THAT(refusal_of_value("instruction_set", '"' + std::string(300, 'A') + '"'), HasSubstr("has 300 bytes"));
}

// Each part's name says that there are 50,000 parts: searching for all of them once per part would take hours.
TEST(Manifest, OfManyPartsIsReadAtOnce) {
  std::string files;
  for (int part = 1; part <= 50'000; ++part) {
    files += fmt::format(R"("m.part-{}-of-50000.safetensors": {{"bytes": 1, "xxh3_128": "{:032}"}},)", part, 0);
  }
  files.back() = '}';
  EXPECT_EQ(sealed_refusal("{\n\"format_version\": 2,\"step\": 1, \"replicas\": 1, \"threads\": 1, \"libtorch\": \"\","
                           "\"instruction_set\": \"\", \"configuration_hash\": \"\", \"files\": {" +
                           files + ","),
            "taken");
}

TEST_F(Load, DoesNotWriteAManifestThatItWouldNotRead) {
  EXPECT_THROW(commit_checkpoint(quick(), folder_, {.step = 3, .replicas = 0}, test::states_of(3)), UsageError);
  EXPECT_THROW(commit_checkpoint(quick(), folder_, {.step = -3}, test::states_of(3)), UsageError);
  EXPECT_FALSE(files().exists(folder_ / "step-00000003"));
}

TEST_F(Load, VerifyReadsTheTextsThatItCallsWhole) {
  const auto verdict = [&](const std::string& name, const std::string& text) {
    const test::TempDir run;
    // Seals the changed text as an attacker would, so that the checkpoint looks intact.
    const fs::path step = commit_checkpoint(quick(), run.path(), {.step = 1}, test::states_of(1), {{name, "{}"}});
    checkpoint::ContentHash hash;
    hash.add(text.data(), text.size());
    Manifest manifest = verify_checkpoint(files(), step).manifest;
    manifest.files.at(name) = hash.digest();
    write_file_atomically(files(), step / name, text);
    write_file_atomically(files(), step / "manifest.json", checkpoint::manifest_to_json(manifest));
    return verify_checkpoint(files(), step).problem();
  };
  EXPECT_THAT(verdict("config.yml", "x: &x {<<: *x}\n"),
              HasSubstr("config.yml is unchanged since it was written, but cannot be read: line 1, column 12: "));
  EXPECT_THAT(verdict("config.yml", "seed: 1\nseed: 2\n"), HasSubstr("'seed' occurs twice"));
  EXPECT_THAT(verdict("other.yaml", "a: [1\n"), HasSubstr("line "));
  EXPECT_THAT(verdict("other.json", "{"), HasSubstr("not JSON"));
  EXPECT_EQ(verdict("config.yml", "seed: 1\n"), "");
  EXPECT_EQ(verdict("other.yaml", "- a list\n"), "");
  EXPECT_EQ(verdict("other.json", "[1]"), "");
  EXPECT_EQ(verdict("notes.txt", "{"), "");
}

TEST_F(Load, DoesNotWriteATextThatItWouldNotRead) {
  for (const auto& [name, text] : {std::pair("config.yml", "a: 1\na: 2\n"), std::pair("notes.json", "{")}) {
    EXPECT_THROW(commit_checkpoint(quick(), folder_, {.step = 3}, test::states_of(3), {{name, text}}), UsageError);
  }
  EXPECT_FALSE(files().exists(folder_ / "step-00000003"));
}

TEST_F(Load, DescribesWhatIsInside) {
  const auto description = describe_checkpoint(load_checkpoint((folder_ / "step-00000010").string()));
  const std::string text = to_text(description);
  EXPECT_THAT(text, HasSubstr("step           10\n"));
  EXPECT_THAT(text, HasSubstr("configuration  c0ffee\n"));
  EXPECT_THAT(text, HasSubstr("\nmodel: 2 entries, 25 elements, 104 B\n"));
  EXPECT_THAT(text, HasSubstr("  bn.num_batches_tracked  int64 []                 8 B  norm 10\n"));
  EXPECT_THAT(text, HasSubstr("  conv.weight             float32 [2, 3, 4]       96 B  norm "));
  EXPECT_THAT(text, HasSubstr("  best      10.25\n"));
  EXPECT_THAT(text, HasSubstr("  stage     \"warm-up\"\n"));
}

TEST_F(Load, DescribesTextsBySizeAndCountsThemAsFiles) {
  const fs::path step =
      commit_checkpoint(quick(), folder_, {.step = 11}, test::states_of(11), {{"config.yml", "a: 1"}});
  const Checkpoint checkpoint = load_checkpoint(step.string());
  EXPECT_THAT(to_text(describe_checkpoint(checkpoint)), HasSubstr("\ntext           config.yml (4 B)\n"));
  EXPECT_THAT(to_text(verify_checkpoint(files(), step)), HasSubstr("whole (3 files, "));
}

TEST_F(Load, ReportsEveryDamagedFileWhenVerifying) {
  const fs::path step = folder_ / "step-00000010";
  EXPECT_THAT(to_text(verify_checkpoint(files(), step)), MatchesRegex(".*: whole \\(2 files, .*\\)\n"));
  fs::resize_file(step / "model.safetensors", 3);
  fs::remove(step / "trainer.safetensors");
  const VerifyReport report = verify_checkpoint(files(), step);
  EXPECT_FALSE(report.ok());
  EXPECT_THAT(to_text(report),
              AllOf(HasSubstr("model.safetensors is torn: 3 bytes"), HasSubstr("trainer.safetensors does not exist")));
  EXPECT_THROW((void)verify_checkpoint(files(), folder_ / "step-00000011"), DataError);
}

TEST(Digest, DependsOnTheStateAndNothingElse) {
  const auto digest = [](const CheckpointMeta& meta, std::int64_t seed) {
    const test::TempDir run;
    return checkpoint_digest(
        load_checkpoint(commit_checkpoint(quick(), run / "c", meta, test::states_of(seed)).string()));
  };
  const std::string one = digest({.step = 1, .replicas = 1, .configuration_hash = "a"}, 5);
  EXPECT_THAT(one, MatchesRegex("[0-9a-f]+"));
  EXPECT_EQ(one.size(), 64U);
  EXPECT_EQ(digest({.step = 2, .replicas = 4, .configuration_hash = "b"}, 5), one);
  EXPECT_NE(digest({.step = 1, .replicas = 1, .configuration_hash = "a"}, 6), one);
  const test::TempDir run;
  const fs::path step = commit_checkpoint(quick(), run / "c", {}, test::states_of(5), {{"config.yml", "a: 1"}});
  EXPECT_EQ(checkpoint_digest(load_checkpoint(step.string())), one);
}

// A file read by two threads: bytes, hash and failures are the same as with one thread reading from front to back.

std::string content(std::size_t size) {
  std::string text(size, '\0');
  for (std::size_t i = 0; i < size; ++i) text[i] = static_cast<char>(i * 31 + i / 1000);
  return text;
}

/// A file in memory with one unreadable byte.
class MemoryFile final : public ReadableFile {
 public:
  explicit MemoryFile(std::string text, std::uint64_t bad = ~std::uint64_t{0}) : text_(std::move(text)), bad_(bad) {}
  [[nodiscard]] std::uint64_t size() const override { return text_.size(); }
  void read(std::uint64_t offset, void* data, std::size_t size) override {
    if (bad_ >= offset && bad_ < offset + size) throw IoError("a bad sector");
    text_.copy(static_cast<char*>(data), size, offset);
  }

 private:
  std::string text_;
  std::uint64_t bad_;
};

TEST(SharedRead, HasTheBytesAndTheHashOfTheFile) {
  for (const std::size_t size : {1UL, 1UL << 20U, (1UL << 20U) + 1, 20UL << 20U, (37UL << 20U) + 12345}) {
    SCOPED_TRACE(size);
    const std::string text = content(size);
    MemoryFile file(text);
    const checkpoint::FileBytes bytes = checkpoint::allocate_bytes(size);
    EXPECT_EQ(checkpoint::read_with_two_threads(file, bytes), checkpoint::digest_of(text));
    EXPECT_EQ(bytes.view(), text);
  }
}

TEST(SharedRead, ThrowsWhatReadingThrowsWhereverItIs) {
  const std::string text = content(24U << 20U);
  for (const std::uint64_t bad : {0ULL, 5ULL << 20U, 12ULL << 20U, 20ULL << 20U, (24ULL << 20U) - 1}) {
    SCOPED_TRACE(bad);
    MemoryFile file(text, bad);
    const checkpoint::FileBytes bytes = checkpoint::allocate_bytes(text.size());
    EXPECT_THROW((void)checkpoint::read_with_two_threads(file, bytes), IoError);
  }
}

}  // namespace load_test
}  // namespace lockstep

namespace lockstep::checkpoint {
namespace load_test {

TEST(FolderNames, AreReadAsTheyAreMade) {
  for (const std::int64_t step : {std::int64_t{0}, std::int64_t{1200}, std::int64_t{99'999'999}, INT64_MAX}) {
    EXPECT_EQ(parse_step_name(step_name(step))->step, step);
    EXPECT_EQ(parse_step_name(bad_name(step, 3))->step, step);
    EXPECT_EQ(parse_step_name(bad_name(step, 3))->bad, 3);
  }
  EXPECT_EQ(step_name(1200), "step-00001200");
  EXPECT_EQ(parse_temporary_pid(temporary_name("step-00001200", 4711)), 4711);
  EXPECT_EQ(parse_temporary_pid("best.tmp-4711"), 4711);
  const std::string mark = host_mark("node0");
  EXPECT_EQ(parse_temporary_pid(temporary_name("step-00001200", 4711, mark)), 4711);
  EXPECT_EQ(parse_temporary_host(temporary_name("step-00001200", 4711, mark)), mark);
  EXPECT_EQ(parse_temporary_host(temporary_name("step-00001200", 4711)), "");
  EXPECT_EQ(parse_old_name(temporary_name("step-00001200.old", 4711, mark)), "step-00001200");
}

TEST(FolderNames, OthersAreNotTakenForStepFolders) {
  for (const char* name : {"", "step-", "step", "step--1", "step-12x", "step-1.bad-", "step-1.bad-0", "step-1.old",
                           "step-99999999999999999999", ".tmp-step-00000001-5", "best", "step-1 "}) {
    EXPECT_FALSE(parse_step_name(name).has_value()) << name;
  }
  for (const char* name : {"best", "step-00000001", ".tmp-", ".tmp-x-99999999999", "tmp-4711"}) {
    EXPECT_FALSE(parse_temporary_pid(name).has_value()) << name;
  }
}

TEST(FolderNames, PlainWordsStayInTheirFolder) {
  EXPECT_TRUE(is_plain_word("best_stg1"));
  EXPECT_TRUE(is_plain_file_name("model.safetensors"));
  for (const char* name : {"", ".", "..", "a/b", ".hidden", "a\n"}) {
    EXPECT_FALSE(is_plain_word(name)) << name;
    EXPECT_FALSE(is_plain_file_name(name)) << name;
  }
  EXPECT_FALSE(is_plain_word("step-1"));
  EXPECT_FALSE(is_plain_word("best.tmp-1"));
}

}  // namespace load_test
}  // namespace lockstep::checkpoint
