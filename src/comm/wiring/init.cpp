// SPDX-License-Identifier: Apache-2.0
// init(): forms a group of connected ranks, as the environment describes it.
#include <ATen/core/ivalue.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <thread>

#include "comm/addresses/address_file.h"
#include "comm/addresses/dist_url.h"
#include "comm/addresses/slurm.h"
#include "comm/addresses/torch_store.h"
#include "comm/backends/nccl/nccl_backend.h"
#include "comm/network/wire.h"
#include "comm/wiring/device_choice.h"
#include "comm/wiring/form.h"
#include "comm/wiring/job_state.h"
#include "comm/wiring/meeting_watch.h"
#include "comm/wiring/near_cpus.h"
#include "comm/wiring/program_store.h"
#include "comm/wiring/select.h"
#include "lockstep/base/awake_clock.h"
#include "lockstep/base/clock.h"
#include "lockstep/base/cuda_library.h"
#include "lockstep/base/env.h"
#include "lockstep/base/error.h"
#include "lockstep/base/fault.h"
#include "lockstep/base/gpu_devices.h"
#include "lockstep/base/json.h"
#include "lockstep/base/log.h"
#include "lockstep/base/printable.h"
#include "lockstep/base/standard_streams.h"
#include "lockstep/base/standby.h"
#include "lockstep/base/text.h"
#include "lockstep/base/version.h"
#include "lockstep/base/wait_notice.h"
#include "lockstep/comm/agreement.h"
#include "lockstep/flight/recorder.h"
#include "lockstep/flight/section_timeouts.h"
#include "lockstep/store/host_name.h"
#include "lockstep/store/secret.h"
#include "lockstep/tensor/device.h"
#include "lockstep/tensor/sharing.h"
#include "lockstep/tensor/torch_version.h"

namespace lockstep {
namespace {

// The launcher's agent reaps a dead worker within milliseconds; its report of the cause is worth waiting this long for.
constexpr auto kWatchPatience = std::chrono::milliseconds(1000);
constexpr auto kAgentPatience = std::chrono::milliseconds(300);
// The interval at which a rank checks for the file of file://, and how long it keeps trying the address in the file.
constexpr auto kFilePoll = std::chrono::milliseconds(20);
constexpr auto kFileTrial = std::chrono::milliseconds(1000);
// The key that names the job whose rank 0 serves the store, and how long a rank that has waited in vain tries to read
// it.
constexpr const char* kJobKey = "lockstep/job";
constexpr auto kJobTrial = std::chrono::milliseconds(1000);

/// Returns the value of `--name V` or `--name=V`; none if it is not among the arguments before "--".
std::optional<std::string> find_argument(int argc, const char* const* argv, const std::string& name) {
  for (int i = 1; i < argc && std::strcmp(argv[i], "--") != 0; ++i) {
    const std::string word = argv[i];
    if (word == name && i + 1 < argc) return argv[i + 1];
    if (word.rfind(name + "=", 0) == 0) return word.substr(name.size() + 1);
  }
  return std::nullopt;
}

/// Does the same as find_argument(), with "-" or "_" inside the name.
std::optional<std::string> find_spelled(int argc, const char* const* argv, std::string name) {
  if (auto value = find_argument(argc, argv, name)) return value;
  std::replace(name.begin() + 2, name.end(), '_', '-');
  return find_argument(argc, argv, name);
}

WorldPlan find_world(int argc, const char* const* argv, const InitOptions& options) {
  comm::DistArguments arguments;
  arguments.url = options.dist_url.empty() ? find_spelled(argc, argv, "--dist_url").value_or("") : options.dist_url;
  arguments.rank = find_argument(argc, argv, "--rank");
  arguments.world_size = find_spelled(argc, argv, "--world_size");
  arguments.local_rank = find_spelled(argc, argv, "--local_rank");
  return comm::plan_world(arguments, current_environment());
}

BackendKind wanted_backend(int argc, const char* const* argv, const InitOptions& options, int rank) {
  if (options.backend != BackendKind::kAuto) return options.backend;
  auto text = find_argument(argc, argv, "--backend");
  if (!text) text = env::get("LOCKSTEP_BACKEND");
  if (text == comm::kOldNameOfTcp && rank == 0) {
    log::note("the backend {} is now called tcp: it uses Lockstep's own sockets, not Gloo", *text);
  }
  return text ? comm::parse_backend(*text) : BackendKind::kAuto;
}

Wire wanted_wire(int argc, const char* const* argv, const InitOptions& options) {
  if (options.wire != Wire::kAuto) return options.wire;
  auto text = find_argument(argc, argv, "--wire");
  if (!text) text = env::get("LOCKSTEP_WIRE");
  return text ? comm::parse_wire(*text) : Wire::kAuto;
}

comm::DeviceRequest device_request(int argc, const char* const* argv, const InitOptions& options,
                                   const RankInfo& info) {
  auto text = find_argument(argc, argv, "--device");
  if (!text) text = env::get("LOCKSTEP_DEVICE");
  comm::DeviceRequest request{.wanted = options.device ? options.device->str() : text.value_or("auto")};
  request.local_rank = info.local_rank;
  if (!tensor::has_cuda()) request.obstacle = cuda::library().obstacle;
  request.gpus = tensor::cuda_device_count();
  const char* visible =
      std::getenv("CUDA_VISIBLE_DEVICES");  // NOLINT(concurrency-mt-unsafe): an empty value shows no GPU
  request.devices = count_visible_gpus(count_gpu_devices(),
                                       visible == nullptr ? std::nullopt : std::optional<std::string_view>(visible));
  request.visible = env::get("CUDA_VISIBLE_DEVICES").value_or("");
  request.share = env::get("LOCKSTEP_SHARE_GPUS").value_or("0") != "0";
  return request;
}

/// Binds this process to the CPUs near its GPU. Without the CUDA library the GPU is a test double.
void stay_near(const c10::Device& device) {
  if (!device.is_cuda() || cuda::library().parts == nullptr || env::get("LOCKSTEP_NUMA") == "0") return;
  const std::string address = tensor::pci_address(device.index());
  if (const int cpus = comm::keep_near(address); cpus > 0) {
    log::debug("bound to the {} CPUs near the GPU at {}; LOCKSTEP_NUMA=0 leaves the choice to the system", cpus,
               address);
  }
}

int check_replicas(int replicas, int world) {
  if (replicas == 0) return world;
  if (replicas >= world) return replicas;
  throw UsageError(fmt::format("{} replicas on {} ranks: every rank needs at least one", replicas, world),
                   fmt::format("start at most {} ranks", replicas));
}

/// Starts the store on rank 0 if no launcher serves one.
void serve_store(Job::State& state) {
  WorldPlan& plan = state.plan;
  state.server =
      std::make_unique<StoreServer>(StoreServer::Options{.host = plan.host, .port = plan.port, .token = plan.token});
  plan.port = state.server->port();
}

/// Warns if rank 0 serves the store on a loopback address, which the ranks of other hosts cannot reach.
void warn_of_loopback(const WorldPlan& plan) {
  if (plan.info.local_world_size == plan.info.world_size || !is_loopback(plan.host)) return;
  log::warn(
      "rank 0 serves the store at {}, a loopback address on this machine (see /etc/hosts): ranks on other machines "
      "cannot reach it; set MASTER_ADDR to an address of its network",
      plan.host);
}

/// Returns the store's address. Rank 0 reaches its own store without the network.
StoreAddress address_of(const Job::State& state) {
  const WorldPlan& plan = state.plan;
  StoreAddress address{.host = plan.host, .port = plan.port, .token = plan.token};
  if (state.server) address.inside = state.server->door();
  return address;
}

/// Waits until the file names a store that responds: the file may be a leftover of a killed job.
std::shared_ptr<Store> connect_through_file(Job::State& state) {
  const TimePoint end = AwakeClock::instance().now() + state.timeout;
  std::string problem;
  while (AwakeClock::instance().now() < end) {
    const auto address = comm::read_address(state.plan.file);
    try {
      if (address) {
        auto store = connect_store(*address, kFileTrial);
        state.plan.host = address->host;
        state.plan.port = address->port;
        state.plan.token = address->token;
        return store;
      }
      problem = address.error();
    } catch (const Error& error) {
      problem = error.message();
    }
    std::this_thread::sleep_for(kFilePoll);
  }
  throw TimeoutError(
      fmt::format("init timed out after {:.1f} s: no store was reached through the file {}: {}",
                  std::chrono::duration<double>(state.timeout).count(), state.plan.file.string(), problem),
      fmt::format("start rank 0 with the same file, on a file system that all hosts share; {} sets the limit",
                  env::timeout_variable()));
}

void open_file_store(Job::State& state) {
  if (state.plan.info.rank != 0) {
    state.store = connect_through_file(state);
    return;
  }
  if (state.plan.host.empty()) state.plan.host = comm::own_address();
  state.plan.token = make_token();
  serve_store(state);
  const StoreAddress address = address_of(state);
  comm::publish_address(state.plan.file, address);
  state.store = connect_store(address, state.timeout);
}

/// Connects to the store within `timeout`, which includes the wait for the host's name, and adds the job's prefix.
std::shared_ptr<Store> connect_by_name(const Job::State& state, std::chrono::milliseconds timeout) {
  const TimePoint begin = SystemClock::instance().now();
  if (!state.server) await_name(state.plan.host, {}, timeout);
  const auto waited = std::chrono::duration_cast<std::chrono::milliseconds>(SystemClock::instance().now() - begin);
  auto store = connect_store(address_of(state), std::max(timeout - waited, std::chrono::milliseconds(0)));
  const std::string& prefix = state.plan.prefix;
  if (state.server && !prefix.empty()) store->set(kJobKey, prefix);
  return prefix.empty() ? store : with_prefix(std::move(store), prefix);
}

/// Connects to the store of rank 0's current program: rank 0 may still serve that of an earlier one.
std::shared_ptr<Store> connect_to_rank_zero(const Job::State& state) {
  const WorldPlan& plan = state.plan;
  const auto connect = [&](std::chrono::milliseconds timeout) { return connect_by_name(state, timeout); };
  return comm::enter_program(connect, plan.info.rank, fmt::format("{}:{}", plan.host, plan.port), state.timeout);
}

/// Checks that a store that other machines can reach has a secret.
void require_secret_beyond_loopback(const WorldPlan& plan) {
  if (is_loopback(plan.host)) return;
  if (!plan.token.empty()) return require_secret(plan.token, "LOCKSTEP_TOKEN");
  throw UsageError(fmt::format("the ranks meet at {}:{}, which other machines may reach, but LOCKSTEP_TOKEN, the "
                               "secret that keeps strangers out, is not set",
                               plan.host, plan.port),
                   "set it to the same value on every rank (export LOCKSTEP_TOKEN=$(lockstep run --new-token) before "
                   "srun or mpirun), or start the ranks with lockstep run --token-file FILE");
}

void open_store(Job::State& state) {
  const WorldPlan& plan = state.plan;
  switch (plan.store) {
    case StoreKind::kNone:
      state.store = make_local_store();
      return;
    case StoreKind::kTorchAgent:
      state.store = comm::connect_torch_store(plan, state.timeout);
      state.program = comm::begin_program(state.store, plan.info);
      return;
    case StoreKind::kFile:
      open_file_store(state);
      return;
    case StoreKind::kRankZero:
      require_secret_beyond_loopback(plan);
      if (plan.info.rank != 0) {
        state.store = connect_to_rank_zero(state);
        return;
      }
      serve_store(state);
      warn_of_loopback(plan);
      state.store = connect_by_name(state, state.timeout);
      return;
    case StoreKind::kAgent:
      state.store = connect_by_name(state, state.timeout);
      state.store->set(standby::kKey + std::to_string(plan.info.rank), std::to_string(::getpid()));
      state.program = comm::begin_program(state.store, plan.info);
      return;
  }
}

/// Returns the facts about this host and this rank's GPU.
comm::HostFacts own_facts(const Job::State& state) {
  comm::HostFacts facts = comm::this_host();
  if (!state.device.is_cuda()) return facts;
  const comm::GpuId gpu = comm::gpu_id(state.device);
  facts.gpu = facts.id + "/" + gpu.unique;
  facts.gpu_slot = gpu.slot;
  facts.may_share_gpu = state.may_share_gpu;
  const nccl::Library& nccl = comm::usable_nccl();
  facts.nccl_problem = nccl.problem;
  if (nccl.problem.empty()) facts.nccl = nccl.version;
  if (env::get("LOCKSTEP_SHARE_GPUS") == "nccl") {
    facts.gpu += fmt::format(" of rank {}", state.plan.info.rank);
    facts.gpu_slot.clear();
    comm::take_part_beside_ranks_on_the_same_gpu(state.plan.info.rank);
  }
  return facts;
}

/// Returns this rank's first message to the others: host id, host name, version, replicas, GPU, NCCL, wire, the reason
/// why there is no NCCL, the GPU's PCI address, permission to share the GPU; one line each.
std::string introduction(const Job::State& state) {
  const comm::HostFacts host = own_facts(state);
  return fmt::format("{}\n{}\n{} on libtorch {}\n{}\n{}\n{}\n{}\n{}\n{}\n{}", host.id, host.name, kVersion,
                     tensor::libtorch_version(), state.replicas, host.gpu, host.nccl, comm::wire_name(state.wire),
                     host.nccl_problem, host.gpu_slot, host.may_share_gpu ? "shared" : "own");
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines(1);
  for (const char c : text) {
    if (c == '\n') {
      lines.emplace_back();
    } else {
      lines.back() += c;
    }
  }
  lines.resize(10);
  return lines;
}

std::vector<std::string> missing_ranks(const Job::State& state, const std::string& prefix) {
  std::vector<std::string> missing;
  for (int rank = 0; rank < state.plan.info.world_size; ++rank) {
    if (!state.store->try_get(fmt::format("{}hello/{}", prefix, rank))) missing.push_back(fmt::format("rank {}", rank));
  }
  return missing;
}

/// Returns the variables that define the world without a launcher, as text.
std::string world_text(const WorldPlan& plan) {
  const std::string origin = plan.store == StoreKind::kRankZero ? " by " + plan.info.source : "";
  return fmt::format("world {}{}", plan.info.world_size, origin);
}

std::string without_slash(const std::string& prefix) { return text::printable(prefix.substr(0, prefix.rfind('/'))); }

/// Returns a text if the store at the derived port belongs to another job; else "".
std::string foreign_store(const Job::State& state) {
  const WorldPlan& plan = state.plan;
  if (plan.store != StoreKind::kRankZero || plan.prefix.empty()) return "";
  try {
    const auto job = connect_store(address_of(state), kJobTrial)->try_get(kJobKey);
    if (!job || *job == plan.prefix) return "";
    return fmt::format("{}:{} belongs to {}, not to {}", plan.host, plan.port, without_slash(*job),
                       without_slash(plan.prefix));
  } catch (const Error&) {
    return "";  // the timeout is the error to report
  }
}

/// Returns a line if other machines cannot reach the store that this rank serves; else "".
std::string unreachable_store(const Job::State& state) {
  const WorldPlan& plan = state.plan;
  if (!state.server || !is_loopback(plan.host)) return "";
  const char* advice = plan.store == StoreKind::kFile ? "; file:///PATH?host=ADDRESS names another address" : "";
  return fmt::format("\n  store         {}:{}, which only this machine can reach{}", plan.host, plan.port, advice);
}

/// Throws the timeout, with a line that explains it and a hint.
[[noreturn]] void throw_timeout(const Job::State& state, const std::vector<std::string>& missing,
                                const std::string& line, const std::string& hint) {
  throw TimeoutError(fmt::format("init timed out after {:.1f} s ({})\n  waiting for   {}{}",
                                 std::chrono::duration<double>(state.timeout).count(), world_text(state.plan),
                                 text::join(missing), line),
                     hint);
}

[[noreturn]] void throw_missing(const Job::State& state, const std::vector<std::string>& missing) {
  if (const auto other = comm::other_program(*state.store, state.plan.info, state.program)) {
    throw_timeout(state, missing, "\n  programs      " + *other,
                  "make the script of every rank run the same Lockstep programs in the same order");
  }
  if (const std::string foreign = foreign_store(state); !foreign.empty()) {
    throw_timeout(state, missing, "\n  store         " + foreign,
                  "give each srun that runs at the same time its own MASTER_PORT");
  }
  throw_timeout(state, missing, unreachable_store(state),
                fmt::format("start all ranks, with the same MASTER_ADDR and MASTER_PORT; {} sets the limit",
                            env::timeout_variable()));
}

/// The deadline for all ranks to join.
struct Arrival {
  explicit Arrival(const Job::State& state)
      : end(AwakeClock::instance().now() + state.timeout), notice(SystemClock::instance().now()) {}

  TimePoint end;  ///< an AwakeClock time
  WaitNotice notice;
};

/// Waits for a key under "hello/", which holds a rank's facts, and reports the missing ranks to the user.
std::string hello(const Job::State& state, const std::string& prefix, const std::string& key, Arrival& arrival) {
  auto& [end, notice] = arrival;
  for (;;) {
    const auto to_notice = notice.next() - SystemClock::instance().now();
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(std::min(end - AwakeClock::instance().now(), to_notice));
    try {
      return state.store->get(fmt::format("{}hello/{}", prefix, key), std::max(left, std::chrono::milliseconds(1)));
    } catch (const TimeoutError&) {
      // The missing ranks are reported below, and the wait continues while there is time.
    }
    auto missing = missing_ranks(state, prefix);
    if (missing.empty()) missing.emplace_back("rank 0");  // rank 0 has not yet published the introductions
    if (AwakeClock::instance().now() >= end) throw_missing(state, missing);
    const auto waited = notice.due(SystemClock::instance().now());
    if (waited) {
      log::note("rank {} ({}) waits for {} ({} so far); {} ends the wait after {}", state.plan.info.rank,
                world_text(state.plan), text::join(missing), text::duration(waited->count()), env::timeout_variable(),
                text::duration(Seconds(state.timeout).count()));
    }
  }
}

/// Reads a list of strings. Throws: PeerError if `json` is not a list of strings.
std::vector<std::string> strings_of(const std::string& json) {
  const auto list = json_or_null(json);
  const auto is_text = [](const nlohmann::json& entry) { return entry.is_string(); };
  if (!list.is_array() || !std::all_of(list.begin(), list.end(), is_text)) {
    throw PeerError("rank 0 did not send the list of the other ranks", "start the same program on every rank");
  }
  return list.get<std::vector<std::string>>();
}

/// Returns the introductions of all ranks. Rank 0 reads them and publishes them together, so that W ranks make 2 W
/// requests to the store instead of W squared.
std::vector<std::string> introductions(const Job::State& state, const std::string& prefix) {
  Arrival arrival(state);
  const RankInfo& info = state.plan.info;
  const std::string everybody = "all";
  if (info.rank != 0) return strings_of(hello(state, prefix, everybody, arrival));
  std::vector<std::string> all;
  for (int rank = 0; rank < info.world_size; ++rank) {
    all.push_back(hello(state, prefix, std::to_string(rank), arrival));
  }
  constexpr auto kReplace = nlohmann::json::error_handler_t::replace;
  state.store->set(fmt::format("{}hello/{}", prefix, everybody), nlohmann::json(all).dump(-1, ' ', false, kReplace));
  return all;
}

/// Compares a rank with rank 0, so that every rank reports the same difference. Throws: UsageError.
void require_equal(const std::vector<std::string>& first, const std::vector<std::string>& lines, std::size_t rank) {
  if (lines[2] != first[2] || lines[3] != first[3]) {
    throw UsageError(fmt::format("rank 0 runs Lockstep {} with {} replicas, rank {} runs {} with {}", first[2],
                                 first[3], rank, lines[2], lines[3]),
                     "start the same program with the same settings on every rank");
  }
  if (lines[6] != first[6]) {
    throw UsageError(fmt::format("rank 0 on {} uses the wire {}, but rank {} on {} uses {}", first[1], first[6], rank,
                                 lines[1], lines[6]),
                     "set the same --wire, or the same LOCKSTEP_WIRE, on every rank");
  }
}

/// Returns the host of every rank. Throws: UsageError if ranks differ in version, replicas or wire.
std::vector<comm::HostFacts> meet(const Job::State& state, const std::string& prefix) {
  state.store->set(fmt::format("{}hello/{}", prefix, state.plan.info.rank), introduction(state));
  std::vector<comm::HostFacts> hosts;
  std::vector<std::string> first;
  for (const std::string& greeting : introductions(state, prefix)) {
    const auto lines = lines_of(text::printable(greeting));
    if (hosts.empty()) first = lines;
    require_equal(first, lines, hosts.size());
    hosts.push_back({lines[0], lines[1], lines[4], lines[5], lines[7], lines[8], lines[9] == "shared"});
  }
  return hosts;
}

std::string keys_of_meeting(const RankInfo& info) { return fmt::format("lockstep/comm/{}/", info.restart_count); }

/// Watches the other ranks during the meeting if no launcher does.
std::unique_ptr<comm::MeetingWatch> watch_meeting(const Job::State& state) {
  const WorldPlan& plan = state.plan;
  const bool is_alone = plan.info.world_size == 1;
  if (is_alone || (plan.store != StoreKind::kRankZero && plan.store != StoreKind::kFile)) return nullptr;
  return std::make_unique<comm::MeetingWatch>(comm::MeetingPlace{.address = address_of(state),
                                                                 .timeout = state.timeout,
                                                                 .job = plan.prefix,
                                                                 .prefix = keys_of_meeting(plan.info),
                                                                 .rank = plan.info.rank,
                                                                 .host = state.host},
                                              state.store);
}

/// Throws the failure of another rank that ended: it explains more than `error`, which is only its consequence.
void rethrow_if_peer_failed(const comm::MeetingWatch& watch, const std::exception& error) {
  const bool is_store_gone = dynamic_cast<const PeerError*>(&error) != nullptr;
  const auto record = watch.failure(is_store_gone ? kWatchPatience : std::chrono::milliseconds(0));
  if (!record) return;
  const std::string host = record->host.empty() ? "" : " on " + record->host;
  const char* outcome = record->kind == FailureKind::kDied ? "died" : "failed";
  throw PeerError(fmt::format("rank {}{} {}: {}", record->rank, host, outcome, words_of(*record)),
                  "see the output of that rank for the cause");
}

void join_group(Job::State& state, BackendKind wanted) {
  const RankInfo& info = state.plan.info;
  comm::Meeting meeting{
      .wanted = wanted, .store = state.store, .store_host = state.plan.host, .timeout = state.timeout};
  if (state.plan.store == StoreKind::kAgent) meeting.patience = kAgentPatience;
  comm::Membership members{.rank = info.rank, .prefix = keys_of_meeting(info)};
  meeting.device = state.device;
  meeting.wire = state.wire;
  meeting.token = state.plan.token;
  members.hosts = {own_facts(state)};
  if (info.world_size > 1) members.hosts = meet(state, members.prefix);
  comm::require_gpu_each(members.hosts);
  for (int rank = 0; rank < info.world_size; ++rank) members.ranks.push_back(rank);
  comm::Formed formed = comm::form_group(meeting, members);
  state.group = std::move(formed.group);
  state.backend_reason = formed.reason;
}

std::mutex current_mutex;
std::weak_ptr<Job::State> current;  // NOLINT(cppcoreguidelines-avoid-non-const-global-variables)

/// Checks that this process has no other job with several ranks: the keys of a meeting serve one group.
void remember(const std::shared_ptr<Job::State>& state) {
  if (state->plan.info.world_size == 1) return;
  const std::lock_guard lock(current_mutex);
  if (!current.expired()) {
    throw UsageError("init() was called twice in this process", "keep the first Job and copy it: copies are cheap");
  }
  current = state;
}

void start_recorder(const RankInfo& info, std::chrono::milliseconds timeout) {
  const std::string file = env::get("LOCKSTEP_FLIGHT").value_or("");
  if (file == "off") return;
  const auto limits = flight::parse_section_timeouts(env::get("LOCKSTEP_SECTION_TIMEOUT").value_or(""));
  flight::start_recorder({.rank = info.rank,
                          .world_size = info.world_size,
                          .host = comm::this_host().name,
                          .timeout = timeout,
                          .file = file});
  for (const auto& limit : limits) flight::limit_section(limit.section, limit.limit);
}

std::string url_of(int argc, const char* const* argv, const InitOptions& options) {
  const std::string url =
      options.dist_url.empty() ? find_spelled(argc, argv, "--dist_url").value_or("") : options.dist_url;
  return url.empty() ? "env://" : url;
}

/// Logs one line for each rank, at level info, worded as in PyTorch's examples.
void log_position(const Job& job, const std::string& url) {
  log::info("distributed init (rank {} of {}, local {}, {}, {}, {}): {}", job.rank(), job.world_size(),
            job.local_rank(), job.host(), job.device().str(), job.backend(), url);
  const auto nccl_debug = env::get("NCCL_DEBUG");
  if (nccl_debug && job.is_main() && job.backend() != "nccl") {
    log::note("NCCL_DEBUG is {}, but this run uses {}, not NCCL: LOCKSTEP_LOG=info, debug or trace shows what it does",
              *nccl_debug, job.backend());
  }
}

}  // namespace

Job init(int argc, const char* const* argv, const InitOptions& options) {
  prepare_standard_streams();
  fault::install_reports();
  auto state = std::make_shared<Job::State>();
  state->plan = find_world(argc, argv, options);
  const RankInfo& info = state->plan.info;
  fault::note_rank(info.rank);
  for (const auto& note_on : {comm::note_on_shell, comm::note_on_address}) {
    const std::string note = note_on(current_environment(), info);
    if (!note.empty()) log::note("{}", note);
  }
  state->timeout = options.timeout.value_or(env::collective_timeout());
  start_recorder(info, state->timeout);
  const BackendKind wanted = wanted_backend(argc, argv, options, info.rank);
  state->wire = wanted_wire(argc, argv, options);
  state->replicas = check_replicas(options.replicas, state->plan.info.world_size);
  state->host = comm::this_host().name;
  const comm::DeviceRequest request = device_request(argc, argv, options, state->plan.info);
  state->device = comm::choose_device(request);
  const std::string idle = info.local_rank == 0 ? comm::idle_gpus_warning(request) : "";
  if (!idle.empty()) log::warn("{}", idle);
  state->may_share_gpu = comm::may_share_gpu(request);
  tensor::use_device(state->device);
  stay_near(state->device);
  tensor::note_world(state->plan.info.rank, state->plan.info.world_size);
  remember(state);
  Job job(state);
  std::unique_ptr<comm::MeetingWatch> watch;
  try {
    open_store(*state);
    watch = watch_meeting(*state);
    join_group(*state, wanted);
    if (state->plan.store == StoreKind::kFile && job.is_main()) std::filesystem::remove(state->plan.file);
    if (job.world_size() > 1) require_same_settings(job.group(), options.settings);
  } catch (const std::exception& error) {
    if (watch) rethrow_if_peer_failed(*watch, error);
    const FailureRecord record = record_of(error, info.rank, state->host);
    if (watch && record.kind != FailureKind::kPeer) watch->report(record);
    job.publish_failure(error);
    throw;
  }
  log_position(job, url_of(argc, argv, options));
  return job;
}

int run_program(int argc, const char* const* argv, const std::function<int(Job&)>& body,
                const InitOptions& options) noexcept {
  return guarded_main([&] {
    Job job = init(argc, argv, options);
    return run_body(job, body);
  });
}

}  // namespace lockstep
