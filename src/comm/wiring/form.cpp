// SPDX-License-Identifier: Apache-2.0
#include "comm/wiring/form.h"

#include <fmt/format.h>

#include <cstdlib>
#include <mutex>
#include <optional>
#include <utility>

#include "comm/backends/hierarchical/hierarchical_backend.h"
#include "comm/backends/local/local_backend.h"
#include "comm/backends/nccl/nccl_backend.h"
#include "comm/backends/shm/shm_backend.h"
#include "comm/backends/tcp/tcp.h"
#include "comm/backends/ucx/ucx.h"
#include "comm/network/flat_backend.h"
#include "lockstep/base/error.h"
#include "lockstep/base/log.h"
#include "lockstep/base/text.h"
#include "lockstep/store/interface_choice.h"

namespace lockstep::comm {
namespace {

World world_of(const Meeting& meeting, const Membership& members) {
  World world{.rank = members.rank, .size = static_cast<int>(members.hosts.size())};
  world.ranks = members.ranks;
  world.store = meeting.store;
  world.prefix = members.prefix;
  world.patience = meeting.patience;
  for (const HostFacts& host : members.hosts) world.hosts.push_back(host.name);
  return world;
}

/// Returns the ranks of this host as a separate world.
World host_world(const World& world, const std::vector<int>& local) {
  World host{.rank = world.rank - local.front(), .size = static_cast<int>(local.size())};
  host.whole = world.size;
  host.store = world.store;
  host.patience = world.patience;
  host.prefix = fmt::format("{}host-{}/", world.prefix, local.front());
  for (const int rank : local) {
    host.hosts.push_back(world.hosts[static_cast<std::size_t>(rank)]);
    host.ranks.push_back(job_rank(world, rank));
  }
  return host;
}

/// Returns the first objection of a rank; "" if no rank objects. Collective: yes, over the world.
std::string first_objection(const World& world, const std::string& objection, std::chrono::milliseconds timeout) {
  const auto key = [&](const char* name) { return fmt::format("{}hierarchy/{}", world.prefix, name); };
  if (!objection.empty()) world.store->compare_set(key("objection"), "", objection);
  // The last rank to vote collects the objections, so that the others need not read all of them.
  if (world.store->add(key("votes"), 1) == world.size) {
    world.store->set(key("result"), world.store->try_get(key("objection")).value_or("yes"));
  }
  const std::string result = world.store->get(key("result"), timeout);
  return result == "yes" ? "" : result;
}

/// Suggests UCX, once, if it would be faster than TCP.
void suggest_ucx(const World& world) {
  static std::once_flag said;
  const std::vector<std::string> ports = store::list_fabric_ports();
  if (world.rank != 0 || ports.empty()) return;
  std::call_once(said, [&] {
    log::note("InfiniBand or RoCE is active ({}): with --wire ucx tensors in host memory use it, unencrypted",
              text::join(ports));
  });
}

std::shared_ptr<Network> make_network(const World& world, const Meeting& meeting) {
  const TcpOptions options{
      .store_host = meeting.store_host, .timeout = meeting.timeout, .wire = meeting.wire, .token = meeting.token};
  if (meeting.wire == Wire::kUcx) return make_ucx_network(world, meeting.store_host);
  suggest_ucx(world);
  return make_tcp_network(world, options);
}

/// Sets up shared memory within every host; if one host cannot, no host uses it.
std::unique_ptr<Backend> make_hierarchy(const Meeting& meeting, const World& world, const HostRanks& hosts,
                                        const std::vector<int>& local) {
  const World host = host_world(world, local);
  ShmConnection connection;
  std::string objection;
  try {
    connection = connect_shm(host, meeting.timeout);
  } catch (const ResourceError& problem) {
    objection = problem.message();
  }
  objection = first_objection(world, objection, meeting.timeout);
  World speaking = world;
  if (objection.empty()) {
    for (const auto& ranks : hosts) speaking.speakers.push_back(ranks.front());
  }
  auto network = make_network(speaking, meeting);
  if (objection.empty()) {
    return std::make_unique<HierarchicalBackend>(std::move(connection), host, std::move(network), hosts);
  }
  if (world.rank == 0) log::note("tcp also connects the ranks of each host: {}", objection);
  return std::make_unique<FlatBackend>(std::move(network));
}

std::unique_ptr<Backend> make_network_backend(const Meeting& meeting, const Membership& members, const World& world) {
  std::vector<std::string> ids;
  for (const HostFacts& host : members.hosts) ids.push_back(host.id);
  const HostRanks hosts = ranks_by_host(ids);
  if (meeting.wanted == BackendKind::kAuto && is_hierarchy(hosts)) {
    for (const auto& ranks : hosts) {
      if (world.rank >= ranks.front() && world.rank <= ranks.back())
        return make_hierarchy(meeting, world, hosts, ranks);
    }
  }
  return std::make_unique<FlatBackend>(make_network(world, meeting));
}

std::unique_ptr<Backend> make_backend(const Meeting& meeting, const Membership& members, const World& world,
                                      BackendChoice& choice) {
  if (choice.kind == BackendKind::kLocal) return make_local_backend();
  if (choice.kind == BackendKind::kShm) {
    std::optional<ShmConnection> connection;
    try {
      connection = connect_shm(world, meeting.timeout);
    } catch (const ResourceError& problem) {
      if (meeting.wanted == BackendKind::kShm) throw;
      choice = {BackendKind::kTcp, fmt::format("shared memory cannot be used ({})", problem.message())};
      if (world.rank == 0) log::note("tcp connects the ranks of one host: {}", problem.message());
    }
    // All ranks are connected. If this rank switched to another backend now, for lack of a thread, the others would
    // wait for it.
    if (connection) return std::make_unique<ShmBackend>(std::move(*connection), world);
  }
  return make_network_backend(meeting, members, world);
}

Membership part_of(const Membership& whole, const Part& part) {
  Membership members{.rank = part.rank, .prefix = whole.prefix + part.name};
  for (const int member : part.members) {
    members.hosts.push_back(whole.hosts[static_cast<std::size_t>(member)]);
    members.ranks.push_back(whole.ranks[static_cast<std::size_t>(member)]);
  }
  return members;
}

/// Returns the backend to request for a part of a group whose backend the user has chosen; a part of one rank needs
/// none.
BackendKind wanted_by_part(BackendKind wanted, std::size_t members) {
  return members == 1 && wanted != BackendKind::kNccl ? BackendKind::kAuto : wanted;
}

/// Makes NCCL use the interface on which the ranks have met: otherwise it might choose one that does not reach the
/// other ranks.
void show_nccl_the_interface(const Meeting& meeting) {
  const std::string name = store::nccl_interface(store::wishes_towards(meeting.store_host), store::list_interfaces());
  if (!name.empty()) ::setenv("NCCL_SOCKET_IFNAME", name.c_str(), 0);  // NOLINT(concurrency-mt-unsafe)
}

/// Throws the failure of a rank that ended while the GPUs were connecting. Shared memory notices the end, and the store
/// has a report from the launcher or the rank, or is gone.
void check_ranks(Backend& backend, const World& world) {
  Collective connecting;
  connecting.call.kind = Kind::kConnect;
  backend.check(connecting);
  if (world.store == nullptr) return;
  const auto record = world.store->try_get(kFirstFailureKey);
  if (record) throw_death(world, parse_failure(*record).value_or(FailureRecord()).rank, connecting);
}

}  // namespace

Formed form_group(const Meeting& meeting, const Membership& members) {
  const World world = world_of(meeting, members);
  const DeviceChoice way = choose_device_way(meeting.wanted, members.hosts);
  BackendChoice choice = choose_backend(meeting.wanted, members.hosts);
  auto backend = make_backend(meeting, members, world, choice);
  const bool is_over_network = choice.kind == BackendKind::kTcp;
  if (is_over_network) choice.reason += fmt::format("; {}", describe_wire(meeting.wire));
  GroupOptions options{.place = {world.rank, world.size}, .timeout = meeting.timeout};
  options.world = world;
  if (way.nccl) {
    choice.reason = fmt::format("{}; tensors in host memory go through {}", way.reason, backend->name());
    if (is_over_network) {
      choice.reason += fmt::format(", {}", describe_wire(meeting.wire));
      show_nccl_the_interface(meeting);
    }
    const auto check = [&] { check_ranks(*backend, world); };
    options.transport = make_nccl_backend(world, meeting.device, meeting.timeout, check);
  } else if (!way.reason.empty() && world.size > 1) {
    choice.reason += fmt::format("; tensors of GPUs go through host memory: {}", way.reason);
    if (world.rank == 0 && meeting.wanted == BackendKind::kAuto) {
      log::note("the GPUs' tensors go through host memory: {}", way.reason);
    }
  }
  options.form_part = [meeting, members](const Part& part) {
    Meeting part_meeting = meeting;
    part_meeting.wanted = wanted_by_part(meeting.wanted, part.members.size());
    return form_group(part_meeting, part_of(members, part)).group;
  };
  Formed formed{make_group(std::move(backend), std::move(options)), choice.reason};
  formed.group->barrier().wait();
  return formed;
}

}  // namespace lockstep::comm
