// SPDX-License-Identifier: Apache-2.0
#include "train/ranks/same_outcome.h"

#include <fmt/format.h>

#include <chrono>
#include <cstdint>
#include <exception>
#include <nlohmann/json.hpp>
#include <string>

#include "lockstep/base/error.h"
#include "lockstep/base/fault.h"
#include "lockstep/store/store.h"

namespace lockstep::train {
namespace {

constexpr auto kLongest = std::chrono::hours(24);

nlohmann::json outcome_of(const std::exception& error) {
  const auto* ours = dynamic_cast<const Error*>(&error);
  if (ours == nullptr) return {{"type", fault::type_of_unknown()}, {"message", fault::headline(error)}, {"hint", ""}};
  return {{"type", ours->type()}, {"message", ours->message()}, {"hint", ours->hint()}};
}

void tell(Store& store, const std::string& key, const std::function<void()>& work) {
  try {
    work();
  } catch (const std::exception& error) {
    store.set(key, outcome_of(error).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
    throw;
  }
  store.set(key, "null");
}

}  // namespace

void do_on_main(const Job& job, const std::function<void()>& work) {
  if (job.world_size() == 1) return work();
  static std::int64_t calls = 0;  // the same on every rank
  const std::string key = fmt::format("lockstep/train/outcome/{}", ++calls);
  if (job.is_main()) return tell(job.store(), key, work);
  const auto outcome = nlohmann::json::parse(job.store().get(key, kLongest));
  if (outcome.is_null()) return;
  throw_error(outcome["type"].get<std::string>(), outcome["message"].get<std::string>(),
              outcome["hint"].get<std::string>());
}

}  // namespace lockstep::train
