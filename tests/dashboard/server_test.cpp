// SPDX-License-Identifier: Apache-2.0
// The server without a browser: which requests are served, with what, and at what cost.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "dashboard/access.h"
#include "dashboard/process.h"
#include "lockstep/dashboard/dashboard.h"
#include "lockstep/view/digest_chain.h"
#include "support/http_client.h"
#include "support/temp_dir.h"

namespace lockstep::dashboard {
namespace server_test {

using testing::HasSubstr;
using testing::Not;

class Server : public testing::Test {
 protected:
  Server() {
    const auto run = folder_.path() / "run";
    std::filesystem::create_directories(run / "logs/attempt_0/rank-0");
    std::filesystem::create_directories(run / "samples");
    std::ofstream(run / "log.jsonl") << "{\"event\": \"step\", \"step\": 10, \"loss\": 0.5}\n";
    std::ofstream(run / "config.yml") << "seed: 7\n";
    std::ofstream(run / "logs/attempt_0/rank-0/stderr.log") << "hello <b>world</b>\n";
    std::ofstream(run / "samples/one.png") << "picture";
    std::ofstream(folder_.path() / "secret.png") << "secret";
    std::filesystem::create_symlink(folder_.path() / "secret.png", run / "samples/link.png");
    const auto other = folder_.path() / "other";
    std::filesystem::create_directories(other);
    write_chain(run, 4, 0);
    write_chain(other, 6, 3);
    dashboard_.emplace(DashboardOptions{.runs = {run, other}, .token = "right"});
  }

  /// Writes the digests of steps 1 to `steps`. From step `odd` on, their weights differ.
  static void write_chain(const std::filesystem::path& run, int steps, int odd) {
    std::filesystem::remove(run / view::kDigestFile);
    view::DigestWriter chain(run, {});
    for (int step = 1; step <= steps; ++step) {
      const bool is_odd = odd > 0 && step >= odd;
      chain.add({.step = step, .loss = 1, .gradients = 2, .weights = is_odd ? 100U + static_cast<unsigned>(odd) : 3U});
    }
  }

  static std::string with(const std::string& token = "right") { return "Authorization: Bearer " + token + "\r\n"; }
  [[nodiscard]] test::HttpReply ask(const std::string& path, const std::string& headers,
                                    const char* method = "GET") const {
    return test::ask(dashboard_->port(), method, path, headers);
  }
  [[nodiscard]] test::HttpReply get(const std::string& path) const { return ask(path, with()); }

  test::TempDir folder_;
  std::optional<Dashboard> dashboard_;
};

TEST_F(Server, ComparesTheDigestsOfTwoRuns) {
  const auto digests = [this](const char* path) { return nlohmann::json::parse(get(path).body); };
  EXPECT_EQ(digests("/api/run/0/state")["digests"], nlohmann::json({{"steps", 4}, {"first", 1}, {"last", 4}}));
  nlohmann::json expected = {{"equal", false}, {"steps", 4}, {"step", 3}, {"differs", "weights"}};
  EXPECT_EQ(digests("/api/run/1/digests?with=0"), expected);
  write_chain(folder_.path() / "run", 8, 5);    // longer, with different steps than before
  write_chain(folder_.path() / "other", 7, 5);  // truncated, then longer again
  expected = {{"equal", true}, {"steps", 7}, {"step", nullptr}, {"differs", nullptr}};
  EXPECT_EQ(digests("/api/run/1/digests?with=0"), expected);
  EXPECT_EQ(digests("/api/run/0/digests?with=0"), nullptr);
  std::filesystem::remove(folder_.path() / "run" / view::kDigestFile);
  EXPECT_EQ(digests("/api/run/1/digests?with=0"), nullptr);
  for (const char* other : {"2", "-1", "x", ""}) {
    EXPECT_EQ(get(std::string("/api/run/0/digests?with=") + other).status, 404) << other;
  }
}

TEST_F(Server, ShowsTheStepThatTheGuardHasProved) {
  EXPECT_EQ(nlohmann::json::parse(get("/api/run/0/state").body)["proved"], nullptr);
  std::ofstream(folder_.path() / "run/log.jsonl", std::ios::app)
      << "{\"event\": \"step\", \"step\": 20, \"loss\": 0.5, \"proved\": 17}\n";
  const auto state = nlohmann::json::parse(get("/api/run/0/state").body);
  EXPECT_EQ(state["proved"], 17);
  EXPECT_EQ(state["curves"], nlohmann::json({"loss"}));
}

constexpr const char* kPaths[] = {"/api/runs", "/api/run/0/state", "/api/run/0/log",           "/api/run/0/network",
                                  "/nowhere",  "/api/events",      "/api/run/0/digests?with=1"};

TEST_F(Server, ServesNothingOfARunWithoutTheToken) {
  for (const char* path : kPaths) {
    for (const std::string& headers : {std::string(), with("wrong"), with("righ"), with("right2"), with(""),
                                       std::string("Authorization: Basic right\r\n"),
                                       "Cookie: lockstep_" + std::to_string(dashboard_->port()) + "=right\r\n"}) {
      const auto reply = ask(path, headers);  // a served stream would not end
      EXPECT_EQ(reply.status, 403) << path << headers;
      EXPECT_THAT(reply.body, Not(HasSubstr("loss"))) << path;
    }
    EXPECT_EQ(ask(path + std::string("?token=right"), "").status, 403);
  }
  EXPECT_EQ(ask("/api/run/0/verify?name=step-00000001", "", "POST").status, 403);
}

TEST_F(Server, ServesThePageWithoutASecretAndWithoutACookie) {
  const auto page = ask("/", "");
  EXPECT_EQ(page.status, 200);
  EXPECT_THAT(page.head + page.body, Not(HasSubstr("right")));
  for (const auto& reply : {page, get("/"), get("/api/runs"), ask("/?token=right", "")}) {
    EXPECT_THAT(reply.head, Not(HasSubstr("Set-Cookie")));
  }
  EXPECT_EQ(dashboard_->url(), "http://127.0.0.1:" + std::to_string(dashboard_->port()) + "/#token=right");
}

TEST_F(Server, ServesNoNameOfAStrangerAndNoPageOfAnother) {
  for (const char* path : {"/", "/api/runs"}) {
    EXPECT_EQ(ask(path, with() + "Host: evil.example\r\n").status, 403);
    EXPECT_EQ(ask(path, with() + "Host: \r\n").status, 403);
    EXPECT_EQ(ask(path, with() + "Origin: http://evil.example\r\n").status, 403);
  }
  EXPECT_EQ(ask("/api/run/0/verify?name=step-1", with() + "Origin: http://evil.example\r\n", "POST").status, 403);
}

TEST_F(Server, LetsThePageAskNobodyElse) {
  EXPECT_THAT(get("/").head, HasSubstr("Content-Security-Policy: default-src 'self'; img-src 'self' blob:;"));
  EXPECT_THAT(get("/").head, HasSubstr("X-Content-Type-Options: nosniff"));
  EXPECT_THAT(get("/").body, Not(HasSubstr("https://")));
}

TEST_F(Server, LetsOnlyThePageOfTheNetworkCompileWebAssembly) {
  EXPECT_THAT(get("/").head, Not(HasSubstr("wasm")));
  const auto page = get("/network/network.html");
  if (page.status == 404) GTEST_SKIP() << "this build had no npm or no network";
  EXPECT_THAT(page.head,
              HasSubstr("Content-Security-Policy: default-src 'none'; script-src 'self' 'wasm-unsafe-eval'"));
  EXPECT_THAT(page.head, HasSubstr("frame-ancestors 'self'"));
  EXPECT_THAT(page.head, Not(HasSubstr("default-src 'self'")));
  EXPECT_THAT(page.head, HasSubstr("X-Content-Type-Options: nosniff"));
}

TEST_F(Server, GivesTheNetworkThatWasExportedIntoTheRunFolder) {
  const auto run = folder_.path() / "run";
  EXPECT_EQ(get("/api/run/0/network").status, 404);
  EXPECT_TRUE(nlohmann::json::parse(get("/api/run/0/state").body)["network"].is_null());
  std::filesystem::create_symlink(folder_.path() / "secret.png", run / "model.onnx");
  EXPECT_EQ(get("/api/run/0/network").status, 404);
  EXPECT_TRUE(nlohmann::json::parse(get("/api/run/0/state").body)["network"].is_null());
  std::filesystem::remove(run / "model.onnx");
  std::ofstream(run / "model.onnx") << "network";
  EXPECT_EQ(get("/api/run/0/network").body, "network");
  EXPECT_GT(nlohmann::json::parse(get("/api/run/0/state").body)["network"], 1'000'000'000);
}

TEST_F(Server, AnswersWithWhatTheRunSays) {
  const auto state = nlohmann::json::parse(get("/api/run/0/state").body);
  EXPECT_EQ(state["settings"][0]["key"], "seed");
  EXPECT_EQ(state["settings"][0]["origin"], "config.yml:1");
  EXPECT_EQ(state["curves"][0], "loss");
  const auto curve = nlohmann::json::parse(get("/api/run/0/curve?name=loss").body);
  EXPECT_EQ(curve["raw"]["values"][0], 0.5);
  const auto log = nlohmann::json::parse(get("/api/run/0/log?attempt=0&rank=0&stream=stderr&from=6").body);
  EXPECT_EQ(log["text"], "<b>world</b>\n");
  EXPECT_EQ(get("/api/run/2/state").status, 404);
}

TEST_F(Server, LeavesTheRunFolderForNoFile) {
  for (const char* path : {"/../secret.png", "/assets/../../secret.png", "/assets/%2e%2e%2fsecret.png", "/network/..",
                           "/network/../../secret.png", "/api/run/0/picture?name=../secret.png",
                           "/api/run/0/picture?name=samples/link.png", "/api/run/0/picture?name=/etc/passwd",
                           "/api/run/0/picture?name=config.yml"}) {
    EXPECT_EQ(get(path).status, 404) << path;
  }
  EXPECT_EQ(get("/api/run/0/picture?name=samples/one.png").body, "picture");
  const auto log = get("/api/run/0/log?attempt=0&rank=0&stream=../../../../config");
  EXPECT_EQ(nlohmann::json::parse(log.body)["text"], "");
  EXPECT_EQ(ask("/api/run/0/verify?name=../../..", with(), "POST").status, 404);
}

// A run folder made by another user must not expose files that only this user may read.
TEST_F(Server, FollowsNoLinkOutOfTheRunFolder) {
  const auto run = folder_.path() / "run";
  const auto text_of_log = [&](int attempt, int rank) {
    const auto reply =
        get("/api/run/0/log?stream=stderr&attempt=" + std::to_string(attempt) + "&rank=" + std::to_string(rank));
    return nlohmann::json::parse(reply.body)["text"].get<std::string>();
  };
  std::filesystem::create_directories(folder_.path() / "elsewhere/rank-0");
  std::ofstream(folder_.path() / "elsewhere/rank-0/stderr.log") << "secret";
  std::filesystem::create_directories(run / "logs/attempt_1/rank-1");
  std::filesystem::create_directories(run / "logs/attempt_1/rank-2");
  std::filesystem::create_symlink(folder_.path() / "secret.png", run / "logs/attempt_1/rank-1/stderr.log");
  ASSERT_EQ(::mkfifo((run / "logs/attempt_1/rank-2/stderr.log").c_str(), 0600), 0);
  std::filesystem::create_directory_symlink(folder_.path() / "elsewhere/rank-0", run / "logs/attempt_1/rank-3");
  std::filesystem::create_directory_symlink(folder_.path() / "elsewhere", run / "logs/attempt_2");
  EXPECT_EQ(text_of_log(0, 0), "hello <b>world</b>\n");
  for (int rank = 1; rank <= 3; ++rank) EXPECT_EQ(text_of_log(1, rank), "") << rank;
  EXPECT_EQ(text_of_log(2, 0), "");
  for (const char* name : {"summary.json", "config.yml", "log.jsonl"}) {
    std::filesystem::remove(run / name);
    std::ofstream(folder_.path() / name) << R"({"event": "secret"})"
                                         << "\n";
    std::filesystem::create_symlink(folder_.path() / name, run / name);
  }
  EXPECT_THAT(get("/api/run/0/state").body, Not(HasSubstr("secret")));
}

TEST_F(Server, ShowsNoSecretOfAUrl) {
  const auto run = folder_.path() / "run";
  const std::string url = "https://ann:s3cret@host/a.pth?sig=s3cret";
  std::ofstream(run / "config.yml") << "init_from: '" << url << "'\ndata:\n  shards: ['" << url << "']\n";
  std::ofstream(run / "log.jsonl") << R"({"event": "fetched", "from": ")" << url << "\"}\n"
                                   << R"({"event": "report", "report": {"from": ")" << url << "\"}}\n";
  std::ofstream(run / "summary.json") << R"({"from": ")" << url << "\"}";
  std::ofstream(run / "logs/attempt_0/verdict.json") << R"({"text": ")" << url << "\"}";
  const std::string state = get("/api/run/0/state").body;
  EXPECT_THAT(state, Not(HasSubstr("s3cret")));
  EXPECT_THAT(state, HasSubstr("https://***@host/a.pth"));
}

TEST_F(Server, SendsWhatTheRunsDoAsEvents) {
  const UniqueFd page = test::connect_to(dashboard_->port());
  ASSERT_TRUE(test::send_all(page, "GET /api/events HTTP/1.1\r\nHost: localhost\r\n" + with() + "\r\n"));
  const std::string text = test::receive(page, "\n\n");
  EXPECT_THAT(text, HasSubstr("event: moment\ndata: {"));
  EXPECT_THAT(text, HasSubstr("\"step\":10"));
}

TEST(Access, TokensAreLongAndDiffer) {
  EXPECT_EQ(new_token().size(), 64U);
  EXPECT_NE(new_token(), new_token());
}

TEST(Access, OnlyTheWholeTokenIsTheToken) {
  EXPECT_TRUE(is_equal("abc", "abc"));
  for (const char* wrong : {"", "ab", "abcd", "abd", "abcabc"}) EXPECT_FALSE(is_equal(wrong, "abc")) << wrong;
  EXPECT_FALSE(is_equal("abc", ""));
}

TEST(Access, TakesAddressesAndLocalhostAndNoNameOfAStranger) {
  for (const char* own : {"127.0.0.1:80", "localhost:9", "LOCALHOST", "[::1]:80", "10.0.0.7", "gpu-a:80"}) {
    EXPECT_TRUE(is_allowed_host(own, "gpu-a")) << own;
  }
  for (const char* other : {"", "evil.example:80", "127.0.0.1.evil.example", "localhost:80.evil.example", "[::1",
                            "gpu-b", "localhost:", "127.0.0.1@evil.example"}) {
    EXPECT_FALSE(is_allowed_host(other, "gpu-a")) << other;
  }
  EXPECT_FALSE(is_allowed_host(std::string_view("127.0.0.1\0.evil.example", 23), "gpu-a")) << "C would end there";
}

TEST(Access, TakesNoRequestThatAnotherPageMade) {
  EXPECT_TRUE(is_own_origin("", "127.0.0.1:80"));
  EXPECT_TRUE(is_own_origin("http://127.0.0.1:80", "127.0.0.1:80"));
  EXPECT_FALSE(is_own_origin("http://evil.example", "127.0.0.1:80"));
  EXPECT_FALSE(is_own_origin("null", "127.0.0.1:80"));
}

TEST(ProcessUse, ReadsAProgramWhoseNameHasBracketsAndSpaces) {
  const auto use = parse_process("17 (a) b (c) S 1 1 1 0 -1 0 0 0 0 0 250 50 0 0 20 0 3 0 99 1000000 25 0", 100, 4096);
  ASSERT_TRUE(use);
  EXPECT_EQ(use->state, 'S');
  EXPECT_DOUBLE_EQ(use->cpu_seconds, 3.0);
  EXPECT_EQ(use->resident, 25U * 4096);
  EXPECT_FALSE(parse_process("17 (torn", 100, 4096));
  EXPECT_FALSE(parse_process("17 (short) S 1 1", 100, 4096));
}

TEST(ProcessUse, AZombieHasEnded) {
  EXPECT_TRUE(read_process(::getpid()));
  const pid_t child = ::fork();
  if (child == 0) ::_exit(0);
  siginfo_t end;
  ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(child), &end, WEXITED | WNOWAIT), 0);
  EXPECT_FALSE(read_process(child));
  ::waitpid(child, nullptr, 0);
  EXPECT_FALSE(read_process(child));
}

TEST(ProcessUse, KnowsTheMachine) {
  const auto machine = read_machine_use();
  EXPECT_GT(machine["memory"].get<double>(), machine["available"].get<double>());
  EXPECT_GE(machine["total"].get<double>(), machine["busy"].get<double>());
}

}  // namespace server_test
}  // namespace lockstep::dashboard
