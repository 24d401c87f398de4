// SPDX-License-Identifier: Apache-2.0
#include "lockstep/store/secret.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <functional>

#include "lockstep/base/error.h"
#include "lockstep/store/store.h"
#include "support/temp_dir.h"

namespace lockstep {
namespace secret_test {

using ::testing::HasSubstr;

class TokenFile : public ::testing::Test {
 protected:
  std::filesystem::path write(const std::string& content, mode_t mode) const {
    const auto file = folder_ / "token";
    std::filesystem::remove(file);
    std::ofstream(file) << content;
    ::chmod(file.c_str(), mode);
    return file;
  }
  static std::string usage_error(const std::function<void()>& body) {
    try {
      body();
    } catch (const UsageError& error) {
      return error.what();
    }
    return "(no usage error)";
  }

  test::TempDir folder_;
};

TEST_F(TokenFile, ThatIsNewIsThisUsersAndIsReadBack) {
  const auto file = folder_ / "job.token";
  const mode_t before = ::umask(0);
  write_token_file(file);
  ::umask(before);
  struct stat status {};
  ASSERT_EQ(::stat(file.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777U, 0600U);
  EXPECT_EQ(read_token_file(file).size(), 64U);
  EXPECT_THAT(usage_error([&] { write_token_file(file); }), HasSubstr("exists already"));
  std::filesystem::create_symlink(folder_ / "elsewhere", folder_ / "link");
  EXPECT_THAT(usage_error([&] { write_token_file(folder_ / "link"); }), HasSubstr("exists already"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "elsewhere"));
}

TEST_F(TokenFile, MustNotBeOpenToOthers) {
  const std::string token = make_token();
  EXPECT_EQ(read_token_file(write(token + "\n", 0600)), token);
  EXPECT_EQ(read_token_file(write(token, 0400)), token);
  for (const mode_t mode : {0644U, 0640U, 0660U, 0602U}) {
    const auto file = write(token, mode);
    EXPECT_THAT(usage_error([&] { (void)read_token_file(file); }), HasSubstr("chmod 600 " + file.string())) << mode;
  }
}

TEST_F(TokenFile, OfAnotherUserIsRefused) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give a file away";
  const auto file = write(make_token(), 0600);
  ASSERT_EQ(::chown(file.c_str(), 4711, 4711), 0);
  EXPECT_THAT(usage_error([&] { (void)read_token_file(file); }), HasSubstr("belongs to user 4711"));
}

TEST_F(TokenFile, IsARegularFile) {
  const auto fifo = folder_ / "fifo";
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  EXPECT_THAT(usage_error([&] { (void)read_token_file(fifo); }), HasSubstr("no regular file"))
      << "and it is not waited for";
  EXPECT_THAT(usage_error([&] { (void)read_token_file("/dev/zero"); }), HasSubstr("no regular file"));
  EXPECT_THAT(usage_error([&] { (void)read_token_file(folder_.path()); }), HasSubstr("no regular file"));
  EXPECT_THROW((void)read_token_file(folder_ / "missing"), DataError);
}

TEST_F(TokenFile, HoldsASecretOfOneLine) {
  const auto problem = [&](const std::string& content) {
    const auto file = write(content, 0600);
    return usage_error([&] { (void)read_token_file(file); });
  };
  EXPECT_THAT(problem(""), HasSubstr("0 characters"));
  EXPECT_THAT(problem("sesame\n"), HasSubstr("6 characters: a secret has 16"));
  EXPECT_THAT(problem(std::string(10'000, 'x')), HasSubstr("characters"));
  EXPECT_THAT(problem("0123456789abcdef\n0123456789abcdef"), HasSubstr("more than one line"));
  EXPECT_THAT(problem("0123456789abcdef\x1b[0m"), HasSubstr("printable ASCII"));
  EXPECT_THAT(usage_error([] { require_secret("none", "LOCKSTEP_TOKEN"); }), HasSubstr("LOCKSTEP_TOKEN holds 4"));
}

TEST(Loopback, IsWhatNoOtherMachineReaches) {
  for (const char* host : {"127.0.0.1", "127.9.9.9", "::1", "localhost"}) EXPECT_TRUE(is_loopback(host)) << host;
  for (const char* host : {"10.0.0.1", "0.0.0.0", "::", "192.0.2.1", "no.such.host.invalid", "128.0.0.1"}) {
    EXPECT_FALSE(is_loopback(host)) << host;
  }
}

}  // namespace secret_test
}  // namespace lockstep
