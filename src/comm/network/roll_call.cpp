// SPDX-License-Identifier: Apache-2.0
#include "comm/network/roll_call.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <future>
#include <memory>
#include <string>
#include <thread>

#include "lockstep/base/awake_clock.h"
#include "lockstep/base/log.h"
#include "lockstep/base/resources.h"

namespace lockstep::comm {
namespace {

using SteadyTime = std::chrono::steady_clock::time_point;
constexpr auto kRollCallLook = std::chrono::milliseconds(10);
constexpr auto kOtherLimit = std::chrono::milliseconds(5000);
constexpr auto kLinger = std::chrono::milliseconds(2000);

bool is_suspected(const RollCall& answers, int rank) {
  return std::any_of(answers.begin(), answers.end(), [&](const auto& answer) { return answer.second == rank; });
}

std::string key(const World& world, const char* name, int rank) {
  return fmt::format("{}tcp/{}/{}", world.prefix, name, rank);
}

void collect(const World& world, RollCall& answers) {
  for (int rank = 0; rank < world.size; ++rank) {
    if (answers.count(rank) != 0) continue;
    if (const auto answer = world.store->try_get(key(world, "present", rank))) answers[rank] = std::stoi(*answer);
  }
}

/// Returns true if the ranks that have not answered need not be waited for any longer.
bool is_settled(const RollCall& answers, const World& world, SteadyTime start,
                std::chrono::milliseconds suspect_limit) {
  const auto waited = AwakeClock::instance().now() - start;
  const std::vector<int> absent = absent_ranks(answers, world);
  return std::all_of(absent.begin(), absent.end(),
                     [&](int rank) { return waited >= (is_suspected(answers, rank) ? suspect_limit : kOtherLimit); });
}

RollCall answer_and_collect(const World& world, int suspect, std::chrono::milliseconds suspect_limit) {
  RollCall answers;
  world.store->set(key(world, "present", world.rank), std::to_string(suspect));
  const SteadyTime start = AwakeClock::instance().now();
  collect(world, answers);
  while (!is_settled(answers, world, start, suspect_limit)) {
    std::this_thread::sleep_for(kRollCallLook);
    collect(world, answers);
  }
  return answers;
}

void linger(const World& world, const RollCall& answers) {
  world.store->set(key(world, "told", world.rank), "1");
  const SteadyTime end = AwakeClock::instance().now() + kLinger;
  for (const auto& [rank, unused] : answers) {
    while (!world.store->try_get(key(world, "told", rank)) && AwakeClock::instance().now() < end) {
      std::this_thread::sleep_for(kRollCallLook);
    }
  }
}

}  // namespace

// The calls to the store run on a separate thread: the store may hang because of the missing rank.
RollCall call_roll(const World& world, int suspect, std::chrono::milliseconds suspect_limit) noexcept {
  try {
    auto answer = std::make_shared<std::promise<RollCall>>();
    auto result = answer->get_future();
    start_thread("for a roll call", [answer, world, suspect, suspect_limit] {
      RollCall answers;
      try {
        answers = answer_and_collect(world, suspect, suspect_limit);
        linger(world, answers);
      } catch (const std::exception& problem) {
        log::debug("checking the other ranks after a failure failed: {}", problem.what());
      }
      answer->set_value(std::move(answers));
    }).detach();
    if (result.wait_for(kOtherLimit + 2 * kLinger) == std::future_status::ready) return result.get();
  } catch (const std::exception& problem) {
    log::debug("the other ranks could not be checked after a failure: {}", problem.what());
  }
  return {};
}

std::vector<int> absent_ranks(const RollCall& answers, const World& world) {
  std::vector<int> absent;
  for (int rank = 0; rank < world.size; ++rank) {
    const auto& speakers = world.speakers;
    const bool speaks = speakers.empty() || std::find(speakers.begin(), speakers.end(), rank) != speakers.end();
    if (answers.count(rank) == 0 && (speaks || is_suspected(answers, rank))) absent.push_back(rank);
  }
  return absent;
}

int blamed_rank(const RollCall& answers, int suspect, const World& world) {
  const std::vector<int> absent = absent_ranks(answers, world);
  if (absent.empty() || answers.empty()) return suspect;
  const auto found = std::find_if(absent.begin(), absent.end(),
                                  [&](int rank) { return rank == suspect || is_suspected(answers, rank); });
  return found != absent.end() ? *found : absent.front();
}

}  // namespace lockstep::comm
