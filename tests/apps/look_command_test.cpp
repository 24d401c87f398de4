// SPDX-License-Identifier: Apache-2.0
// `lockstep doctor` and `lockstep plot` from the command line.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "apps/command.h"
#include "lockstep/base/file_system.h"
#include "support/temp_dir.h"

namespace lockstep::test {
namespace look_command_test {

namespace fs = std::filesystem;
using nlohmann::json;
using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

// `lockstep doctor` on real runs that fail, hang, recover and finish, and on this machine.

const std::string kRanks = std::string(LOCKSTEP_TEST_BIN_DIR) + "/../tests/hanging_ranks";

class DoctorCommand : public ::testing::Test {
 protected:
  /// Two ranks that compute and all-reduce forever; one has the fault at step 20.
  [[nodiscard]] ProcessOptions ranks(const std::string& fault, const std::string& timeout = "60") const {
    ProcessOptions options =
        lockstep_command({"run", "--nproc-per-node", "2", "--log-dir", "logs", "--", kRanks}, folder_.path());
    options.environment = {{"LOCKSTEP_TIMEOUT", timeout}, {"FAULT", fault}, {"FAULT_RANK", "1"}, {"FAULT_STEP", "20"}};
    return options;
  }
  [[nodiscard]] ProcessResult doctor(std::vector<std::string> words = {"logs"}) const {
    words.insert(words.begin(), "doctor");
    return lockstep(words, folder_.path());
  }
  [[nodiscard]] json said(const std::string& run = "logs") const {
    const ProcessResult result = doctor({run, "--json"});
    EXPECT_EQ(result.code, 0) << result.err;
    return json::parse(result.out, nullptr, false);
  }
  bool comes_to(const std::string& state) const {
    return eventually([&] { return doctor({"logs"}).out.starts_with(state + ": "); });
  }

  TempDir folder_;
};

/// The report of `lockstep doctor kernels` on the smallest network with images.
json kernels_of(std::vector<std::string> words) {
  words.insert(words.begin(), {"doctor", "kernels"});
  words.insert(words.end(), {"--batch", "2", "--steps", "1", "--json"});
  const ProcessResult result = lockstep(words);
  EXPECT_EQ(result.code, 0) << result.err;
  return json::parse(result.out, nullptr, false);
}

json layer_of(const json& report, const std::string& start) {
  for (const json& layer : report["layers"]) {
    if (layer["layer"].get<std::string>().starts_with(start)) return layer;
  }
  return {};
}

TEST(KernelsCommand, NamesTheKernelsOfARecipe) {
  const json ours = kernels_of({"captcha:conv3", "--amp", "none"});
  EXPECT_EQ(layer_of(ours, "conv 3x3, 2x1x")["kernel"], "one channel");
  EXPECT_EQ(layer_of(ours, "norm + ReLU")["maker"], "lockstep");
  EXPECT_GT(layer_of(ours, "conv 3x3, 2x1x")["backward"]["ms"].get<double>(), 0);
  const json plain = kernels_of({"captcha:conv3", "--amp", "none", "--set", "fused_layers=false"});
  EXPECT_NE(layer_of(plain, "conv 3x3, 2x1x")["maker"], "lockstep");
  EXPECT_THAT(plain["advice"].dump(), HasSubstr("--set fused_layers=true"));
}

TEST_F(DoctorCommand, SaysWhichRankWasKilled) {
  EXPECT_EQ(run_process(ranks("kill")).code, 137);
  EXPECT_THAT(doctor().out, ContainsRegex("^failed: rank 1 on .* failed first: killed by signal 9 \\(SIGKILL\\) "
                                          "\\(exit code 137\\)\n"));
  EXPECT_THAT(doctor().out, HasSubstr("  next        lockstep inspect flight logs --last 40\n"));
  EXPECT_EQ(said()["state"], "failed");
}

TEST_F(DoctorCommand, SaysForWhomTheOthersWaitAndLaterThatItWasThat) {
  Process run(ranks("stop", "2"));
  ASSERT_TRUE(comes_to("waits"));
  EXPECT_EQ(run.wait().code, 76);
  const json later = said();
  EXPECT_EQ(later["state"], "failed");
  EXPECT_THAT(later["text"], HasSubstr("rank 1 hangs: stopped by SIGSTOP (or SIGTSTP) in backward of step 20"));
}

TEST_F(DoctorCommand, SaysThatARunGoesOnAndThatItsLauncherWasKilled) {
  Process run(ranks(""));
  ASSERT_TRUE(eventually([&] { return doctor().out.find(", step") != std::string::npos; }));
  EXPECT_THAT(doctor().out, ContainsRegex("^runs: 2 ranks on this host, steps? "));
  run.signal(SIGKILL);
  EXPECT_EQ(run.wait().code, 137);
  EXPECT_THAT(doctor().out,
              HasSubstr("lost: the run is not running on this host, and its launcher left no record of its end"));
}

TEST_F(DoctorCommand, SaysWhatATrainingRunCameTo) {
  ASSERT_EQ(lockstep({"generate", "captcha", "--out", "train", "--count", "8", "--seed", "1", "--charset", "0-9",
                      "--length", "2", "--width", "48", "--height", "20"},
                     folder_.path())
                .code,
            0);
  auto words = train_words("train", "run");
  words.insert(words.end(), {"--nproc-per-node", "2", "--set", "max_steps=1", "--set", "data.length=2", "--set",
                             "data.width=48", "--set", "data.height=20"});
  ASSERT_EQ(lockstep(words, folder_.path()).code, 0);
  const json end = said("run");
  EXPECT_EQ(end["state"], "finished");
  EXPECT_THAT(end["text"], HasSubstr("1 step in "));
  EXPECT_EQ(end["checkpoint"], "run/checkpoints/step-00000001");
  FileSystem::system().remove(folder_ / "run/summary.json");
  const json lost = said("run");
  EXPECT_EQ(lost["state"], "lost");
  ASSERT_EQ(lost["next"][0], "lockstep train run/config.yml --nproc-per-node 2 --run-dir run --resume auto");
  const ProcessResult again = lockstep(
      {"train", "run/config.yml", "--nproc-per-node", "2", "--run-dir", "run", "--resume", "auto"}, folder_.path());
  EXPECT_EQ(again.code, 0) << "what it says to type works: " << again.err;
}

// The launcher prints this process ID when ranks without Lockstep are idle.
TEST_F(DoctorCommand, SaysWhatAProcessAndThoseBelowItDo) {
  Process shell({.command = {"sh", "-c", "sleep 60; true"}});
  const std::string pid = std::to_string(shell.pid());
  ASSERT_TRUE(eventually([&] { return doctor({pid}).out.find("(sleep)") != std::string::npos; }));
  const ProcessResult said = doctor({pid});
  EXPECT_EQ(said.code, 0) << said.err;
  EXPECT_THAT(said.out, ContainsRegex("process " + pid + " \\([a-z]*sh\\) sleeps"));
  EXPECT_THAT(said.out, ContainsRegex("process [0-9]+ \\(sleep\\) sleeps"));
  const json found = json::parse(doctor({"--json", pid}).out, nullptr, false);
  EXPECT_EQ(found["processes"][0]["pid"], shell.pid());
  EXPECT_EQ(found["processes"][1]["program"], "sleep");
  EXPECT_EQ(doctor({"999999999"}).code, 65);
  ::kill(shell.pid(), SIGKILL);
}

TEST_F(DoctorCommand, NoSuchRunIs65) {
  const ProcessResult result = doctor({"nothing"});
  EXPECT_EQ(result.code, 65);
  EXPECT_THAT(result.err, HasSubstr("nothing is not a folder\n  next  pass a run folder"));
}

TEST_F(DoctorCommand, ChecksTheMachineInLessThanTenSeconds) {
  const auto begin = std::chrono::steady_clock::now();
  const ProcessResult result = doctor({});
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));
  for (const char* check : {"cores", "memory", "/dev/shm", "limits", "ports", "host name", "interfaces", "clock",
                            "GPUs", "disk", "all-reduce"}) {
    EXPECT_THAT(result.out, ContainsRegex("(ok  |warn|bad )  " + std::string(check))) << result.out;
  }
  EXPECT_THAT(result.out, ContainsRegex("fsync [0-9.]+ ms|not measured"));
  EXPECT_EQ(result.code, result.out.find("\nbad ") == std::string::npos ? 0 : 69);
  EXPECT_THAT(doctor({"--fast"}).out, Not(HasSubstr("fsync")));
}

TEST_F(DoctorCommand, WhatIsBadEndsWith69) {
  ProcessOptions options = lockstep_command({"doctor", "--fast"}, folder_.path());
  options.environment.emplace_back("GLOO_SOCKET_IFNAME", "nonsense0");
  const ProcessResult result = run_process(options);
  EXPECT_EQ(result.code, 69);
  EXPECT_THAT(result.out, HasSubstr("GLOO_SOCKET_IFNAME is 'nonsense0'"));
  options.environment.emplace_back("LOCKSTEP_SOCKET_IFNAME", "nonsense1");
  EXPECT_THAT(run_process(options).out, HasSubstr("LOCKSTEP_SOCKET_IFNAME is 'nonsense1'"));
}

TEST_F(DoctorCommand, RanksOfOneHostHaveNoLink) {
  const ProcessResult result =
      lockstep({"run", "--nproc-per-node", "2", "--", lockstep_path(), "doctor"}, folder_.path());
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(result.out, "[0]: all ranks are on one host: there is no link to measure\n");
}

// `lockstep plot` from the command line, on logs that the test writes.

/// Two runs of 100 logged steps; the second one's last line is cut short.
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
  // Two charts, each 460 points wide, at two pixels per point.
  EXPECT_EQ(png.substr(0, 20), std::string("\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\x07\x30", 20));
  // The second run's colour, in the forms of several versions of cairo: rgb(84%,37%,0%), rgb(83.5294%, 36.8627%, 0%).
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

}  // namespace look_command_test
}  // namespace lockstep::test
