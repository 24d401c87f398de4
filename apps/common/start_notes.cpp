// SPDX-License-Identifier: Apache-2.0
#include "common/start_notes.h"

#include <cstdlib>
#include <sstream>
#include <utility>

#include "lockstep/base/env.h"
#include "lockstep/base/log.h"

namespace lockstep::cli {
namespace {

bool is_first_of_node() {
  return env::get("LOCAL_RANK").value_or("0") == "0" && env::get("TORCHELASTIC_RESTART_COUNT").value_or("0") == "0";
}

}  // namespace

void keep_start_note(const std::string& note) {
  static std::string notes;  // excludes the notes of a launcher that started this one
  notes += note + "\n";
  ::setenv("LOCKSTEP_START_NOTES", notes.c_str(), 1);  // NOLINT(concurrency-mt-unsafe): there is no other thread yet
}

void say_start_notes() {
  static bool has_said = false;
  if (std::exchange(has_said, true) || !is_first_of_node()) return;
  std::istringstream notes(env::get("LOCKSTEP_START_NOTES").value_or(""));
  for (std::string note; std::getline(notes, note);) log::note("{}", note);
}

}  // namespace lockstep::cli
