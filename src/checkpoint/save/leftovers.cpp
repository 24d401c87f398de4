// SPDX-License-Identifier: Apache-2.0
// Removes the leftovers of dead writers from a "checkpoints" folder.
#include <signal.h>
#include <unistd.h>

#include <cerrno>

#include "checkpoint/folder/folder.h"
#include "checkpoint/folder/remove_quietly.h"
#include "lockstep/base/error.h"
#include "lockstep/base/log.h"
#include "lockstep/checkpoint/checkpoint.h"

namespace lockstep {

namespace fs = std::filesystem;
using namespace checkpoint;  // NOLINT(google-build-using-namespace): this file is of that namespace

namespace {

/// Returns true for an unfinished entry of a dead process. One thread of a process commits to a folder, so an entry
/// with this process's pid is a leftover, too: pids are reused.
bool is_leftover(const std::string& name) {
  const auto pid = parse_temporary_pid(name);
  if (!pid || *pid <= 0) return false;
  return *pid == ::getpid() || (::kill(*pid, 0) != 0 && errno == ESRCH);
}

void put_back(FileSystem& files, const fs::path& from, const fs::path& to) {
  try {
    files.rename(from, to);
    log::note("{} is put back: a process ended while it was writing it anew", to.string());
  } catch (const Error& error) {
    log::warn("{} is still there as {}: {}", to.string(), from.string(), error.message());
  }
}

}  // namespace

void remove_checkpoint_leftovers(FileSystem& files, const fs::path& folder) {
  for (const std::string& name : files.list(folder)) {
    if (!is_leftover(name)) continue;
    const auto step = checkpoint::parse_old_name(name);
    // If a process was killed between the two renames of Staging::replace(), this folder is the only one of the step.
    if (step && !files.exists(folder / *step)) {
      put_back(files, folder / name, folder / *step);
    } else {
      remove_quietly(files, folder / name);
    }
  }
}

}  // namespace lockstep
