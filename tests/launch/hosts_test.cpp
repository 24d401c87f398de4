// SPDX-License-Identifier: Apache-2.0
#include "lockstep/launch/hosts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "launch/hosts/host_command.h"
#include "launch/hosts/host_group.h"
#include "launch/hosts/host_lines.h"
#include "lockstep/base/error.h"
#include "support/temp_dir.h"

namespace lockstep::launch {
namespace hosts_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

std::vector<std::string> texts(const std::vector<HostEntry>& hosts) {
  std::vector<std::string> all;
  for (const HostEntry& host : hosts) all.push_back(host.name + "/" + std::to_string(host.slots));
  return all;
}

std::string what_is_wrong(const std::string& list) {
  try {
    (void)parse_hosts(list);
  } catch (const UsageError& error) {
    return error.message();
  }
  return "nothing";
}

TEST(HostList, HasNamesUsersRanksAndAddresses) {
  EXPECT_THAT(texts(parse_hosts("a")), ElementsAre("a/0"));
  EXPECT_THAT(texts(parse_hosts("a:8,me@b.example:2,10.0.0.1")), ElementsAre("a/8", "me@b.example/2", "10.0.0.1/0"));
  EXPECT_THAT(texts(parse_hosts("[fe80::1]:4,me@[fe80::2],fe80::3")),
              ElementsAre("fe80::1/4", "me@fe80::2/0", "fe80::3/0"));
  EXPECT_EQ(address_of({.name = "me@b"}), "b");
  EXPECT_EQ(address_of({.name = "b"}), "b");
}

TEST(HostList, SaysWhatIsNoHost) {
  for (const std::string list : {"", "a,,b", "a:0", "a:x", "-oProxyCommand=x", "a b", "me@", "[::1", "a;reboot"}) {
    EXPECT_THAT(what_is_wrong(list), HasSubstr("--hosts has '")) << list;
  }
  EXPECT_EQ(what_is_wrong("a,b,me@a:2"), "host a is listed twice");
}

TEST(Hostfile, ReadsTheFormsOfOthersAndNamesTheBadLine) {
  const test::TempDir folder;
  const auto file = folder.path() / "hosts";
  std::ofstream(file) << "# the rack\na slots=8 max_slots=16\n\nb:4  # half of it\nc\n";
  EXPECT_THAT(texts(read_hostfile(file)), ElementsAre("a/8", "b/4", "c/0"));
  std::ofstream(file) << "a\nb gpus=8\n";
  EXPECT_THROW(
      {
        try {
          (void)read_hostfile(file);
        } catch (const UsageError& error) {
          EXPECT_THAT(error.message(), HasSubstr("hosts:2 is 'b gpus=8'"));
          throw;
        }
      },
      UsageError);
  std::ofstream(file) << "# nobody\n";
  EXPECT_THROW((void)read_hostfile(file), DataError);
  EXPECT_THROW((void)read_hostfile(folder.path() / "none"), DataError);
}

HostsOptions options_of_two() {
  return {.launchers = {{{.name = "me@a"}, {"/opt/lockstep", "run", "--", "./train", "--name", "it's me"}},
                        {{.name = "b"}, {"/opt/lockstep"}}},
          .ssh = {"ssh", "-o", "BatchMode=yes"},
          .folder = "/home/me/my work",
          .environment = {{"OMP_NUM_THREADS", "2"}},
          .token = "sesame-sesame-sesame"};
}

TEST(HostCommand, IsOneTextThatTheHostsShellReadsAsItWas) {
  const HostsOptions options = options_of_two();
  EXPECT_THAT(start_command(options, options.launchers[0], false),
              ElementsAre("ssh", "-o", "BatchMode=yes", "me@a",
                          "cd '/home/me/my work' && exec /opt/lockstep run -- ./train --name "
                          "'it'\\''s me'"));
  EXPECT_THAT(start_command(options, options.launchers[1], true),
              ElementsAre("/bin/sh", "-c", "cd '/home/me/my work' && exec /opt/lockstep"));
}

TEST(HostCommand, ShowsNeitherTheSecretNorTheEnvironment) {
  HostsOptions options = options_of_two();
  options.environment.emplace_back("NCCL_NOTE", "a=b\\n\nand more");
  for (const std::string& word : start_command(options, options.launchers[0], false)) {
    EXPECT_THAT(word, Not(HasSubstr("sesame")));
    EXPECT_THAT(word, Not(HasSubstr("NCCL_NOTE")));
    EXPECT_THAT(word, Not(HasSubstr("OMP_NUM_THREADS")));
  }
  EXPECT_EQ(first_orders(options), "sesame-sesame-sesame\nOMP_NUM_THREADS=2\nNCCL_NOTE=a=b\\\\n\\nand more\n\n");
}

TEST(HostEnd, TellsAFailureFromAHostThatIsNotReached) {
  const auto kind = [](int code) { return end_of_host(code << 8).kind; };
  EXPECT_EQ(kind(0), HostEnd::Kind::kDone);
  EXPECT_EQ(kind(3), HostEnd::Kind::kFailed);
  EXPECT_EQ(kind(127), HostEnd::Kind::kMissing);
  EXPECT_EQ(kind(255), HostEnd::Kind::kUnreached);
  EXPECT_EQ(end_of_host(SIGKILL).kind, HostEnd::Kind::kUnreached);
}

class Screen {
 public:
  Screen() : lines({"a", "b"}, [this](int, std::string_view line) { text += line; }) {}
  std::string take() { return std::exchange(text, ""); }

  std::string text;
  HostLines lines;
};

TEST(HostLines, EachLineGetsTheHostThatItCameFrom) {
  Screen screen;
  screen.lines.feed(1, 0, "[2]: hel");
  screen.lines.feed(0, 0, "[0]: other\n");
  screen.lines.feed(1, 0, "lo\nlockstep: a note\n");
  EXPECT_EQ(screen.take(), "a: [0]: other\nb: [2]: hello\nb: lockstep: a note\n");
  screen.lines.feed(0, 1, "no newline");
  screen.lines.finish(0, 1);
  EXPECT_EQ(screen.take(), "a: no newline\n");
}

TEST(HostLines, TheLinesOfOneReadingAreOnePiece) {
  std::vector<std::string> pieces;
  HostLines lines({"a"}, [&](int, std::string_view bytes) { pieces.emplace_back(bytes); });
  lines.feed(0, 0, "[0]: x\n[1]: y\nnote\n");
  EXPECT_EQ(pieces, (std::vector<std::string>{"a: [0]: x\na: [1]: y\na: note\n"}));
}

TEST(HostLines, AHostCanNeitherSpeakForARankOfAnotherNorSteerTheTerminal) {
  Screen screen;
  screen.lines.feed(1, 0, "[0]: loss 0.1\n\033[2J\033]0;title\a\u009b31m\033[31m[0]:\033[0m red\n");
  EXPECT_EQ(screen.take(), "b: [0]: loss 0.1\nb: \\x1b[2J\\x1b]0;title\\x07\\xc2\\x9b31m[0]: red\n");
  screen.lines.feed(1, 1, "a: error: it was a\ra: overwritten\n");
  EXPECT_EQ(screen.take(), "b: a: overwritten\n");
}

TEST(HostLines, WhatBothLaunchersSayIsShownOnceForEachTime) {
  Screen screen;
  screen.lines.feed(0, 1, "error: node 2 was lost\n  next: look there\n");
  screen.lines.feed(1, 1, "error: node 2 was lost\n  next: look there\n");
  EXPECT_EQ(screen.take(), "a: error: node 2 was lost\na:   next: look there\n");
  screen.lines.feed(1, 1, "error: node 2 was lost\n");
  EXPECT_EQ(screen.take(), "b: error: node 2 was lost\n");
  screen.lines.feed(0, 1, "error: node 2 was lost\n");
  EXPECT_EQ(screen.take(), "");
}

}  // namespace hosts_test
}  // namespace lockstep::launch
