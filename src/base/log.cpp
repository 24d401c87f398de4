// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/log.h"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <memory>
#include <string>

#include "lockstep/base/env.h"
#include "lockstep/base/printable.h"
#include "lockstep/base/standard_streams.h"

namespace lockstep::log {
namespace {

std::atomic<int> quiet_notes = 0;

Level level_from_environment() {
  const auto name = env::get("LOCKSTEP_LOG");
  if (!name) return Level::kNote;
  for (std::size_t i = 0; i < kLevelNames.size(); ++i) {
    if (*name == kLevelNames[i]) return static_cast<Level>(i);
  }
  print_to(stderr, "warn: LOCKSTEP_LOG is '{}', not one of error, warn, note, info, debug, trace: using note\n",
           text::for_people(*name));
  return Level::kNote;
}

Level current_level() noexcept {
  static const Level level = level_from_environment();
  return level;
}

// Returns true for a terminal with colours, unless NO_COLOR is set (no-color.org). Lines in files have no colours.
bool is_coloured() {
  static const bool yes =
      ::isatty(STDERR_FILENO) == 1 && !env::get("NO_COLOR") && env::get("TERM").value_or("dumb") != "dumb";
  return yes;
}

// Returns the level's name as it appears in a line. Errors are red and warnings yellow, so that they are noticed during
// a run.
std::string name_of(Level level) {
  std::string name = std::string(kLevelNames[static_cast<std::size_t>(level)]) + ":";
  if (level > Level::kWarn || !is_coloured()) return name;
  return fmt::format("\033[{}m{}\033[0m", level == Level::kError ? "1;31" : "33", name);
}

// Returns the process's logger. Lines arrive complete, so the pattern is the bare message.
spdlog::logger& logger() {
  static const std::shared_ptr<spdlog::logger> instance = [] {
    auto made = std::make_shared<spdlog::logger>("lockstep", std::make_shared<spdlog::sinks::stderr_sink_mt>());
    made->set_pattern("%v");
    made->set_level(spdlog::level::trace);
    made->flush_on(spdlog::level::trace);
    return made;
  }();
  return *instance;
}

}  // namespace

bool is_enabled(Level level) noexcept {
  return level <= current_level() && !(level == Level::kNote && quiet_notes.load() > 0);
}

QuietNotes::QuietNotes(bool on) noexcept : on_(on) { quiet_notes += on_ ? 1 : 0; }
QuietNotes::~QuietNotes() { quiet_notes -= on_ ? 1 : 0; }

void write(Level level, std::string_view line) noexcept {
  if (!is_enabled(level)) return;
  try {
    logger().info("{} {}", name_of(level), text::for_people(line));
  } catch (...) {  // a failed log line must not end the run
  }
}

}  // namespace lockstep::log
