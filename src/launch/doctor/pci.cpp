// SPDX-License-Identifier: Apache-2.0
#include "launch/doctor/pci.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/base/file_system.h"
#include "lockstep/base/whole_number.h"

namespace lockstep::launch {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kExtended =
    0x100;  // start of the PCI Express capabilities; only root can read more than 64 bytes
constexpr unsigned kAcs = 0x000d;
constexpr std::size_t kAcsControl = 6;
constexpr unsigned kRedirectsRequests = 0x4;
constexpr std::size_t kMostCapabilities = 960;  // the configuration space has no room for more

unsigned word_at(std::string_view bytes, std::size_t at) {
  return static_cast<unsigned char>(bytes[at]) | static_cast<unsigned>(static_cast<unsigned char>(bytes[at + 1])) << 8U;
}

/// Returns true for a device name, "0000:17:00.0"; host bridges begin with "pci".
bool is_device(const std::string& name) {
  return std::count(name.begin(), name.end(), ':') == 2 && name.find('.') != std::string::npos;
}

/// Returns the devices from the host bridge down to this device.
std::vector<std::string> chain_of(const fs::path& path) {
  std::vector<std::string> chain;
  for (const fs::path& part : path) {
    if (is_device(part.string())) chain.push_back(part.string());
  }
  return chain;
}

std::string host_bridge_of(const fs::path& path) {
  for (const fs::path& part : path) {
    if (part.string().starts_with("pci") && part.string() != "pci_bus") return part.string();
  }
  return "";
}

/// Returns the text of a kernel file without its newline; empty if it cannot be read.
std::string kernel_text(const fs::path& file) {
  constexpr std::uint64_t kPage = 4096;
  std::string text;
  try {
    text = FileSystem::system().read(file, kPage);
  } catch (const Error&) {
    return "";
  }
  if (text.ends_with('\n')) text.pop_back();
  return text;
}

PciPlace place_of(const fs::path& link) {
  std::error_code problem;
  PciPlace place{.path = fs::canonical(link, problem)};
  if (problem) return {};
  constexpr WholeRange kSockets{.least = -1};
  place.socket = static_cast<int>(parse_whole(kernel_text(place.path / "numa_node"), kSockets).value_or(-1));
  return place;
}

/// Returns the bridges above the devices.
std::set<fs::path> bridges_above(const std::vector<PciPlace>& places) {
  std::set<fs::path> bridges;
  for (const PciPlace& place : places) {
    for (fs::path at = place.path.parent_path(); is_device(at.filename().string()); at = at.parent_path())
      bridges.insert(at);
  }
  return bridges;
}

void read_access_control(const std::vector<PciPlace>& places, view::GpuLinkFacts& facts) {
  for (const fs::path& bridge : bridges_above(places)) {
    const auto redirects = redirects_peers(kernel_text(bridge / "config"));
    if (!redirects) facts.is_acs_known = false;
    if (redirects.value_or(false)) facts.redirecting.push_back(bridge.filename().string());
  }
}

/// Returns true if the IOMMU translates addresses: its mode is "DMA" or "DMA-FQ", not "identity".
bool translates(const PciPlace& place) { return kernel_text(place.path / "iommu_group/type").starts_with("DMA"); }

/// Returns a number that grows with the length of the path.
std::size_t length_of(const std::string& way) {
  constexpr std::array kWays = {"one PCIe switch", "one host bridge", "one socket", "two sockets"};
  return static_cast<std::size_t>(std::find(kWays.begin(), kWays.end(), way) - kWays.begin());
}

std::vector<view::DeviceWay> cards_beside(const std::vector<PciPlace>& gpus, const fs::path& devices) {
  std::vector<view::DeviceWay> cards;
  std::error_code problem;
  for (const auto& entry : fs::directory_iterator(devices, problem)) {
    const PciPlace card = place_of(entry.path() / "device");
    std::optional<view::DeviceWay> nearest;
    for (std::size_t gpu = 0; gpu < gpus.size(); ++gpu) {
      const std::string way = way_between(card, gpus[gpu]);
      if (way.empty() || (nearest && length_of(nearest->way) <= length_of(way))) continue;
      nearest =
          view::DeviceWay{.one = entry.path().filename().string(), .other = fmt::format("GPU {}", gpu), .way = way};
    }
    if (nearest) cards.push_back(*nearest);
  }
  std::sort(cards.begin(), cards.end(), [](const auto& a, const auto& b) { return a.one < b.one; });
  return cards;
}

}  // namespace

std::string way_between(const PciPlace& one, const PciPlace& other) {
  if (one.path.empty() || other.path.empty()) return "";
  const std::vector<std::string> first = chain_of(one.path);
  const std::vector<std::string> second = chain_of(other.path);
  const bool is_one_bridge = host_bridge_of(one.path) == host_bridge_of(other.path);
  if (is_one_bridge && first.size() > 1 && second.size() > 1 && first[0] == second[0]) return "one PCIe switch";
  if (is_one_bridge) return "one host bridge";
  return one.socket == other.socket ? "one socket" : "two sockets";
}

std::optional<bool> redirects_peers(std::string_view configuration) {
  if (configuration.size() < kExtended) return std::nullopt;
  std::size_t at = kExtended;
  for (std::size_t i = 0; i < kMostCapabilities && at >= kExtended && at + kAcsControl + 2 <= configuration.size();
       ++i) {
    if (word_at(configuration, at) == kAcs) {
      return (word_at(configuration, at + kAcsControl) & kRedirectsRequests) != 0;
    }
    at = word_at(configuration, at + 2) >> 4U;  // the bits above the 4 version bits
  }
  return false;
}

std::optional<view::GpuLinkFacts> read_gpu_links(const GpuPlaces& gpus, const fs::path& sys) {
  std::vector<PciPlace> places;
  for (const std::string& address : gpus.addresses) {
    places.push_back(address.empty() ? PciPlace{} : place_of(sys / "bus/pci/devices" / address));
  }
  view::GpuLinkFacts facts{.cards = cards_beside(places, sys / "class/infiniband")};
  if (places.size() < 2 && facts.cards.empty()) return std::nullopt;
  for (const GpuPeers& pair : gpus.pairs) {
    const std::string by_pci =
        way_between(places[static_cast<std::size_t>(pair.first)], places[static_cast<std::size_t>(pair.second)]);
    facts.pairs.push_back({.one = fmt::format("GPU {}", pair.first),
                           .other = fmt::format("GPU {}", pair.second),
                           .way = pair.by_nvlink ? "NVLink" : by_pci,
                           .obstacle = pair.by_nvlink ? "" : pair.obstacle});
  }
  read_access_control(places, facts);
  facts.iommu_translates = std::any_of(places.begin(), places.end(), translates);
  return facts;
}

}  // namespace lockstep::launch
