// SPDX-License-Identifier: Apache-2.0
// The server, and the connections it keeps when it is full.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <vector>

#include "http/guests.h"
#include "lockstep/base/error.h"
#include "lockstep/http/server.h"
#include "support/http_client.h"

namespace lockstep::http {
namespace server_test {

using std::chrono::seconds;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using Time = std::chrono::steady_clock;

// The server on loopback, facing unknown clients.

constexpr std::chrono::seconds kAtOnce{1};

ServerOptions echo() {
  return {.headers = {{"X-Safe", "yes"}},
          .is_known = [](const Request& request) { return request.token == "right"; },
          .answer =
              [](const Request& request) {
                if (request.path == "/throws") throw std::runtime_error("no");
                return Response{.body = request.method + " " + request.path + " " + request.value("a") + " " +
                                        request.token};
              }};
}

test::HttpReply get(const Server& server, const std::string& path, const std::string& headers = "") {
  return test::ask(server.port(), "GET", path, headers);
}

TEST(HttpServer, ReadsPathQueryAndToken) {
  const Server server(echo());
  const auto reply = get(server, "/b%20c?a=1%262&a=3", "Authorization: bearer right \r\n");
  EXPECT_EQ(reply.status, 200);
  EXPECT_EQ(reply.body, "GET /b c 1&2 right");
  EXPECT_THAT(reply.head, HasSubstr("X-Safe: yes"));
  EXPECT_EQ(get(server, "/throws").status, 500);
}

TEST(HttpServer, RefusesBodiesAndHeadersThatComeTwice) {
  const Server server(echo());
  EXPECT_EQ(test::ask(server.port(), "POST", "/", "Content-Length: 0\r\n").status, 200);
  EXPECT_EQ(test::ask(server.port(), "POST", "/", "Content-Length: 5000000000\r\n").status, 413);
  EXPECT_EQ(test::ask(server.port(), "POST", "/", "Transfer-Encoding: chunked\r\n").status, 413);
  EXPECT_EQ(get(server, "/", "Authorization: Bearer a\r\nAuthorization: Bearer right\r\n").status, 400);
  EXPECT_EQ(get(server, "/", "Host: a\r\nHost: b\r\n").status, 400);
}

TEST(HttpServer, ServesNoRanges) {
  const Server server(echo());
  std::string ranges = "Range: bytes=0-";
  for (int i = 0; i < 3000; ++i) ranges += ",-";
  const auto reply = get(server, "/", ranges + "\r\n");
  EXPECT_EQ(reply.status, 200);
  EXPECT_THAT(reply.head, Not(HasSubstr("Content-Range")));
}

// The server may read for a while, then closes the connection, however much is sent.
void expect_end_of(const Server& server, const std::string& begin, const std::string& more) {
  const UniqueFd fd = test::connect_to(server.port());
  ASSERT_TRUE(test::send_all(fd, begin));
  std::size_t sent = 0;
  while (sent < (64 << 20) && test::send_all(fd, more)) sent += more.size();
  EXPECT_LT(sent, 16U << 20);  // includes the bytes in the kernel's buffers
  EXPECT_EQ(get(server, "/still").status, 200);
}

TEST(HttpServer, EndsARequestThatHasNoEnd) {
  const Server server(echo());
  expect_end_of(server, "GET / HTTP/1.1\r\n", std::string(1000, 'a') + ": b\r\n");
  expect_end_of(server, "GET /", std::string(1 << 16, 'a'));
  expect_end_of(server, "GET / HTTP/1.1\r\nA: ", std::string(1 << 16, 'a'));
  expect_end_of(server, "", std::string(1 << 16, '\n'));
}

std::vector<UniqueFd> dripping(const Server& server, int count) {
  std::vector<UniqueFd> out;
  for (int i = 0; i < count; ++i) {
    out.push_back(test::connect_to(server.port()));
    (void)test::send_all(out.back(), "GET / HTTP/1.1\r\nA");
  }
  return out;
}

TEST(HttpServer, AnswersAtOnceThough200Drip) {
  for (const int count : {20, 200}) {
    const Server server(echo());
    const auto strangers = dripping(server, count);
    const auto begun = Time::now();
    EXPECT_EQ(get(server, "/").status, 200);
    EXPECT_LT(Time::now() - begun, kAtOnce) << count;
  }
}

TEST(HttpServer, NoStrangerTakesThePlaceOfWhoHasTheToken) {
  const Server server(echo());
  const UniqueFd owner = test::connect_to(server.port());
  const std::string request = "GET / HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer right\r\n\r\n";
  ASSERT_TRUE(test::send_all(owner, request));
  EXPECT_THAT(test::receive(owner, "right"), HasSubstr("200 OK"));
  const auto strangers = dripping(server, 100);
  ASSERT_TRUE(test::send_all(owner, request));
  EXPECT_THAT(test::receive(owner, "right"), HasSubstr("200 OK"));
}

TEST(HttpServer, EndsAtOnceThoughStrangersDrip) {
  std::vector<UniqueFd> strangers;
  const auto begun = [&] {
    const Server server(echo());
    strangers = dripping(server, 100);
    EXPECT_EQ(get(server, "/").status, 200);
    return Time::now();
  }();
  EXPECT_LT(Time::now() - begun, kAtOnce);
}

TEST(HttpServer, EndsWhoDripsAfterFiveSeconds) {
  const Server server(echo());
  const UniqueFd fd = test::connect_to(server.port());
  const auto begun = Time::now();
  while (Time::now() - begun < std::chrono::seconds(15) && test::send_all(fd, "G")) {
    if (!test::receive(fd, "", std::chrono::milliseconds(300)).empty()) break;
  }
  EXPECT_LT(Time::now() - begun, std::chrono::seconds(7));
}

TEST(HttpServer, SendsABodyThatGoesOnInPieces) {
  ServerOptions options = echo();
  options.answer = [](const Request&) {
    return Response{
        .next = [count = 0]() mutable { return ++count > 3 ? "" : std::to_string(count) + std::string(40000, 'x'); }};
  };
  const Server server(std::move(options));
  const auto reply = get(server, "/");
  EXPECT_THAT(reply.head, HasSubstr("chunked"));
  EXPECT_GT(reply.body.size(), 120'000U);
}

TEST(HttpServer, TakesNoPortThatAnotherHas) {
  const Server first(echo());
  ServerOptions options = echo();
  options.port = first.port();
  EXPECT_THROW(Server(std::move(options)), UsageError);
  options = echo();
  options.host = "192.0.2.1";
  EXPECT_THROW(Server(std::move(options)), UsageError);
}

constexpr TimePoint kStart{};

TEST(Guests, TheNewestTakesThePlaceOfTheOldestStranger) {
  Guests guests(2);
  EXPECT_THAT(guests.add(7, kStart), IsEmpty());
  EXPECT_THAT(guests.add(5, kStart), IsEmpty());
  EXPECT_THAT(guests.add(6, kStart), ElementsAre(7));
  EXPECT_THAT(guests.add(8, kStart), ElementsAre(5)) << "7 is asked already";
}

TEST(Guests, WhoHasProvedWhoHeIsKeepsHisPlace) {
  Guests guests(1);
  EXPECT_THAT(guests.add(1, kStart), IsEmpty());
  guests.ask(1, true, kStart);
  for (int stranger = 2; stranger < 100; ++stranger) {
    for (const int each : guests.add(stranger, kStart)) {
      EXPECT_NE(each, 1);
      guests.leave(each);
    }
  }
  guests.answered(1, kStart);
  guests.ask(1, false, kStart);
  EXPECT_THAT(guests.add(100, kStart), ElementsAre(99)) << "known once, known for all of the connection";
}

TEST(Guests, WhoDripsARequestIsLateAndNamedOnce) {
  Guests guests(4);
  EXPECT_THAT(guests.add(1, kStart), IsEmpty());
  EXPECT_THAT(guests.late(kStart + Guests::kHeadTime - seconds(1)), IsEmpty());
  EXPECT_THAT(guests.late(kStart + Guests::kHeadTime), ElementsAre(1));
  EXPECT_THAT(guests.late(kStart + Guests::kHeadTime + seconds(1)), IsEmpty());
}

TEST(Guests, AStrangerWhoTakesNoAnswerIsLateAndAnOwnerIsNot) {
  Guests guests(4);
  (void)guests.add(1, kStart);
  (void)guests.add(2, kStart);
  guests.ask(1, false, kStart);
  guests.ask(2, true, kStart);
  EXPECT_THAT(guests.late(kStart + Guests::kAnswerTime), ElementsAre(1));
  guests.answered(2, kStart + seconds(100));
  EXPECT_THAT(guests.late(kStart + seconds(101)), IsEmpty());
  EXPECT_THAT(guests.late(kStart + seconds(100) + Guests::kHeadTime), ElementsAre(2));
}

TEST(Guests, ASocketNumberThatComesAgainIsAnotherGuest) {
  Guests guests(2);
  (void)guests.add(1, kStart);
  guests.ask(1, true, kStart);
  guests.leave(1);
  (void)guests.add(1, kStart);
  (void)guests.add(2, kStart);
  EXPECT_THAT(guests.add(3, kStart), ElementsAre(1));
}

}  // namespace server_test
}  // namespace lockstep::http
