// SPDX-License-Identifier: Apache-2.0
// The build defines two lists of folders, separated by ":". LOCKSTEP_CUDA_FOLDERS lists the library folders of an
// install and of the build; LOCKSTEP_TORCH_FOLDERS lists libtorch's. Relative paths are relative to the folder of the
// binary that contains this code.
#include "lockstep/base/cuda_library.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <cstddef>
#include <filesystem>
#include <string_view>

#include "base/this_binary.h"
#include "lockstep/base/nccl_library.h"
#include "lockstep/base/version.h"

// For tools that read this file without the build's options.
#ifndef LOCKSTEP_CUDA_FOLDERS
#define LOCKSTEP_CUDA_FOLDERS ""
#define LOCKSTEP_TORCH_FOLDERS ""
#endif

namespace lockstep::cuda {
namespace {

namespace fs = std::filesystem;

constexpr const char* kFile = "liblockstep-cuda.so";
constexpr const char* kDriver = "libcuda.so.1";
constexpr const char* kEntry = "lockstep_cuda_parts";

using Entry = const void* (*)(const char* version);

bool is_there(const fs::path& file) {
  std::error_code ignored;
  return fs::exists(file, ignored);
}

std::vector<std::string> folders_from(const fs::path& here, std::string_view list) {
  std::vector<std::string> folders;
  while (!list.empty()) {
    const auto colon = list.find(':');
    const std::string_view folder = list.substr(0, colon);
    if (!folder.empty()) folders.push_back((here / folder).lexically_normal());
    list = colon == std::string_view::npos ? std::string_view() : list.substr(colon + 1);
  }
  return folders;
}

/// Returns the folders that the loader searches for this program: RPATH, LD_LIBRARY_PATH and the system folders.
std::vector<std::string> folders_of_loader() {
  void* program = ::dlopen(nullptr, RTLD_LAZY);
  Dl_serinfo count{};
  if (program == nullptr || ::dlinfo(program, RTLD_DI_SERINFOSIZE, &count) != 0) return {};
  std::vector<std::byte> memory(count.dls_size);
  auto* all = reinterpret_cast<Dl_serinfo*>(memory.data());
  *all = count;
  if (::dlinfo(program, RTLD_DI_SERINFO, all) != 0) return {};
  std::vector<std::string> folders;
  for (unsigned i = 0; i < all->dls_cnt; ++i) folders.emplace_back(all->dls_serpath[i].dls_name);
  return folders;
}

/// Returns the path of kFile; empty if it is in none of the folders.
std::string file_in(const std::vector<std::string>& folders) {
  for (const std::string& folder : folders) {
    if (is_there(fs::path(folder) / kFile)) return fs::path(folder) / kFile;
  }
  return "";
}

/// Returns the folder of a libtorch without CUDA; empty if libtorch has CUDA, or no libtorch was found.
std::string torch_without_cuda(const std::vector<std::string>& folders) {
  for (const std::string& folder : folders) {
    if (is_there(fs::path(folder) / "libc10.so")) return is_there(fs::path(folder) / "libtorch_cuda.so") ? "" : folder;
  }
  return "";
}

std::string loader_words() {
  const char* words = ::dlerror();  // per thread in glibc
  return words != nullptr ? words : "the loader reported no reason";
}

Obstacle no_parts() {
  return {Lack::kParts, "this build of Lockstep has no CUDA", "build it with a libtorch for CUDA"};
}

Obstacle no_fit(const std::string& file, const std::string& why) {
  return {Lack::kFit, fmt::format("{} cannot be loaded: {}", file, why),
          "install the library named in this message (pip install torch includes it), or reinstall Lockstep"};
}

/// Returns an obstacle that lies in libtorch or the driver, not in Lockstep's own library.
Obstacle obstacle_around(const Search& search) {
  if (const std::string folder = torch_without_cuda(search.torch_folders); !folder.empty()) {
    return {Lack::kLibtorch, fmt::format("this libtorch has no CUDA ({} has no libtorch_cuda.so)", folder),
            "install a libtorch for CUDA of the same version"};
  }
  if (::dlopen(kDriver, RTLD_LAZY | RTLD_LOCAL | RTLD_NODELETE) == nullptr) {
    return {Lack::kDriver, fmt::format("no NVIDIA driver was found ({})", loader_words()),
            "install the driver; start a container with --gpus all"};
  }
  return {};
}

/// Loads the library as if the program were linked with it. libtorch functions are resolved when they are called.
Library load(const std::string& path) {
  void* handle = ::dlopen(path.c_str(), RTLD_LAZY | RTLD_GLOBAL | RTLD_NODELETE);
  if (handle == nullptr) return {.obstacle = no_fit(kFile, loader_words())};
  const auto entry = reinterpret_cast<Entry>(::dlsym(handle, kEntry));
  const void* parts = entry == nullptr ? nullptr : entry(kVersion);
  if (parts == nullptr) return {.obstacle = no_fit(path, fmt::format("it does not belong to Lockstep {}", kVersion))};
  return {.parts = parts, .path = path};
}

}  // namespace

Search search_from(const std::string& binary, const std::string& torch_folder) {
  const fs::path here = fs::path(binary).parent_path();
  Search search{.folders = {here.lexically_normal()}};
  for (std::string& folder : folders_from(here, LOCKSTEP_CUDA_FOLDERS)) search.folders.push_back(std::move(folder));
  const std::string_view torch = torch_folder.empty() ? std::string_view(LOCKSTEP_TORCH_FOLDERS) : torch_folder;
  search.torch_folders = folders_from(here, torch);
  return search;
}

Search search_of_this_process() {
  Search search = search_from(base::this_binary(), nccl::search_of_this_process().torch_folder);
  for (std::string& folder : folders_of_loader()) search.folders.push_back(std::move(folder));
  return search;
}

Obstacle obstacle_to(const Search& search) {
  return file_in(search.folders).empty() ? no_parts() : obstacle_around(search);
}

Library open(const Search& search) {
  const std::string path = file_in(search.folders);
  if (path.empty()) return {.obstacle = no_parts()};
  const Obstacle around = obstacle_around(search);
  return around.lack == Lack::kNothing ? load(path) : Library{.obstacle = around};
}

const Library& library() {
  static const Library library = open(search_of_this_process());
  return library;
}

}  // namespace lockstep::cuda
