// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/resources.h"

#include <fmt/format.h>
#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <latch>
#include <new>
#include <system_error>
#include <utility>
#include <vector>

#include "lockstep/base/control_group.h"
#include "lockstep/base/signal_guard.h"
#include "lockstep/base/text.h"

namespace lockstep {
namespace {

std::string number(std::uint64_t value) { return text::thousands(static_cast<std::int64_t>(value)); }

std::optional<std::uint64_t> limit_of(__rlimit_resource resource, bool hard) {
  rlimit limit{};
  if (::getrlimit(resource, &limit) != 0) return std::nullopt;
  const rlim_t value = hard ? limit.rlim_max : limit.rlim_cur;
  if (value == RLIM_INFINITY) return std::nullopt;
  return value;
}

std::optional<std::uint64_t> number_in(const std::string& path) {
  std::ifstream file(path);
  std::uint64_t value = 0;
  if (file >> value) return value;
  return std::nullopt;  // "max", or no such file
}

constexpr const char* kRaiseMemory =
    "raise the limit (ulimit -v; the memory of the container or the job), or use less memory: fewer replicas, ranks or "
    "loader workers, or a smaller batch_size";
constexpr const char* kRaiseTasks =
    "raise the limit (ulimit -u; /etc/security/limits.conf, TasksMax= of a service, --pids-limit of a container), or "
    "start fewer ranks, replicas or loader workers";
constexpr const char* kRaiseFiles =
    "raise the hard limit (ulimit -Hn; /etc/security/limits.conf, LimitNOFILE= of a service, --ulimit nofile= of a "
    "container), or start fewer ranks";

std::string memory_limit(const ResourceLimits& limits) {
  if (!limits.address_space) return "the system is out of memory";
  const std::string taken = limits.mapped ? fmt::format(", {} of it in use", text::bytes(*limits.mapped)) : "";
  return fmt::format("{} of address space is allowed (ulimit -v){}", text::bytes(*limits.address_space), taken);
}

// Returns true if there is too little memory for a thread's stack. In that case errno is the same as when the thread
// limit is reached.
bool is_memory_short(const ResourceLimits& limits) {
  if (!limits.address_space || !limits.mapped) return false;
  constexpr std::uint64_t kUsualStack = 8U << 20U;
  constexpr std::uint64_t kBeside = 1U << 20U;  // guard pages and the C library's own memory
  return *limits.mapped + limits.stack.value_or(kUsualStack) + kBeside > *limits.address_space;
}

std::string task_limit(const ResourceLimits& limits) {
  std::vector<std::string> known;
  if (limits.processes) known.push_back(fmt::format("{} for this user (ulimit -u)", number(*limits.processes)));
  if (limits.group_tasks)
    known.push_back(fmt::format("{} for this control group (pids.max)", number(*limits.group_tasks)));
  if (known.empty())
    return "a system limit on threads is reached (kernel.threads-max, kernel.pid_max, vm.max_map_count)";
  return fmt::format("limits on processes and threads: {}", text::join(known));
}

}  // namespace

ResourceLimits resource_limits() {
  ResourceLimits limits{.processes = limit_of(RLIMIT_NPROC, false),
                        .group_tasks = read_control_group().tasks,
                        .address_space = limit_of(RLIMIT_AS, false),
                        .mapped = number_in("/proc/self/statm"),
                        .stack = limit_of(RLIMIT_STACK, false),
                        .files = limit_of(RLIMIT_NOFILE, true)};
  if (limits.mapped) *limits.mapped *= static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  return limits;
}

bool is_shortage(int error) noexcept {
  return error == EMFILE || error == ENFILE || error == EAGAIN || error == ENOMEM || error == ENOBUFS;
}

LimitWords words_of_limit(int error, const ResourceLimits& limits) {
  if (error == EMFILE) {
    return {limits.files ? fmt::format("{} open files are allowed here (ulimit -Hn)", number(*limits.files)) : "",
            kRaiseFiles};
  }
  if (error == ENFILE)
    return {"the system-wide limit on open files is reached (fs.file-max)", "raise fs.file-max with sysctl"};
  if (error == EAGAIN && !is_memory_short(limits)) return {task_limit(limits), kRaiseTasks};
  return {memory_limit(limits), kRaiseMemory};
}

std::string error_words(int error) {
  std::string words = std::generic_category().message(error);
  if (error != EFBIG) return words;
  const auto limit = limit_of(RLIMIT_FSIZE, false);
  if (!limit) return words + ": the file system does not allow larger files";
  return fmt::format("{}: the limit of this shell is {} bytes (ulimit -f)", words, number(*limit));
}

std::string write_remedy(int error) {
  if (error == ENOSPC || error == EDQUOT) return "free space on that disk";
  return error == EFBIG ? "raise the limit: ulimit -f unlimited" : "";
}

ResourceError shortage_error(const std::string& action, int error) {
  const LimitWords words = words_of_limit(error, resource_limits());
  const std::string limit = words.limit.empty() ? "" : ": " + words.limit;
  return ResourceError(fmt::format("cannot {} ({}){}", action, std::generic_category().message(error), limit),
                       words.remedy);
}

void throw_cannot(const std::string& action, int error) {
  if (is_shortage(error)) throw shortage_error(action, error);
  throw IoError(fmt::format("cannot {} ({})", action, error_words(error)), write_remedy(error));
}

std::string thread_name(const std::string& purpose) {
  constexpr std::size_t kMost = 15;  // the kernel's limit
  std::string words = purpose.substr(purpose.find(' ') + 1);
  if (words.size() <= kMost) return words;
  const auto space = words.rfind(' ', kMost);
  return words.substr(0, space == std::string::npos ? kMost : space);
}

std::thread start_thread(const std::string& purpose, std::function<void()> body) {
  const SignalGuard guard;
  try {
    std::thread thread(std::move(body));
    ::pthread_setname_np(thread.native_handle(), thread_name(purpose).c_str());
    return thread;
  } catch (const std::system_error& problem) {
    throw shortage_error("start a thread " + purpose, problem.code().value());
  } catch (const std::bad_alloc&) {
    throw shortage_error("start a thread " + purpose, ENOMEM);
  }
}

void require_threads(int count, const std::string& purpose) {
  std::latch tried(1);
  std::vector<std::thread> threads;
  const auto end_threads = [&] {
    tried.count_down();
    for (std::thread& thread : threads) thread.join();
  };
  try {
    for (int i = 0; i < count; ++i) threads.push_back(start_thread(purpose, [&] { tried.wait(); }));
  } catch (...) {
    end_threads();
    throw;
  }
  end_threads();
}

}  // namespace lockstep
