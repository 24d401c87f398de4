// SPDX-License-Identifier: Apache-2.0
// The facts that `lockstep doctor` and `lockstep plan` read from a run.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmath>
#include <fstream>

#include "launch/doctor/machine_facts.h"
#include "launch/doctor/pci.h"
#include "launch/hangs/flight_ring.h"
#include "lockstep/base/error.h"
#include "lockstep/flight/ring.h"
#include "lockstep/launch/doctor.h"
#include "lockstep/launch/measured_run.h"
#include "support/temp_dir.h"

namespace lockstep::launch {
namespace doctor_test {

namespace fs = std::filesystem;
using flight::Event;
using flight::EventType;
using flight::Snapshot;
using test::TempDir;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

void write(const fs::path& file, const std::string& text) {
  fs::create_directories(file.parent_path());
  std::ofstream(file, std::ios::binary) << text;
}

class RunFolder : public ::testing::Test {
 protected:
  [[nodiscard]] view::RunFacts read() const { return read_run(folder_.path().string()); }
  void put(const std::string& name, const std::string& text) const { write(folder_ / name, text); }

  TempDir folder_;
};

TEST_F(RunFolder, WhatIsNoRunIsAnError) {
  EXPECT_THROW((void)read(), DataError);
  EXPECT_THROW((void)read_run("/nowhere"), DataError);
  put("notes.txt", "mine");
  EXPECT_THROW((void)read_run((folder_ / "notes.txt").string()), DataError);
}

TEST_F(RunFolder, HasVerdictsOfAllAttemptsAndErrorsOfTheNewest) {
  put("logs/attempt_0/verdict.json", R"({"text": "rank 1 died", "rank": 1, "exit_code": 0, "then": "1 of 3"})");
  put("logs/attempt_0/rank-0/error.json", R"({"message": {"message": "old", "extraInfo": {"type": "IoError"}}})");
  put("logs/attempt_10/verdict.json",
      R"({"text": "rank 0 hangs", "hint": "look", "rank": 0, "exit_code": 76, "time_ns": 5, "stacks": ["#0 a\n#1 b"]})");
  put("logs/attempt_10/rank-0/error.json", R"({"message": {"message": "TimeoutError: late\nmore"}})");
  put("logs/attempt_10/rank-0/stderr.log", "first\nlast\n");
  put("logs/attempt_10/rank-1/stdout.log", "");
  const view::RunFacts run = read();
  ASSERT_THAT(run.attempts, SizeIs(2));
  EXPECT_EQ(run.attempts[0].verdict->message, "rank 1 died");
  EXPECT_EQ(run.attempts[0].then, "1 of 3");
  EXPECT_THAT(run.attempts[0].errors, IsEmpty());
  const view::AttemptFacts& newest = run.attempts[1];
  EXPECT_EQ(newest.number, 10) << "numbers are counted, not spelled";
  EXPECT_EQ(newest.ranks, 2);
  EXPECT_EQ(newest.verdict->time_ns, 5);
  EXPECT_THAT(newest.stacks, ElementsAre("#0 a", "#1 b"));
  EXPECT_NE(newest.verdict->kind, FailureKind::kNone);
  ASSERT_THAT(newest.errors, SizeIs(1));
  EXPECT_EQ(newest.errors[0].message, "TimeoutError: late");
  EXPECT_THAT(newest.blamed_lines, ElementsAre("first", "last"));
  EXPECT_THAT(run.notes, IsEmpty());
}

TEST_F(RunFolder, AVerdictMayBeThatTheRanksWereTold) {
  put("logs/attempt_0/verdict.json", R"({"text": "the ranks left", "cause": "told", "rank": 1, "exit_code": 143})");
  EXPECT_EQ(read().attempts[0].verdict->kind, FailureKind::kNone);
}

TEST_F(RunFolder, AFolderOfLogsIsARunToo) {
  put("attempt_0/rank-0/stdout.log", "");
  EXPECT_THAT(read().attempts, SizeIs(1));
}

TEST_F(RunFolder, MayHaveItsLogsElsewhere) {
  const TempDir logs;
  write(logs / "attempt_0/verdict.json", R"({"text": "rank 1 hangs", "rank": 1, "exit_code": 76})");
  put("config.yml", "");
  put(".lock", "pid 1 on here\nlogs " + logs.path().string());
  ASSERT_THAT(read().attempts, SizeIs(1));
  EXPECT_EQ(read().attempts[0].verdict->message, "rank 1 hangs");
  EXPECT_EQ(logs_of_run(folder_.path()), logs.path());
  put(".lock", "pid 1 on here\nlogs /nowhere");
  EXPECT_THAT(read().attempts, IsEmpty());
}

TEST_F(RunFolder, TornFilesAreNotedAndNeverMore) {
  put("config.yml", "recipe: captcha\n");
  put("summary.json", R"({"steps": 12, "sec)");
  put("log.jsonl", "{\"event\": \"step\", \"step\": 7, \"loss\": 0.5}\n{\"event\": \"st");
  put("logs/attempt_0/verdict.json", "[]");
  put("logs/attempt_0/rank-0/flight.ring", "no ring");
  put("logs/attempt_0/rank-0/error.json", "{{{");
  put("checkpoints/step-00000009/model.safetensors", "");
  put("checkpoints/step-00000005/manifest.json", "{}");
  const view::RunFacts run = read();
  EXPECT_FALSE(run.summary);
  EXPECT_FALSE(run.attempts.back().verdict);
  EXPECT_EQ(run.log->step, 7);
  EXPECT_EQ(run.log->loss, 0.5);
  EXPECT_THAT(run.checkpoint, HasSubstr("step-00000005"));
  EXPECT_THAT(run.notes, ElementsAre(HasSubstr("verdict.json is torn"), HasSubstr("summary.json is torn"),
                                     HasSubstr("log.jsonl has a line that is incomplete JSON"),
                                     HasSubstr("step-00000009 has no manifest")));
}

TEST_F(RunFolder, FilesOfAnotherKindAreNoted) {
  put("config.yml", "recipe: mine\n");
  ASSERT_EQ(::mkfifo((folder_ / "summary.json").c_str(), 0600), 0);
  put("logs/attempt_0/verdict.json", std::string(2 << 20, ' '));
  const view::RunFacts run = read();
  EXPECT_FALSE(run.is_recipe) << "lockstep train does not have it";
  EXPECT_THAT(run.notes,
              ElementsAre(HasSubstr("verdict.json has more than 1.0 MB"), HasSubstr("summary.json cannot be read")));
}

TEST_F(RunFolder, OfALongLogOnlyTheEndIsRead) {
  std::string log;
  for (int step = 1; step <= 20'000; ++step) log += R"({"event": "step", "step": )" + std::to_string(step) + "}\n";
  put("log.jsonl", log + R"({"event": "stop", "step": 20000, "reason": "SIGTERM"})" + "\n");
  EXPECT_EQ(read().log->step, 20'000);
  EXPECT_EQ(read().log->stopped_by, "SIGTERM");
  EXPECT_THAT(read().notes, IsEmpty()) << "the line that is cut off by the end counts as none";
  put("log.jsonl", log + R"({"event": "stop", "step": 20000, "reason": "SIGTERM"})" + "\n" +
                       R"({"event": "resume", "step": 20000})" + "\n");
  EXPECT_EQ(read().log->stopped_by, "") << "it has gone on";
}

TEST_F(RunFolder, TheStepReportIsTheLastOneOfTheLogAndThatOfTheSummary) {
  const auto report = [](int step) { return view::to_json(view::StepReport{.first_step = 1, .last_step = step}); };
  put("log.jsonl", R"({"event": "report", "step": 4, "report": )" + report(4) + "}\n" +
                       R"({"event": "report", "step": 8, "report": )" + report(8) + "}\n" +
                       R"({"event": "step", "step": 9})" + "\n");
  put("summary.json", R"({"steps": 9, "report": )" + report(9) + "}");
  EXPECT_EQ(read().log->step_report->last_step, 8);
  EXPECT_EQ(read().log->step, 9);
  EXPECT_EQ(read().summary->step_report->last_step, 9);
  put("summary.json", R"({"steps": 9, "report": {"first_step": "x"}})");
  EXPECT_FALSE(read().summary->step_report);
}

TEST_F(RunFolder, TheSummaryHasFigures) {
  put("summary.json", R"({"steps": 12, "seconds": 3.5, "metrics": {"accuracy": 0.5, "note": "x"}})");
  put("config.yml", "seed: 1\nrecipe: captcha\n");
  const view::RunFacts run = read();
  EXPECT_TRUE(run.is_recipe);
  EXPECT_EQ(run.summary->steps, 12);
  EXPECT_THAT(run.summary->metrics, ElementsAre(std::pair<std::string, double>("accuracy", 0.5)));
}

TEST_F(RunFolder, ANullIsANumberThatWasNotFinite) {
  put("summary.json", R"({"steps": 12, "seconds": null, "metrics": {"accuracy": null, "loss": 0.5}})");
  put("log.jsonl",
      "{\"event\": \"step\", \"step\": 7, \"loss\": 0.5}\n{\"event\": \"step\", \"step\": 8, \"loss\": null}\n");
  const view::RunFacts run = read();
  ASSERT_EQ(run.summary->metrics.size(), 2U);
  EXPECT_TRUE(std::isnan(run.summary->metrics.front().second));
  EXPECT_EQ(run.log->step, 8);
  EXPECT_EQ(run.log->loss, std::nullopt) << "that of step 7 is no more";
  EXPECT_THAT(run.notes, IsEmpty());
}

TEST_F(RunFolder, ALivingLauncherIsKnownByItsRings) {
  put("attempt_0/rank-0/stdout.log", "");
  {
    FlightRing ring(folder_ / "attempt_0/rank-0/flight.ring");
    EXPECT_TRUE(read().is_launched);
    EXPECT_FALSE(read().ranks.at(0).ring) << "the rank has not begun it";
  }
  EXPECT_FALSE(read().is_launched);
  EXPECT_FALSE(read().launcher_is_gone) << "it took its ring away";
  fs::create_symlink("/proc/1/fd/999999", folder_ / "attempt_0/rank-0/flight.ring");
  EXPECT_FALSE(read().is_launched);
  EXPECT_TRUE(read().launcher_is_gone);
}

TEST_F(RunFolder, AProcessTrainsWhereItHasTheLockOpen) {
  put("config.yml", "");
  put(".lock", "pid " + std::to_string(::getpid()) + " on here");
  EXPECT_EQ(read().trainer, "") << "the process lives, and the file is not open";
  const std::ifstream open(folder_ / ".lock");
  EXPECT_EQ(read().trainer, "pid " + std::to_string(::getpid()) + " on here");
}

TEST(Machine, WhatTheSystemSaysIsPlausible) {
  const view::MachineFacts facts = read_machine({.measures_disk = false});
  EXPECT_GE(facts.cores->usable, 1);
  EXPECT_LE(facts.cores->usable, facts.cores->online);
  EXPECT_GT(facts.memory->total, facts.memory->available);
  EXPECT_GT(facts.memory->available, 0U);
  EXPECT_GT(facts.clock->reading_ns, 0);
  EXPECT_LT(facts.clock->reading_ns, 1e6);
  EXPECT_FALSE(facts.network->interfaces.empty());
  EXPECT_LT(facts.ports->ephemeral_low, facts.ports->ephemeral_high);
  EXPECT_LT(facts.disk->bytes_per_s, 0) << "not measured";
}

TEST(Machine, TheDiskIsMeasuredAndNothingIsLeft) {
  TempDir folder;
  const view::DiskFacts facts = read_disk(folder.path(), true, std::chrono::milliseconds(50));
  EXPECT_EQ(facts.problem, "");
  EXPECT_GT(facts.bytes_per_s, 1e3);
  EXPECT_GT(facts.sync_ms, 0);
  EXPECT_TRUE(fs::is_empty(folder.path()));
  EXPECT_NE(read_disk(folder / "missing", true, std::chrono::milliseconds(50)).problem + "none", "");
}

/// A bridge's configuration space: one capability, followed by access control with this control byte.
std::string bridge_with(char control) {
  std::string bytes(0x200, '\0');
  bytes[0x100] = 0x01;         // error reporting (AER); the next capability
  bytes[0x102] = 0x01 | 0x40;  // is at 0x144
  bytes[0x103] = 0x14;
  bytes[0x144] = 0x0d;  // access control
  bytes[0x146] = 0x01;
  bytes[0x14a] = control;
  return bytes;
}

TEST(Pci, ABridgeRedirectsPeersByItsAccessControl) {
  EXPECT_EQ(redirects_peers(bridge_with(0x1d)), true);
  EXPECT_EQ(redirects_peers(bridge_with(0x00)), false);
  EXPECT_EQ(redirects_peers(bridge_with(0x01)), false) << "another bit of it";
  EXPECT_EQ(redirects_peers(std::string(0x100, '\0')), false) << "a bridge that has none";
  EXPECT_EQ(redirects_peers(std::string(64, '\0')), std::nullopt) << "what others than root read";
  std::string endless = bridge_with(0x1d);
  endless[0x102] = 0x01;
  endless[0x103] = 0x10;  // its next capability is itself
  EXPECT_EQ(redirects_peers(endless), false);
  EXPECT_EQ(redirects_peers(bridge_with(0x1d).substr(0, 0x146)), false) << "torn";
}

/// A /sys with a switch above GPU 0 and a network card, GPU 1 next to the switch, and GPU 2 on the other socket.
class Sys : public ::testing::Test {
 protected:
  Sys() {
    put("pci0000:16/0000:16:01.0/0000:17:00.0", "0", "class/gpu0");
    put("pci0000:16/0000:16:01.0/0000:18:00.0", "0", "class/infiniband/mlx5_0/device");
    put("pci0000:16/0000:16:02.0/0000:19:00.0", "0", "class/gpu1");
    put("pci0000:80/0000:80:01.0/0000:81:00.0", "1", "class/gpu2");
    for (const char* bridge : {"pci0000:16/0000:16:01.0", "pci0000:16/0000:16:02.0", "pci0000:80/0000:80:01.0"}) {
      write(devices() / bridge / "config", bridge_with(0));
    }
  }
  [[nodiscard]] fs::path devices() const { return folder_ / "devices"; }
  [[nodiscard]] std::optional<view::GpuLinkFacts> read(const GpuPlaces& gpus) const {
    return read_gpu_links(gpus, folder_.path());
  }

  TempDir folder_;

 private:
  void put(const fs::path& path, const std::string& socket, const std::string& link) const {
    write(devices() / path / "numa_node", socket + "\n");
    fs::create_directories((folder_ / link).parent_path());
    fs::create_directory_symlink(devices() / path, folder_ / link);
    fs::create_directories(folder_ / "bus/pci/devices");
    fs::create_directory_symlink(devices() / path, folder_ / "bus/pci/devices" / path.filename());
  }
};

const GpuPlaces kThreeGpus{.addresses = {"0000:17:00.0", "0000:19:00.0", "0000:81:00.0"},
                           .pairs = {{.first = 0, .second = 1, .obstacle = "it is not supported"},
                                     {.first = 0, .second = 2},
                                     {.first = 1, .second = 2, .by_nvlink = true}}};

TEST_F(Sys, SaysWhatLiesBetweenGpusAndCards) {
  const auto facts = read(kThreeGpus);
  ASSERT_TRUE(facts);
  ASSERT_THAT(facts->pairs, SizeIs(3));
  EXPECT_EQ(facts->pairs[0].way, "one host bridge");
  EXPECT_EQ(facts->pairs[0].obstacle, "it is not supported");
  EXPECT_EQ(facts->pairs[1].way, "two sockets");
  EXPECT_EQ(facts->pairs[2].way, "NVLink");
  ASSERT_THAT(facts->cards, SizeIs(1));
  EXPECT_EQ(facts->cards[0].one + " " + facts->cards[0].other + " " + facts->cards[0].way,
            "mlx5_0 GPU 0 one PCIe switch");
  EXPECT_TRUE(facts->is_acs_known);
  EXPECT_THAT(facts->redirecting, IsEmpty());
  EXPECT_FALSE(facts->iommu_translates);
}

TEST_F(Sys, SaysWhichBridgesRedirectAndWhetherTheIommuTranslates) {
  write(devices() / "pci0000:80/0000:80:01.0/config", bridge_with(0x1d));
  write(devices() / "pci0000:16/0000:16:02.0/config", std::string(64, '\0'));
  write(devices() / "pci0000:80/0000:80:01.0/0000:81:00.0/iommu_group/type", "DMA-FQ\n");
  const auto facts = read(kThreeGpus);
  ASSERT_TRUE(facts);
  EXPECT_THAT(facts->redirecting, ElementsAre("0000:80:01.0"));
  EXPECT_FALSE(facts->is_acs_known);
  EXPECT_TRUE(facts->iommu_translates);
}

TEST_F(Sys, SaysNothingOfOneGpuAlone) {
  EXPECT_FALSE(read({}));
  EXPECT_TRUE(read({.addresses = {"0000:17:00.0"}})) << "a card is beside it";
  fs::remove_all(folder_ / "class/infiniband");
  EXPECT_FALSE(read({.addresses = {"0000:17:00.0"}}));
  const auto unknown = read({.addresses = {"", ""}, .pairs = {{.first = 0, .second = 1}}});
  ASSERT_TRUE(unknown);
  EXPECT_EQ(unknown->pairs.at(0).way, "");
}

constexpr std::int64_t kMs = 1'000'000;

/// Writes the events of a rank's steps, each 100 ms long.
class Ring {
 public:
  Ring() { ring_.world_size = 2; }

  /// Backward runs from 30 to 60 ms. Two buckets start at 40 and 60 ms and finish at 50 and 80 ms; the rank waits from
  /// 60 ms. The optimizer takes 5 ms starting at 1 ms; an 8-byte all_reduce without a wait overlaps it.
  void step(std::int64_t bytes = 1000) {
    const std::int64_t at = (++steps_) * 100;
    section(EventType::kSectionBegin, "optimizer", at + 1);
    call(8, -1, {at + 2, at + 2, at + 4, 0});
    section(EventType::kSectionEnd, "optimizer", at + 6);
    section(EventType::kSectionBegin, "backward", at + 30);
    call(bytes, 0, {at + 40, at + 40, at + 50, 0});
    section(EventType::kSectionBegin, kEnd, at + 60);
    call(bytes, 1, {at + 60, at + 61, at + 80, at + 60});
    section(EventType::kSectionEnd, kEnd, at + 100);
    section(EventType::kSectionEnd, "backward", at + 100);
  }
  /// The same, but the thread had no core for 6 of the 30 ms before backward, for 5 of the next 30, and for 1 of the
  /// last 40, 20 of which it spends waiting.
  void crowded_step() {
    const std::size_t first = ring_.events.size();
    step();
    const auto note = [&](EventType type, const char* name, std::int64_t ms) {
      for (std::size_t i = first; i < ring_.events.size(); ++i) {
        flight::Event& event = ring_.events[i];
        if (event.type == type && event.name == name) event.queued_ns = queued_ + ms * kMs;
      }
    };
    note(EventType::kSectionBegin, "backward", 6);
    note(EventType::kSectionBegin, kEnd, 11);
    note(EventType::kSectionEnd, kEnd, 12);
    queued_ += 12 * kMs;
  }
  void evaluate() { section(EventType::kSectionBegin, "evaluate", steps_ * 100 + 100); }
  [[nodiscard]] const Snapshot& ring() const { return ring_; }

 private:
  struct Times {
    std::int64_t called;
    std::int64_t begin;
    std::int64_t end;
    std::int64_t waited;
  };
  static constexpr const char* kEnd = "DistributedDataParallel::end_backward";

  void section(EventType type, const char* name, std::int64_t ms) {
    ring_.events.push_back({.time_ns = ms * kMs, .type = type, .name = name});
  }
  void call(std::int64_t bytes, int bucket, const Times& times) {
    Event event{.time_ns = times.begin * kMs,
                .type = EventType::kCollectiveBegin,
                .name = "all_reduce",
                .sequence = ++calls_,
                .bytes = static_cast<std::uint64_t>(bytes),
                .bucket = bucket,
                .called_ns = times.called * kMs};
    ring_.events.push_back(event);
    event.type = EventType::kCollectiveEnd;
    event.time_ns = times.end * kMs;
    event.called_ns = 0;
    event.waited_ns = times.waited * kMs;
    ring_.events.push_back(event);
  }

  Snapshot ring_;
  std::int64_t steps_ = 0;
  std::uint64_t calls_ = 0;
  std::int64_t queued_ = 0;
};

Ring ring_of(int steps) {
  Ring ring;
  for (int i = 0; i < steps; ++i) ring.step();
  return ring;
}

TEST(WorkloadOf, TakesTheWaitsOutOfAStep) {
  const simulate::Workload found = workload_of({ring_of(3).ring()});
  ASSERT_THAT(found.steps, SizeIs(2));
  EXPECT_EQ(found.ranks, 2);
  EXPECT_NEAR(found.measured_s, 0.1, 1e-9);
  const simulate::MeasuredStep& step = found.steps.front();
  EXPECT_NEAR(step.compute_s, 0.08, 1e-9);  // 20 ms of waiting
  EXPECT_NEAR(step.backward_s, 0.03, 1e-9);
  EXPECT_NEAR(step.optimizer_s, 0.005, 1e-9);
  EXPECT_NEAR(step.optimizer_end_s, 0.006, 1e-9);
  ASSERT_THAT(step.calls, SizeIs(3));
  EXPECT_EQ(step.calls[0].bytes, 8);
  EXPECT_LT(step.calls[0].waited_s, 0);
  EXPECT_NEAR(step.calls[1].called_s, 0.04, 1e-9);
  EXPECT_NEAR(step.calls[1].waited_s, 0.06, 1e-9);
  EXPECT_NEAR(step.calls[2].called_s, 0.06, 1e-9);
}

TEST(WorkloadOf, TakesOutWhatTheThreadWaitedForACore) {
  Ring ring;
  for (int i = 0; i < 3; ++i) ring.crowded_step();
  const simulate::Workload found = workload_of({ring.ring()});
  ASSERT_THAT(found.steps, SizeIs(2));
  const simulate::MeasuredStep& step = found.steps.front();
  EXPECT_NEAR(step.compute_s, 0.08 - 0.012, 1e-9);
  EXPECT_NEAR(step.backward_s, 0.03 - 0.006, 1e-9);
  EXPECT_NEAR(step.calls[1].called_s, 0.024 + 0.01 * 25 / 30, 1e-9);  // five of its thirty milliseconds
  EXPECT_NEAR(step.calls[2].called_s, 0.06 - 0.011, 1e-9);
  EXPECT_NEAR(found.measured_s, 0.1, 1e-9);
}

TEST(WorkloadOf, LeavesOutEvaluationsAndStepsUnlikeTheOthers) {
  Ring ring = ring_of(4);
  ring.evaluate();
  ring.step();
  ring.step(2000);
  ring.step();
  EXPECT_THAT(workload_of({ring.ring()}).steps, SizeIs(4));
}

TEST(WorkloadOf, LeavesOutTheFirstStepsWhereThereAreEnough) {
  EXPECT_THAT(workload_of({ring_of(21).ring()}).steps, SizeIs(17));
  EXPECT_THAT(workload_of({ring_of(21).ring(), ring_of(21).ring()}).steps, SizeIs(34));
}

TEST(WorkloadOf, LeavesOutAStepWhoseBeginWasOverwritten) {
  Snapshot ring = ring_of(4).ring();
  // The end of the first backward pass is there, but a call of the next step is missing.
  const auto end = std::find_if(ring.events.begin(), ring.events.end(),
                                [](const Event& event) { return event.time_ns == 200 * kMs; });
  std::erase_if(ring.events, [&](const Event& event) { return event.time_ns < end->time_ns; });
  ring.events.insert(ring.events.begin(), *end);
  EXPECT_THAT(workload_of({ring}).steps, SizeIs(2));
}

TEST(WorkloadOf, RefusesRingsWithoutSteps) {
  EXPECT_THROW((void)workload_of({Snapshot{}}), DataError);
  EXPECT_THROW((void)workload_of({ring_of(1).ring()}), DataError);
}

TEST(ReadMeasuredRun, RefusesWhatIsNoRun) {
  try {
    (void)read_measured_run("/nowhere");
    FAIL() << "there is nothing to read";
  } catch (const DataError& error) {
    EXPECT_EQ(error.message(), "/nowhere is not a folder");
  }
}

}  // namespace doctor_test
}  // namespace lockstep::launch
