// SPDX-License-Identifier: Apache-2.0
// Looks up OpenBLAS's functions by name, because base links neither libtorch nor a BLAS.
#include "lockstep/base/blas.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>

#include "lockstep/base/env.h"

namespace lockstep::blas {
namespace {

constexpr const char* kVariable = "OPENBLAS_CORETYPE";

/// The vector width of a core type's kernels.
enum class Kind { kOlder, kAvx2, kAvx512 };

Kind kind_of(std::string_view core) {
  constexpr std::array<std::string_view, 3> kWide = {"SkylakeX", "Cooperlake", "SapphireRapids"};
  constexpr std::array<std::string_view, 2> kMiddle = {"Haswell", "Zen"};
  if (std::find(kWide.begin(), kWide.end(), core) != kWide.end()) return Kind::kAvx512;
  return std::find(kMiddle.begin(), kMiddle.end(), core) != kMiddle.end() ? Kind::kAvx2 : Kind::kOlder;
}

Kind kind_of(const CpuFeatures& features) {
  if (features.avx512) return Kind::kAvx512;
  return features.avx2 ? Kind::kAvx2 : Kind::kOlder;
}

using Text = const char* (*)();
using Action = void (*)();

template <class Function>
Function find(void* library, const char* name) {
  return reinterpret_cast<Function>(dlsym(library, name));  // the usual cast for dlsym()
}

std::string text_of(void* library, const char* name) {
  const auto function = find<Text>(library, name);
  const char* text = function == nullptr ? nullptr : function();
  return text == nullptr ? "" : text;
}

std::string core_of(void* library) { return text_of(library, "openblas_get_corename"); }

/// Returns "OpenBLAS 0.3.21" from "OpenBLAS 0.3.21 NO_LAPACKE DYNAMIC_ARCH ...".
std::string version_of(void* library) {
  const std::string config = text_of(library, "openblas_get_config");
  return config.substr(0, config.find(' ', config.find(' ') + 1));
}

/// The decision of choose_kernels(), for loaded().
struct Chosen {
  std::string detected;
  bool by_user = false;
};

Chosen& chosen() {
  static Chosen state{.detected = {}, .by_user = env::get(kVariable).has_value()};
  return state;
}

/// OpenBLAS reads the variable only during its initialization, so this reruns it. Returns false if that is impossible.
bool set_up_again(const std::string& core) {
  const auto quit = find<Action>(RTLD_DEFAULT, "gotoblas_dynamic_quit");
  const auto start = find<Action>(RTLD_DEFAULT, "gotoblas_dynamic_init");
  if (quit == nullptr || start == nullptr) return false;
  ::setenv(kVariable, core.c_str(), 1);
  quit();
  start();
  ::unsetenv(kVariable);  // child programs choose for themselves
  return true;
}

/// Returns the core type that the system's OpenBLAS chooses; empty if there is none. Asks in a child process, because a
/// launcher runs as long as its ranks and should not keep 36 MB of kernels in memory. The C library lets a child load
/// libraries after a fork.
std::string ask_in_a_child() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return "";
  const pid_t child = ::fork();
  if (child == 0) {
    void* library = dlopen("libopenblas.so.0", RTLD_LAZY | RTLD_LOCAL);
    const std::string core = library == nullptr ? "" : core_of(library);
    (void)!::write(ends[1], core.data(), core.size());
    ::_exit(0);
  }
  ::close(ends[1]);
  // If memory is short, OpenBLAS retries forever.
  constexpr int kPatienceMs = 2000;
  pollfd answer{ends[0], POLLIN, 0};
  const bool answered = child > 0 && ::poll(&answer, 1, kPatienceMs) > 0;
  std::array<char, 64> core{};
  const ssize_t size = answered ? ::read(ends[0], core.data(), core.size()) : -1;  // the whole name, or end of file
  ::close(ends[0]);
  if (child > 0 && !answered) ::kill(child, SIGKILL);
  while (child > 0 && ::waitpid(child, nullptr, 0) < 0 && errno == EINTR) {
  }
  return size > 0 ? std::string(core.data(), static_cast<std::size_t>(size)) : "";
}

}  // namespace

CpuFeatures cpu_features() {
  CpuFeatures features;
#if defined(__x86_64__)
  __builtin_cpu_init();
  features.avx2 = __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0;
  features.avx512 = __builtin_cpu_supports("avx512f") != 0 && __builtin_cpu_supports("avx512cd") != 0 &&
                    __builtin_cpu_supports("avx512bw") != 0 && __builtin_cpu_supports("avx512dq") != 0 &&
                    __builtin_cpu_supports("avx512vl") != 0;
  features.avx512_bf16 = features.avx512 && __builtin_cpu_supports("avx512bf16") != 0;
#endif
  return features;
}

std::string better_core(std::string_view core, const CpuFeatures& features) {
  if (kind_of(core) >= kind_of(features)) return "";
  if (features.avx512_bf16) return "Cooperlake";
  return features.avx512 ? "SkylakeX" : "Haswell";
}

std::string Library::text() const {
  if (core.empty()) return version;
  std::string text = fmt::format("{}, {} kernels", version, core);
  if (by_user) return text + fmt::format(" ({} was set)", kVariable);
  if (!detected.empty()) return text + fmt::format(" (it detected this processor as a {})", detected);
  const std::string better = better_core(core, cpu_features());
  return better.empty() ? text
                        : text + fmt::format("; {}={} is faster here: set it before starting", kVariable, better);
}

std::optional<Library> loaded() {
  std::string core = core_of(RTLD_DEFAULT);
  if (core.empty()) return std::nullopt;
  return Library{version_of(RTLD_DEFAULT), std::move(core), chosen().detected, chosen().by_user};
}

bool choose_kernels() {
  if (chosen().by_user) return false;
  const std::string detected = core_of(RTLD_DEFAULT);
  if (detected.empty()) return false;
  const std::string better = better_core(detected, cpu_features());
  if (better.empty() || !set_up_again(better) || core_of(RTLD_DEFAULT) == detected) return false;
  chosen().detected = detected;
  return true;
}

std::string core_for_programs() {
  if (env::get(kVariable) || kind_of(cpu_features()) == Kind::kOlder) return "";
  std::string own = core_of(RTLD_DEFAULT);
  // If this process has already chosen, the name reflects that choice.
  if (!chosen().detected.empty()) return own;
  const std::string core = own.empty() ? ask_in_a_child() : own;
  return core.empty() ? "" : better_core(core, cpu_features());
}

}  // namespace lockstep::blas
