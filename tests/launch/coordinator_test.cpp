// SPDX-License-Identifier: Apache-2.0
// The messages between agents and the coordinator, and their effects: nodes that lie or are lost, and restarts.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <future>
#include <new>
#include <string>
#include <thread>

#include "launch/nodes/blame.h"
#include "launch/nodes/coordinator.h"
#include "launch/nodes/group.h"
#include "launch/nodes/long_work.h"
#include "launch/nodes/messages.h"
#include "lockstep/base/awake_clock.h"
#include "lockstep/base/file_system.h"
#include "lockstep/launch/restart.h"

namespace lockstep::launch {
namespace coordinator_test {

using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Kind = Decision::Kind;

TEST(Coordinator, ThatCannotGoOnTellsItsAgentWhy) {
  const std::string token = make_token();
  const StoreServer server({.token = token});
  const StoreAddress address{.port = server.port(), .token = token};
  std::promise<void> told;
  Coordinator coordinator({.address = address,
                           .options = {.min_nodes = 1, .max_nodes = 1},
                           .serving_id = "a",
                           .free_port = []() -> std::uint16_t { throw std::bad_alloc(); },
                           .on_failure = [&] { told.set_value(); }});
  EXPECT_NO_THROW(coordinator.rethrow_failure());
  const NodeInfo node{.id = "a", .host = "h"};
  connect_store(address, std::chrono::seconds(10))
      ->append(kEventQueue, to_text(Event{.kind = Event::Kind::kJoined, .node = node}));
  ASSERT_EQ(told.get_future().wait_for(std::chrono::seconds(10)), std::future_status::ready);
  EXPECT_THROW(coordinator.rethrow_failure(), std::bad_alloc);
}

// A process that knows an agent's ID could report that it left or was lost.
TEST(Coordinator, TellsNoAgentTheIdOfAnother) {
  const std::string token = make_token();
  const StoreServer server({.token = token});
  const StoreAddress address{.port = server.port(), .token = token};
  Coordinator coordinator(
      {.address = address, .options = {.min_nodes = 2, .max_nodes = 2}, .serving_id = "secret-a", .free_port = [] {
         return std::uint16_t{1};
       }});
  const auto store = connect_store(address, std::chrono::seconds(10));
  for (const char* name : {"a", "b"}) {
    NodeInfo node{.id = std::string("secret-") + name, .host = name, .min_nodes = 2, .max_nodes = 2};
    node.wish = name[0] - 'a';
    store->append(kEventQueue, to_text(Event{.kind = Event::Kind::kJoined, .node = node}));
  }
  const std::string told = store->get(order_queue("secret-b") + "1", std::chrono::seconds(10));
  EXPECT_EQ(told.find("secret-a"), std::string::npos) << told;
  const auto order = parse_order(told);
  ASSERT_TRUE(order);
  ASSERT_EQ(order->members.size(), 2U);
  EXPECT_EQ(order->members[1].id, "secret-b") << "it finds itself";
}

Order first_order_of_a_new_coordinator() {
  const std::string token = make_token();
  const StoreServer server({.token = token});
  const StoreAddress address{.port = server.port(), .token = token};
  const Coordinator coordinator({.address = address, .serving_id = "a", .free_port = [] { return std::uint16_t{1}; }});
  const auto store = connect_store(address, seconds(10));
  const NodeInfo node{.id = "a", .host = "h"};
  store->append(kEventQueue, to_text(Event{.kind = Event::Kind::kJoined, .node = node}));
  return parse_order(store->get(order_queue("a") + "1", seconds(10))).value_or(Order{});
}

// Node 0's launcher was restarted, and an agent that had been suspended starts ranks on the old launcher's orders.
TEST(Coordinator, LetsNoRankMeetThoseOfAnotherCoordinator) {
  const Order old = first_order_of_a_new_coordinator();
  const Order present = first_order_of_a_new_coordinator();
  EXPECT_EQ(old.round, present.round);
  EXPECT_NE(old.keys, "");
  EXPECT_NE(old.keys, present.keys);
}

// A job on spot instances may have thousands of rounds.
TEST(Coordinator, LeavesNothingOfTheRoundBeforeInTheStore) {
  const std::string token = make_token();
  StoreServer server({.token = token});
  const StoreAddress address{.port = server.port(), .token = token};
  const Coordinator coordinator({.address = address,
                                 .options = {.max_restarts = 1},
                                 .serving_id = "a",
                                 .free_port = [] { return std::uint16_t{1}; },
                                 .remove_all = [&](const std::string& prefix) { server.remove_all(prefix); }});
  const auto store = connect_store(address, seconds(10));
  const NodeInfo node{.id = "a", .host = "h"};
  store->append(kEventQueue, to_text(Event{.kind = Event::Kind::kJoined, .node = node}));
  const auto first = parse_order(store->get(order_queue("a") + "1", seconds(10)));
  store->set(first.value().keys + "key", "of a rank");
  const NodeEnd failed{.round = 0, .code = 1, .cause = FailureRecord{.type = "IoError", .rank = 0}};
  store->append(kEventQueue, to_text(Event{.kind = Event::Kind::kEnded, .node = {.id = "a"}, .end = failed}));
  const auto next = parse_order(store->get(order_queue("a") + "3", seconds(10)));
  EXPECT_EQ(next.value().round, 1);
  EXPECT_NE(next.value().keys, first.value().keys);
  const auto end = AwakeClock::instance().now() + seconds(10);
  for (const std::string& key : {first.value().keys + "key", order_queue("a") + "1"}) {
    while (store->try_get(key) && AwakeClock::instance().now() < end) std::this_thread::yield();
    EXPECT_EQ(store->try_get(key), std::nullopt) << key;
  }
  EXPECT_NE(store->try_get(order_queue("a") + "3"), std::nullopt);
}

// Node 0's machine disappears just as an agent asks whether others are working: the agent must stop its ranks.
TEST(LongWorkLink, IsMadeAtOnceAlsoWhereTheStoreDoesNotAnswer) {
  const UniqueFd deaf(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{.sin_family = AF_INET, .sin_port = 0, .sin_addr = {htonl(INADDR_LOOPBACK)}, .sin_zero = {}};
  socklen_t size = sizeof address;
  ASSERT_EQ(::bind(deaf.get(), reinterpret_cast<sockaddr*>(&address), size), 0);
  ASSERT_EQ(::listen(deaf.get(), 8), 0);
  ASSERT_EQ(::getsockname(deaf.get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
  const auto begin = std::chrono::steady_clock::now();
  {
    LongWorkLink link({.port = ntohs(address.sin_port), .token = make_token()}, "key");
    link.publish();
    EXPECT_FALSE(link.ask(SystemClock::instance().now()));
    EXPECT_LT(std::chrono::steady_clock::now() - begin, seconds(1));
  }
  EXPECT_LT(std::chrono::steady_clock::now() - begin, seconds(8)) << "it ends";
}

// A group of nodes, one of which is hostile but holds the token.

class GroupWithALiar : public ::testing::Test {
 protected:
  void join(const std::string& name, int wish) {
    Event event{.kind = Event::Kind::kJoined};
    event.node = {.id = name, .host = "host-" + name, .wish = wish, .min_nodes = 2, .max_nodes = 2};
    apply(state_, event, now_, options_);
    for (GroupNode& node : state_.nodes) node.is_serving = node.info.id == "a";
  }

  void end(const std::string& name, int of_rank, bool is_consequence = false) {
    Event event{.kind = Event::Kind::kEnded};
    event.node.id = name;
    event.end = {.is_consequence = is_consequence,
                 .code = 65,
                 .cause = FailureRecord{.type = "DataError", .message = "torn", .rank = of_rank}};
    apply(state_, event, now_, options_);
  }

  Decision next() {
    Decision decision = decide(now_, state_, options_);
    carry_out(state_, decision, now_);
    return decision;
  }

  // The group's verdict after node b has reported a failure of this rank.
  std::string verdict_on(int rank) {
    end("b", rank);
    EXPECT_EQ(next().kind, Kind::kStop);
    end("a", 0, true);
    return next().cause.value_or(FailureRecord{}).message;
  }

  void SetUp() override {
    options_.min_nodes = options_.max_nodes = 2;
    join("a", 0);
    join("b", 1);
    ASSERT_EQ(next().kind, Kind::kStart);
  }

  GroupOptions options_;
  const TimePoint now_ = TimePoint() + std::chrono::seconds(1000);
  GroupState state_{now_};
};

TEST_F(GroupWithALiar, AWordAboutARankOfAnotherNodeHasItsName) {
  EXPECT_EQ(verdict_on(0), "torn (according to node 1 on host-b)");
}

TEST_F(GroupWithALiar, AWordAboutItsOwnRankIsLeftAsItIs) { EXPECT_EQ(verdict_on(1), "torn"); }

class GroupThatLosesANode : public GroupWithALiar {
 protected:
  void lose(const std::string& name, const std::string& why) {
    Event event{.kind = Event::Kind::kLost, .why = why};
    event.node.id = name;
    apply(state_, event, now_, options_);
  }

  // Rejoins like an agent that lost the store and found it again.
  void join_again(const std::string& host) {
    Event event{.kind = Event::Kind::kJoined};
    event.node = {.id = host + "-again", .host = host, .wish = 1, .min_nodes = 2, .max_nodes = 2, .last_round = 0};
    apply(state_, event, now_, options_);
  }

  Decision conclusion() {
    EXPECT_EQ(next().kind, Kind::kStop);
    Event event{.kind = Event::Kind::kEnded};
    event.node.id = "a";
    event.end = {.is_consequence = true, .code = 75, .cause = FailureRecord{.type = "PeerError", .rank = 0}};
    apply(state_, event, now_, options_);
    return next();
  }
};

TEST_F(GroupThatLosesANode, DoesNotBlameOneThatComesBack) {
  lose("b", "closed");
  join_again("host-b");
  const auto cause = conclusion().cause.value();
  EXPECT_EQ(cause.host, "host-a");
  EXPECT_THAT(cause.message,
              HasSubstr("node 0 (host-a, rank 0) could not be reached by node 1 (host-b), which is back"));
}

// The node's messages came late and out of order: the store was suspended, and the agent gave up in the meantime.
TEST_F(GroupThatLosesANode, TakesNoneInThatIsLostAlready) {
  const auto count = state_.nodes.size();
  lose("c", "closed");
  join("c", 1);
  EXPECT_EQ(state_.nodes.size(), count);
  join("d", 1);
  EXPECT_EQ(state_.nodes.size(), count + 1);
}

TEST_F(GroupThatLosesANode, BlamesItWhereAnotherJoins) {
  lose("b", "closed");
  join_again("host-c");
  EXPECT_EQ(conclusion().cause.value().host, "host-b");
}

TEST_F(GroupThatLosesANode, BlamesTheLauncherThatWasStopped) {
  observe_stop(state_, seconds(9), now_ - seconds(6));
  lose("b", "silent");
  const auto cause = conclusion().cause.value();
  EXPECT_EQ(cause.host, "host-a");
  EXPECT_EQ(cause.message,
            "the launcher of node 0 (host-a, rank 0) was stopped for 9.0 s, so node 1 (host-b) treated it as lost");
}

TEST_F(GroupThatLosesANode, BlamesItWhereTheLauncherWasStoppedLongAgoOrShortly) {
  observe_stop(state_, seconds(9), now_ - seconds(60));
  observe_stop(state_, seconds(1), now_);
  lose("b", "silent");
  EXPECT_EQ(conclusion().cause.value().host, "host-b");
}

// The node's agent was frozen before it could report how the rank ended, but the rank itself had reported its error.
TEST_F(GroupThatLosesANode, KeepsTheWordOfARankOfIt) {
  options_.max_restarts = 3;
  state_.claim = FailureRecord{.type = "DataError", .message = "torn", .rank = 1, .host = "host-b"};
  lose("b", "silent");
  const Decision end = conclusion();
  EXPECT_EQ(end.kind, Kind::kEnd) << "it would come again";
  EXPECT_EQ(end.code, 65);
  EXPECT_EQ(words_of(end.cause.value()), "DataError: torn");
}

// An agent heard nothing from the store for a while and stopped its ranks. All other ranks exited because of that.
TEST_F(GroupThatLosesANode, StartsAgainWhereANodeHasLostTheStore) {
  options_.max_restarts = 1;
  const FailureRecord left{.message = "exit code 143", .rank = 0};
  for (const char* name : {"a", "b"}) {
    Event event{.kind = Event::Kind::kEnded};
    event.node.id = name;
    event.end = {.left_by_request = true, .has_lost_store = name[0] == 'b', .code = 143, .cause = left};
    event = parse_event(to_text(event)).value();
    apply(state_, event, now_, options_);
  }
  const Decision decision = next();
  EXPECT_EQ(decision.kind, Kind::kAgain);
  EXPECT_THAT(decision.cause.value().message, HasSubstr("could not be reached by node 1 (host-b)"));
}

TEST_F(GroupWithALiar, OfAThousandThatWaitTheNewestIsRefused) {
  for (int i = 0; i < 1001; ++i) join("x" + std::to_string(i), 1);
  const Decision refusal = next();
  EXPECT_EQ(refusal.kind, Kind::kRefuse);
  EXPECT_THAT(refusal.ids, ElementsAre("x1000"));
  EXPECT_THAT(refusal.reason, HasSubstr("1002 nodes have already joined a group of 2"));
  EXPECT_NE(next().kind, Kind::kRefuse);
}

TEST(Messages, AnEventSurvivesItsText) {
  Event event{.kind = Event::Kind::kEnded,
              .end = {.round = 3,
                      .place = " in step 4",
                      .interrupted_by = 15,
                      .left_by_request = true,
                      .code = 143,
                      .cause = FailureRecord{.kind = FailureKind::kDied,
                                             .type = "DataError",
                                             .message = "no image",
                                             .rank = 7,
                                             .host = "b",
                                             .time_ns = 5}},
              .signal = 15};
  event.node.id = "n1";
  const auto same = parse_event(to_text(event));
  ASSERT_TRUE(same);
  EXPECT_EQ(same->kind, Event::Kind::kEnded);
  EXPECT_EQ(same->node.id, "n1");
  EXPECT_EQ(same->end.round, 3);
  EXPECT_EQ(same->end.place, " in step 4");
  EXPECT_TRUE(same->end.left_by_request);
  EXPECT_FALSE(same->end.is_success);
  EXPECT_EQ(same->end.cause->type, "DataError");
  EXPECT_EQ(same->end.cause->rank, 7);
  EXPECT_EQ(same->signal, 15);
}

// A message with a tensor in it may have megabytes, and control characters take six bytes each.
TEST(Messages, ARanksLongErrorStillReachesTheCoordinator) {
  for (const char letter : {'x', '\n', '\x01'}) {
    const std::string words(1U << 20U, letter);
    const FailureRecord cause{.type = words, .message = "start " + words, .hint = words, .rank = 1, .host = words};
    const NodeEnd failed{.round = 0, .code = 1, .cause = cause};
    const Event event{.kind = Event::Kind::kEnded, .node = {.id = "a"}, .end = failed};
    const auto back = parse_event(to_text(event));
    ASSERT_TRUE(back) << int{letter};
    EXPECT_EQ(back->end.code, 1);
    EXPECT_EQ(back->end.cause.value().rank, 1);
    EXPECT_THAT(back->end.cause.value().message, ::testing::StartsWith("start"));
  }
}

TEST(Messages, ALastWillIsTheLossOfANode) {
  EXPECT_EQ(parse_event("silent\nn1")->why, "silent");
  EXPECT_EQ(parse_event("closed\nn1")->node.id, "n1");
  EXPECT_FALSE(parse_event("asleep\nn1"));
  EXPECT_FALSE(parse_event("silent\n")) << "of no node";
}

// Exit codes have eight bits, so 128 + 128 would be 0.
TEST(Messages, NoCodeAndNoSignalWrapsRoundToASuccess) {
  for (const char* code : {"256", "512", "-1", "100000"}) {
    const auto event = parse_event(fmt::format(
        R"({{"event": "ended", "node": {{"id": "n1"}}, "end": {{"round": 0, "code": {0}, "interrupted_by": {0}}}, )"
        R"("signal": {0}}})",
        code));
    ASSERT_TRUE(event);
    EXPECT_EQ(event->end.code, 70) << code;
    EXPECT_EQ(event->end.interrupted_by, 0) << code;
    EXPECT_EQ(event->signal, 0) << code;
    EXPECT_EQ(parse_order(fmt::format(R"({{"order": "end", "code": {}}})", code))->code, 70);
  }
}

TEST(Messages, ANodeWithoutMeasureDoesNotJoin) {
  const auto joined = [](const NodeInfo& node) {
    return parse_event(to_text({.kind = Event::Kind::kJoined, .node = node})).has_value();
  };
  EXPECT_TRUE(joined({.id = "n1", .host = "h", .processes = 8}));
  EXPECT_FALSE(joined({.id = "n1", .host = "h", .processes = 100'000}));
  EXPECT_FALSE(joined({.id = "n1", .host = std::string(5000, 'h'), .processes = 8}));
  EXPECT_FALSE(joined({.id = "n1", .host = "h", .processes = 8, .peers = {std::string(2'000'000, 'h')}}));
}

TEST(Messages, AnOrderSurvivesItsText) {
  const Order order{.kind = Order::Kind::kRun,
                    .reason = "2 nodes",
                    .round = 2,
                    .restarts = 1,
                    .max_world_size = 4,
                    .min_world_size = 2,
                    .master_port = 29501,
                    .members = {{"n1", "a", 2}, {"n2", "b", 1}}};
  const auto same = parse_order(to_text(order));
  ASSERT_TRUE(same);
  EXPECT_EQ(same->kind, Order::Kind::kRun);
  EXPECT_EQ(same->round, 2);
  EXPECT_EQ(same->restarts, 1);
  EXPECT_EQ(same->max_world_size, 4);
  EXPECT_EQ(same->min_world_size, 2);
  EXPECT_EQ(same->master_port, 29501);
  ASSERT_EQ(same->members.size(), 2U);
  EXPECT_EQ(same->members[1].host, "b");
  EXPECT_FALSE(same->cause);
}

TEST(Messages, OfSomethingElseAreNone) {
  for (const char* text : {"", "{}", "[1]", R"({"event": "joined"})", R"({"event": "dance", "node": {"id": "x"}})",
                           R"({"event": "joined", "node": {"id": "x", "host": "h", "processes": 0}})"}) {
    EXPECT_FALSE(parse_event(text)) << text;
  }
  for (const char* text : {"", "{}", R"({"order": "run"})", R"({"order": "run", "members": [3]})", R"({"order": 7})"}) {
    EXPECT_FALSE(parse_order(text)) << text;
  }
}

constexpr std::int64_t kSecond = 1'000'000'000;

const NodeName kSecondNode{.node_rank = 1, .host = "b", .first_rank = 2, .ranks = 2};

FailureRecord claim_of(FailureKind kind, int rank, std::int64_t time_ns) {
  return {.kind = kind, .message = "exit code 1", .rank = rank, .time_ns = time_ns};
}

TEST(LostNode, SaysWhichItWasAndWhatIsKnownOfItsEnd) {
  const auto killed = lost_node(kSecondNode, "closed", seconds(6));
  EXPECT_EQ(killed.kind, FailureKind::kLost);
  EXPECT_EQ(killed.rank, 2);
  EXPECT_EQ(killed.host, "b");
  EXPECT_EQ(killed.message, "node 1 (b, ranks 2 to 3) is lost: its launcher was killed, or its machine went down");
  const auto cut = lost_node({.node_rank = 1, .host = "b", .first_rank = 1}, "silent", seconds(6));
  EXPECT_THAT(cut.message, HasSubstr("node 1 (b, rank 1) is lost: it reported nothing for 6.0 s"));
}

TEST(LostNode, IsSilentForHalfOfTheTimeoutAtMost) {
  EXPECT_EQ(node_silence(seconds(300)), seconds(6));
  EXPECT_EQ(node_silence(seconds(8)), seconds(4));
  EXPECT_EQ(node_silence(std::chrono::milliseconds(300)), seconds(1));
}

// The lost node's ranks 2 and 3 were lost at 100 s.
bool is_the_node(const std::optional<FailureRecord>& claim) {
  FailureRecord lost = lost_node(kSecondNode, "silent", seconds(6));
  lost.time_ns = 100 * kSecond;
  return blames_node(lost, kSecondNode.ranks, claim, seconds(6));
}

TEST(FirstCause, IsTheLostNodeWhereNobodyClaims) { EXPECT_TRUE(is_the_node(std::nullopt)); }

TEST(FirstCause, IsTheLostNodeAndNotTheRankThatWaitedForIt) {
  EXPECT_TRUE(is_the_node(claim_of(FailureKind::kTimeout, 0, kSecond)));
  EXPECT_TRUE(is_the_node(claim_of(FailureKind::kPeer, 0, kSecond)));
  EXPECT_TRUE(is_the_node(claim_of(FailureKind::kLost, 2, kSecond))) << "it had heard so";
}

TEST(FirstCause, IsTheLostNodeWhereARankElsewhereFailedWhileItWasSilent) {
  // "connection reset" reported by the rank's own library.
  EXPECT_TRUE(is_the_node(claim_of(FailureKind::kDied, 0, 94 * kSecond)));
}

TEST(FirstCause, IsARankThatFailedWellBeforeTheNodeWasLost) {
  EXPECT_FALSE(is_the_node(claim_of(FailureKind::kDied, 0, 92 * kSecond)));
}

TEST(FirstCause, IsARankOfTheLostNodeThatCouldStillSayWhy) {
  EXPECT_FALSE(is_the_node(claim_of(FailureKind::kFailed, 3, 99 * kSecond)));
}

}  // namespace coordinator_test
}  // namespace lockstep::launch

namespace lockstep {
namespace coordinator_test {

TEST(Restart, NeedsABudget) {
  EXPECT_FALSE(decide_restart({.max_restarts = 0}).restart);
  EXPECT_TRUE(decide_restart({.max_restarts = 1}).restart);
  EXPECT_TRUE(decide_restart({.restarts_done = 2, .max_restarts = 3}).restart);
  EXPECT_FALSE(decide_restart({.restarts_done = 3, .max_restarts = 3}).restart);
}

TEST(Restart, ErrorsThatWouldComeAgainVeto) {
  for (const char* type : {"UsageError", "DataError", "InternalError"}) {
    const auto decision = decide_restart({.error_type = type, .max_restarts = 3});
    EXPECT_FALSE(decision.restart) << type;
    EXPECT_NE(decision.reason.find(type), std::string::npos);
  }
}

TEST(Restart, AFullOrReadOnlyDiskVetoes) {
  const RestartFacts facts{.error_type = "IoError",
                           .error_text = "IoError: cannot write /r/log.jsonl: No space left on device",
                           .max_restarts = 3};
  EXPECT_FALSE(decide_restart(facts).restart);
  RestartFacts other = facts;
  other.error_text = "IoError: cannot read /r/x: Input/output error";
  EXPECT_TRUE(decide_restart(other).restart);
}

TEST(Restart, ALostRunFolderAndARescueVeto) {
  RestartFacts facts{
      .error_type = "IoError",
      .error_text = "IoError: the run folder /r was removed while the run was training in it: its files are lost",
      .max_restarts = 3};
  EXPECT_FALSE(decide_restart(facts).restart);
  EXPECT_EQ(decide_restart(facts).reason, "the run folder is lost");
  facts.error_text = "IoError: cannot write /r/x: Input/output error\n  saved         /d/checkpoints/step-7 (step 7)";
  EXPECT_FALSE(decide_restart(facts).restart) << "a restart would not use what was saved";
}

TEST(Restart, OtherErrorsAndForeignProgramsRestart) {
  for (const char* type :
       {"", "IoError", "PeerError", "TimeoutError", "ResourceError", "ProgramError", "SIGSEGV", "KeyError"}) {
    EXPECT_TRUE(decide_restart({.error_type = type, .max_restarts = 3}).restart) << type;
  }
}

TEST(Restart, NotWhenAskedToStop) {
  EXPECT_FALSE(decide_restart({.was_interrupted = true, .max_restarts = 3}).restart);
}

TEST(Restart, EveryDecisionHasAReason) {
  EXPECT_EQ(decide_restart({.restarts_done = 1, .max_restarts = 3}).reason, "restart 2 of 3");
  EXPECT_FALSE(decide_restart({}).reason.empty());
}

}  // namespace coordinator_test
}  // namespace lockstep
