// SPDX-License-Identifier: Apache-2.0
#include "tensor/kernel_compiler.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <vector>

#include "lockstep/base/function_finder.h"
#include "lockstep/base/nccl_library.h"

namespace lockstep::tensor {
namespace {

using Program = void*;

/// The functions of NVRTC that this file calls, as in nvrtc.h since CUDA 11.2. A result of 0 is success.
struct Compiler {
  int (*version)(int* major, int* minor) = nullptr;
  int (*arch_count)(int* count) = nullptr;
  int (*archs)(int* list) = nullptr;
  int (*create)(Program*, const char* text, const char* name, int headers, const char* const*,
                const char* const*) = nullptr;
  int (*compile)(Program, int count, const char* const* options) = nullptr;
  int (*log_size)(Program, std::size_t*) = nullptr;
  int (*log)(Program, char*) = nullptr;
  int (*cubin_size)(Program, std::size_t*) = nullptr;
  int (*cubin)(Program, char*) = nullptr;
  int (*ptx_size)(Program, std::size_t*) = nullptr;
  int (*ptx)(Program, char*) = nullptr;
  int (*destroy)(Program*) = nullptr;
  std::string problem;
};

/// libtorch's NVRTC library comes first: it depends on the real NVRTC, which only its own search path finds.
constexpr std::array kFiles{"libcaffe2_nvrtc.so", "libnvrtc.so.13", "libnvrtc.so.12"};

/// Loads the functions. Returns the name of the first missing function; empty if none is missing.
std::string find_functions(void* library, Compiler& compiler) {
  FunctionFinder finder(library);
  finder.set(compiler.version, "nvrtcVersion");
  finder.set(compiler.arch_count, "nvrtcGetNumSupportedArchs");
  finder.set(compiler.archs, "nvrtcGetSupportedArchs");
  finder.set(compiler.create, "nvrtcCreateProgram");
  finder.set(compiler.compile, "nvrtcCompileProgram");
  finder.set(compiler.log_size, "nvrtcGetProgramLogSize");
  finder.set(compiler.log, "nvrtcGetProgramLog");
  finder.set(compiler.cubin_size, "nvrtcGetCUBINSize");
  finder.set(compiler.cubin, "nvrtcGetCUBIN");
  finder.set(compiler.ptx_size, "nvrtcGetPTXSize");
  finder.set(compiler.ptx, "nvrtcGetPTX");
  finder.set(compiler.destroy, "nvrtcDestroyProgram");
  return finder.missing();
}

/// Loads NVRTC's builtins library. NVRTC opens it by name without a path, which works if it is already loaded.
void load_builtins(const Compiler& compiler) {
  Dl_info info{};
  int major = 0;
  int minor = 0;
  if (::dladdr(reinterpret_cast<void*>(compiler.version), &info) == 0 || compiler.version(&major, &minor) != 0) return;
  const std::filesystem::path folder = std::filesystem::path(info.dli_fname).parent_path();
  (void)::dlopen((folder / fmt::format("libnvrtc-builtins.so.{}.{}", major, minor)).c_str(), RTLD_NOW | RTLD_NODELETE);
}

Compiler load_compiler() {
  Compiler compiler;
  std::string said;
  const std::filesystem::path torch = nccl::search_of_this_process().torch_folder;
  for (const std::filesystem::path& file : {torch / kFiles[0], std::filesystem::path(kFiles[0]),
                                            std::filesystem::path(kFiles[1]), std::filesystem::path(kFiles[2])}) {
    void* library = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (library == nullptr) {
      said = ::dlerror();
      continue;
    }
    const std::string missing = find_functions(library, compiler);
    if (missing.empty()) {
      load_builtins(compiler);
      return compiler;
    }
    said = fmt::format("{} has no function {}", file.string(), missing);
  }
  compiler.problem = fmt::format("NVRTC cannot be loaded: {}", said);
  return compiler;
}

/// Returns the newest architecture that the compiler supports and the GPU can run; 0 if there is none.
int newest_arch(const Compiler& compiler, int capability) {
  int count = 0;
  if (compiler.arch_count(&count) != 0 || count <= 0) return 0;
  std::vector<int> known(static_cast<std::size_t>(count));
  if (compiler.archs(known.data()) != 0) return 0;
  int newest = 0;
  for (const int arch : known) {
    if (arch <= capability) newest = std::max(newest, arch);
  }
  return newest;
}

template <class Size, class Copy>
std::string text_of(Program program, Size size, Copy copy) {
  std::size_t bytes = 0;
  if (size(program, &bytes) != 0) return "";
  std::string text(bytes, '\0');
  return copy(program, text.data()) == 0 ? text : "";
}

}  // namespace

CompiledKernels compile_kernels(const KernelSource& source, int capability) {
  static const Compiler compiler = load_compiler();
  if (!compiler.problem.empty()) return {.problem = compiler.problem};
  const int arch = newest_arch(compiler, capability);
  if (arch == 0) return {.problem = fmt::format("NVRTC supports no GPU of compute capability {} or older", capability)};
  const bool exact = arch == capability;
  const std::string option = fmt::format("--gpu-architecture={}_{}", exact ? "sm" : "compute", arch);
  const std::array options{option.c_str(), "-std=c++17"};
  const std::string text = std::string(source.before) + source.text;
  Program program = nullptr;
  if (compiler.create(&program, text.c_str(), source.name, 0, nullptr, nullptr) != 0) {
    return {.problem = "NVRTC cannot create a program"};
  }
  CompiledKernels found;
  if (compiler.compile(program, static_cast<int>(options.size()), options.data()) != 0) {
    found.problem = fmt::format("NVRTC cannot compile {}: {}", source.name,
                                text_of(program, compiler.log_size, compiler.log).c_str());
  } else if (exact) {
    found.image = text_of(program, compiler.cubin_size, compiler.cubin);
  } else {
    found.image = text_of(program, compiler.ptx_size, compiler.ptx);
  }
  (void)compiler.destroy(&program);
  if (found.image.empty() && found.problem.empty()) found.problem = "NVRTC returned no result";
  return found;
}

}  // namespace lockstep::tensor
