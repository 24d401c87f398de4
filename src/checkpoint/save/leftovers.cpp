// SPDX-License-Identifier: Apache-2.0
// Leftovers of dead writers in a "checkpoints" folder.
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

/// A process commits to one folder from one thread, so files with its own pid are leftovers too (pids are reused).
bool is_leftover(const std::string& name) {
  const auto pid = parse_temporary_pid(name);
  if (!pid || *pid <= 0) return false;
  return *pid == ::getpid() || (::kill(*pid, 0) != 0 && errno == ESRCH);
}

void put_back(FileSystem& files, const fs::path& from, const fs::path& to) {
  try {
    files.rename(from, to);
    log::note("{} is restored: a process ended while it was rewriting it", to.string());
  } catch (const Error& error) {
    log::warn("{} could not be restored and is still there as {}: {}", to.string(), from.string(), error.message());
  }
}

}  // namespace

void remove_checkpoint_leftovers(FileSystem& files, const fs::path& folder) {
  for (const std::string& name : files.list(folder)) {
    if (!is_leftover(name)) continue;
    const auto step = checkpoint::parse_old_name(name);
    // A process was killed between the two renames of Staging::replace(): the step has only this folder.
    if (step && !files.exists(folder / *step)) {
      put_back(files, folder / name, folder / *step);
    } else {
      remove_quietly(files, folder / name);
    }
  }
}

}  // namespace lockstep
