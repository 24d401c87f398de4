// SPDX-License-Identifier: Apache-2.0
#include "base/stack.h"

#include <cxxabi.h>
#include <dlfcn.h>
#include <elf.h>
#include <execinfo.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <link.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <memory>
#include <string_view>
#include <vector>

namespace lockstep::base {
namespace {

constexpr std::size_t kLongestName = 160;  // template names can be pages long

// ---- the symbols of an ELF file: a program has more of them than it exports ----

struct Mapped {
  const unsigned char* data = nullptr;
  std::uint64_t size = 0;

  template <class T>
  [[nodiscard]] const T* at(std::uint64_t offset, std::uint64_t count = 1) const noexcept {
    if (offset > size || count > (size - offset) / sizeof(T) || offset % alignof(T) != 0) return nullptr;
    return reinterpret_cast<const T*>(data + offset);
  }
};

Mapped map_file(const char* path) noexcept {
  const int file = ::open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return {};
  struct stat facts {};
  Mapped mapped;
  if (::fstat(file, &facts) == 0 && facts.st_size > 0) {
    const auto size = static_cast<std::uint64_t>(facts.st_size);
    void* memory = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file, 0);
    if (memory != MAP_FAILED) mapped = {static_cast<const unsigned char*>(memory), size};
  }
  ::close(file);
  return mapped;
}

/// Returns the mapped file of `path`. Caches the last file, because neighbouring frames are often in the same file.
const Mapped& mapped_file(const char* path) noexcept {
  thread_local Mapped mapped;
  thread_local char known[256] = "";
  if (std::strncmp(known, path, sizeof known) != 0) {
    mapped = map_file(path);
    std::strncpy(known, path, sizeof known - 1);
  }
  return mapped;
}

/// Finds the function that contains `address`, an address in the file.
Frame find_symbol(const Mapped& file, std::uint64_t address) noexcept {
  const auto* header = file.at<ElfW(Ehdr)>(0);
  if (header == nullptr || std::memcmp(header->e_ident, ELFMAG, SELFMAG) != 0) return {};
  const auto* sections = file.at<ElfW(Shdr)>(header->e_shoff, header->e_shnum);
  if (sections == nullptr) return {};
  for (int i = 0; i < header->e_shnum; ++i) {
    const ElfW(Shdr)& table = sections[i];
    if (table.sh_type != SHT_SYMTAB || table.sh_link >= header->e_shnum) continue;
    const ElfW(Shdr)& names = sections[table.sh_link];
    const std::uint64_t count = table.sh_size / sizeof(ElfW(Sym));
    const auto* symbols = file.at<ElfW(Sym)>(table.sh_offset, count);
    const char* text = file.at<char>(names.sh_offset, names.sh_size);
    if (symbols == nullptr || text == nullptr || names.sh_size == 0 || text[names.sh_size - 1] != '\0') continue;
    for (std::uint64_t s = 0; s < count; ++s) {
      const ElfW(Sym)& symbol = symbols[s];
      if ((symbol.st_info & 0xf) != STT_FUNC || symbol.st_name >= names.sh_size) continue;
      if (address < symbol.st_value || address - symbol.st_value >= symbol.st_size) continue;
      return {"", text + symbol.st_name, address - symbol.st_value};
    }
  }
  return {};
}

const char* last_part(const char* path) noexcept {
  const char* slash = std::strrchr(path, '/');
  return slash == nullptr ? path : slash + 1;
}

std::string demangled(const char* name) {
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> text(abi::__cxa_demangle(name, nullptr, nullptr, &status), std::free);
  return status == 0 && text ? text.get() : name;
}

/// Returns true for frames of the runtime between a throw and its handler, and for frames of this file and fault.cpp.
bool is_machinery(std::string_view function) {
  for (const std::string_view part :
       {"_Unwind_", "__cxa_throw", "__cxa_rethrow", "std::rethrow_exception", "capture_stack",
        "lockstep_watch_personality", "__gxx_personality", "std::terminate", "__cxxabiv1::", "on_terminate"}) {
    if (function.find(part) != std::string_view::npos) return true;
  }
  return false;
}

/// Returns true for frames among the program's own that carry no information.
bool is_noise(std::string_view function) {
  if (function.substr(0, 14) == "std::function<") return true;
  for (const std::string_view part : {"lockstep::fault::in_section", "lockstep::fault::detail", "lockstep_watch_call",
                                      "std::__invoke", "std::_Function_handler"}) {
    if (function.find(part) != std::string_view::npos) return true;
  }
  return false;
}

}  // namespace

Stack capture_stack() noexcept {
  Stack stack;
  stack.count = ::backtrace(stack.frames.data(), Stack::kMost);
  return stack;
}

Frame find_frame(const void* address) noexcept {
  Dl_info info{};
  link_map* map = nullptr;
  if (::dladdr1(address, &info, reinterpret_cast<void**>(&map), RTLD_DL_LINKMAP) == 0) return {"?", "", 0};
  const auto value = reinterpret_cast<std::uint64_t>(address);
  const bool is_program = map != nullptr && (map->l_name == nullptr || map->l_name[0] == '\0');
  const char* file = info.dli_fname == nullptr ? "?" : last_part(info.dli_fname);
  if (info.dli_sname != nullptr) return {file, info.dli_sname, value - reinterpret_cast<std::uint64_t>(info.dli_saddr)};
  if (map == nullptr) return {file, "", 0};
  Frame found = find_symbol(mapped_file(is_program ? "/proc/self/exe" : info.dli_fname), value - map->l_addr);
  if (found.function[0] == '\0') found.offset = value - map->l_addr;
  found.file = file;
  return found;
}

std::string to_text(const Stack& stack) {
  std::vector<std::string> functions;
  std::vector<Frame> frames;
  std::size_t first = 0;
  for (int i = 0; i < stack.count; ++i) {
    // A return address belongs to the instruction after the call, which may be in another function.
    frames.push_back(find_frame(static_cast<const char*>(stack.frames[static_cast<std::size_t>(i)]) - 1));
    functions.push_back(demangled(frames.back().function));
    if (is_machinery(functions.back())) first = frames.size();
  }
  std::string text;
  int shown = 0;
  for (std::size_t i = first; i < frames.size(); ++i) {
    if (functions[i].find("__libc_start") != std::string::npos || functions[i] == "_start") break;
    if (is_noise(functions[i])) continue;
    std::string name = functions[i].empty() ? "?" : functions[i];
    if (name.size() > kLongestName) name = name.substr(0, kLongestName) + "...";
    text +=
        fmt::format("{}#{} {}+{:#x} ({})", shown == 0 ? "" : "\n", shown, name, frames[i].offset + 1, frames[i].file);
    ++shown;
    if (functions[i] == "main") break;
  }
  return text;
}

}  // namespace lockstep::base
