// SPDX-License-Identifier: Apache-2.0
#include "train/ranks/same_outcome.h"

#include <fmt/format.h>

#include <chrono>
#include <cstdint>
#include <exception>
#include <string>

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

}  // namespace

void do_on_main(const Job& job, const std::function<void()>& work) {
  if (job.world_size() == 1) return work();
  static std::int64_t calls = 0;  // the same on every rank
  const std::string key = fmt::format("lockstep/outcome/{}", ++calls);
  if (job.is_main()) return do_and_report(job.store(), key, work);
  const std::string outcome = job.store().get(key, kLongest);
  if (outcome == kSuccess) return;
  const auto failure = parse_failure(outcome);
  if (!failure) throw InternalError("rank 0's report on its work cannot be read: " + outcome);
  rethrow(*failure);
}

}  // namespace lockstep::train
