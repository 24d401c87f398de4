// SPDX-License-Identifier: Apache-2.0
// Findings about a machine and the links between machines.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "lockstep/view/link_report.h"
#include "lockstep/view/machine_check.h"

namespace lockstep::view {
namespace machine_check_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr std::uint64_t kGB = 1'000'000'000;

/// A machine with nothing to improve.
MachineFacts healthy() {
  return {.cores = CoreFacts{.name = "Xeon", .online = 8, .usable = 8},
          .memory = MemoryFacts{.total = 64 * kGB, .available = 60 * kGB},
          .shared_memory = SharedMemoryFacts{.is_there = true, .size = 32 * kGB, .free = 32 * kGB},
          .limits = LimitFacts{.files = 1'048'576, .processes = 200'000},
          .ports = PortFacts{},
          .network = NetworkFacts{.host_name = "gpu-a",
                                  .host_addresses = {"10.0.0.5"},
                                  .interfaces = {{.name = "eth0", .address = "10.0.0.5", .megabits = 25'000},
                                                 {.name = "docker0", .address = "172.17.0.1"},
                                                 {.name = "lo", .address = "127.0.0.1", .is_loopback = true}},
                                  .outward = "eth0"},
          .clock = ClockFacts{.source = "tsc", .reading_ns = 22, .is_synchronised = true, .error_s = 0.002},
          .gpus = GpuFacts{},
          .disk = DiskFacts{.folder = "/data", .kind = "ext4", .free = 500 * kGB, .bytes_per_s = 1e9, .sync_ms = 0.4},
          .all_reduce = AllReduceFacts{.ranks = 2, .backend = "shm", .small_us = 5, .large_bytes_per_s = 5e9}};
}

Check find_check(const MachineFacts& facts, const std::string& name) {
  const std::vector<Check> checks = check_machine(facts);
  const auto found = std::find_if(checks.begin(), checks.end(), [&](const Check& each) { return each.name == name; });
  return found == checks.end() ? Check{} : *found;
}

/// Expects one finding of this severity, and none from any other check.
void expect_finding(const MachineFacts& facts, const std::string& name, Health health, const std::string& hint) {
  for (const Check& check : check_machine(facts)) {
    if (check.name != name) {
      EXPECT_THAT(check.hints, IsEmpty()) << check.name;
      continue;
    }
    EXPECT_EQ(check.health, health) << name;
    EXPECT_THAT(check.hints, ElementsAre(HasSubstr(hint))) << name;
  }
  EXPECT_EQ(is_any_bad(check_machine(facts)), health == Health::kBad);
}

TEST(MachineCheck, AHealthyMachineGetsNoAdvice) {
  const std::vector<Check> checks = check_machine(healthy());
  EXPECT_EQ(checks.size(), 12U);
  for (const Check& check : checks) {
    EXPECT_EQ(check.health, Health::kOk) << check.name;
    EXPECT_THAT(check.hints, IsEmpty()) << check.name;
    EXPECT_NE(check.value, "") << check.name;
  }
  EXPECT_FALSE(is_any_bad(checks));
}

TEST(MachineCheck, AHealthyMachineWithGpusAndSlurmGetsNone) {
  MachineFacts facts = healthy();
  facts.cores->usable = 4;  // of this job
  facts.cores->quota = 4;
  facts.limits->tasks = 10'000;
  facts.limits->tasks_used = 200;
  facts.gpus = GpuFacts{.devices = 2,
                        .gpus = {{.index = 0, .name = "H100", .used = kGB, .total = 80 * kGB},
                                 {.index = 1, .name = "H100", .used = 0, .total = 80 * kGB}},
                        .driver = "550.54",
                        .nccl = {.version = "2.21.5", .path = "/lib/libnccl.so.2"}};
  for (const Check& check : check_machine(facts)) EXPECT_THAT(check.hints, IsEmpty()) << check.name;
  EXPECT_EQ(find_check(facts, "cores").value, "4 cores (Xeon), of 8 by affinity, quota 4");
  EXPECT_EQ(find_check(facts, "GPUs").value, "2 x H100, driver 550.54, NCCL 2.21.5 (/lib/libnccl.so.2)");
}

TEST(MachineCheck, SaysWhatLiesBetweenGpus) {
  GpuLinkFacts links{.pairs = {{.one = "GPU 0", .other = "GPU 1", .way = "NVLink"},
                               {.one = "GPU 0", .other = "GPU 2", .way = "one host bridge"},
                               {.one = "GPU 1", .other = "GPU 2", .way = "one host bridge"}},
                     .cards = {{.one = "mlx5_0", .other = "GPU 0", .way = "one PCIe switch"}}};
  MachineFacts facts;
  facts.gpu_links = links;
  EXPECT_EQ(find_check(facts, "GPU links").value,
            "1 pair by NVLink, 2 pairs by one host bridge; mlx5_0 near GPU 0 (one PCIe switch)");
  EXPECT_EQ(find_check(facts, "GPU links").health, Health::kOk);
  facts.gpu_links->pairs[1].obstacle = "the chipset does not support it";
  expect_finding(facts, "GPU links", Health::kWarn, "GPU 0 and GPU 2 cannot reach each other's memory (the chipset");
  facts.gpu_links = links;
  facts.gpu_links->redirecting = {"0000:16:01.0"};
  expect_finding(facts, "GPU links", Health::kWarn, "access control (ACS) of the PCI bridge 0000:16:01.0");
  facts.gpu_links = links;
  facts.gpu_links->iommu_translates = true;
  expect_finding(facts, "GPU links", Health::kWarn, "iommu=pt");
  facts.gpu_links->pairs.resize(1);
  facts.gpu_links->cards.clear();
  EXPECT_EQ(find_check(facts, "GPU links").health, Health::kOk) << "NVLink needs neither bridge nor IOMMU";
}

TEST(MachineCheck, WhatWasNotAskedForIsLeftOut) { EXPECT_THAT(check_machine({}), IsEmpty()); }

TEST(MachineCheck, AQuotaBelowTheCoresThatProgramsSee) {
  MachineFacts facts = healthy();
  facts.cores->quota = 1.5;
  expect_finding(facts, "cores", Health::kWarn, "allows 1.5 of the 8 cores");
  facts.cores->quota = 7.97;
  EXPECT_EQ(find_check(facts, "cores").health, Health::kOk) << "that is how schedulers write 8";
}

TEST(MachineCheck, LittleMemory) {
  MachineFacts facts = healthy();
  facts.memory->available = 800'000'000;
  expect_finding(facts, "memory", Health::kWarn, "few batches fit");
  facts.memory->available = 100'000'000;
  expect_finding(facts, "memory", Health::kBad, "one rank alone needs");
}

TEST(MachineCheck, AControlGroupThatIsAlmostFull) {
  MachineFacts facts = healthy();
  facts.memory->group_limit = 4 * kGB;
  facts.memory->group_used = 3'500'000'000;
  expect_finding(facts, "memory", Health::kWarn, "raise the container's memory");
  EXPECT_EQ(find_check(facts, "memory").value, "500.0 MB free of 64.0 GB, control group limit 4.0 GB");
  facts.memory->group_used = 5 * kGB;
  expect_finding(facts, "memory", Health::kBad, "one rank alone needs");
}

TEST(MachineCheck, AddressSpaceAndOvercommit) {
  MachineFacts facts = healthy();
  facts.memory->address_space = 4 * kGB;
  expect_finding(facts, "memory", Health::kWarn, "ulimit -v allows 4.0 GB");
  facts = healthy();
  facts.memory->overcommit = 2;
  expect_finding(facts, "memory", Health::kWarn, "vm.overcommit_memory is 2");
}

TEST(MachineCheck, SwapCountsWhereItIsInUse) {
  MachineFacts facts = healthy();
  facts.memory->swap_total = 8 * kGB;
  facts.memory->swap_used = kGB;
  EXPECT_EQ(find_check(facts, "swap").health, Health::kOk);
  facts.memory->swap_used = 3 * kGB;
  expect_finding(facts, "swap", Health::kWarn, "swapped out");
}

TEST(MachineCheck, DockersSharedMemoryAndNone) {
  MachineFacts facts = healthy();
  facts.shared_memory = SharedMemoryFacts{.is_there = true, .size = 67'108'864, .free = 67'108'864};
  expect_finding(facts, "/dev/shm", Health::kWarn, "--shm-size=1g");
  facts.shared_memory = SharedMemoryFacts{};
  expect_finding(facts, "/dev/shm", Health::kWarn, "mount a tmpfs");
}

TEST(MachineCheck, LimitsOnFilesAndTasks) {
  MachineFacts facts = healthy();
  facts.limits->files = 1024;
  expect_finding(facts, "limits", Health::kWarn, "ulimit -Hn");
  facts.limits->files = 64;
  expect_finding(facts, "limits", Health::kBad, "ulimit -Hn");
  facts = healthy();
  facts.limits->processes = 512;
  expect_finding(facts, "limits", Health::kWarn, "512 processes and threads are left");
  facts = healthy();
  facts.limits->tasks = 4096;
  facts.limits->tasks_used = 4030;
  expect_finding(facts, "limits", Health::kBad, "66 processes and threads are left");
}

TEST(MachineCheck, LockedMemoryCountsWhereInfinibandIs) {
  MachineFacts facts = healthy();
  facts.limits->locked = 65'536;
  EXPECT_EQ(find_check(facts, "limits").health, Health::kOk);
  facts.limits->has_infiniband = true;
  expect_finding(facts, "limits", Health::kWarn, "ulimit -l unlimited");
}

TEST(MachineCheck, Ports) {
  MachineFacts facts = healthy();
  facts.ports->is_free = false;
  expect_finding(facts, "ports", Health::kWarn, "--master-port");
  facts = healthy();
  facts.ports->ephemeral_low = 1024;
  expect_finding(facts, "ports", Health::kWarn, "may take the default port");
  facts = healthy();
  facts.ports->ephemeral_high = 32'800;
  expect_finding(facts, "ports", Health::kWarn, "a port for each connection");
}

TEST(MachineCheck, AHostNameThatIsTheLoopback) {
  MachineFacts facts = healthy();
  facts.network->host_addresses = {"127.0.1.1"};
  expect_finding(facts, "host name", Health::kWarn, "other hosts cannot reach gpu-a at that address");
  facts.network->host_addresses = {"127.0.1.1", "10.0.0.5"};
  EXPECT_EQ(find_check(facts, "host name").health, Health::kOk);
  facts.network->host_addresses = {"::1"};
  facts.network->outward = "";
  facts.network->interfaces = {{.name = "lo", .address = "127.0.0.1", .is_loopback = true}};
  EXPECT_EQ(find_check(facts, "host name").health, Health::kOk) << "it has no other address";
  EXPECT_EQ(find_check(facts, "interfaces").health, Health::kOk);
}

TEST(MachineCheck, AHostNameWithoutAnAddress) {
  MachineFacts facts = healthy();
  facts.network->host_addresses = {};
  expect_finding(facts, "host name", Health::kWarn, "/etc/hosts");
  facts.network->has_answer = false;
  expect_finding(facts, "host name", Health::kWarn, "/etc/resolv.conf");
}

TEST(MachineCheck, Interfaces) {
  MachineFacts facts = healthy();
  EXPECT_EQ(find_check(facts, "interfaces").value,
            "eth0 10.0.0.5 (25 Gbit/s), docker0 172.17.0.1; eth0 leads to other hosts");
  facts.network->outward = "docker0";
  expect_finding(facts, "interfaces", Health::kWarn, "a container bridge");
  facts = healthy();
  facts.network->interface_variable = "LOCKSTEP_SOCKET_IFNAME";
  facts.network->named_interface = "ib0";
  expect_finding(facts, "interfaces", Health::kBad, "LOCKSTEP_SOCKET_IFNAME is 'ib0'");
  facts = healthy();
  facts.network->interfaces[0].megabits = 100;
  expect_finding(facts, "interfaces", Health::kWarn, "100 Mbit/s");
  facts = healthy();
  facts.network->fabric_ports = {"mlx5_0:1", "mlx5_1:1"};
  expect_finding(facts, "interfaces", Health::kWarn, "is active (mlx5_0:1, mlx5_1:1): --wire ucx");
  facts.network->wire = "ucx";
  EXPECT_EQ(find_check(facts, "interfaces").health, Health::kOk);
}

TEST(MachineCheck, Clocks) {
  MachineFacts facts = healthy();
  facts.clock->source = "hpet";
  expect_finding(facts, "clock", Health::kWarn, "clocksource=tsc");
  facts = healthy();
  facts.clock->reading_ns = 900;
  expect_finding(facts, "clock", Health::kWarn, "clocksource=tsc");
  facts = healthy();
  facts.clock->is_synchronised = false;
  expect_finding(facts, "clock", Health::kWarn, "chrony");
  facts.clock->is_synchronised.reset();
  EXPECT_EQ(find_check(facts, "clock").health, Health::kOk) << "a container may not ask";
}

TEST(MachineCheck, Gpus) {
  EXPECT_EQ(find_check(healthy(), "GPUs").value, "none");
  MachineFacts facts = healthy();
  facts.gpus = GpuFacts{.devices = 1, .problem = "no driver"};
  expect_finding(facts, "GPUs", Health::kBad, "nvidia-smi");
  const GpuMemory empty{.index = 0, .name = "L4", .used = 0, .total = 24 * kGB};
  facts.gpus = GpuFacts{.devices = 2, .gpus = {empty, empty}, .nccl = {.problem = "NCCL cannot be loaded"}};
  expect_finding(facts, "GPUs", Health::kWarn, "since NCCL cannot be loaded: install libnccl2");
  facts.gpus->obstacle = {cuda::Lack::kLibtorch, "this libtorch has no CUDA", "install another"};
  expect_finding(facts, "GPUs", Health::kWarn, "this libtorch has no CUDA: ranks compute on the CPU; install another");
  facts.gpus = GpuFacts{.devices = 1, .gpus = {empty}};
  EXPECT_EQ(find_check(facts, "GPUs").health, Health::kOk) << "one GPU needs no NCCL";
  facts.gpus->gpus[0].used = 20 * kGB;
  expect_finding(facts, "GPUs", Health::kWarn, "GPU 0 has 20.0 GB of 24.0 GB in use");
  facts.gpus = GpuFacts{.devices = 1, .gpus = {empty}, .hidden_by = "CUDA_VISIBLE_DEVICES"};
  expect_finding(facts, "GPUs", Health::kWarn, "CUDA_VISIBLE_DEVICES hides the GPUs");
}

TEST(MachineCheck, Disks) {
  MachineFacts facts = healthy();
  facts.disk->free = 2 * kGB;
  expect_finding(facts, "disk", Health::kWarn, "checkpoints need room");
  facts.disk->free = 50'000'000;
  expect_finding(facts, "disk", Health::kBad, "checkpoints need room");
  facts = healthy();
  facts.disk->sync_ms = 80;
  expect_finding(facts, "disk", Health::kWarn, "saving takes long");
  facts = healthy();
  facts.disk->bytes_per_s = 20e6;
  expect_finding(facts, "disk", Health::kWarn, "saving takes long");
  facts = healthy();
  facts.disk->bytes_per_s = facts.disk->sync_ms = -1;
  EXPECT_EQ(find_check(facts, "disk").value, "500.0 GB free in /data (ext4)");
  facts.disk->problem = "Read-only file system";
  expect_finding(facts, "disk", Health::kWarn, "a run cannot write here");
}

TEST(MachineCheck, AllReduce) {
  MachineFacts facts = healthy();
  facts.all_reduce->small_us = 4000;
  expect_finding(facts, "all-reduce", Health::kWarn, "wait for a core");
  facts.all_reduce = AllReduceFacts{.ranks = 2, .problem = "failed with exit code 76"};
  expect_finding(facts, "all-reduce", Health::kBad, "lockstep bench all-reduce --nproc-per-node 2");
  facts.all_reduce = AllReduceFacts{.ranks = 2, .skipped = "there is no lockstep-worker"};
  EXPECT_EQ(find_check(facts, "all-reduce").health, Health::kOk);
}

TEST(MachineCheck, HintsStandBelowTheirLineWithinTheWidth) {
  MachineFacts facts{.memory = MemoryFacts{.total = 64 * kGB, .available = 100'000'000}};
  const std::string page = checks_text(check_machine(facts), 60, false);
  EXPECT_EQ(
      page,
      "bad   memory      100.0 MB free of 64.0 GB\n                  -> one rank alone needs about 200 MB: end\n       "
      "              other programs, or raise the\n                     container's memory\nok    swap        none\n");
  EXPECT_THAT(checks_text(check_machine(facts), 60, true), HasSubstr("\033[31mbad \033[0m  memory"));
}

TEST(MachineCheck, JsonHasAnObjectALine) {
  EXPECT_EQ(checks_json({{.name = "disk", .health = Health::kWarn, .value = "a \"b\"", .hints = {"c"}}}),
            "{\"check\": \"disk\", \"health\": \"warn\", \"value\": \"a \\\"b\\\"\", \"hints\": [\"c\"]}\n");
}

LinkFacts two_hosts(const Link& link) {
  return {.hosts = {{0, "gpu-a", "10.0.0.5"}, {8, "gpu-b", "10.0.0.6"}}, .links = {link}};
}

TEST(LinkReport, AGoodLinkHasNoHint) {
  const LinkFacts facts =
      two_hosts({.from = 0, .to = 1, .round_trip_us = 85, .bytes_per_s = 1.1e9, .other = {70, 1.2e9}});
  EXPECT_EQ(links_text(facts),
            "from                      to                        tls round trip  tls bandwidth  plain round trip  "
            "plain bandwidth\n"
            "------------------------  ------------------------  --------------  -------------  ----------------  "
            "---------------\n"
            "gpu-a (rank 0, 10.0.0.5)  gpu-b (rank 8, 10.0.0.6)           85 us    8.80 Gbit/s             70 us      "
            "9.60 Gbit/s\n"
            "the ranks use tls (--wire, LOCKSTEP_WIRE)\n");
  EXPECT_FALSE(is_any_link_broken(facts));
}

TEST(LinkReport, ALongRoundTripHasAHint) {
  EXPECT_THAT(links_text(two_hosts({.from = 0, .to = 1, .round_trip_us = 999, .bytes_per_s = 1e9})),
              Not(HasSubstr("->")));
  EXPECT_THAT(links_text(two_hosts({.from = 0, .to = 1, .round_trip_us = 2500, .bytes_per_s = 1e9})),
              HasSubstr("-> 10.0.0.5 and 10.0.0.6: 2.50 ms per round trip"));
}

TEST(LinkReport, ASlowLinkIsNamed) {
  EXPECT_THAT(links_text(two_hosts({.from = 0, .to = 1, .round_trip_us = 90, .bytes_per_s = 12.5e6})),
              HasSubstr("-> 10.0.0.5 and 10.0.0.6: 100 Mbit/s, below 1 Gbit/s: 100 MB of gradients take 8.0 s\n"));
}

TEST(LinkReport, ABrokenLinkIsBad) {
  const LinkFacts facts = two_hosts({.from = 0, .to = 1, .problem = "cannot connect: Connection refused"});
  EXPECT_TRUE(is_any_link_broken(facts));
  EXPECT_THAT(links_text(facts), HasSubstr("-> 10.0.0.5 and 10.0.0.6: cannot connect: Connection refused. Every rank"));
  EXPECT_EQ(links_json(facts),
            "{\"link\": \"tcp\", \"wire\": \"tls\", \"from\": \"10.0.0.5\", \"to\": \"10.0.0.6\", "
            "\"round_trip_us\": null, \"gbit_per_s\": null, \"other_wire\": \"plain\", \"other_round_trip_us\": null, "
            "\"other_gbit_per_s\": null, \"problem\": \"cannot connect: Connection refused\"}\n");
}

TEST(LinkReport, AFigureThatIsNoNumberIsNull) {
  const double infinity = std::numeric_limits<double>::infinity();
  EXPECT_THAT(links_json(two_hosts({.from = 0, .to = 1, .round_trip_us = 90.25, .bytes_per_s = infinity})),
              HasSubstr("\"round_trip_us\": 90.2, \"gbit_per_s\": null,"));
}

TEST(LinkReport, TheWireOfTheRanksComesFirst) {
  LinkFacts facts = two_hosts({.from = 0, .to = 1, .round_trip_us = 85, .bytes_per_s = 1.1e9});
  facts.wire = "plain";
  EXPECT_THAT(links_text(facts), HasSubstr("  plain round trip  plain bandwidth  tls round trip  tls bandwidth\n"));
  EXPECT_THAT(links_text(facts), HasSubstr("\nthe ranks use plain (--wire, LOCKSTEP_WIRE)\n"));
  EXPECT_THAT(links_json(facts), HasSubstr("\"wire\": \"plain\""));
  EXPECT_THAT(links_json(facts), HasSubstr("\"other_wire\": \"tls\""));
  facts.wire = "ucx";
  EXPECT_THAT(links_text(facts), HasSubstr("\nthe ranks use ucx, which is not measured here\n"));
  EXPECT_THAT(links_json(facts), HasSubstr("\"wire\": \"plain\""));
}

TEST(LinkReport, OneHostHasNoLink) {
  EXPECT_EQ(links_text({.hosts = {{0, "gpu-a", "127.0.0.1"}}}),
            "all ranks are on one host: there is no link to measure\n");
}

}  // namespace machine_check_test
}  // namespace lockstep::view
