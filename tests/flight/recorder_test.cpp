// SPDX-License-Identifier: Apache-2.0
#include "lockstep/flight/recorder.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <thread>

#include "lockstep/base/trace.h"
#include "lockstep/flight/snapshot.h"
#include "support/temp_dir.h"

namespace lockstep::flight {
namespace recorder_test {

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

/// A rank that sleeps in its first section, and shares its core with another thread in the second.
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
  // A thread that sleeps does not want a core, and two that compute have half of one each.
  const std::int64_t asleep = found.events[1].queued_ns - found.events[0].queued_ns;
  const std::int64_t crowded = found.events[3].queued_ns - found.events[2].queued_ns;
  EXPECT_LT(asleep, crowded);
  EXPECT_GT(crowded, 50 * kMs);
  EXPECT_LT(crowded, found.events[3].time_ns - found.events[2].time_ns + kMs);
}

}  // namespace recorder_test
}  // namespace lockstep::flight
