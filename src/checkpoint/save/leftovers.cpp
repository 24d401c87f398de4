// SPDX-License-Identifier: Apache-2.0
// Removes the leftovers of dead writers from a "checkpoints" folder.
#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/folder/folder.h"
#include "checkpoint/formats/hash.h"
#include "lockstep/base/error.h"
#include "lockstep/base/file_system.h"
#include "lockstep/base/log.h"
#include "lockstep/base/process_stat.h"
#include "lockstep/checkpoint/checkpoint.h"

namespace lockstep {

namespace fs = std::filesystem;
using namespace checkpoint;  // NOLINT(google-build-using-namespace): this file is of that namespace

namespace {

std::string own_host() {
  char name[256] = {};
  (void)::gethostname(name, sizeof name - 1);
  return host_mark(name);
}

bool is_zombie(pid_t pid) {
  const UniqueFd file(::open(fmt::format("/proc/{}/stat", pid).c_str(), O_RDONLY | O_CLOEXEC));
  char text[128];
  const ssize_t length = ::read(file.get(), text, sizeof text);  // -1 if the process is gone
  const std::string_view fields = fields_of_stat({text, static_cast<std::size_t>(std::max<ssize_t>(length, 0))});
  return !fields.empty() && is_state_of_ended(fields.front());
}

bool has_ended(pid_t pid) { return (::kill(pid, 0) != 0 && errno == ESRCH) || is_zombie(pid); }

bool is_of_own_host(std::string_view name) {
  const std::string_view host = parse_temporary_host(name);
  return host.empty() || host == own_host();
}

/// Returns true for an unfinished entry of a dead process. Only one thread per process commits to a folder, so an entry
/// with this process's pid is also a leftover: pids are reused.
bool is_leftover(const std::string& name, bool of_all_hosts) {
  const auto pid = parse_temporary_pid(name);
  if (!pid || *pid <= 0) return false;
  if (!is_of_own_host(name)) return of_all_hosts;
  return *pid == ::getpid() || has_ended(*pid);
}

void put_back(FileSystem& files, const fs::path& from, const fs::path& to) {
  try {
    files.rename(from, to);
    log::note("{} was restored: a process ended while rewriting it", to.string());
  } catch (const Error& error) {
    log::warn("{} could not be restored and is still there as {}: {}", to.string(), from.string(), error.message());
  }
}

/// Renames an entry of another host to one of this process. If the folder has no lock, its writer may be alive; it then
/// cannot give a folder its final name after some of the files have been removed.
fs::path take_over(FileSystem& files, const fs::path& folder, const std::string& name) {
  if (is_of_own_host(name)) return folder / name;
  fs::path taken = folder / checkpoint::own_temporary_name("leftover-" + digest_of(name).xxh3_128);
  files.rename(folder / name, taken);
  return taken;
}

void remove_entry(FileSystem& files, const fs::path& folder, const std::string& name) noexcept {
  try {
    files.remove(take_over(files, folder, name));
  } catch (const std::exception& error) {
    log::debug("{}", error.what());
  }
}

void remove_leftovers(FileSystem& files, const fs::path& folder, bool of_all_hosts) {
  std::vector<std::string> doomed;
  for (const std::string& name : files.list(folder)) {
    if (!is_leftover(name, of_all_hosts)) continue;
    const auto step = checkpoint::parse_old_name(name);
    // If a process was killed between the two renames of Staging::replace(), this folder is the only one left for its
    // step.
    if (step && !files.exists(folder / *step)) {
      put_back(files, folder / name, folder / *step);
    } else {
      doomed.push_back(name);
    }
  }
  // The process may have been killed before it synced this name. Without the sync, a power cut could restore the
  // folder's earlier name, that of a step, after some of its files have been removed.
  if (!doomed.empty()) files.sync_folder(folder);
  for (const std::string& name : doomed) remove_entry(files, folder, name);
}

}  // namespace

void remove_checkpoint_leftovers(FileSystem& files, const fs::path& folder) { remove_leftovers(files, folder, true); }

void checkpoint::remove_leftovers_of_host(FileSystem& files, const fs::path& folder) {
  remove_leftovers(files, folder, false);
}

std::string checkpoint::own_temporary_name(std::string_view name) {
  return temporary_name(name, ::getpid(), own_host());
}

}  // namespace lockstep
