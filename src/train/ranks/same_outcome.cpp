// SPDX-License-Identifier: Apache-2.0
#include "train/ranks/same_outcome.h"

#include <fmt/format.h>

#include <chrono>
#include <cstdint>
#include <exception>
#include <string>

#include "lockstep/base/error.h"
#include "lockstep/base/failure_record.h"
#include "lockstep/store/store.h"

namespace lockstep::train {
namespace {

constexpr auto kLongest = std::chrono::hours(24);
constexpr const char* kSuccess = "well";

void do_and_report(Store& store, const std::string& key, const std::function<void()>& work) {
  try {
    work();
  } catch (const std::exception& error) {
    store.set(key, to_json(record_of(error)));
    throw;
  }
  store.set(key, kSuccess);
}

/// Removes a key that every rank but rank 0 reads. The last of these ranks removes it.
void forget(const Job& job, const std::string& key) {
  Store& store = job.store();
  const std::string readers = key + "/read";
  try {
    if (store.add(readers, 1) < job.world_size() - 1) return;
    store.remove(key);
    store.remove(readers);
  } catch (const PeerError&) {
    // The store ended with rank 0 after its work. A later operation that needs the store reports it.
  }
}

}  // namespace

void do_on_main(const Job& job, const std::function<void()>& work) {
  if (job.world_size() == 1) return work();
  static std::int64_t calls = 0;  // the same on every rank
  const std::string key = fmt::format("lockstep/outcome/{}", ++calls);
  if (job.is_main()) return do_and_report(job.store(), key, work);
  const std::string outcome = job.store().get(key, kLongest);
  if (outcome == kSuccess) return forget(job, key);
  const auto failure = parse_failure(outcome);
  if (!failure) throw InternalError("rank 0's report on its work cannot be read: " + outcome);
  rethrow(*failure);
}

}  // namespace lockstep::train
