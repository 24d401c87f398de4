// SPDX-License-Identifier: Apache-2.0
// The flight ring: its events, its writers, and how the call that differs from the others is found.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <thread>

#include "lockstep/base/error.h"
#include "lockstep/base/trace.h"
#include "lockstep/flight/recorder.h"
#include "lockstep/flight/ring.h"
#include "lockstep/flight/snapshot.h"
#include "lockstep/flight/verdict.h"
#include "support/temp_dir.h"

namespace lockstep::flight {
namespace ring_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr std::string_view kReduce = "all_reduce";
constexpr std::string_view kForward = "forward";

class RingTest : public ::testing::Test {
 protected:
  Writer& writer() { return *writer_; }
  [[nodiscard]] Snapshot read() const { return copy_ring(*ring_); }

  static std::vector<std::string> texts(const Snapshot& snapshot) {
    std::vector<std::string> all;
    for (const Event& event : snapshot.events) {
      all.push_back(event.name + " " + std::to_string(event.sequence) + " " +
                    std::to_string(static_cast<int>(event.type)));
    }
    return all;
  }

  std::unique_ptr<Ring> ring_ = std::make_unique<Ring>();
  std::unique_ptr<Writer> writer_ = std::make_unique<Writer>(*ring_, RingOwner{42, 2, 4, "gpu-b"});
};

TEST_F(RingTest, MayBelongToAnUnnamedHost) {
  const Writer unnamed(*ring_, RingOwner{42, 2, 4, {}});
  EXPECT_EQ(read().host, "");
}

TEST_F(RingTest, KeepsWhenACollectiveWasCalledAndWaitedFor) {
  writer().begin({.name = kReduce, .sequence = 1, .called_ns = 11, .waited_ns = 12});
  writer().end({.name = kReduce, .sequence = 1, .called_ns = 11, .waited_ns = 12});
  const Snapshot found = read();
  EXPECT_EQ(found.events[0].called_ns, 11);
  EXPECT_EQ(found.events[0].waited_ns, 0);
  EXPECT_EQ(found.events[1].called_ns, 0);
  EXPECT_EQ(found.events[1].waited_ns, 12);
}

TEST_F(RingTest, KeepsHowLongTheMainThreadHadNoCore) {
  writer().enter(kForward, 0, 21);
  writer().leave(kForward, 22);
  writer().note_section(EventType::kSectionBegin, kForward);
  const Snapshot found = read();
  EXPECT_EQ(found.events[0].queued_ns, 21);
  EXPECT_EQ(found.events[1].queued_ns, 22);
  EXPECT_EQ(found.events[1].waited_ns, 0);
  EXPECT_EQ(found.events[2].queued_ns, 0);
}

TEST_F(RingTest, SaysWhoWroteItAndWhatHappenedInOrder) {
  writer().set_step(7);
  writer().begin({.name = kReduce, .sequence = 1, .bytes = 4096, .bucket = 2, .buckets = 7});
  writer().end({.name = kReduce, .sequence = 1});
  writer().enter(kForward);
  const Snapshot found = read();
  EXPECT_EQ(found.pid, 42);
  EXPECT_EQ(found.rank, 2);
  EXPECT_EQ(found.world_size, 4);
  EXPECT_EQ(found.host, "gpu-b");
  EXPECT_EQ(found.step, 7);
  EXPECT_THAT(texts(found), ElementsAre("all_reduce 1 1", "all_reduce 1 2", "forward 0 3"));
  EXPECT_EQ(found.events[0].bucket, 2);
  EXPECT_EQ(found.events[0].buckets, 7);
  EXPECT_EQ(found.events[0].bytes, 4096U);
  EXPECT_EQ(found.events[0].step, 7);
  EXPECT_LE(found.events[0].time_ns, found.events[1].time_ns);
}

TEST_F(RingTest, KnowsTheCollectiveThatRunsAndTheSectionsInsideEachOther) {
  writer().begin({.name = kReduce, .sequence = 5, .bytes = 8, .group = 1});
  writer().enter(kForward);
  writer().enter("loss");
  Snapshot found = read();
  ASSERT_EQ(found.lanes.size(), 1U);
  EXPECT_EQ(found.lanes[0].group, 1);
  EXPECT_EQ(found.lanes[0].name, kReduce);
  EXPECT_TRUE(found.lanes[0].is_running());
  ASSERT_EQ(found.sections.size(), 2U);
  EXPECT_EQ(found.sections[1].name, "loss");
  writer().leave("loss");
  writer().end({.name = kReduce, .sequence = 5, .group = 1});
  found = read();
  EXPECT_FALSE(found.lanes[0].is_running());
  ASSERT_EQ(found.sections.size(), 1U);
  EXPECT_EQ(found.sections[0].name, kForward);
}

TEST_F(RingTest, KeepsGroupsWithHighNumbersApartFromCollectivesOnTheGpu) {
  for (const int group : {kDeviceLanes + 1, kDeviceLanes + 40}) {
    writer().begin_on_device({.name = kReduce, .sequence = 7, .bytes = 100, .group = 1});
    writer().begin({.name = "barrier", .sequence = 90, .group = group});
    const Snapshot found = read();
    ASSERT_EQ(found.lanes.size(), 2U) << group;
    EXPECT_EQ(found.lanes[0].name, "barrier");
    EXPECT_EQ(found.lanes[0].group, kDeviceLanes - 1) << "groups with high numbers share a lane";
    EXPECT_EQ(found.lanes[1].name, kReduce);
    EXPECT_EQ(found.lanes[1].started, 7U);
  }
}

TEST_F(RingTest, KnowsTheCollectiveOfTheGpuBesideThatOfTheHosts) {
  writer().begin({.name = kReduce, .sequence = 7, .bytes = 100, .group = 1});
  writer().end({.name = kReduce, .sequence = 7, .group = 1});
  writer().begin_on_device({.name = kReduce, .sequence = 7, .bytes = 100, .group = 1});
  const Snapshot found = read();
  ASSERT_EQ(found.lanes.size(), 2U);
  EXPECT_FALSE(found.lanes[0].is_running());
  EXPECT_TRUE(found.lanes[1].is_running());
  EXPECT_EQ(found.lanes[1].name, kReduce);
  EXPECT_EQ(found.events.size(), 2U) << "a wait for the GPU is no event of its own";
  writer().end_on_device({.name = kReduce, .sequence = 7, .group = 1});
  EXPECT_FALSE(read().lanes[1].is_running());
}

TEST_F(RingTest, KnowsTheLongestSectionOfEachNameAndTheLimits) {
  writer().set_limit("save", 5);
  writer().enter(kForward, 7);
  EXPECT_EQ(read().sections.at(0).limit_ns, 7);
  writer().enter("loss");
  writer().leave("loss");
  writer().leave(kForward);
  std::int64_t forward = 0;
  std::int64_t loss = 0;
  for (const SectionName& name : read().names) {
    if (name.name == "forward") forward = name.longest_ns;
    if (name.name == "loss") loss = name.longest_ns;
    EXPECT_EQ(name.limit_ns, name.name == "save" ? 5 : 0);
  }
  EXPECT_GT(forward, loss);
  EXPECT_GT(loss, 0);
  EXPECT_EQ(read().last_event_ns, read().events.back().time_ns);
}

TEST_F(RingTest, ACollectiveThatFailsStaysTheOneThatTheRankWaitsIn) {
  writer().begin({.name = kReduce, .sequence = 5});
  writer().end({.name = kReduce, .sequence = 5, .has_failed = true});
  EXPECT_TRUE(read().lanes.at(0).is_running());
  EXPECT_EQ(read().events.back().type, EventType::kCollectiveFailed);
}

TEST_F(RingTest, KeepsTheLastEventsAndTheirNumbers) {
  for (std::uint64_t i = 1; i <= kEvents + 10; ++i) writer().begin({.name = kReduce, .sequence = i});
  const Snapshot found = read();
  ASSERT_EQ(found.events.size(), kEvents);
  EXPECT_EQ(found.events.front().number, 10U);
  EXPECT_EQ(found.events.front().sequence, 11U);
  EXPECT_EQ(found.events.back().sequence, kEvents + 10);
}

TEST_F(RingTest, MoreNamesOrSectionsThanThereIsRoomForAreNoHarm) {
  std::vector<std::unique_ptr<std::string>> names;
  for (int i = 0; i < 200; ++i) {
    names.push_back(std::make_unique<std::string>("section " + std::to_string(i)));
    writer().enter(*names.back());
  }
  EXPECT_EQ(read().sections.size(), kDepth);
  EXPECT_EQ(read().events.back().name, "other");
  for (int i = 0; i < 200; ++i) writer().leave(*names[static_cast<std::size_t>(i)]);
  EXPECT_TRUE(read().sections.empty());
}

TEST_F(RingTest, ThreadsLoseNoEventAndAReaderSeesNoneHalfWritten) {
  std::atomic<bool> goes_on{true};
  std::vector<std::thread> threads;
  for (std::uint64_t thread = 1; thread <= 3; ++thread) {
    threads.emplace_back([&, thread] {
      for (std::uint64_t i = 0; goes_on; ++i)
        writer().note_section(EventType::kSectionBegin, thread == 1 ? "one" : "more");
    });
  }
  for (int look = 0; look < 50 || ring_->next.load() < 3 * kEvents; ++look) {
    for (const Event& event : read().events) {
      ASSERT_EQ(event.type, EventType::kSectionBegin);
      ASSERT_TRUE(event.name == "one" || event.name == "more") << event.name;
    }
  }
  goes_on = false;
  for (std::thread& thread : threads) thread.join();
  const Snapshot found = read();
  EXPECT_GE(found.events.size(), kEvents - threads.size()) << "a thread that was overtaken by a whole ring loses one";
}

// The limit is generous, to allow for busy machines; the printed number is what counts.
TEST_F(RingTest, AnEventCostsSomeTensOfNanoseconds) {
  std::int64_t best = 1'000'000;
  constexpr int kMany = 10'000;
  for (int repeat = 0; repeat < 20; ++repeat) {
    const std::int64_t begin = now_ns();
    for (std::uint64_t i = 1; i <= kMany; ++i) writer().begin({.name = kReduce, .sequence = i, .bytes = i});
    best = std::min(best, (now_ns() - begin) / kMany);
  }
  std::printf("an event takes %ld ns\n", static_cast<long>(best));
  EXPECT_LT(best, 500);
}

TEST(RingOfAKilledRank, AlwaysReads) {
  std::minstd_rand draw(1);
  for (int kill = 0; kill < 40; ++kill) {
    void* memory = ::mmap(nullptr, sizeof(Ring), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(memory, MAP_FAILED);
    Ring& ring = *static_cast<Ring*>(memory);
    const pid_t child = ::fork();
    if (child == 0) {
      Writer writer(ring, {::getpid(), 0, 2, "host"});
      for (std::uint64_t i = 1;; ++i) {
        writer.set_step(static_cast<std::int64_t>(i));
        writer.begin({.name = kReduce, .sequence = i, .bytes = i});
        writer.end({.name = kReduce, .sequence = i, .bytes = i});
      }
    }
    std::this_thread::sleep_for(std::chrono::microseconds(500 + draw() % 3000));
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    const auto found = read_ring(std::as_bytes(std::span(static_cast<const char*>(memory), sizeof(Ring))));
    if (found) {
      EXPECT_GE(found->events.size() + 2, std::min<std::size_t>(kEvents, ring.next.load()));
      for (const Event& event : found->events) {
        ASSERT_EQ(event.name, kReduce);
        ASSERT_EQ(event.bytes, event.sequence);
      }
    }
    ::munmap(memory, sizeof(Ring));
  }
}

TEST(RingFile, ThatIsNoneOrDamagedIsRefusedOrReadAsFarAsItGoes) {
  const test::TempDir folder;
  const auto file = folder.path() / "flight.ring";
  std::ofstream(file) << "no ring";
  EXPECT_THROW((void)read_ring_file(file), DataError);
  auto ring = std::make_unique<Ring>();
  Writer writer(*ring, {1, 0, 1, "host"});
  writer.begin({.name = kReduce, .sequence = 1});
  std::minstd_rand draw(3);
  std::string bytes(reinterpret_cast<const char*>(ring.get()), sizeof(Ring));
  for (int damage = 0; damage < 2000; ++damage) {
    std::string broken = bytes;
    for (int i = 0; i < 20; ++i) broken[8 + draw() % (sizeof(Ring) - 8)] = static_cast<char>(draw());
    EXPECT_TRUE(read_ring(std::as_bytes(std::span(broken))).has_value());
  }
}

std::string what_is_wrong_with(const std::filesystem::path& file) {
  try {
    (void)read_ring_file(file);
  } catch (const DataError& error) {
    return error.message();
  }
  return "";
}

TEST(RingFile, OfAStrangerNeitherHangsNorLeadsElsewhere) {
  const test::TempDir folder;
  const auto file = folder.path() / "flight.ring";
  const auto pipe = folder.path() / "memfd:lockstep-flight";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  // The link points to a link to a file with the name of the launcher's memory, or to other files, some of them in
  // /proc.
  std::filesystem::create_symlink("memfd:lockstep-flight", folder.path() / "middle");
  for (const std::string& target :
       {(folder.path() / "middle").string(), pipe.string(), std::string("/etc/passwd"), std::string("/dev/zero"),
        std::string("/proc/self/maps"), std::string("/proc/1/fd/../../self/fd/0")}) {
    std::filesystem::create_symlink(target, file);
    EXPECT_THAT(what_is_wrong_with(file), HasSubstr("is a link, but not to the memory of a running launcher"))
        << target;
    std::filesystem::remove(file);
  }
  std::filesystem::rename(pipe, file);
  EXPECT_THAT(what_is_wrong_with(file), HasSubstr("named pipe"));
}

TEST(RingFile, IsReadAtItsOwnSizeAlone) {
  const test::TempDir folder;
  const auto file = folder.path() / "flight.ring";
  auto ring = std::make_unique<Ring>();
  Writer writer(*ring, {1, 0, 1, "host"});
  std::ofstream(file, std::ios::binary).write(reinterpret_cast<const char*>(ring.get()), sizeof(Ring));
  EXPECT_EQ(what_is_wrong_with(file), "");
  for (const std::uintmax_t size : {std::uintmax_t{8} << 30, std::uintmax_t{sizeof(Ring) - 1}}) {
    std::filesystem::resize_file(file, size);
    EXPECT_THAT(what_is_wrong_with(file), HasSubstr("is not a flight ring")) << size;
  }
}

TEST(RingFile, OfALauncherThatLivesIsItsSealedMemory) {
  const test::TempDir folder;
  const auto file = folder.path() / "flight.ring";
  auto ring = std::make_unique<Ring>();
  Writer writer(*ring, {1, 0, 1, "host"});
  const UniqueFd memory(::memfd_create("lockstep-flight", MFD_ALLOW_SEALING));
  ASSERT_EQ(::write(memory.get(), ring.get(), sizeof(Ring)), static_cast<ssize_t>(sizeof(Ring)));
  std::filesystem::create_symlink("/proc/" + std::to_string(::getpid()) + "/fd/" + std::to_string(memory.get()), file);
  EXPECT_THAT(what_is_wrong_with(file), HasSubstr("but not to the memory")) << "it could become smaller";
  ASSERT_EQ(::fcntl(memory.get(), F_ADD_SEALS, F_SEAL_SHRINK), 0);
  EXPECT_EQ(read_ring_file(file).pid, 1);
}

constexpr std::int64_t kMs = 1'000'000;

void stay_on_this_core() {
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(static_cast<unsigned>(::sched_getcpu()), &one);
  (void)::sched_setaffinity(0, sizeof one, &one);
}

void compute_for(std::chrono::milliseconds time) {
  const auto end = std::chrono::steady_clock::now() + time;
  while (std::chrono::steady_clock::now() < end) continue;
}

/// A rank that sleeps in its first section and shares its core with another thread in the second.
[[noreturn]] void record(const std::filesystem::path& file) {
  stay_on_this_core();
  start_recorder({.file = file});
  {
    const trace::Span span({.name = "asleep"});
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  std::atomic<bool> is_over{false};
  std::thread other([&] {
    while (!is_over) continue;
  });
  {
    const trace::Span span({.name = "crowded"});
    compute_for(std::chrono::milliseconds(200));
  }
  is_over = true;
  other.join();
  ::_exit(0);
}

TEST(Recorder, NotesHowLongTheMainThreadHadNoCore) {
  const test::TempDir home;
  const std::filesystem::path file = home / "flight.ring";
  const pid_t child = ::fork();
  if (child == 0) record(file);
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  const Snapshot found = read_ring_file(file);
  ASSERT_EQ(found.events.size(), 4U);
  if (!std::filesystem::exists("/proc/thread-self/schedstat")) GTEST_SKIP() << "this kernel does not count it";
  // A sleeping thread does not need a core, and two busy threads on one core get half of it each.
  const std::int64_t asleep = found.events[1].queued_ns - found.events[0].queued_ns;
  const std::int64_t crowded = found.events[3].queued_ns - found.events[2].queued_ns;
  EXPECT_LT(asleep, crowded);
  EXPECT_GT(crowded, 50 * kMs);
  EXPECT_LT(crowded, found.events[3].time_ns - found.events[2].time_ns + kMs);
}

// Returns the facts about a rank whose operation 12 is a call to `name` that fails.
RankFacts rank_that_calls(int number, const std::string& name, std::uint64_t bytes = 4000) {
  RankFacts facts{.rank = number, .ring = Snapshot{.rank = number}};
  for (const EventType type : {EventType::kCollectiveBegin, EventType::kCollectiveFailed}) {
    facts.ring->events.push_back(
        {.time_ns = 100 + number, .type = type, .name = name, .sequence = 12, .bytes = bytes, .step = 77});
  }
  return facts;
}

TEST(OddCall, IsThatOfTheRankThatIsNotOfTheMajority) {
  const auto odd = find_odd_call(
      {rank_that_calls(0, "all_reduce"), rank_that_calls(1, "all_reduce"), rank_that_calls(2, "barrier")});
  ASSERT_TRUE(odd);
  EXPECT_EQ(odd->rank, 2);
  EXPECT_EQ(odd->message, "rank 2 called barrier as operation 12 in step 77, but ranks 0, 1 called all_reduce");
}

TEST(OddCall, IsFoundByItsSizeWhereTheNamesAreTheSame) {
  const auto odd = find_odd_call(
      {rank_that_calls(0, "all_reduce", 8), rank_that_calls(1, "all_reduce"), rank_that_calls(2, "all_reduce")});
  ASSERT_TRUE(odd);
  EXPECT_EQ(odd->rank, 0);
}

TEST(OddCall, ThereIsNoneAmongTwoRanksOrWhereAllCalledTheSame) {
  EXPECT_FALSE(find_odd_call({rank_that_calls(0, "all_reduce"), rank_that_calls(1, "barrier")}));
  EXPECT_FALSE(find_odd_call({rank_that_calls(0, "barrier"), rank_that_calls(1, "barrier")}));
  EXPECT_FALSE(find_odd_call({{.rank = 0}, {.rank = 1}}));
}

}  // namespace ring_test
}  // namespace lockstep::flight
