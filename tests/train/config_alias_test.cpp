// SPDX-License-Identifier: Apache-2.0
// Settings under the names of another program: which one wins, and what is said about it.
#include "lockstep/train/config_alias.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "support/comma_locale.h"
#include "support/fault_of.h"

namespace lockstep {
namespace config_alias_test {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

const std::vector<ConfigAlias>& known() {
  static const std::vector<ConfigAlias> kKnown = {
      {"lr", "optimizer.lr"},
      {"dataset_path", "data.train"},
      {"dataset_path", "data.test"},
      {"kind", "model.type", [](const std::string& value) { return value == "old" ? "new" : value; }},
      {"local_rank"},
      {.from = "logdir", .instead = "--run-dir"},
      {"loader.*"},
      {.from = "shuffle", .always = {"True"}},
      {.from = "model", .always = {"DFINE", "DEIM"}, .must_be = true}};
  return kKnown;
}

struct Renamed {
  ConfigTree tree;
  std::vector<std::string> notes;
  [[nodiscard]] std::string at(const std::string& key) const { return tree.values().at(key).yaml; }
};

Renamed rename(const std::string& file, const std::vector<std::pair<std::string, std::string>>& typed = {}) {
  ConfigTree tree = ConfigTree::from_text(file, "x.yml");
  for (const auto& [assignment, origin] : typed) tree.set(assignment, origin);
  Renamed renamed;
  renamed.tree = with_aliases(tree, known(), renamed.notes);
  return renamed;
}

TEST(ConfigAlias, PutsAValueUnderTheNameHereAndSaysSo) {
  const Renamed renamed = rename("lr: 0.5\nkind: old\nepochs: 3\n");
  EXPECT_EQ(renamed.at("optimizer.lr"), "0.5");
  EXPECT_EQ(renamed.at("model.type"), "new");
  EXPECT_EQ(renamed.at("epochs"), "3");
  EXPECT_EQ(renamed.tree.values().at("optimizer.lr").origin, "x.yml:1");
  EXPECT_THAT(renamed.notes,
              ElementsAre("settings under other names: kind is model.type here, lr is optimizer.lr here"));
}

TEST(ConfigAlias, OneNameMayBeSeveralKeysHere) {
  const Renamed renamed = rename("dataset_path: VOC2012\n");
  EXPECT_EQ(renamed.at("data.train"), "VOC2012");
  EXPECT_EQ(renamed.at("data.test"), "VOC2012");
}

TEST(ConfigAlias, NamesThatMeanNothingHereAreListedAndLeftOut) {
  const Renamed renamed = rename("local_rank: 0\nlogdir: x\nloader:\n  pin: true\n");
  EXPECT_THAT(renamed.tree.values(), IsEmpty());
  EXPECT_THAT(renamed.notes,
              ElementsAre("settings without a meaning here: loader.pin, local_rank, logdir (use --run-dir)"));
}

TEST(ConfigAlias, WhatIsSoAnywayIsNotNamedAndAnotherValueIs) {
  EXPECT_THAT(rename("shuffle: true\n").notes, IsEmpty());
  EXPECT_THAT(rename("shuffle: ~\n").notes, IsEmpty());
  EXPECT_THAT(rename("shuffle: false\n").notes,
              ElementsAre("settings without a meaning here: shuffle (always True here)"));
}

TEST(ConfigAlias, AValueThatMustBeAnotherIsAnErrorWithItsPlace) {
  EXPECT_THAT(rename("model: 'DEIM'\n").notes, IsEmpty());
  EXPECT_THAT(test::fault_of<UsageError>([] { rename("lr: 1\nmodel: RTDETR\n"); }),
              AllOf(HasSubstr("x.yml:2: model is RTDETR"), HasSubstr("here it is DFINE or DEIM")));
}

TEST(ConfigAlias, OfManyNamesTheNoteHasTheFirst) {
  ConfigTree tree;
  std::vector<ConfigAlias> aliases;
  for (char name = 'a'; name <= 'z'; ++name) {
    tree.set(std::string(1, name) + "=1", "x.yml");
    aliases.push_back({std::string(1, name), std::string(2, name)});
  }
  std::vector<std::string> notes;
  (void)with_aliases(tree, aliases, notes);
  ASSERT_EQ(notes.size(), 1U);
  EXPECT_THAT(notes[0], AllOf(HasSubstr("a is aa here"), HasSubstr("and 14 more"), Not(HasSubstr("z is zz here"))));
}

TEST(ConfigAlias, TheCommandLineWinsOverAFileUnderEitherName) {
  EXPECT_EQ(rename("optimizer:\n  lr: 0.5\n", {{"lr=0.1", "--set"}}).at("optimizer.lr"), "0.1");
  EXPECT_EQ(rename("optimizer:\n  lr: 0.5\n", {{"lr=0.1", "--lr"}}).at("optimizer.lr"), "0.1");
  EXPECT_EQ(rename("lr: 0.5\n", {{"optimizer.lr=0.1", "--set"}}).at("optimizer.lr"), "0.1");
}

TEST(ConfigAlias, InOnePlaceTheNameHereWins) {
  EXPECT_EQ(rename("optimizer:\n  lr: 0.5\nlr: 0.1\n").at("optimizer.lr"), "0.5");
  EXPECT_EQ(rename("", {{"optimizer.lr=0.5", "--set"}, {"lr=0.1", "--lr"}}).at("optimizer.lr"), "0.5");
}

TEST(ConfigAlias, ComparesNumbersWithAPointInALocaleWithADecimalComma) {
  const test::CommaLocale comma;
  const std::vector<ConfigAlias> aliases = {{.from = "gamma", .always = {"0.1"}, .must_be = true}};
  const auto take = [&](const char* yaml) {
    std::vector<std::string> notes;
    (void)with_aliases(ConfigTree::from_text(yaml, "x.yml"), aliases, notes);
  };
  EXPECT_NO_THROW(take("gamma: 0.10\n"));
  EXPECT_THROW(take("gamma: 0.2\n"), UsageError);
}

}  // namespace config_alias_test
}  // namespace lockstep
