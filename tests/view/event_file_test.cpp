// SPDX-License-Identifier: Apache-2.0
// tests/view/read_events.py, which shares no code with the writer, reads every record back.
#include "lockstep/view/event_file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <fstream>
#include <limits>

#include "support/event_files.h"
#include "support/temp_dir.h"
#include "view/tensorboard/messages.h"

namespace lockstep::view {
namespace event_file_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using Json = nlohmann::json;

class HandClock final : public Clock {
 public:
  [[nodiscard]] TimePoint now() const override { return time; }
  TimePoint time{};
};

std::string content(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

TEST(Crc32c, IsThatOfRfc3720) {
  EXPECT_EQ(crc32c("123456789"), 0xE3069283U);
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8A9136AAU);
  EXPECT_EQ(crc32c(""), 0U);
}

TEST(EventFile, HoldsThePointsOfAStepWithTheirTags) {
  const test::TempDir folder;
  {
    EventFile file(folder.path());
    file.scalars(1, {{"Loss/total", 0.5}, {"Lr/pg_0", 0.25}});
    file.scalars(1'000'000'000'000, {{"Loss/total", -2}});
  }
  EXPECT_THAT(test::event_points(test::event_values(folder.path())),
              ElementsAre("Loss/total@1=0.5", "Lr/pg_0@1=0.25", "Loss/total@1000000000000=-2"));
}

TEST(EventFile, HasANameThatTensorBoardFindsAndThatComesAfterThoseBefore) {
  const test::TempDir folder;
  std::ofstream(folder / "events.out.tfevents.9999999990.from-the-future.1.0");
  const EventFile first(folder.path());
  const EventFile second(folder.path());
  EXPECT_THAT(first.path().filename().string(), StartsWith("events.out.tfevents.9999999991."));
  EXPECT_THAT(second.path().filename().string(), StartsWith("events.out.tfevents.9999999992."));
}

TEST(EventFile, HoldsTextPicturesAndHistograms) {
  const test::TempDir folder;
  const std::string png("\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x50\0\0\0\x20", 24);
  const std::string jpeg("\xFF\xD8\xFF\xE0\0\4ab\xFF\xC0\0\21\x08\0\x11\0\x22", 17);
  {
    EventFile file(folder.path());
    file.text(0, "settings", as_is("epochs: 3\n  lr: 1"));
    EXPECT_TRUE(file.image(7, "Pictures/a", png));
    EXPECT_TRUE(file.image(8, "Pictures/b", jpeg));
    EXPECT_FALSE(file.image(9, "Pictures/c", "GIF89a"));
    const float values[] = {0, 1, 1, -2, 0.5F, std::numeric_limits<float>::quiet_NaN()};
    file.histogram(9, "Weights/conv", histogram_of(values, 6));
  }
  const auto values = test::event_values(folder.path());
  ASSERT_EQ(values.size(), 4U);
  EXPECT_EQ(values[0]["text"], "    epochs: 3\n      lr: 1\n");
  EXPECT_EQ(values[0]["plugin"], "text");
  EXPECT_EQ(values[1]["image"]["width"], 80);
  EXPECT_EQ(values[1]["image"]["height"], 32);
  EXPECT_EQ(values[1]["image"]["bytes"], png.size());
  EXPECT_EQ(values[2]["image"]["width"], 34);
  EXPECT_EQ(values[2]["image"]["height"], 17);
  const Json& histogram = values[3]["histogram"];
  EXPECT_EQ(histogram["count"], 5);
  EXPECT_EQ(histogram["min"], -2);
  EXPECT_EQ(histogram["max"], 1);
  EXPECT_EQ(histogram["sum"], 0.5);
  EXPECT_EQ(histogram["sum_squares"], 6.25);
  double counted = 0;
  for (const Json& count : histogram["counts"]) counted += count.get<double>();
  EXPECT_EQ(counted, 5);
}

TEST(EventFile, HoldsTheSettingsOfARunAndTheMetricsToCompareItBy) {
  const test::TempDir folder;
  const HyperParameters settings = {{"lr", 0.5}, {"exact", true}, {"model", std::string("conv7")}};
  {
    EventFile file(folder.path());
    file.start_session(settings, "first");
    file.end_session(settings, {"Test/accuracy"}, true);
  }
  const auto values = test::event_values(folder.path());
  ASSERT_EQ(values.size(), 3U);
  EXPECT_EQ(values[0]["start"], Json::parse(R"({"lr": 0.5, "exact": true, "model": "conv7"})"));
  EXPECT_EQ(values[0]["group"], "first");
  EXPECT_EQ(values[1]["columns"], Json::parse(R"(["lr", "exact", "model"])"));
  EXPECT_EQ(values[1]["metrics"], Json::parse(R"(["Test/accuracy"])"));
  EXPECT_EQ(values[2]["end"], 1);
}

TEST(EventFile, OfARunThatResumesVoidsTheStepsThatItRepeats) {
  const test::TempDir folder;
  {
    EventFile killed(folder.path());
    for (std::int64_t step = 1; step <= 4; ++step) killed.scalars(step, {{"loss", 10.0 + static_cast<double>(step)}});
  }
  {
    EventFile resumed(folder.path(), {.after_step = 2});
    for (std::int64_t step = 3; step <= 5; ++step) resumed.scalars(step, {{"loss", 20.0 + static_cast<double>(step)}});
  }
  EXPECT_THAT(test::event_points(test::event_values(folder.path())),
              ElementsAre("loss@1=11", "loss@2=12", "loss@3=23", "loss@4=24", "loss@5=25"));
}

TEST(EventFile, OfAFreshRunVoidsAllThatAnEarlierRunLeft) {
  const test::TempDir folder;
  { EventFile(folder.path()).scalars(4, {{"loss", 1}}); }
  { EventFile(folder.path()).scalars(1, {{"loss", 2}}); }
  EXPECT_THAT(test::event_points(test::event_values(folder.path())), ElementsAre("loss@1=2"));
}

TEST(EventFile, IsWrittenOnceASecondAndNotAtEveryStep) {
  const test::TempDir folder;
  HandClock clock;
  EventFile file(folder.path(), {.clock = &clock});
  file.scalars(1, {{"loss", 1}});
  clock.time += std::chrono::milliseconds(900);
  file.scalars(2, {{"loss", 2}});
  EXPECT_THAT(test::event_points(test::event_values(folder.path())), ElementsAre());
  clock.time += std::chrono::milliseconds(101);
  file.scalars(3, {{"loss", 3}});
  EXPECT_THAT(test::event_points(test::event_values(folder.path())), ElementsAre("loss@1=1", "loss@2=2", "loss@3=3"));
}

TEST(EventFile, OfAKilledProcessIsReadableUpToItsLastWholeRecord) {
  const test::TempDir folder;
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    EventFile file(folder.path(), {.write_every = Seconds(0)});
    for (std::int64_t step = 1;; ++step) {
      file.scalars(step, {{"loss", static_cast<double>(step)}});
      if (step == 100) (void)!::write(ready[1], "x", 1);
    }
  }
  char byte = 0;
  ASSERT_EQ(::read(ready[0], &byte, 1), 1);
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  const auto points = test::event_points(test::event_values(folder.path()));
  ASSERT_GE(points.size(), 100U);
  EXPECT_EQ(points[99], "loss@100=100");
}

TEST(EventFile, ThatIsCutAnywhereIsReadableUpToThere) {
  const test::TempDir folder;
  std::filesystem::path path;
  {
    EventFile file(folder.path());
    path = file.path();
    file.scalars(1, {{"loss", 1}});
    file.scalars(2, {{"loss", 2}});
  }
  const auto size = std::filesystem::file_size(path);
  for (const std::uintmax_t cut : {1U, 5U, 20U}) {
    std::filesystem::resize_file(path, size - cut);
    EXPECT_THAT(test::event_points(test::event_values(folder.path())), ElementsAre("loss@1=1")) << cut;
  }
}

TEST(EventFile, WithAChangedByteIsNoticedByItsChecksum) {
  const test::TempDir folder;
  std::filesystem::path path;
  {
    EventFile file(folder.path());
    path = file.path();
    file.text(1, "note", "hello");
  }
  std::string bytes = content(path);
  bytes[bytes.find("hello")] = 'j';
  std::ofstream(path, std::ios::binary) << bytes;
  const auto output = test::read_event_files(folder.path());
  EXPECT_NE(output.code, 0);
  EXPECT_THAT(output.text, HasSubstr("checksum of the record"));
}

/// A disk that fills up after its first writes.
class FullDisk final : public FileSystem {
 public:
  class File final : public WritableFile {
   public:
    explicit File(FullDisk& disk) : disk_(disk) {}
    void append(const void* /*data*/, std::size_t /*size*/) override {
      if (disk_.writes++ >= kGood) throw IoError("no space left");
    }
    void sync() override {}

   private:
    FullDisk& disk_;
  };
  std::unique_ptr<WritableFile> create(const std::filesystem::path& /*path*/) override {
    return std::make_unique<File>(*this);
  }
  std::string read(const std::filesystem::path& /*path*/, std::uint64_t /*most*/) override { return ""; }
  bool exists(const std::filesystem::path& /*path*/) override { return true; }
  std::vector<std::string> list(const std::filesystem::path& /*folder*/) override { return {}; }
  void make_folder(const std::filesystem::path& /*folder*/) override {}
  void rename(const std::filesystem::path& /*from*/, const std::filesystem::path& /*to*/) override {}
  void remove(const std::filesystem::path& /*path*/) override {}
  void sync_folder(const std::filesystem::path& /*folder*/) override {}

  static constexpr int kGood = 2;  // the two records at the start of a file
  int writes = 0;
};

TEST(EventFile, OnAFullDiskSaysSoOnceAndWritesNothingBehindATornRecord) {
  FullDisk disk;
  EventFile file("x", {.write_every = Seconds(0), .files = &disk});
  EXPECT_THROW(file.scalars(1, {{"loss", 1}}), IoError);
  EXPECT_NO_THROW(file.scalars(2, {{"loss", 2}}));
  EXPECT_NO_THROW(file.flush());
  EXPECT_EQ(disk.writes, FullDisk::kGood + 1);
}

TEST(Histogram, CountsEachValueInTheBucketWhoseLimitIsTheFirstThatIsNotBelowIt) {
  std::vector<float> values;
  for (int i = -2000; i <= 2000; ++i) values.push_back(static_cast<float>(i) * std::pow(1.01F, std::abs(i) / 20.0F));
  values.push_back(1e-12F);
  values.push_back(std::numeric_limits<float>::max());
  values.push_back(std::numeric_limits<float>::denorm_min());
  const Histogram histogram = histogram_of(values.data(), values.size());
  double before = -std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i < histogram.limits.size(); ++i) {
    const double limit = histogram.limits[i];
    const auto inside = std::count_if(values.begin(), values.end(), [&](float v) { return v > before && v <= limit; });
    EXPECT_EQ(histogram.counts[i], static_cast<double>(inside)) << before << " to " << limit;
    EXPECT_LT(before, limit);
    before = limit;
  }
}

TEST(Histogram, OfNothingHasABucketAllTheSame) {
  const Histogram histogram = histogram_of(nullptr, 0);
  EXPECT_EQ(histogram.count, 0);
  EXPECT_THAT(histogram.counts, ElementsAre(0));
}

/// A limit that holds on a loaded machine; docs/benchmarks.md has measured numbers.
TEST(EventFile, CostsAStepSomeMicroseconds) {
  const test::TempDir folder;
  EventFile file(folder.path());
  constexpr int kSteps = 20'000;
  const auto begin = std::chrono::steady_clock::now();
  for (int step = 1; step <= kSteps; ++step) {
    file.scalars(step, {{"Loss/total", 0.5}, {"Lr/pg_0", 1e-3}, {"Speed/images_per_s", 812}});
  }
  const double each = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() / kSteps;
  RecordProperty("microseconds", std::to_string(each * 1e6));
  std::printf("%.2f microseconds a step\n", each * 1e6);
  EXPECT_LT(each, 50e-6);
}

}  // namespace event_file_test
}  // namespace lockstep::view
