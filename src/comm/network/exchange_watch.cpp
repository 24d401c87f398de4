// SPDX-License-Identifier: Apache-2.0
#include "comm/network/exchange_watch.h"

#include <fmt/format.h>

#include <algorithm>
#include <condition_variable>
#include <cstdlib>
#include <map>
#include <mutex>
#include <string>
#include <thread>

#include "lockstep/base/awake_clock.h"
#include "lockstep/base/log.h"
#include "lockstep/base/resources.h"

namespace lockstep::comm {
namespace {

using SteadyTime = std::chrono::steady_clock::time_point;
constexpr auto kPatience = std::chrono::milliseconds(150);  // time until the watch polls the store
constexpr auto kPeriod = std::chrono::milliseconds(150);
constexpr auto kWatchCloseLimit = std::chrono::milliseconds(1000);

}  // namespace

/// The state that the watch shares with its threads, which may outlive it if the store hangs.
struct ExchangeWatch::State {
  explicit State(World facts) : world(std::move(facts)) {}

  struct Entry {
    SteadyTime start;
    Exchange exchange;
  };

  [[nodiscard]] std::string key() const { return world.prefix + "tcp/alarm"; }
  void loop();
  void clock_loop();
  void look(std::unique_lock<std::mutex>& lock);
  void ask(std::unique_lock<std::mutex>& lock);

  const World world;
  std::mutex mutex;
  std::condition_variable changed;
  std::map<int, Entry> entries;
  int next = 0;
  bool closed = false;
  int threads = 0;
  std::condition_variable clock;
  bool idle = false;  ///< the thread waits for a notification
  std::optional<int> alarm;
};

void ExchangeWatch::State::ask(std::unique_lock<std::mutex>& lock) {
  if (alarm) return;
  lock.unlock();
  std::optional<std::string> heard;
  try {
    heard = world.store->try_get(key());
  } catch (const std::exception& problem) {
    log::debug("the store could not be asked to wake this rank: {}", problem.what());
  }
  lock.lock();
  if (heard && !heard->empty()) alarm = std::atoi(heard->c_str());  // any other text means rank 0
}

void ExchangeWatch::State::look(std::unique_lock<std::mutex>& lock) {
  ask(lock);
  if (!alarm) return;
  for (const auto& [number, entry] : entries) entry.exchange.interrupt();
}

void ExchangeWatch::State::loop() {
  std::unique_lock lock(mutex);
  while (!closed) {
    if (entries.empty()) {
      // In a loop of short exchanges the thread must not be woken for each one.
      if (!changed.wait_for(lock, kPatience, [&] { return closed; }) && entries.empty()) {
        idle = true;
        changed.wait(lock);
        idle = false;
      }
      continue;
    }
    SteadyTime oldest = SteadyTime::max();
    for (const auto& [number, entry] : entries) oldest = std::min(oldest, entry.start);
    const auto now = std::chrono::steady_clock::now();
    if (now < oldest + kPatience) {
      changed.wait_until(lock, oldest + kPatience);
      continue;
    }
    look(lock);
    if (!closed) changed.wait_for(lock, kPeriod);
  }
  --threads;
  changed.notify_all();
}

// An exchange that begins during this sleep is checked soon enough, so exchanges do not wake the thread.
void ExchangeWatch::State::clock_loop() {
  std::unique_lock lock(mutex);
  while (!closed) {
    const TimePoint now = AwakeClock::instance().now();
    std::chrono::nanoseconds wait = kAwakeLook;
    for (const auto& [number, entry] : entries) {
      const TimePoint end = end_of(entry.exchange.collective);
      if (end <= now) entry.exchange.is_over = true;
      if (entry.exchange.is_over) entry.exchange.interrupt();
      wait = std::min<std::chrono::nanoseconds>(wait, entry.exchange.is_over ? kPeriod : end - now);
    }
    clock.wait_for(lock, wait);
  }
  --threads;
  changed.notify_all();
}

ExchangeWatch::ExchangeWatch(World world) : state_(std::make_shared<State>(std::move(world))) {
  state_->threads = 2;
  start_thread("that watches the exchanges", [state = state_] { state->loop(); }).detach();
  try {
    start_thread("that watches the exchanges' time", [state = state_] { state->clock_loop(); }).detach();
  } catch (...) {
    const std::lock_guard lock(state_->mutex);
    state_->closed = true;
    state_->changed.notify_all();
    throw;
  }
}

ExchangeWatch::~ExchangeWatch() {
  std::unique_lock lock(state_->mutex);
  state_->closed = true;
  state_->changed.notify_all();
  state_->clock.notify_all();
  state_->changed.wait_for(lock, kWatchCloseLimit, [&] { return state_->threads == 0; });
}

ExchangeWatch::Scope::Scope(ExchangeWatch& watch, Exchange exchange) : watch_(watch) {
  State& state = *watch_.state_;
  const std::lock_guard lock(state.mutex);
  number_ = state.next++;
  state.entries.emplace(number_, State::Entry{std::chrono::steady_clock::now(), std::move(exchange)});
  if (state.idle) state.changed.notify_all();
}

ExchangeWatch::Scope::~Scope() {
  State& state = *watch_.state_;
  const std::lock_guard lock(state.mutex);
  state.entries.erase(number_);
}

void ExchangeWatch::raise(int suspect) noexcept {
  try {
    state_->world.store->compare_set(state_->key(), "", std::to_string(suspect));
  } catch (const std::exception& problem) {
    log::debug("the other ranks could not be woken: {}", problem.what());
  }
}

std::optional<int> ExchangeWatch::alarm() const noexcept {
  const std::lock_guard lock(state_->mutex);
  return state_->alarm;
}

}  // namespace lockstep::comm
