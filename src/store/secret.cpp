// SPDX-License-Identifier: Apache-2.0
#include "lockstep/store/secret.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>

#include "lockstep/base/error.h"
#include "lockstep/base/file_system.h"
#include "lockstep/base/resources.h"
#include "lockstep/store/store.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

constexpr const char* kMakeOne = "lockstep run --new-token FILE creates a secret of 64 characters";
constexpr std::size_t kShortest = 16;
constexpr std::size_t kLongest = 4096;

// Opens the file, then checks it. If it checked the path first, the file could be swapped before it is opened.
UniqueFd open_private(const fs::path& file) {
  UniqueFd fd(::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!fd.valid() && errno == ENOENT) {
    throw DataError(
        fmt::format("the token file {} does not exist", file.string()),
        fmt::format("create it with lockstep run --new-token {}; every node needs the same file", file.string()));
  }
  struct stat status {};
  if (!fd.valid() || ::fstat(fd.get(), &status) != 0) {
    throw UsageError(fmt::format("cannot read the token file {} ({})", file.string(), error_words(errno)));
  }
  if (!S_ISREG(status.st_mode)) throw UsageError(fmt::format("the token file {} is not a regular file", file.string()));
  if (status.st_uid != ::geteuid()) {
    throw UsageError(fmt::format("the token file {} belongs to user {}, but this process runs as user {}",
                                 file.string(), status.st_uid, ::geteuid()),
                     "its owner knows the secret: create your own file with lockstep run --new-token FILE");
  }
  if ((status.st_mode & 0077U) != 0) {
    throw UsageError(fmt::format("the token file {} has mode {:04o}: others may read or change it", file.string(),
                                 status.st_mode & 07777U),
                     fmt::format("run chmod 600 {}; if others could read it before, create a new one", file.string()));
  }
  return fd;
}

std::string read_some(const UniqueFd& fd, const fs::path& file) {
  std::string content(kLongest + 1, '\0');
  std::size_t have = 0;
  while (have < content.size()) {
    const ssize_t got = ::read(fd.get(), content.data() + have, content.size() - have);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw IoError(fmt::format("cannot read the token file {} ({})", file.string(), error_words(errno)));
    if (got == 0) break;
    have += static_cast<std::size_t>(got);
  }
  content.resize(have);
  return content;
}

bool is_loopback(const sockaddr& address) {
  if (address.sa_family == AF_INET) {
    return ntohl(reinterpret_cast<const sockaddr_in&>(address).sin_addr.s_addr) >> 24U == 127;
  }
  if (address.sa_family != AF_INET6) return false;
  const in6_addr& six = reinterpret_cast<const sockaddr_in6&>(address).sin6_addr;
  return IN6_IS_ADDR_LOOPBACK(&six) || (IN6_IS_ADDR_V4MAPPED(&six) && six.s6_addr[12] == 127);
}

}  // namespace

void require_secret(const std::string& token, const std::string& source) {
  if (token.size() < kShortest || token.size() > kLongest) {
    throw UsageError(
        fmt::format("{} holds {} characters, but a secret has {} to {}", source, token.size(), kShortest, kLongest),
        kMakeOne);
  }
  const auto is_printable = [](char c) { return c >= 0x20 && c < 0x7F; };
  if (!std::all_of(token.begin(), token.end(), is_printable)) {
    throw UsageError(fmt::format("{} must hold a single line of printable ASCII characters", source), kMakeOne);
  }
}

std::string read_token_file(const fs::path& file) {
  const UniqueFd fd = open_private(file);
  std::string token = read_some(fd, file);
  while (!token.empty() && (token.back() == '\n' || token.back() == '\r')) token.pop_back();
  require_secret(token, fmt::format("the token file {}", file.string()));
  return token;
}

void write_token_file(const fs::path& file) {
  const UniqueFd fd(::open(file.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!fd.valid() && errno == EEXIST) {
    throw UsageError(fmt::format("{} already exists", file.string()),
                     "a run may be using it: remove it yourself, or choose another file");
  }
  if (!fd.valid()) throw IoError(fmt::format("cannot create {} ({})", file.string(), error_words(errno)));
  const std::string line = make_token() + "\n";
  if (::write(fd.get(), line.data(), line.size()) == static_cast<ssize_t>(line.size()) && ::fsync(fd.get()) == 0)
    return;
  const std::string problem = error_words(errno);
  ::unlink(file.c_str());
  throw IoError(fmt::format("cannot write {} ({})", file.string(), problem));
}

bool is_loopback(const std::string& host) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (::getaddrinfo(host.c_str(), nullptr, &hints, &found) != 0) return false;
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(found, &::freeaddrinfo);
  for (const addrinfo* address = found; address != nullptr; address = address->ai_next) {
    if (!is_loopback(*address->ai_addr)) return false;
  }
  return true;
}

}  // namespace lockstep
