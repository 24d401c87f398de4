// SPDX-License-Identifier: Apache-2.0
#include "lockstep/comm/job.h"

#include <fmt/format.h>

#include <cstdio>
#include <exception>

#include "comm/wiring/job_state.h"
#include "lockstep/base/env.h"
#include "lockstep/base/error.h"
#include "lockstep/base/fault.h"
#include "lockstep/base/log.h"

namespace lockstep {
namespace {

void write_line(std::FILE* file, const std::string& line) {
  std::fwrite(line.data(), 1, line.size(), file);
  std::fflush(file);
}

}  // namespace

Job::State::~State() {
  // If a job is destroyed by an exception, this rank has not ended normally: the others must not wait for it.
  if (group != nullptr) group->close(!failed && std::uncaught_exceptions() == 0);
}

Job::State& Job::state() const {
  if (state_ == nullptr) throw UsageError("the job is used before init()", "auto job = lockstep::init(argc, argv);");
  return *state_;
}

int Job::rank() const { return state().plan.info.rank; }
int Job::local_rank() const { return state().plan.info.local_rank; }
int Job::world_size() const { return state().plan.info.world_size; }
int Job::replicas() const { return state().replicas; }
void Job::set_replicas(int replicas) const { state().replicas = replicas; }
bool Job::is_main() const { return rank() == 0; }
const RankInfo& Job::rank_info() const { return state().plan.info; }
c10::Device Job::device() const { return state().device; }
const std::string& Job::host() const { return state().host; }
std::string Job::backend() const { return group().backend_name(); }
const std::string& Job::backend_reason() const { return state().backend_reason; }
ProcessGroup& Job::group() const { return *state().group; }
Store& Job::store() const { return *state().store; }
std::chrono::milliseconds Job::timeout() const { return state().timeout; }
void Job::barrier() const { group().barrier().wait(); }

ShardSpec Job::shard() const {
  if (replicas() != world_size()) {
    throw UsageError(
        fmt::format("{} replicas on {} ranks: several replicas per rank need the Trainer", replicas(), world_size()),
        "start as many ranks as there are replicas");
  }
  return {rank(), world_size()};
}

void Job::print(std::string_view line) const {
  if (is_main()) write_line(stdout, fmt::format("{}\n", line));
}

void Job::print_all(std::string_view line) const {
  // Lockstep's launcher shows only stderr of every rank on the console, with a prefix.
  if (env::get("LOCKSTEP_STORE")) return write_line(stderr, fmt::format("{}\n", line));
  write_line(stdout, fmt::format("[{}]: {}\n", rank(), line));
}

void Job::publish_failure(const std::exception& error) const noexcept {
  if (state_ == nullptr || state_->failed.exchange(true)) return;
  try {
    const FailureRecord record = record_of(error, rank(), host());
    // A PeerError only repeats the report of another rank or of its agent.
    if (record.kind != FailureKind::kPeer && state_->store != nullptr) {
      comm::record_first_failure(*state_->store, record);
    }
    if (state_->group != nullptr) state_->group->abort(words_of(record));
  } catch (const std::exception& problem) {
    log::warn("the failure could not be reported to the other ranks: {}", problem.what());
  }
}

int run_body(Job& job, const std::function<int(Job&)>& body) {
  try {
    return fault::in_section(nullptr, [&] { return body(job); });
  } catch (const std::exception& error) {
    job.publish_failure(error);
    throw;
  }
}

}  // namespace lockstep
