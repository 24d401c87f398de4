// SPDX-License-Identifier: Apache-2.0
// The command line of a program that uses the Trainer, and the messages of programs that do not.
#include "lockstep/train/arguments.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "lockstep/base/error.h"
#include "lockstep/base/file_system.h"
#include "lockstep/base/option_words.h"
#include "lockstep/launch/train_options.h"
#include "support/alone.h"
#include "support/temp_dir.h"
#include "train/noisy_task.h"

namespace lockstep {
namespace arguments_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct Parsed {
  TrainConfig config;
  TrainerOptions options;
  ParsedArguments arguments;
};

Parsed parse(std::vector<const char*> words, const ArgumentOptions& about = {}) {
  words.insert(words.begin(), "build/points");
  Parsed parsed;
  parsed.config.epochs = 7;  // the program's own default
  parsed.options.run_dir = "runs/points";
  parsed.arguments =
      parse_arguments(static_cast<int>(words.size()), words.data(), parsed.config, parsed.options, about);
  return parsed;
}

std::string error_of(const std::vector<const char*>& words) {
  try {
    (void)parse(words);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "no error";
}

TEST(Arguments, WithoutAnyTheProgramsOwnSettingsStay) {
  const Parsed parsed = parse({});
  EXPECT_EQ(parsed.config.epochs, 7);
  EXPECT_EQ(parsed.options.run_dir, "runs/points");
  EXPECT_EQ(parsed.options.resume, "none");
  EXPECT_TRUE(parsed.options.has_options);
  EXPECT_FALSE(parsed.arguments.help);
}

TEST(Arguments, AreThoseOfLockstepTrain) {
  const Parsed parsed =
      parse({"--set", "optimizer.lr=0.5", "--set=seed=3", "--resume", "auto", "--run_dir", "there", "--init-from=w.pth",
             "--init-from-partial", "--allow-other-bits", "--max-time", "1h30m", "--batch-size", "16"});
  EXPECT_EQ(parsed.config.optimizer.lr, 0.5);
  EXPECT_EQ(parsed.config.seed, 3);
  EXPECT_EQ(parsed.config.batch_size.value(), 16);
  EXPECT_EQ(parsed.options.resume, "auto");
  EXPECT_EQ(parsed.options.run_dir, "there");
  EXPECT_EQ(parsed.options.init_from, "w.pth");
  EXPECT_TRUE(parsed.options.init_from_partial);
  EXPECT_TRUE(parsed.options.allow_other_bits);
  EXPECT_EQ(parsed.options.max_time.count(), 5400);
}

TEST(Arguments, ASettingInTwoWordsIsShownAsOne) {
  const std::string fault = error_of({"--set", "optimizer.lr", "0.5"});
  EXPECT_THAT(fault,
              ::testing::AllOf(HasSubstr("'optimizer.lr' is not an assignment"), HasSubstr("--set optimizer.lr=0.5")));
  EXPECT_THAT(error_of({"--set", "optimizer.lr"}), HasSubstr("is not an assignment"));
}

TEST(Arguments, SetWinsOverFilesAndTheLastFileOverTheFirst) {
  const test::TempDir folder;
  const std::string one = (folder / "one.yml").string();
  const std::string two = (folder / "two.yml").string();
  write_file_atomically(FileSystem::system(), one, "epochs: 1\nseed: 1\noptimizer:\n  lr: 0.25\n");
  write_file_atomically(FileSystem::system(), two, "seed: 2\n");
  const Parsed parsed = parse({"--set", "optimizer.lr=0.5", one.c_str(), two.c_str()});
  EXPECT_EQ(parsed.config.epochs, 1);
  EXPECT_EQ(parsed.config.seed, 2);
  EXPECT_EQ(parsed.config.optimizer.lr, 0.5);
}

TEST(Arguments, WhatInitReadsIsLeftToIt) {
  EXPECT_THAT(parse({"--backend", "tcp", "--wire=plain", "--device=cpu"}).arguments.rest, ElementsAre());
}

TEST(Arguments, WhatIsUnknownIsAnErrorWithTheNearestOrIsKept) {
  EXPECT_THAT(error_of({"--resum", "auto"}),
              HasSubstr("points: unknown argument '--resum' (did you mean '--resume'?)"));
  EXPECT_THAT(error_of({"--epoch", "3"}), HasSubstr("(did you mean '--epochs'?)"));
  EXPECT_THAT(error_of({"--set", "epoch=3"}), HasSubstr("epochs"));
  EXPECT_THAT(error_of({"--resume"}), HasSubstr("--resume has no value"));
  EXPECT_THAT(error_of({"--max-time", "soon"}), HasSubstr("--max-time"));
  EXPECT_THAT(parse({"--mine", "3", "--epochs", "2", "--", "--set"}, {.keep_rest = true}).arguments.rest,
              ElementsAre("--mine", "3", "--set"));
}

TEST(Arguments, HelpHasOptionsAndEverySettingWithTheProgramsValue) {
  ::testing::internal::CaptureStdout();
  EXPECT_TRUE(parse({"--help"}, {.description = "Learns points."}).arguments.help);
  const std::string text = ::testing::internal::GetCapturedStdout();
  for (const char* part : {"usage: points [FILE.yml] [OPTIONS]", "Learns points.", "--resume none|auto|PATH|URL",
                           "--set KEY=VALUE", "epochs=7 ", "passes over data.train", "checkpoint.every_steps=0"}) {
    EXPECT_THAT(text, HasSubstr(part));
  }
  for (const TrainOption& option : train_options()) {
    const bool is_there = text.find(fmt::format("  {} ", option.name)) != std::string::npos;
    EXPECT_EQ(is_there, option.in_programs) << option.name;
  }
}

/// Skips the options that init() reads.
TEST(Arguments, EachOptionOfATrainingIsTaken) {
  for (const TrainOption& option : train_options()) {
    if (!option.in_programs) continue;
    const std::string name(option.name);
    const char* value = name == "--set" ? "seed=3" : name == "--max-time" ? "5s" : "1";
    std::vector<const char*> words = {name.c_str()};
    if (!option.value.empty()) words.push_back(value);
    EXPECT_EQ(error_of(words), "no error") << name;
  }
}

TEST(OptionWords, NameOptionsOrFields) {
  EXPECT_EQ(option_words("resume", "auto"), "--resume auto");
  EXPECT_EQ(option_words("run-dir"), "--run-dir");
  EXPECT_EQ(setting_words("epochs=3"), "--set epochs=3");
  const ProgramWords off(false);
  const ProgramWords on(true);
  EXPECT_EQ(option_words("resume", "auto"), "TrainerOptions::resume = \"auto\"");
  EXPECT_EQ(option_words("run-dir", "DIR"), "TrainerOptions::run_dir = DIR");
  EXPECT_EQ(option_words("run-dir"), "TrainerOptions::run_dir");
  EXPECT_EQ(setting_words("epochs=3"), "TrainConfig::epochs = 3");
}

TEST(OptionWords, NameOptionsThatProgramsHave) {
  for (const auto& [name, field] : kNamedOptions) {
    const TrainOption* option = find_train_option(fmt::format("--{}", name));
    EXPECT_TRUE(option != nullptr && option->in_programs) << name;
  }
}

/// The error from a second run in the first run's folder.
std::string told(const TrainerOptions& more) {
  const test::TempDir folder;
  for (int run = 0; run < 2; ++run) {
    test::NoisyTask task;
    TrainConfig config;
    config.epochs = 1;
    config.max_steps = 1;
    config.data.train = "made up";
    TrainerOptions options = more;
    options.run_dir = folder / "run";
    try {
      (void)Trainer(testing::alone(), task, config, options).fit();
    } catch (const UsageError& error) {
      return error.what();
    }
  }
  return "no error";
}

TEST(OptionWords, AreTheTrainersWhereTheProgramHasNoOptions) {
  EXPECT_THAT(told({}), HasSubstr("TrainerOptions::resume = \"auto\" continues it"));
  EXPECT_THAT(told({.has_options = true}), HasSubstr("--resume auto continues it"));
}

}  // namespace arguments_test
}  // namespace lockstep
