// SPDX-License-Identifier: Apache-2.0
// Files by URL, from a server in this process that drops connections, changes its response and falls silent.
#include "lockstep/checkpoint/fetch.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <future>
#include <latch>
#include <optional>

#include "checkpoint/fetch/fetch_url.h"
#include "checkpoint/formats/sha256.h"
#include "checkpoint/small_disk.h"
#include "lockstep/base/error.h"
#include "lockstep/base/file_system.h"
#include "support/fault_of.h"
#include "support/http_server.h"
#include "support/temp_dir.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;
using test::fault_of;
using test::header_of;
using test::http_answer;
using test::HttpAnswer;
using test::HttpServer;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

std::string no_mounts;  // why this machine does not allow mounts; empty if it does

const std::string kV1 = "ETag: \"v1\"\r\n";
const std::string kV2 = "ETag: \"v2\"\r\n";

std::string content(std::size_t size, char first = 'a') {
  std::string text;
  for (std::size_t i = 0; i < size; ++i) text += static_cast<char>(first + i % 23);
  return text;
}

std::string read(const fs::path& path) { return FileSystem::system().read(path); }

std::string sha256(const std::string& text) {
  checkpoint::Sha256 hash;
  hash.update(text);
  return hash.hex();
}

/// Announces all of `body`, but closes the connection after `count` bytes.
HttpAnswer cut_answer(const std::string& headers, const std::string& body, std::size_t count) {
  HttpAnswer answer = http_answer("200 OK", headers, body);
  answer.bytes.resize(answer.bytes.size() - (body.size() - count));
  return answer;
}

HttpAnswer rest_answer(const std::string& headers, const std::string& body, std::size_t from) {
  return http_answer("206 Partial Content",
                     fmt::format("{}Content-Range: bytes {}-{}/{}\r\n", headers, from, body.size() - 1, body.size()),
                     body.substr(from));
}

FetchOptions options_of(const fs::path& cache) {
  return {.cache = cache, .first_wait = std::chrono::milliseconds(0), .stall_limit = std::chrono::seconds(5)};
}

/// The names of all files under `folder` except locks.
std::vector<std::string> files_in(const fs::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file() && entry.path().extension() != ".lock") names.push_back(entry.path().filename());
  }
  std::sort(names.begin(), names.end());
  return names;
}

TEST(Fetch, BringsAWholeFileOnceAndThenFindsItInTheCache) {
  const test::TempDir cache;
  const std::string body = content(300'000);
  HttpServer server([&](const std::string&, std::size_t) { return http_answer("200 OK", kV1, body); });
  const fs::path path = fetch(server.url("/models/net%201.pth?token=1"), options_of(cache.path()));
  EXPECT_EQ(read(path), body);
  EXPECT_EQ(path.filename(), "net_1.pth");
  EXPECT_THAT(files_in(cache.path()), ElementsAre("net_1.pth"));
  EXPECT_EQ(fetch(server.url("/models/net%201.pth?token=1"), options_of(cache.path())), path);
  ASSERT_THAT(server.requests(), SizeIs(1));
  EXPECT_THAT(server.requests()[0], HasSubstr("GET /models/net%201.pth?token=1 HTTP/1.1"));
  EXPECT_EQ(header_of(server.requests()[0], "Range"), "");
}

TEST(Fetch, BringsAnEmptyFile) {
  const test::TempDir cache;
  HttpServer server([&](const std::string&, std::size_t) { return http_answer("200 OK", kV1, ""); });
  EXPECT_EQ(read(fetch(server.url("/"), options_of(cache.path()))), "");
}

TEST(Fetch, GoesOnWhereAConnectionBroke) {
  const test::TempDir cache;
  const std::string body = content(100'000);
  HttpServer server([&](const std::string&, std::size_t number) {
    if (number == 0) return cut_answer(kV1, body, 40'000);
    HttpAnswer answer = rest_answer(kV1, body, number == 1 ? 40'000 : 70'000);
    if (number == 1) answer.bytes.resize(answer.bytes.size() - 30'000);
    return answer;
  });
  EXPECT_EQ(read(fetch(server.url("/a"), options_of(cache.path()))), body);
  ASSERT_THAT(server.requests(), SizeIs(3));
  EXPECT_EQ(header_of(server.requests()[1], "Range"), "bytes=40000-");
  EXPECT_EQ(header_of(server.requests()[1], "If-Range"), "\"v1\"");
  EXPECT_EQ(header_of(server.requests()[2], "Range"), "bytes=70000-");
}

TEST(Fetch, GoesOnInALaterCall) {
  const test::TempDir cache;
  const std::string body = content(1000);
  HttpServer server([&](const std::string&, std::size_t number) {
    return number == 0 ? cut_answer(kV1, body, 400) : rest_answer(kV1, body, 400);
  });
  FetchOptions once = options_of(cache.path());
  once.tries = 1;
  const std::string error = fault_of<IoError>([&] { (void)fetch(server.url("/a"), once); });
  EXPECT_THAT(error, AllOf(HasSubstr("cannot fetch " + server.url("/a")), HasSubstr("resumes after 400 B")));
  EXPECT_THAT(files_in(cache.path()), ElementsAre("a.part", "a.part.tag"));
  EXPECT_EQ(read(fetch(server.url("/a"), once)), body);
  EXPECT_EQ(header_of(server.requests()[1], "Range"), "bytes=400-");
  EXPECT_THAT(files_in(cache.path()), ElementsAre("a"));
}

TEST(Fetch, TakesAPartThatWasWholeWhenItsProcessWasKilled) {
  const test::TempDir cache;
  const std::string body = content(1000);
  HttpServer server([&](const std::string&, std::size_t) {
    return http_answer("416 Range Not Satisfiable", kV1 + "Content-Range: bytes */1000\r\n", "");
  });
  const fs::path path = checkpoint::cached_path(cache.path(), checkpoint::parse_fetch_url(server.url("/a"), ""));
  fs::create_directories(path.parent_path());
  std::ofstream(path.string() + ".part") << body;
  std::ofstream(path.string() + ".part.tag") << "\"v1\"";
  EXPECT_EQ(read(fetch(server.url("/a"), options_of(cache.path()))), body);
  EXPECT_THAT(server.requests(), SizeIs(1));
}

TEST(Fetch, StartsOverWhereTheServerHasNoRanges) {
  const test::TempDir cache;
  const std::string body = content(1000);
  HttpServer server([&](const std::string&, std::size_t number) {
    return number == 0 ? cut_answer(kV1, body, 400) : http_answer("200 OK", kV1, body);
  });
  EXPECT_EQ(read(fetch(server.url("/a"), options_of(cache.path()))), body);
}

TEST(Fetch, StartsOverWhereTheContentHasNoName) {
  const test::TempDir cache;
  const std::string body = content(1000);
  HttpServer server([&](const std::string&, std::size_t number) {
    return number == 0 ? cut_answer("ETag: W/\"v1\"\r\n", body, 400) : http_answer("200 OK", "", body);
  });
  FetchOptions once = options_of(cache.path());
  once.tries = 1;
  EXPECT_THROW((void)fetch(server.url("/a"), once), IoError);
  EXPECT_EQ(read(fetch(server.url("/a"), once)), body);
  EXPECT_EQ(header_of(server.requests()[1], "Range"), "");
}

TEST(Fetch, StartsOverWhereTheContentHasChanged) {
  const test::TempDir cache;
  const std::string old_body = content(1000);
  const std::string new_body = content(900, 'A');
  HttpServer server([&](const std::string&, std::size_t number) {
    return number == 0 ? cut_answer(kV1, old_body, 400) : http_answer("200 OK", kV2, new_body);
  });
  EXPECT_EQ(read(fetch(server.url("/a"), options_of(cache.path()))), new_body);
}

TEST(Fetch, NeverPutsPartsOfTwoContentsTogether) {
  const test::TempDir cache;
  const std::string old_body = content(1000);
  const std::string new_body = content(1000, 'A');
  HttpServer server([&](const std::string& request, std::size_t number) {
    if (number == 0) return cut_answer(kV1, old_body, 400);
    // This server does not support If-Range.
    return header_of(request, "Range").empty() ? http_answer("200 OK", kV2, new_body) : rest_answer(kV2, new_body, 400);
  });
  EXPECT_EQ(read(fetch(server.url("/a"), options_of(cache.path()))), new_body);
  EXPECT_THAT(server.requests(), SizeIs(3));
}

TEST(Fetch, GivesUpOnAServerWithoutRangesThatAlwaysBreaksOff) {
  const test::TempDir cache;
  HttpServer server([&](const std::string&, std::size_t number) {
    if (number == 9) return http_answer("404 Not Found", "", "");
    return cut_answer(kV1, content(1000), number % 2 == 0 ? 400 : 300);
  });
  FetchOptions options = options_of(cache.path());
  options.tries = 3;
  EXPECT_THAT(fault_of<IoError>([&] { (void)fetch(server.url("/a"), options); }), HasSubstr("3 tries in a row"));
  EXPECT_THAT(server.requests(), SizeIs(3));
}

TEST(Fetch, FollowsRedirects) {
  const test::TempDir cache;
  HttpServer server([&](const std::string& request, std::size_t) {
    return request.starts_with("GET /old ") ? http_answer("302 Found", "Location: /new\r\n", "moved")
                                            : http_answer("200 OK", kV1, "here");
  });
  const fs::path path = fetch(server.url("/old"), options_of(cache.path()));
  EXPECT_EQ(read(path), "here");
  EXPECT_EQ(path.filename(), "old");
}

TEST(Fetch, FollowsNoRedirectForEverAndNoneToALocalFile) {
  const test::TempDir cache;
  HttpServer server([&](const std::string& request, std::size_t) {
    const bool to_file = request.starts_with("GET /file ");
    return http_answer("302 Found", to_file ? "Location: file:///etc/passwd\r\n" : "Location: /loop\r\n", "");
  });
  FetchOptions options = options_of(cache.path());
  options.max_redirects = 3;
  EXPECT_THAT(fault_of<DataError>([&] { (void)fetch(server.url("/loop"), options); }),
              HasSubstr("at most 3 redirects are followed"));
  EXPECT_THAT(server.requests(), SizeIs(4));
  EXPECT_THAT(fault_of<DataError>([&] { (void)fetch(server.url("/file"), options); }),
              HasSubstr("and only to http:// and https://"));
  EXPECT_THAT(server.requests(), SizeIs(5));
}

TEST(Fetch, TakesContentWithTheHashOfTheUrlOrTheOption) {
  const test::TempDir cache;
  HttpServer server([&](const std::string&, std::size_t) { return http_answer("200 OK", kV1, "good"); });
  FetchOptions options = options_of(cache.path());
  const fs::path by_url = fetch(server.url("/a#sha256=" + sha256("good")), options);
  options.sha256 = sha256("good");
  EXPECT_EQ(fetch(server.url("/a"), options), by_url);
  EXPECT_EQ(read(by_url), "good");
  EXPECT_THAT(server.requests(), SizeIs(1));
}

TEST(Fetch, RemovesContentWithAnotherHashAndNamesBoth) {
  const test::TempDir cache;
  HttpServer server([&](const std::string&, std::size_t) { return http_answer("200 OK", kV1, "evil"); });
  const std::string url = server.url("/a#sha256=" + sha256("good"));
  const std::string error = fault_of<DataError>([&] { (void)fetch(url, options_of(cache.path())); });
  EXPECT_THAT(error, AllOf(HasSubstr(sha256("good")), HasSubstr(sha256("evil")), HasSubstr(server.url("/a"))));
  EXPECT_THAT(files_in(cache.path()), IsEmpty());
}

TEST(Fetch, ComparesTheHashAtEveryUse) {
  const test::TempDir cache;
  HttpServer server([&](const std::string&, std::size_t) { return http_answer("200 OK", kV1, "good"); });
  const std::string url = server.url("/a#sha256=" + sha256("good"));
  const fs::path path = fetch(url, options_of(cache.path()));
  std::ofstream(path) << "evil";
  EXPECT_EQ(read(fetch(url, options_of(cache.path()))), "good");
  EXPECT_THAT(server.requests(), SizeIs(2));
  EXPECT_EQ(fetch(url, options_of(cache.path())), path);
  EXPECT_THAT(server.requests(), SizeIs(2));
}

/// Returns the error from a fetch. Before the fetch, `plant` is called with the path of the cached file plus `suffix`.
std::string planted(const std::string& suffix, const std::function<void(const fs::path&)>& plant) {
  const test::TempDir cache;
  HttpServer server([&](const std::string&, std::size_t) { return http_answer("200 OK", kV1, "good"); });
  const fs::path path = checkpoint::cached_path(cache.path(), checkpoint::parse_fetch_url(server.url("/a"), ""));
  fs::create_directories(path.parent_path());
  plant(path.string() + suffix);
  return fault_of<DataError>([&] { (void)fetch(server.url("/a"), options_of(cache.path())); });
}

TEST(Fetch, WaitsNotForEverForAProcessThatFetchesNothing) {
  const test::TempDir cache;
  HttpServer server([&](const std::string&, std::size_t) { return http_answer("200 OK", kV1, "good"); });
  const fs::path path = checkpoint::cached_path(cache.path(), checkpoint::parse_fetch_url(server.url("/a"), ""));
  fs::create_directories(path.parent_path());
  std::optional<UniqueFd> holder(open_regular_file(path.string() + ".lock", O_RDWR | O_CREAT));
  ASSERT_EQ(try_lock_file(holder->get(), path), FileLock::kTaken);
  FetchOptions options = options_of(cache.path());
  options.lock_limit = std::chrono::milliseconds(20);
  EXPECT_THAT(fault_of<TimeoutError>([&] { (void)fetch(server.url("/a"), options); }),
              AllOf(HasSubstr("a.lock and has fetched nothing for 0.0"), HasSubstr("dmesg")));
  holder.reset();
  EXPECT_EQ(read(fetch(server.url("/a"), options)), "good");
}

TEST(Fetch, FollowsNoLinkInTheCache) {
  const test::TempDir elsewhere;
  std::ofstream(elsewhere / "precious") << "precious";
  for (const char* suffix : {"", ".part", ".part.tag", ".lock"}) {
    for (const char* target : {"precious", "not_there"}) {
      const std::string error =
          planted(suffix, [&](const fs::path& path) { fs::create_symlink(elsewhere / target, path); });
      EXPECT_THAT(error, HasSubstr(fmt::format("a{} is a symbolic link", suffix)));
    }
  }
  EXPECT_EQ(read(elsewhere / "precious"), "precious");
  EXPECT_FALSE(fs::exists(elsewhere / "not_there"));
}

TEST(Fetch, WaitsForNoPipeInTheCache) {
  for (const char* suffix : {"", ".part", ".part.tag", ".lock"}) {
    EXPECT_THAT(planted(suffix, [](const fs::path& path) { ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0); }),
                HasSubstr("is not a regular file"));
  }
}

TEST(Fetch, RefusesACacheToWhichOthersMayWrite) {
  const test::TempDir folder;
  const fs::path cache = folder / "cache";
  HttpServer server([&](const std::string&, std::size_t) { return http_answer("200 OK", kV1, "good"); });
  const auto error = [&] { return fault_of<UsageError>([&] { (void)fetch(server.url("/a"), options_of(cache)); }); };
  const fs::path path = fetch(server.url("/a"), options_of(cache));
  EXPECT_EQ(fs::status(cache).permissions(), fs::perms::owner_all) << "as it was made";
  fs::permissions(cache, fs::perms(0777));
  EXPECT_THAT(error(), AllOf(HasSubstr("others may write to the folder"), HasSubstr("mode 0777")));
  fs::permissions(cache, fs::perms(0700));
  fs::permissions(path.parent_path(), fs::perms(0707));
  EXPECT_THAT(error(), HasSubstr(path.parent_path().string()));
  fs::permissions(path.parent_path(), fs::perms(0700));
  EXPECT_EQ(fetch(server.url("/a"), options_of(cache)), path);
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give a folder away";
  ASSERT_EQ(::chown(cache.c_str(), 65534, 65534), 0);
  EXPECT_THAT(error(), AllOf(HasSubstr("belongs to user 65534"), HasSubstr("runs as user 0")));
  ASSERT_EQ(::chown(cache.c_str(), 0, 0), 0);
  ASSERT_EQ(::chown(path.c_str(), 65534, 65534), 0);
  EXPECT_THAT(fault_of<DataError>([&] { (void)fetch(server.url("/a"), options_of(cache)); }),
              HasSubstr("a belongs to user 65534"));
}

TEST(Fetch, AsksOnceForWhatIsNotThere) {
  const test::TempDir cache;
  HttpServer server([&](const std::string&, std::size_t) { return http_answer("404 Not Found", "", "<html>"); });
  const std::string error = fault_of<DataError>([&] { (void)fetch(server.url("/a"), options_of(cache.path())); });
  EXPECT_THAT(error, AllOf(HasSubstr("404 (not found)"), HasSubstr("check the address")));
  EXPECT_THAT(server.requests(), SizeIs(1));
}

TEST(Fetch, NamesNeitherUserNorPasswordNorQuery) {
  const test::TempDir cache;
  HttpServer server([&](const std::string&, std::size_t) { return http_answer("403 Forbidden", "", ""); });
  const std::string url = fmt::format("http://anna:secret@{}/a?key=hidden", server.host());
  const std::string error = fault_of<DataError>([&] { (void)fetch(url, options_of(cache.path())); });
  EXPECT_THAT(error, AllOf(HasSubstr(server.url("/a") + ": the server responded with 403"), Not(HasSubstr("anna")),
                           Not(HasSubstr("secret")), Not(HasSubstr("hidden"))));
  EXPECT_THAT(header_of(server.requests()[0], "Authorization"), HasSubstr("Basic "));
}

TEST(Fetch, TriesAgainWhenTheServerIsIll) {
  const test::TempDir cache;
  HttpServer server([&](const std::string&, std::size_t number) {
    return number < 2 ? http_answer("500 Internal Server Error", "", "ill") : http_answer("200 OK", kV1, "well");
  });
  EXPECT_EQ(read(fetch(server.url("/a"), options_of(cache.path()))), "well");
}

TEST(Fetch, SaysTimeoutOfASilentServerAndIoErrorOfNone) {
  const test::TempDir cache;
  FetchOptions options = options_of(cache.path());
  options.tries = 1;
  options.stall_limit = std::chrono::milliseconds(200);
  std::string gone;
  {
    HttpServer server([&](const std::string&, std::size_t) {
      HttpAnswer answer = cut_answer(kV1, content(1000), 400);
      answer.stays_open = true;
      return answer;
    });
    gone = server.url("/gone");
    EXPECT_THAT(fault_of<TimeoutError>([&] { (void)fetch(server.url("/a"), options); }),
                AllOf(HasSubstr("no data arrived for 0.2 s"), HasSubstr("resumes after 400 B")));
  }
  EXPECT_THAT(fault_of<IoError>([&] { (void)fetch(gone, options); }), HasSubstr("check the network"));
}

/// A server that sends a body, or endless headers, at one byte every 20 ms.
class TricklingServer {
 public:
  explicit TricklingServer(std::string head) : head_(std::move(head)), thread_([this] { run(); }) {}
  ~TricklingServer() {
    ending_ = true;
    asio::error_code ignored;
    asio::ip::tcp::socket(context_).connect(acceptor_.local_endpoint(), ignored);
    thread_.join();
  }
  TricklingServer(const TricklingServer&) = delete;
  TricklingServer& operator=(const TricklingServer&) = delete;
  [[nodiscard]] std::string url() const {
    return fmt::format("http://127.0.0.1:{}/a", acceptor_.local_endpoint().port());
  }
  [[nodiscard]] int connections() const { return connections_; }

 private:
  void run() {
    while (true) {
      asio::ip::tcp::socket socket = acceptor_.accept();
      if (ending_) return;
      ++connections_;
      asio::error_code gone;
      asio::write(socket, asio::buffer(head_), gone);
      while (!gone && !ending_) {
        asio::write(socket, asio::buffer("X: y\r\n", 6), gone);
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
      }
    }
  }

  std::string head_;
  asio::io_context context_;
  asio::ip::tcp::acceptor acceptor_{context_, {asio::ip::address_v4::loopback(), 0}};
  std::atomic<int> connections_ = 0;
  std::atomic<bool> ending_ = false;
  std::thread thread_;
};

TEST(Fetch, GivesUpOnAServerThatTrickles) {
  for (const char* head :
       {"HTTP/1.1 200 OK\r\nETag: \"v1\"\r\nContent-Length: 100000\r\n\r\n", "HTTP/1.1 200 OK\r\n"}) {
    const test::TempDir cache;
    TricklingServer server(head);
    FetchOptions options = options_of(cache.path());
    options.tries = 50;
    options.min_speed = 100'000;
    options.speed_window = std::chrono::milliseconds(300);
    EXPECT_THAT(fault_of<TimeoutError>([&] { (void)fetch(server.url(), options); }),
                AllOf(HasSubstr(" bytes per second arrived over 0.3 s; the minimum is 100000"),
                      HasSubstr("2 tries in a row ended like this"), HasSubstr("LOCKSTEP_FETCH_MIN_SPEED=BYTES")));
    EXPECT_EQ(server.connections(), 2);
  }
}

TEST(Fetch, TakesTheLimitOfItsSpeedFromTheEnvironment) {
  const test::TempDir cache;
  HttpServer server([&](const std::string&, std::size_t) { return http_answer("200 OK", kV1, "good"); });
  for (const char* bad : {"-1", "fast", "99999999999999999999"}) {
    ::setenv("LOCKSTEP_FETCH_MIN_SPEED", bad, 1);
    EXPECT_THAT(fault_of<UsageError>([&] { (void)fetch(server.url("/a"), options_of(cache.path())); }),
                HasSubstr("LOCKSTEP_FETCH_MIN_SPEED"));
  }
  ::setenv("LOCKSTEP_FETCH_MIN_SPEED", "0", 1);
  EXPECT_EQ(read(fetch(server.url("/a"), options_of(cache.path()))), "good");
  ::unsetenv("LOCKSTEP_FETCH_MIN_SPEED");
}

TEST(Fetch, TakesNoEndlessHeadersAndNoEndlessPage) {
  const test::TempDir cache;
  std::string headers;
  for (int i = 0; i < 30'000; ++i) headers += fmt::format("X-{}: {}\r\n", i, std::string(100, 'x'));
  HttpServer server([&](const std::string& request, std::size_t) {
    if (request.starts_with("GET /headers ")) return http_answer("200 OK", headers, "good");
    return HttpAnswer{"HTTP/1.1 404 Not Found\r\n\r\n" + std::string(3'000'000, 'x'), true};
  });
  EXPECT_THAT(fault_of<DataError>([&] { (void)fetch(server.url("/headers"), options_of(cache.path())); }),
              HasSubstr("more than 262.1 kB of headers"));
  EXPECT_THAT(fault_of<DataError>([&] { (void)fetch(server.url("/page"), options_of(cache.path())); }),
              HasSubstr("404 (not found)"));
  EXPECT_THAT(files_in(cache.path()), Not(::testing::Contains("a")));
}

TEST(Fetch, IsDoneOnceForTwoThatWantTheSame) {
  const test::TempDir cache;
  std::latch second_waits(1);
  HttpServer server([&](const std::string&, std::size_t) {
    second_waits.wait();
    return http_answer("200 OK", kV1, "one");
  });
  auto first = std::async(std::launch::async, [&] { return fetch(server.url("/a"), options_of(cache.path())); });
  while (server.requests().empty()) std::this_thread::yield();
  bool has_waited = false;
  FetchOptions options = options_of(cache.path());
  options.progress = [&](const FetchProgress&) {
    if (!std::exchange(has_waited, true)) second_waits.count_down();
  };
  const fs::path second = fetch(server.url("/a"), options);
  EXPECT_EQ(read(second), "one");
  EXPECT_EQ(first.get(), second);
  EXPECT_THAT(server.requests(), SizeIs(1));
}

TEST(Fetch, EndsWithWhatProgressThrowsAndGoesOnNextTime) {
  const test::TempDir cache;
  const std::string body = content(1000);
  HttpServer server([&](const std::string&, std::size_t number) {
    if (number > 0) return rest_answer(kV1, body, 400);
    HttpAnswer answer = cut_answer(kV1, body, 400);
    answer.stays_open = true;
    return answer;
  });
  FetchOptions options = options_of(cache.path());
  options.progress = [](const FetchProgress& progress) {
    if (progress.bytes == 400 && progress.total == 1000) throw UsageError("enough");
  };
  EXPECT_THAT(fault_of<UsageError>([&] { (void)fetch(server.url("/a"), options); }), HasSubstr("enough"));
  EXPECT_EQ(read(fetch(server.url("/a"), options_of(cache.path()))), body);
}

TEST(Fetch, TakesNoMoreThanTheLimit) {
  const test::TempDir cache;
  HttpServer server([&](const std::string& request, std::size_t) {
    if (request.starts_with("GET /said ")) return http_answer("200 OK", kV1, content(1001));
    return HttpAnswer{"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" + content(1001)};
  });
  FetchOptions options = options_of(cache.path());
  options.max_bytes = 1000;
  for (const char* path : {"/said", "/unsaid"}) {
    EXPECT_THAT(fault_of<DataError>([&] { (void)fetch(server.url(path), options); }), HasSubstr("the limit is 1.0 kB"));
  }
  EXPECT_THAT(files_in(cache.path()), IsEmpty());
}

TEST(Fetch, SaysWhyTheCacheCannotBeWritten) {
  const test::TempDir folder;
  std::ofstream(folder / "file") << "no folder";
  EXPECT_THAT(fault_of<IoError>([&] { (void)fetch("http://127.0.0.1:9/a", options_of(folder / "file")); }),
              HasSubstr((folder / "file").string()));
  if (!no_mounts.empty()) GTEST_SKIP() << no_mounts;
  test::SmallDisk disk("size=256k");
  HttpServer server([&](const std::string&, std::size_t) { return http_answer("200 OK", kV1, content(400'000)); });
  EXPECT_THAT(fault_of<IoError>([&] { (void)fetch(server.url("/a"), options_of(disk.path())); }),
              AllOf(HasSubstr("No space left on device"), HasSubstr("free space there")));
  EXPECT_THAT(server.requests(), SizeIs(1));
  disk.make_read_only();
  EXPECT_THAT(fault_of<IoError>([&] { (void)fetch(server.url("/b"), options_of(disk.path())); }),
              HasSubstr("Read-only file system"));
}

TEST(FetchUrl, IsOfHttpOnly) {
  EXPECT_TRUE(is_url("https://example.org/a"));
  EXPECT_TRUE(is_url("HTTP://example.org"));
  EXPECT_FALSE(is_url("http:/a"));
  EXPECT_FALSE(is_url("runs/http://a"));
  EXPECT_THROW((void)fetch("ftp://example.org/a"), DataError);
  EXPECT_THROW((void)fetch("file:///etc/passwd"), DataError);
  EXPECT_THROW((void)fetch("http://exa mple.org/"), DataError);
}

TEST(FetchUrl, HasAHashOf64DigitsOrNone) {
  const std::string hash(64, 'A');
  EXPECT_EQ(checkpoint::parse_fetch_url("https://a/b#sha256=" + hash, "").sha256, std::string(64, 'a'));
  EXPECT_EQ(checkpoint::parse_fetch_url("https://a/b#top", "").sha256, "");
  EXPECT_THROW((void)checkpoint::parse_fetch_url("https://a/b#sha256=12", ""), UsageError);
  EXPECT_THROW((void)checkpoint::parse_fetch_url("https://a/b#sha256=", ""), UsageError);
  EXPECT_THROW((void)checkpoint::parse_fetch_url("https://a/b#sha256=" + hash, std::string(64, 'b')), UsageError);
}

TEST(FetchUrl, HasAPlaceOfItsOwnForEachContent) {
  const auto place = [](const std::string& url) {
    return checkpoint::cached_path("cache", checkpoint::parse_fetch_url(url, ""));
  };
  EXPECT_EQ(place("https://a/b"), place("https://a/b#top"));
  EXPECT_NE(place("https://a/b"), place("https://a/c/b"));
  EXPECT_NE(place("https://a/b"), place("https://a/b?v=2"));
  EXPECT_NE(place("https://a/b"), place("https://a/b#sha256=" + std::string(64, '0')));
  EXPECT_EQ(place("https://a/x/%2e%2e%2fetc").filename(), "etc");
  EXPECT_EQ(place("https://a/.hidden").filename(), "_hidden");
  EXPECT_EQ(place("https://a/" + std::string(300, 'n') + ".pth").filename().string().size(), 100U);
}

TEST(FetchCache, IsWhereTheUserKeepsCaches) {
  ::setenv("XDG_CACHE_HOME", "/somewhere", 1);
  EXPECT_EQ(fetch_cache(), "/somewhere/lockstep");
  ::unsetenv("XDG_CACHE_HOME");
  ::setenv("HOME", "/home/anna", 1);
  EXPECT_EQ(fetch_cache(), "/home/anna/.cache/lockstep");
}

}  // namespace
}  // namespace lockstep

int main(int argc, char** argv) {
  ::setenv("no_proxy", "*", 1);  // the server is local
  lockstep::no_mounts = lockstep::test::enter_mount_namespace();
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
