// SPDX-License-Identifier: Apache-2.0
// The server without a browser: who is served, and with what.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <httplib.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "lockstep/dashboard/dashboard.h"
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
    dashboard_.emplace(DashboardOptions{.runs = {run}, .token = "right"});
    client_.emplace("127.0.0.1", dashboard_->port());
  }

  httplib::Headers cookie(const std::string& token = "right") {
    return {{"Cookie", "lockstep_" + std::to_string(dashboard_->port()) + "=" + token}};
  }
  httplib::Result get(const std::string& path) { return client_->Get(path.c_str(), cookie()); }

  test::TempDir folder_;
  std::optional<Dashboard> dashboard_;
  std::optional<httplib::Client> client_;
};

constexpr const char* kPaths[] = {"/", "/assets/app.js", "/api/runs", "/api/run/0/state", "/nowhere", "/api/events"};

TEST_F(Server, ServesNothingWithoutTheToken) {
  for (const char* path : kPaths) {
    ASSERT_EQ(client_->Get(path)->status, 403) << path;  // a stream that is served would not end
    EXPECT_EQ(client_->Get(path, cookie("wrong"))->status, 403) << path;
    EXPECT_EQ(client_->Get(path, cookie("righ"))->status, 403) << path;
    EXPECT_THAT(client_->Get(path)->body, Not(HasSubstr("loss"))) << path;
  }
  EXPECT_EQ(client_->Get("/?token=wrong")->status, 403);
  EXPECT_EQ(client_->Get("/api/runs?token=right")->status, 403);  // the token opens the page, and nothing beside it
  EXPECT_EQ(client_->Post("/api/run/0/verify?name=step-00000001")->status, 403);
}

TEST_F(Server, TurnsTheTokenIntoACookieThatScriptsAndOtherSitesDoNotHave) {
  const auto answer = client_->Get("/?token=right");
  EXPECT_EQ(answer->status, 303);
  EXPECT_EQ(answer->get_header_value("Location"), "/");
  EXPECT_THAT(answer->get_header_value("Set-Cookie"), HasSubstr("=right; HttpOnly; SameSite=Strict"));
  EXPECT_EQ(get("/")->status, 200);
  EXPECT_THAT(dashboard_->url(), HasSubstr("http://127.0.0.1:" + std::to_string(dashboard_->port()) + "/?token=right"));
}

TEST_F(Server, ServesNoNameOfAStrangerAndNoPageOfAnother) {
  auto headers = cookie();
  headers.emplace("Host", "evil.example");
  EXPECT_EQ(client_->Get("/api/runs", headers)->status, 403);
  headers = cookie();
  headers.emplace("Origin", "http://evil.example");
  EXPECT_EQ(client_->Post("/api/run/0/verify?name=step-00000001", headers, "", "text/plain")->status, 403);
}

TEST_F(Server, LetsThePageAskNobodyElse) {
  EXPECT_THAT(get("/")->get_header_value("Content-Security-Policy"), HasSubstr("default-src 'self'"));
  EXPECT_EQ(get("/")->get_header_value("X-Content-Type-Options"), "nosniff");
  EXPECT_THAT(get("/")->body, Not(HasSubstr("https://")));
}

TEST_F(Server, AnswersWithWhatTheRunSays) {
  const auto state = nlohmann::json::parse(get("/api/run/0/state")->body);
  EXPECT_EQ(state["settings"][0]["key"], "seed");
  EXPECT_EQ(state["settings"][0]["origin"], "config.yml:1");
  EXPECT_EQ(state["curves"][0], "loss");
  const auto curve = nlohmann::json::parse(get("/api/run/0/curve?name=loss")->body);
  EXPECT_EQ(curve["raw"]["values"][0], 0.5);
  const auto log = nlohmann::json::parse(get("/api/run/0/log?attempt=0&rank=0&stream=stderr&from=6")->body);
  EXPECT_EQ(log["text"], "<b>world</b>\n");
  EXPECT_EQ(get("/api/run/1/state")->status, 404);
}

TEST_F(Server, LeavesTheRunFolderForNoFile) {
  for (const char* path : {"/../secret.png", "/assets/../../secret.png", "/assets/%2e%2e%2fsecret.png",
                           "/api/run/0/picture?name=../secret.png", "/api/run/0/picture?name=samples/link.png",
                           "/api/run/0/picture?name=/etc/passwd", "/api/run/0/picture?name=config.yml"}) {
    EXPECT_EQ(get(path)->status, 404) << path;
  }
  EXPECT_EQ(get("/api/run/0/picture?name=samples/one.png")->body, "picture");
  const auto log = get("/api/run/0/log?attempt=0&rank=0&stream=../../../../config");
  EXPECT_EQ(nlohmann::json::parse(log->body)["text"], "");
  EXPECT_EQ(client_->Post("/api/run/0/verify?name=../../..", cookie(), "", "text/plain")->status, 404);
}

TEST_F(Server, SendsWhatTheRunsDoAsEvents) {
  std::string text;
  client_->Get("/api/events", cookie(), [&](const char* data, std::size_t size) {
    text.append(data, size);
    return text.find("\n\n") == std::string::npos;  // ends the connection after the first
  });
  EXPECT_THAT(text, HasSubstr("event: moment\ndata: {"));
  EXPECT_THAT(text, HasSubstr("\"step\":10"));
}

}  // namespace server_test
}  // namespace lockstep::dashboard
