// SPDX-License-Identifier: Apache-2.0
// Settings under the names of another program: which one wins, and what is said about it.
#include "lockstep/train/config_alias.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep {
namespace config_alias_test {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

const std::vector<ConfigAlias>& known() {
  static const std::vector<ConfigAlias> kKnown = {
      {"lr", "optimizer.lr"},
      {"dataset_path", "data.train"},
      {"dataset_path", "data.test"},
      {"kind", "model.type", [](const std::string& value) { return value == "old" ? "new" : value; }},
      {"local_rank"},
      {.from = "logdir", .instead = "--run-dir"},
      {"loader.*"}};
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

TEST(ConfigAlias, TheCommandLineWinsOverAFileUnderEitherName) {
  EXPECT_EQ(rename("optimizer:\n  lr: 0.5\n", {{"lr=0.1", "--set"}}).at("optimizer.lr"), "0.1");
  EXPECT_EQ(rename("optimizer:\n  lr: 0.5\n", {{"lr=0.1", "--lr"}}).at("optimizer.lr"), "0.1");
  EXPECT_EQ(rename("lr: 0.5\n", {{"optimizer.lr=0.1", "--set"}}).at("optimizer.lr"), "0.1");
}

TEST(ConfigAlias, InOnePlaceTheNameHereWins) {
  EXPECT_EQ(rename("optimizer:\n  lr: 0.5\nlr: 0.1\n").at("optimizer.lr"), "0.5");
  EXPECT_EQ(rename("", {{"optimizer.lr=0.5", "--set"}, {"lr=0.1", "--lr"}}).at("optimizer.lr"), "0.5");
}

}  // namespace config_alias_test
}  // namespace lockstep
