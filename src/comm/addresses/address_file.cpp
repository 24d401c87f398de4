// SPDX-License-Identifier: Apache-2.0
#include "comm/addresses/address_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdlib>

#include "lockstep/base/error.h"
#include "lockstep/base/file_system.h"
#include "lockstep/base/resources.h"

namespace lockstep::comm {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kLongest = 1024;

bool is_word(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) { return c > 0x20 && c < 0x7F; });
}

void write_all(const UniqueFd& fd, const std::string& text, const fs::path& file) {
  const bool is_written = ::write(fd.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size());
  if (!is_written || ::fsync(fd.get()) != 0) {
    throw IoError(fmt::format("cannot write {} ({})", file.string(), error_words(errno)));
  }
}

// Returns the reason why the open file cannot come from rank 0; "" if it can.
std::string objection(const UniqueFd& fd) {
  struct stat status {};
  if (::fstat(fd.get(), &status) != 0) return error_words(errno);
  if (!S_ISREG(status.st_mode)) return "it is not a regular file";
  if (status.st_uid != ::geteuid()) {
    return fmt::format("it belongs to user {}, but this process runs as user {}", status.st_uid, ::geteuid());
  }
  if ((status.st_mode & 0077U) != 0) {
    return fmt::format("its mode is {:04o}: others may read or change it; rank 0 creates it with 0600",
                       status.st_mode & 07777U);
  }
  return "";
}

}  // namespace

void publish_address(const fs::path& file, const StoreAddress& address) {
  std::string temporary = file.string() + ".XXXXXX";
  const UniqueFd fd(::mkostemp(temporary.data(), O_CLOEXEC));  // new, with mode 0600
  if (!fd.valid()) throw IoError(fmt::format("cannot create {} ({})", temporary, error_words(errno)));
  try {
    write_all(fd, fmt::format("{} {} {}\n", address.host, address.port, address.token), file);
    FileSystem::system().rename(temporary, file);
  } catch (const Error&) {
    ::unlink(temporary.c_str());
    throw;
  }
}

Result<StoreAddress> read_address(const fs::path& file) {
  const UniqueFd fd(::open(file.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
  if (!fd.valid() && errno == ENOENT) return Failure{"rank 0 has not written it"};
  if (!fd.valid()) return Failure{errno == ELOOP ? "it is a symbolic link" : error_words(errno)};
  if (const std::string why = objection(fd); !why.empty()) return Failure{why};
  std::string text(kLongest, '\0');
  const ssize_t got = ::read(fd.get(), text.data(), text.size());
  if (got < 0) return Failure{error_words(errno)};
  return parse_address(std::string_view(text).substr(0, static_cast<std::size_t>(got)));
}

Result<StoreAddress> parse_address(std::string_view text) {
  const Failure torn{"it does not hold an address of rank 0"};
  const auto first = text.find(' ');
  const auto second = first == std::string_view::npos ? first : text.find(' ', first + 1);
  if (second == std::string_view::npos || text.back() != '\n') return torn;
  StoreAddress address{.host = std::string(text.substr(0, first)), .port = 0, .token = {}};
  const char* const end = text.data() + second;
  const auto parsed = std::from_chars(text.data() + first + 1, end, address.port);
  address.token = text.substr(second + 1, text.size() - second - 2);
  const bool is_whole = parsed.ec == std::errc() && parsed.ptr == end && address.port != 0;
  if (!is_whole || !is_word(address.host) || !is_word(address.token)) return torn;
  return address;
}

}  // namespace lockstep::comm
