// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/nccl_library.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <link.h>

#include <filesystem>

#include "lockstep/base/env.h"
#include "lockstep/base/function_finder.h"

namespace lockstep::nccl {
namespace {

namespace fs = std::filesystem;

constexpr const char* kVariable = "LOCKSTEP_NCCL";
constexpr const char* kFile = "libnccl.so.2";

/// Returns the name of the first missing function; empty if none is missing.
std::string find_functions(void* library, Functions& nccl) {
  FunctionFinder finder(library);
  finder.set(nccl.get_version, "ncclGetVersion");
  finder.set(nccl.get_error_string, "ncclGetErrorString");
  finder.set(nccl.get_last_error, "ncclGetLastError");
  finder.set(nccl.get_unique_id, "ncclGetUniqueId");
  finder.set(nccl.comm_init_rank_config, "ncclCommInitRankConfig");
  finder.set(nccl.comm_get_async_error, "ncclCommGetAsyncError");
  finder.set(nccl.comm_finalize, "ncclCommFinalize");
  finder.set(nccl.comm_destroy, "ncclCommDestroy");
  finder.set(nccl.comm_abort, "ncclCommAbort");
  finder.set(nccl.group_start, "ncclGroupStart");
  finder.set(nccl.group_end, "ncclGroupEnd");
  finder.set(nccl.all_reduce, "ncclAllReduce");
  finder.set(nccl.reduce, "ncclReduce");
  finder.set(nccl.broadcast, "ncclBroadcast");
  finder.set(nccl.all_gather, "ncclAllGather");
  finder.set(nccl.reduce_scatter, "ncclReduceScatter");
  finder.set(nccl.send, "ncclSend");
  finder.set(nccl.recv, "ncclRecv");
  return finder.missing();
}

std::string version_text(int code) {
  constexpr int kNewForm = 10'000;  // since 2.9 the minor version has two digits
  if (code < kNewForm) return fmt::format("{}.{}.{}", code / 1000, code / 100 % 10, code % 100);
  return fmt::format("{}.{}.{}", code / 10'000, code / 100 % 100, code % 100);
}

std::string path_of(void* handle, const std::string& asked) {
  const link_map* map = nullptr;
  if (::dlinfo(handle, RTLD_DI_LINKMAP, &map) != 0 || map->l_name[0] == '\0') return asked;
  return fs::path(map->l_name).lexically_normal().string();
}

Library library_of(void* handle, const std::string& asked) {
  Library library{.path = path_of(handle, asked)};
  const std::string missing = find_functions(handle, library.functions);
  int code = 0;
  if (library.functions.get_version != nullptr && library.functions.get_version(&code) == kSuccess) {
    library.version = version_text(code);
  }
  if (code < kOldestVersion && !library.version.empty()) {
    library.problem = fmt::format("{} is NCCL {}, but Lockstep needs {} or later", library.path, library.version,
                                  version_text(kOldestVersion));
  } else if (!missing.empty()) {
    library.problem = fmt::format("{} has no function {}", library.path, missing);
  } else if (library.version.empty()) {
    library.problem = fmt::format("{} does not report its version", library.path);
  }
  return library;
}

/// If the user names a library other than the loaded one, it must find its own functions before those of the loaded
/// one. The address sanitizer does not allow RTLD_DEEPBIND.
int flags_of(const Search& search) {
  constexpr int kFlags = RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE;
#if defined(__SANITIZE_ADDRESS__)
  constexpr int kOwnFirst = 0;
#else
  constexpr int kOwnFirst = RTLD_DEEPBIND;
#endif
  return search.named.empty() || search.loaded.empty() ? kFlags : kFlags | kOwnFirst;
}

std::string why_not(const Search& search, const std::string& said) {
  if (!search.named.empty()) return fmt::format("{}={} cannot be loaded: {}", kVariable, search.named, said);
  return fmt::format("NCCL cannot be loaded: {}", said);
}

/// Returns true if `name` is a file of libtorch, such as "libtorch_cuda.so", even with a version at its end.
bool is_libtorch_file(const std::string& name) {
  for (const char* known : {"libc10.so", "libtorch.so", "libtorch_cpu.so", "libtorch_cuda.so"}) {
    if (name.starts_with(known)) return true;
  }
  return false;
}

int note_file(dl_phdr_info* info, std::size_t /*size*/, void* files) {
  if (info->dlpi_name != nullptr) static_cast<std::vector<std::string>*>(files)->emplace_back(info->dlpi_name);
  return 0;
}

}  // namespace

std::string named_by_user() { return env::get(kVariable).value_or(""); }

Search search_among(const std::vector<std::string>& files) {
  Search search;
  for (const std::string& file : files) {
    const fs::path path = file;
    const std::string name = path.filename().string();
    if (search.loaded.empty() && name.starts_with(kFile)) search.loaded = path.string();
    if (search.torch_folder.empty() && is_libtorch_file(name)) search.torch_folder = path.parent_path().string();
  }
  return search;
}

Search search_of_this_process() {
  std::vector<std::string> files;
  ::dl_iterate_phdr(note_file, &files);
  Search search = search_among(files);
  search.named = named_by_user();
  Dl_info own{};  // libtorch_cuda may contain NCCL
  void* function = ::dlsym(RTLD_DEFAULT, "ncclGetVersion");
  if (function != nullptr && ::dladdr(function, &own) != 0) search.loaded = own.dli_fname;
  return search;
}

std::vector<std::string> places(const Search& search) {
  if (!search.named.empty()) return {search.named};
  if (!search.loaded.empty()) return {search.loaded};
  if (search.torch_folder.empty()) return {kFile};
  const fs::path torch = search.torch_folder;
  return {(torch / kFile).lexically_normal(), (torch / "../../nvidia/nccl/lib" / kFile).lexically_normal(), kFile};
}

Library open(const Search& search) {
  std::string said;
  for (const std::string& place : places(search)) {
    std::error_code ignored;
    const bool may_be_missing = search.named.empty() && search.loaded.empty() && place != kFile;
    if (may_be_missing && !fs::exists(place, ignored)) continue;
    if (void* handle = ::dlopen(place.c_str(), flags_of(search))) return library_of(handle, place);
    const char* why = ::dlerror();  // per thread in glibc
    if (said.empty()) said = why != nullptr ? why : place;
  }
  return {.problem = why_not(search, said)};
}

const Library& library() {
  static const Library library = open(search_of_this_process());
  return library;
}

}  // namespace lockstep::nccl
