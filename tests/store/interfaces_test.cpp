// SPDX-License-Identifier: Apache-2.0
// The network interface that the ranks use, and fabric ports.
#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>

#include "lockstep/base/error.h"
#include "lockstep/store/interface_choice.h"
#include "support/temp_dir.h"

namespace lockstep::store {
namespace interfaces_test {

using ::testing::HasSubstr;

const std::vector<Interface> kHost = {{"docker0", "172.17.0.1"}, {"eth0", "10.0.0.5"}, {"eth0", "fe80::5"},
                                      {"eth1", "10.1.0.5"},      {"ib0", "fd00::5"},   {"eth1:1", "10.2.0.5"},
                                      {"lo", "127.0.0.1", true}};

std::string chosen(InterfaceWishes wishes) {
  const auto choice = choose_interface(wishes, kHost);
  return choice ? choice->name + " " + choice->address : "none";
}

std::string what_is_wrong(const InterfaceWishes& wishes) {
  try {
    (void)choose_interface(wishes, kHost);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "nothing";
}

TEST(InterfaceChoice, WithoutAVariableItIsTheOneThatLeadsToTheStore) {
  EXPECT_EQ(chosen({.towards = "10.1.0.5"}), "eth1 10.1.0.5");
  EXPECT_EQ(chosen({.towards = "10.9.9.9"}), " 10.9.9.9");
  EXPECT_EQ(chosen({}), "none");
}

TEST(InterfaceChoice, OurVariableWinsOverGloosAndNccls) {
  EXPECT_EQ(chosen({.own = "eth0", .gloo = "eth1", .nccl = "docker", .towards = "10.1.0.5"}), "eth0 10.0.0.5");
  EXPECT_THAT(what_is_wrong({.own = "eth", .gloo = "eth1"}),
              HasSubstr("LOCKSTEP_SOCKET_IFNAME is 'eth', which matches"));
}

TEST(InterfaceChoice, GloosVariableNamesOneOrSeveral) {
  EXPECT_EQ(chosen({.gloo = "eth1", .nccl = "eth0", .towards = "10.0.0.5"}), "eth1 10.1.0.5");
  EXPECT_EQ(chosen({.gloo = "eth7,docker0", .towards = "10.0.0.5"}), "docker0 172.17.0.1");
  EXPECT_THAT(what_is_wrong({.gloo = "eth"}), HasSubstr("GLOO_SOCKET_IFNAME is 'eth', which matches no interface"));
}

TEST(InterfaceChoice, NcclsVariableListsBeginningsWholeNamesOrExceptions) {
  EXPECT_EQ(chosen({.nccl = "eth", .towards = "127.0.0.1"}), "eth0 10.0.0.5");
  EXPECT_EQ(chosen({.nccl = "=eth1"}), "eth1 10.1.0.5");
  EXPECT_EQ(chosen({.nccl = "^docker,lo"}), "eth0 10.0.0.5");
  EXPECT_EQ(chosen({.nccl = "^=docker0,eth0"}), "eth1 10.1.0.5");
  EXPECT_THAT(what_is_wrong({.nccl = "=eth"}), HasSubstr("this host has docker0 (172.17.0.1), eth0 (10.0.0.5)"));
}

TEST(InterfaceChoice, AnAddressIsOfTheKindThatTheStoreHas) {
  EXPECT_EQ(chosen({.gloo = "eth0", .towards = "fd00::1"}), "eth0 fe80::5");
  EXPECT_EQ(chosen({.gloo = "ib0", .towards = "10.0.0.5"}), "ib0 fd00::5");
}

TEST(InterfaceChoice, TheLoopbackIsAmongTheInterfacesAndLast) {
  const auto interfaces = list_interfaces();
  ASSERT_FALSE(interfaces.empty());
  EXPECT_THAT(interfaces.back().address, ::testing::AnyOf("127.0.0.1", "::1"));
}

TEST(InterfaceChoice, IsNcclsTooUnlessTheUserHasNamedOneOrItIsTheLoopback) {
  EXPECT_EQ(nccl_interface({.towards = "10.1.0.5"}, kHost), "=eth1");
  EXPECT_EQ(nccl_interface({.own = "eth0", .towards = "10.1.0.5"}, kHost), "=eth0");
  EXPECT_EQ(nccl_interface({.gloo = "ib0"}, kHost), "=ib0");
  EXPECT_EQ(nccl_interface({.nccl = "eth", .towards = "10.1.0.5"}, kHost), "");
  EXPECT_EQ(nccl_interface({.own = "eth0", .nccl = "eth1"}, kHost), "");
  EXPECT_EQ(nccl_interface({.towards = "127.0.0.1"}, kHost), "");
  EXPECT_EQ(nccl_interface({.towards = "10.9.9.9"}, kHost), "");
  EXPECT_EQ(nccl_interface({.towards = "10.2.0.5"}, kHost), "") << "NCCL would take what follows ':' for a port";
  EXPECT_EQ(nccl_interface({}, kHost), "");
}

TEST(FabricPorts, AreThoseThatTheKernelCallsActive) {
  const test::TempDir folder;
  const auto add_port = [&](const std::string& port, const std::string& state) {
    std::filesystem::create_directories(folder.path() / port);
    std::ofstream(folder.path() / port / "state") << state << "\n";
  };
  EXPECT_THAT(list_fabric_ports(folder.path()), ::testing::IsEmpty());
  EXPECT_THAT(list_fabric_ports(folder.path() / "missing"), ::testing::IsEmpty());
  add_port("mlx5_1/ports/1", "4: ACTIVE");
  add_port("mlx5_0/ports/1", "1: DOWN");
  add_port("mlx5_0/ports/2", "4: ACTIVE");
  add_port("mlx5_2/ports/1", "2: INIT");
  EXPECT_THAT(list_fabric_ports(folder.path()), ::testing::ElementsAre("mlx5_0:2", "mlx5_1:1"));
}

}  // namespace interfaces_test
}  // namespace lockstep::store
