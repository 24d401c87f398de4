// SPDX-License-Identifier: Apache-2.0
// A checkpoint from a server in this process, which shows a step folder's files.
#include "lockstep/checkpoint/fetch_checkpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "checkpoint/states.h"
#include "lockstep/base/error.h"
#include "lockstep/checkpoint/inspect.h"
#include "support/http_server.h"
#include "support/temp_dir.h"

namespace lockstep {
namespace fetch_checkpoint_test {

namespace fs = std::filesystem;
using test::http_answer;
using test::HttpServer;
using ::testing::HasSubstr;

class FetchCheckpoint : public ::testing::Test {
 protected:
  FetchCheckpoint() {
    step_ = commit_checkpoint(FileSystem::system(), folder_ / "checkpoints", {.step = 12}, test::states_of(3),
                              {{"config.yml", "seed: 1\n"}});
  }

  FetchOptions options() const {
    return {.cache = cache_.path(), .tries = 1, .first_wait = std::chrono::milliseconds(0)};
  }

  std::string error_of(const std::string& url) const {
    try {
      (void)fetch_checkpoint(url, options());
    } catch (const DataError& error) {
      return error.what();
    }
    return "";
  }

  test::TempDir folder_;
  test::TempDir cache_;
  fs::path step_;
  HttpServer server_{[this](const std::string& request, std::size_t) {
    const auto begin = request.find("/runs/a/") + 8;
    const std::string name = request.substr(begin, request.find_first_of(" ?", begin) - begin);
    if (request.find("/runs/a/") == std::string::npos || !fs::exists(step_ / name)) {
      return http_answer("404 Not Found", "", "");
    }
    return http_answer("200 OK", "ETag: \"v1\"\r\n", FileSystem::system().read(step_ / name, 64U << 20U));
  }};
};

TEST_F(FetchCheckpoint, BringsAWholeStepFolderOnce) {
  const fs::path path = fetch_checkpoint(server_.url("/runs/a/"), options());
  EXPECT_EQ(path.filename(), "step-00000012");
  const Checkpoint checkpoint = load_checkpoint(path.string());
  EXPECT_TRUE(test::is_of(checkpoint, 3));
  EXPECT_EQ(checkpoint.text("config.yml"), "seed: 1\n");
  const std::size_t requests = server_.requests().size();
  EXPECT_EQ(requests, 4U) << "the manifest, two states and a text";
  EXPECT_EQ(fetch_checkpoint(server_.url("/runs/a"), options()), path);
  EXPECT_EQ(server_.requests().size(), requests);
}

TEST_F(FetchCheckpoint, KeepsTheQueryOfASignedUrl) {
  EXPECT_EQ(fetch_checkpoint(server_.url("/runs/a?key=1"), options()).filename(), "step-00000012");
  EXPECT_THAT(server_.requests()[1], HasSubstr("/runs/a/config.yml?key=1 "));
}

TEST_F(FetchCheckpoint, NeverTakesBytesThatTheManifestDoesNotKnow) {
  const std::string whole = FileSystem::system().read(step_ / "model.safetensors");
  fs::resize_file(step_ / "model.safetensors", whole.size() - 1);
  EXPECT_THAT(error_of(server_.url("/runs/a")), HasSubstr("/runs/a/model.safetensors is torn: "));
  write_file_atomically(FileSystem::system(), step_ / "model.safetensors", whole);
  EXPECT_EQ(fetch_checkpoint(server_.url("/runs/a"), options()).filename(), "step-00000012")
      << "the bad one was not kept";
}

TEST_F(FetchCheckpoint, TakesNoMoreThanTheManifestSays) {
  const std::string whole = FileSystem::system().read(step_ / "config.yml");
  write_file_atomically(FileSystem::system(), step_ / "config.yml", whole + std::string(100'000, '#'));
  EXPECT_THAT(error_of(server_.url("/runs/a?key=hidden")), HasSubstr("at most 8 B are fetched"));
  EXPECT_THAT(error_of(server_.url("/runs/a?key=hidden")), ::testing::Not(HasSubstr("hidden")));
}

TEST_F(FetchCheckpoint, TakesNoManifestOfMoreThan16MiB) {
  write_file_atomically(FileSystem::system(), step_ / "manifest.json", std::string((16U << 20U) + 1, ' '));
  EXPECT_THAT(error_of(server_.url("/runs/a")), HasSubstr("at most 16.8 MB are fetched"));
}

TEST_F(FetchCheckpoint, PromisesNoHashThatItDoesNotCompare) {
  EXPECT_THROW((void)fetch_checkpoint(server_.url("/runs/a#sha256=" + std::string(64, '0')), options()), UsageError);
  EXPECT_EQ(server_.requests().size(), 0U);
}

TEST_F(FetchCheckpoint, SaysThatThereIsNone) {
  EXPECT_THAT(error_of(server_.url("/runs/b")), HasSubstr("404"));
  write_file_atomically(FileSystem::system(), step_ / "manifest.json", "<html>\n");
  EXPECT_THAT(error_of(server_.url("/runs/a")), HasSubstr("is no manifest"));
}

}  // namespace fetch_checkpoint_test
}  // namespace lockstep
