// SPDX-License-Identifier: Apache-2.0
// The CPUs near its GPU that a rank binds all of its threads to.
#include "comm/wiring/near_cpus.h"

#include <gmock/gmock.h>
#include <sched.h>

#include <fstream>
#include <future>
#include <thread>

#include "lockstep/base/control_group.h"
#include "support/temp_dir.h"

namespace lockstep::comm {
namespace near_cpus_test {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Cpus = std::vector<int>;

TEST(NearCpus, ListsOfTheKernelAreExpanded) {
  EXPECT_THAT(cpus_of_list("0-3,8\n"), ElementsAre(0, 1, 2, 3, 8));
  EXPECT_THAT(cpus_of_list("12,1-2"), ElementsAre(1, 2, 12));
  for (const char* no_list : {"", "\n", "a", "1-", "-1", "1,,2", "0-99999"}) {
    EXPECT_THAT(cpus_of_list(no_list), IsEmpty()) << no_list;
  }
}

TEST(NearCpus, ARankKeepsToThoseOfItsGpusNode) {
  const Cpus all{0, 1, 2, 3};
  EXPECT_EQ(cpus_to_keep_to({.allowed = all, .online = all, .near = {2, 3, 4}}), (Cpus{2, 3}));
}

TEST(NearCpus, ARankStaysWhereAllOrNoneAreNear) {
  const Cpus all{0, 1, 2, 3};
  EXPECT_THAT(cpus_to_keep_to({.allowed = all, .online = all, .near = all}), IsEmpty());
  EXPECT_THAT(cpus_to_keep_to({.allowed = all, .online = all, .near = {}}), IsEmpty());
  EXPECT_THAT(cpus_to_keep_to({.allowed = all, .online = all, .near = {7}}), IsEmpty());
}

TEST(NearCpus, ARankThatWasBoundBeforeStaysBound) {
  EXPECT_THAT(cpus_to_keep_to({.allowed = {0, 1}, .online = {0, 1, 2, 3}, .near = {1, 2}}), IsEmpty());
}

void write(const std::filesystem::path& file, const std::string& text) {
  std::filesystem::create_directories(file.parent_path());
  std::ofstream(file) << text;
}

/// Restores the CPU affinity of all threads.
class Unbound {
 public:
  Unbound() { (void)::sched_getaffinity(0, sizeof cpus_, &cpus_); }
  ~Unbound() {
    for (const auto& thread : std::filesystem::directory_iterator("/proc/self/task")) {
      (void)::sched_setaffinity(std::stoi(thread.path().filename()), sizeof cpus_, &cpus_);
    }
  }
  Unbound(const Unbound&) = delete;
  Unbound& operator=(const Unbound&) = delete;
  [[nodiscard]] const cpu_set_t& cpus() const { return cpus_; }

 private:
  cpu_set_t cpus_{};
};

/// Threads that already exist, too.
TEST(NearCpus, AllThreadsAreBound) {
  const Unbound unbound;
  const cpu_set_t& before = unbound.cpus();
  if (CPU_COUNT(&before) < 2) GTEST_SKIP() << "this needs two CPUs";
  std::string online;
  int last = 0;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &before)) continue;
    online += (online.empty() ? "" : ",") + std::to_string(cpu);
    last = cpu;
  }
  const test::TempDir root;
  write(root / "sys/devices/system/cpu/online", online + "\n");
  write(root / "sys/bus/pci/devices/0000:3b:00.0/local_cpulist", std::to_string(last) + "\n");
  std::promise<void> is_bound;
  std::promise<int> cpus_of_other;
  std::thread other([&] {
    is_bound.get_future().wait();
    cpus_of_other.set_value(affinity_cpus());
  });
  EXPECT_EQ(keep_near("0000:3b:00.0", root.path()), 1);
  is_bound.set_value();
  EXPECT_EQ(cpus_of_other.get_future().get(), 1);
  EXPECT_EQ(affinity_cpus(), 1);
  other.join();
  EXPECT_EQ(keep_near("0000:99:00.0", root.path()), 0) << "nothing is known of it";
}

}  // namespace near_cpus_test
}  // namespace lockstep::comm
