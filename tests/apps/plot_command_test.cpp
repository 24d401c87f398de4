// SPDX-License-Identifier: Apache-2.0
// `lockstep plot` as a person types it, on logs that are written here.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "apps/command.h"
#include "support/temp_dir.h"

namespace lockstep::test {
namespace plot_command_test {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

/// Two runs of 100 logged steps; the second one's last line is torn.
class PlotCommand : public ::testing::Test {
 protected:
  PlotCommand() {
    for (const double rate : {1.0, 2.0}) {
      const fs::path run = home_ / (rate == 1 ? "slow" : "fast");
      fs::create_directories(run);
      std::ofstream log(run / "log.jsonl");
      for (int step = 1; step <= 100; ++step) {
        log << fmt::format(
            "{{\"event\": \"step\", \"step\": {}, \"epoch\": 1, \"loss\": {}, \"lr\": 0.1, "
            "\"images_per_s\": {}}}\n",
            step, std::exp(-rate * step / 50), 800 + step % 7);
      }
      log << "{\"event\": \"epoch\", \"epoch\": 1, \"step\": 100, \"loss\": 0.5, \"metrics\": {\"accuracy\": 0.75}}\n";
      if (rate == 2) log << "{\"event\": \"st";
    }
  }
  ProcessResult plot(std::vector<std::string> words) {
    words.insert(words.begin(), "plot");
    return lockstep(std::move(words), home_.path());
  }
  [[nodiscard]] std::string content(const std::string& name) const {
    std::ifstream in(home_ / name, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  TempDir home_;
};

TEST_F(PlotCommand, DrawsChartsOf80ColumnsWithoutColourIntoAPipe) {
  const ProcessResult done = plot({"slow", "fast"});
  EXPECT_EQ(done.code, 0) << done.err;
  EXPECT_THAT(done.out,
              AllOf(StartsWith("loss\na 0.1353     slow\n"), HasSubstr("\naccuracy\n"), HasSubstr("\nlearning rate\n"),
                    HasSubstr("\nspeed (images/s)\n"), HasSubstr("⠉"), Not(HasSubstr("\033"))));
  EXPECT_EQ(done.err, "");
}

TEST_F(PlotCommand, WritesAPictureByTheEndingOfItsName) {
  EXPECT_EQ(plot({"slow", "fast", "--out", "a.png"}).code, 0);
  EXPECT_EQ(plot({"slow", "fast", "--out", "a.svg"}).code, 0);
  EXPECT_EQ(plot({"slow", "--out", "one.svg"}).code, 0);
  const std::string png = content("a.png");
  // Two charts of 460 points, at two pixels a point.
  EXPECT_EQ(png.substr(0, 20), std::string("\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\x07\x30", 20));
  // The second run's colour, as versions of cairo write it: rgb(84%,37%,0%), rgb(83.5294%, 36.8627%, 0%).
  const auto has_second = ContainsRegex("rgb\\(8[34][.0-9]*%, ?3[67][.0-9]*%, ?0%\\)");
  EXPECT_THAT(content("a.svg"), AllOf(HasSubstr("<svg"), has_second));
  EXPECT_THAT(content("one.svg"), Not(has_second));
}

TEST_F(PlotCommand, WritesATableWithARowForEachStepAndEpoch) {
  const ProcessResult done = plot({"slow", "fast/log.jsonl", "--csv", "a.csv"});
  EXPECT_EQ(done.code, 0) << done.err;
  EXPECT_EQ(done.out, "");
  const std::string table = content("a.csv");
  EXPECT_THAT(table, StartsWith("run,event,epoch,step,images_per_s,loss,lr,metrics.accuracy\n"
                                "slow,step,1,1,801,0.98019867"));
  EXPECT_THAT(table, HasSubstr("\nfast,epoch,1,100,,0.5,,0.75\n"));
  EXPECT_EQ(std::count(table.begin(), table.end(), '\n'), 1 + 2 * 101);
}

TEST_F(PlotCommand, SaysWhatIsWrongWithItsInput) {
  const ProcessResult missing = plot({"nowhere"});
  EXPECT_EQ(missing.code, 65);
  EXPECT_THAT(missing.err, HasSubstr("there is no folder nowhere"));
  EXPECT_EQ(plot({"."}).code, 65);
  EXPECT_EQ(plot({}).code, 64);
  EXPECT_EQ(plot({"slow", "--out", "a.jpg"}).code, 64);
  EXPECT_EQ(plot({"slow", "--smooth", "1"}).code, 64);
  const ProcessResult unknown = plot({"slow", "--smoth", "0"});
  EXPECT_EQ(unknown.code, 64);
  EXPECT_THAT(unknown.err, HasSubstr("did you mean '--smooth'?"));
  EXPECT_EQ(plot({"slow", "--out", "nowhere/a.png"}).code, 74);
}

TEST_F(PlotCommand, LeavesCairoToAProgramOfItsOwnSoThatTheCommandStartsAtOnce) {
  const auto libraries = [](const char* program) {
    return run_process({.command = {"ldd", std::string(LOCKSTEP_TEST_BIN_DIR) + "/" + program}},
                       std::chrono::seconds(20))
        .out;
  };
  EXPECT_THAT(libraries("lockstep-plot"), HasSubstr("libcairo"));
  EXPECT_THAT(libraries("lockstep"), AllOf(Not(HasSubstr("libcairo")), Not(HasSubstr("microhttpd"))));
}

}  // namespace plot_command_test
}  // namespace lockstep::test
