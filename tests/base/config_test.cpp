// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <limits>

#include "lockstep/base/error.h"
#include "lockstep/base/file_system.h"
#include "support/temp_dir.h"

namespace lockstep {
namespace config_test {

using ::testing::HasSubstr;

struct Settings {
  std::int64_t epochs = 1;
  double lr = 0.1;
  bool shuffle = true;
  std::string amp = "none";
  std::vector<std::string> tags;
  AutoInt batch{8};
  std::vector<ConfigMap> groups;

  ConfigFields fields() {
    ConfigFields list;
    list.add("epochs", &epochs, "passes");
    list.add("optimizer.lr", &lr, "rate");
    list.add("data.shuffle", &shuffle, "order");
    list.add("amp", &amp, "precision", {"none", "bf16", "fp16"});
    list.add("tags", &tags, "words");
    list.add("batch", &batch, "samples");
    list.add("groups", &groups, "maps");
    return list;
  }
};

std::string error_of(const std::string& yaml) {
  Settings settings;
  try {
    settings.fields().bind(ConfigTree::from_text(yaml, "x.yml"));
  } catch (const UsageError& error) {
    return error.message();
  }
  return "no error";
}

TEST(Config, BindsEveryTypeAndKeepsOrigins) {
  Settings settings;
  ConfigFields fields = settings.fields();
  ConfigTree tree = ConfigTree::from_text("epochs: 3\noptimizer:\n  lr: 6e-4\ntags: [a, b]\n", "x.yml");
  tree.set("data.shuffle=false", "--set");
  fields.bind(tree);
  EXPECT_EQ(settings.epochs, 3);
  EXPECT_DOUBLE_EQ(settings.lr, 6e-4);
  EXPECT_FALSE(settings.shuffle);
  EXPECT_EQ(settings.tags, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(fields.fields()[1].origin, "x.yml:3");
  EXPECT_EQ(fields.fields()[2].origin, "--set");
  EXPECT_EQ(fields.fields()[3].origin, "default");
}

TEST(Config, AnUnknownKeyNamesFileLineAndTheNearestKey) {
  EXPECT_EQ(error_of("epochs: 1\nephocs: 2\n"), "x.yml:2: unknown key 'ephocs' (did you mean 'epochs'?)");
}

TEST(Config, AWrongTypeNamesTheValue) {
  EXPECT_EQ(error_of("epochs: many\n"), "x.yml:1: epochs is 'many', not an integer");
  EXPECT_EQ(error_of("epochs: [1]\n"), "x.yml:1: epochs is '[1]', not an integer");
  EXPECT_EQ(error_of("tags: a\n"), "x.yml:1: tags is 'a', not a list of strings");
}

/// Settings with ranges.
struct Ranged {
  std::int64_t replicas = 0;
  std::int64_t seed = 0;
  double share = 0;
  AutoInt batch{8};
  std::vector<std::string> points;

  ConfigFields fields() {
    ConfigFields list;
    list.add("replicas", &replicas, "width").in({0, 1'000'000});
    list.add("seed", &seed, "of everything");
    list.add("share", &share, "of a whole").in({.least = 0, .most = 1, .below = true});
    list.add("batch", &batch, "samples").in({1, 1000}, "samples").at_resume(OnResume::kFree).tuned();
    list.add("points", &points, "of a head").in({1, 64});
    return list;
  }

  std::string error_of(const std::string& assignment) {
    ConfigTree tree;
    tree.set(assignment, "--set");
    try {
      fields().bind(tree);
    } catch (const UsageError& error) {
      return error.message();
    }
    return "no error";
  }
};

TEST(ConfigRange, SaysWhichNumbersItHas) {
  EXPECT_EQ((ConfigRange{0, 1'000'000}).text(), "0 .. 1,000,000");
  EXPECT_EQ((ConfigRange{.least = 1}).text(), "1 or more");
  EXPECT_EQ((ConfigRange{.least = 0, .above = true}).text(), "above 0");
  EXPECT_EQ((ConfigRange{.least = 0, .most = 0.5, .above = true}).text(), "above 0, 0.5 at most");
  EXPECT_EQ((ConfigRange{.least = 0, .most = 1, .below = true}).text(), "0 or more, below 1");
  EXPECT_TRUE((ConfigRange{0, 1}).contains(1));
  EXPECT_FALSE((ConfigRange{.least = 0, .most = 1, .below = true}).contains(1));
  EXPECT_FALSE((ConfigRange{.least = 0, .above = true}).contains(0));
  EXPECT_FALSE((ConfigRange{0, 1}).contains(std::numeric_limits<double>::quiet_NaN()));
}

TEST(ConfigRange, AValueOutsideIsRefusedByKeyWithTheRange) {
  Ranged ranged;
  // 2^32 + 2 was 2 where it became an int of 32 bits.
  EXPECT_EQ(ranged.error_of("replicas=4294967298"), "--set: replicas is 4294967298; it must be 0 .. 1,000,000");
  EXPECT_EQ(ranged.error_of("replicas=-1"), "--set: replicas is -1; it must be 0 .. 1,000,000");
  EXPECT_EQ(ranged.error_of("replicas=1180591620717411303424"),
            "--set: replicas is 1180591620717411303424; it must be 0 .. 1,000,000");
  EXPECT_EQ(ranged.error_of("replicas=1.5"), "--set: replicas is '1.5', not an integer; it must be 0 .. 1,000,000");
  EXPECT_EQ(ranged.error_of("replicas=1e3"), "--set: replicas is '1e3', not an integer; it must be 0 .. 1,000,000");
  EXPECT_EQ(ranged.error_of("seed=9223372036854775807"), "no error");
  EXPECT_EQ(ranged.error_of("seed=9223372036854775808"),
            "--set: seed is 9223372036854775808, which 64 bits do not hold");
  EXPECT_EQ(ranged.error_of("share=1"), "--set: share is 1; it must be 0 or more, below 1");
  EXPECT_EQ(ranged.error_of("share=.nan"), "--set: share is nan; it must be 0 or more, below 1");
  EXPECT_EQ(ranged.error_of("batch=0"), "--set: batch is 0; it must be 1 .. 1,000 samples, or auto");
  EXPECT_EQ(ranged.error_of("batch=auto"), "no error");
  EXPECT_EQ(ranged.error_of("points=[4,65]"), "--set: points has 65; it must be 1 .. 64");
  EXPECT_EQ(ranged.error_of("points=[4,x]"), "--set: points has x; it must be 1 .. 64");
}

TEST(ConfigRange, AValueThatAProgramHasSetIsChecked) {
  Ranged ranged;
  EXPECT_NO_THROW(ranged.fields().check());
  ranged.replicas = std::int64_t{1} << 40;
  try {
    ranged.fields().check();
    ADD_FAILURE() << "it was taken";
  } catch (const UsageError& error) {
    EXPECT_EQ(error.message(), "replicas is 1099511627776; it must be 0 .. 1,000,000");
  }
}

TEST(Config, ARowHoldsWhatIsKnownOfASetting) {
  Ranged ranged;
  ConfigFields fields = ranged.fields();
  const ConfigFields::Field& batch = fields.at("batch");
  EXPECT_EQ(batch.resume, OnResume::kFree);
  EXPECT_TRUE(batch.tune);
  EXPECT_FALSE(batch.host);
  EXPECT_EQ(fields.at("replicas").resume, OnResume::kError);
  EXPECT_THROW((void)fields.at("nothing"), InternalError);
}

TEST(Config, ANumberOrAutoIsEither) {
  Settings settings;
  settings.fields().bind(ConfigTree::from_text("batch: 12\n", "x.yml"));
  EXPECT_FALSE(settings.batch.is_auto());
  EXPECT_EQ(settings.batch, 12);
  settings.fields().bind(ConfigTree::from_text("batch: auto\n", "x.yml"));
  EXPECT_TRUE(settings.batch.is_auto());
  EXPECT_THAT(settings.fields().to_yaml(), HasSubstr("batch: auto\n"));
  EXPECT_THROW((void)settings.batch.value(), UsageError);
  settings.batch = 96;
  EXPECT_THAT(settings.fields().to_yaml(), HasSubstr("batch: 96\n"));
}

TEST(Config, AWrongNumberOrAutoSaysWhatItMayBe) {
  EXPECT_EQ(error_of("batch: many\n"), "x.yml:1: batch is 'many', not a whole number or auto");
  EXPECT_EQ(error_of("batch: 1.5\n"), "x.yml:1: batch is '1.5', not a whole number or auto");
  EXPECT_EQ(error_of("batch: [auto]\n"),
            "x.yml:1: batch is '[auto]', not a whole number or auto (did you mean 'auto'?)");
  EXPECT_EQ(error_of("batch: atuo\n"), "x.yml:1: batch is 'atuo', not a whole number or auto (did you mean 'auto'?)");
}

TEST(Config, AListOfMapsIsReadAndWrittenBack) {
  const std::string yaml =
      "groups:\n  - params: '^[ab], {c}\\.'\n    lr: 1e-3\n  - {params: \"x: y\", betas: [0.9, 1]}\n";
  Settings settings;
  settings.fields().bind(ConfigTree::from_text(yaml, "x.yml"));
  const std::vector<ConfigMap> expected = {{{"params", "^[ab], {c}\\."}, {"lr", "1e-3"}},
                                           {{"params", "x: y"}, {"betas", std::vector<std::string>{"0.9", "1"}}}};
  EXPECT_EQ(settings.groups, expected);
  Settings again;
  again.fields().bind(ConfigTree::from_text(settings.fields().to_yaml(), "y.yml"));
  EXPECT_EQ(again.groups, expected);
  ConfigTree tree;
  tree.set("groups=[{params: bias$, lr: 0}]", "--set");
  again.fields().bind(tree);
  EXPECT_EQ(again.groups, (std::vector<ConfigMap>{{{"params", "bias$"}, {"lr", "0"}}}));
  EXPECT_EQ(error_of("groups: [a]\n"), "x.yml:1: groups is '[a]', not a list of maps");
  EXPECT_EQ(error_of("groups: a\n"), "x.yml:1: groups is 'a', not a list of maps");
}

TEST(Config, AMapAloneStandsForAListOfOne) {
  Settings settings;
  const ConfigTree file = ConfigTree::from_text("groups: {0: 0, 255: [1, 2]}\n", "x.yml");
  settings.fields().bind(file);
  EXPECT_EQ(settings.groups, (std::vector<ConfigMap>{{{"0", "0"}, {"255", std::vector<std::string>{"1", "2"}}}}));
  ConfigTree both = file;
  both.set("groups={7: 1}", "--set");
  settings.fields().bind(both);
  EXPECT_EQ(settings.groups, (std::vector<ConfigMap>{{{"7", "1"}}})) << "what is typed replaces the file's";
  ConfigTree other;
  other.set("groups={7: 1}", "--set");
  other.merge(file);
  settings.fields().bind(other);
  EXPECT_EQ(settings.groups.front().size(), 2U) << "a later map replaces what was typed as a whole";
}

TEST(Config, AnInvalidChoiceListsTheValidOnes) {
  EXPECT_THAT(error_of("amp: bf61\n"), HasSubstr("valid are none, bf16, fp16 (did you mean 'bf16'?)"));
}

TEST(Config, BrokenYamlNamesTheLine) { EXPECT_THAT(error_of("a: [1\n"), HasSubstr("x.yml:")); }

TEST(Config, IncludesMergeDepthFirstAndListsReplace) {
  const test::TempDir folder;
  FileSystem& files = FileSystem::system();
  write_file_atomically(files, folder / "base.yml", "epochs: 5\namp: bf16\ntags: [x, y]\n");
  write_file_atomically(files, folder / "top.yml", "__include__: [base.yml]\nepochs: 7\ntags: [z]\n");
  Settings settings;
  settings.fields().bind(ConfigTree::from_file(folder / "top.yml"));
  EXPECT_EQ(settings.epochs, 7);
  EXPECT_EQ(settings.amp, "bf16");
  EXPECT_EQ(settings.tags, std::vector<std::string>{"z"});
}

TEST(Config, AnIncludeMayBeOneNameAndLieInTheHomeFolder) {
  const test::TempDir folder;
  const test::TempDir home;
  FileSystem& files = FileSystem::system();
  write_file_atomically(files, home / "base.yml", "epochs: 5\n");
  write_file_atomically(files, folder / "middle.yml", "__include__: ['~/base.yml']\n");
  write_file_atomically(files, folder / "top.yml", "__include__: middle.yml\n");
  const std::string before = std::getenv("HOME") == nullptr ? "" : std::getenv("HOME");
  ::setenv("HOME", home.path().c_str(), 1);
  Settings settings;
  settings.fields().bind(ConfigTree::from_file(folder / "top.yml"));
  ::setenv("HOME", before.c_str(), 1);
  EXPECT_EQ(settings.epochs, 5);
}

TEST(Config, AFileThatIncludesItselfIsAnError) {
  const test::TempDir folder;
  write_file_atomically(FileSystem::system(), folder / "a.yml", "__include__: [a.yml]\n");
  EXPECT_THROW(ConfigTree::from_file(folder / "a.yml"), UsageError);
}

TEST(Config, ItsYamlReadsBackEqual) {
  Settings settings;
  settings.epochs = 9;
  settings.lr = 6e-4;
  settings.tags = {"0-9", "true"};
  const std::string yaml = settings.fields().to_yaml();
  Settings again;
  again.fields().bind(ConfigTree::from_text(yaml, "again"));
  EXPECT_EQ(again.fields().to_yaml(), yaml);
  EXPECT_EQ(again.tags, settings.tags);
  EXPECT_DOUBLE_EQ(again.lr, 6e-4);
}

TEST(Config, KeysThatAreWantedKeepTheirOrigins) {
  const ConfigTree tree = ConfigTree::from_text("SOLVER: {MAX_EPOCH: 3}\ndata: {train: x}\n", "x.yml");
  const ConfigTree capitals = tree.filtered([](const std::string& key) { return key[0] < 'a'; });
  ASSERT_EQ(capitals.values().size(), 1U);
  EXPECT_EQ(capitals.values().begin()->first, "SOLVER.MAX_EPOCH");
  EXPECT_EQ(capitals.values().begin()->second.origin, "x.yml:1");
  EXPECT_EQ(tree.values().size(), 2U);
}

TEST(Config, ASignIsAssignedAsItIsTyped) {
  for (const std::string sign : {"-", "_", "#", "?", ":", "."}) {
    std::string end;
    ConfigFields fields;
    fields.add("end", &end, "a sign");
    ConfigTree tree;
    tree.set("end=" + sign, "--set");
    fields.bind(tree);
    EXPECT_EQ(end, sign);
    ConfigFields again;
    again.add("end", &end, "a sign");
    again.bind(ConfigTree::from_text(fields.to_yaml(), "config.yml"));
    EXPECT_EQ(end, sign) << fields.to_yaml();
  }
}

TEST(Config, AnAssignmentWithoutEqualsIsAUsageError) {
  ConfigTree tree;
  EXPECT_THROW(tree.set("epochs", "--set"), UsageError);
}

}  // namespace config_test
}  // namespace lockstep
