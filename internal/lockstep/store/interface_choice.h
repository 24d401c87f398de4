// SPDX-License-Identifier: Apache-2.0
// Chooses the address of this host to which the other ranks connect. Connections to the store do not use it.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#pragma GCC visibility push(default)

namespace lockstep::store {

/// An address of this host.
struct Interface {
  std::string name;          ///< "eth0"
  std::string address;       ///< numeric, IPv4 or IPv6
  bool is_loopback = false;  ///< it reaches only this host
};

/// The network interfaces that the environment and the store ask for.
struct InterfaceWishes {
  std::optional<std::string> own = {};   ///< LOCKSTEP_SOCKET_IFNAME: a name, or several separated by commas
  std::optional<std::string> gloo = {};  ///< GLOO_SOCKET_IFNAME, in the same form, which PyTorch users already have set
  std::optional<std::string> nccl = {};  ///< NCCL_SOCKET_IFNAME: prefixes of names; "=" before the list means whole
                                         ///< names, "^" excludes the names
  std::optional<std::string> towards = {};  ///< the address that this host uses to reach the store
};

/// The interface that was chosen, and why.
struct InterfaceChoice {
  std::string name;     ///< the interface's name; empty if no interface has the address
  std::string address;  ///< numeric, IPv4 or IPv6
  std::string reason;   ///< one clause: "LOCKSTEP_SOCKET_IFNAME names it"
};

/// Returns the addresses of all interfaces that are up, with the loopback addresses last.
[[nodiscard]] std::vector<Interface> list_interfaces();

/// Returns the active ports of InfiniBand and RoCE devices, named as in UCX and NCCL: "mlx5_0:1". It reads them from
/// the kernel's folder `devices`, and returns an empty list if the folder does not exist.
[[nodiscard]] std::vector<std::string> list_fabric_ports(
    const std::filesystem::path& devices = "/sys/class/infiniband");

/// Returns the address that this host uses to reach `host`; none if there is no route. It looks up the name but does
/// not send anything to `host`. Blocks: on the resolver.
[[nodiscard]] std::optional<std::string> address_towards(const std::string& host);

/// Returns the values of the three variables, and the address that this host uses to reach `store_host`.
[[nodiscard]] InterfaceWishes wishes_towards(const std::string& store_host);

/// Chooses by LOCKSTEP_SOCKET_IFNAME, else GLOO_SOCKET_IFNAME, else NCCL_SOCKET_IFNAME, else the address towards the
/// store. If an interface has several addresses, the first of the same kind (IPv4, IPv6) as `towards` is used. Returns
/// none if `wishes` is empty. Throws: UsageError naming all interfaces if a variable matches none of them.
[[nodiscard]] std::optional<InterfaceChoice> choose_interface(const InterfaceWishes& wishes,
                                                              const std::vector<Interface>& interfaces);

/// Returns the value of NCCL_SOCKET_IFNAME that makes NCCL use the ranks' interface: "=eth0". Empty if the user has set
/// it, or if NCCL should choose itself, because the ranks use the loopback or an address without an interface that NCCL
/// could name. Throws: anything choose_interface() throws.
[[nodiscard]] std::string nccl_interface(const InterfaceWishes& wishes, const std::vector<Interface>& interfaces);

}  // namespace lockstep::store

#pragma GCC visibility pop
