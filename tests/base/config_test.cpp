// SPDX-License-Identifier: Apache-2.0
// Settings and their file formats, within limits.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>
#include <string>

#include "lockstep/base/config.h"
#include "lockstep/base/error.h"
#include "lockstep/base/file_system.h"
#include "lockstep/base/json.h"
#include "support/fault_of.h"
#include "support/temp_dir.h"

namespace lockstep {
namespace config_test {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

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
  EXPECT_EQ((ConfigRange{.least = 0, .most = 0.5, .above = true}).text(), "above 0, at most 0.5");
  EXPECT_EQ((ConfigRange{.least = 0, .most = 1, .below = true}).text(), "0 or more, below 1");
  EXPECT_TRUE((ConfigRange{0, 1}).contains(1));
  EXPECT_FALSE((ConfigRange{.least = 0, .most = 1, .below = true}).contains(1));
  EXPECT_FALSE((ConfigRange{.least = 0, .above = true}).contains(0));
  EXPECT_FALSE((ConfigRange{0, 1}).contains(std::numeric_limits<double>::quiet_NaN()));
}

TEST(ConfigRange, AValueOutsideIsRefusedByKeyWithTheRange) {
  Ranged ranged;
  // 2^32 + 2 used to become 2 in a 32-bit int.
  EXPECT_EQ(ranged.error_of("replicas=4294967298"), "--set: replicas is 4294967298; it must be 0 .. 1,000,000");
  EXPECT_EQ(ranged.error_of("replicas=-1"), "--set: replicas is -1; it must be 0 .. 1,000,000");
  EXPECT_EQ(ranged.error_of("replicas=1180591620717411303424"),
            "--set: replicas is 1180591620717411303424; it must be 0 .. 1,000,000");
  EXPECT_EQ(ranged.error_of("replicas=1.5"), "--set: replicas is '1.5', not an integer; it must be 0 .. 1,000,000");
  EXPECT_EQ(ranged.error_of("replicas=1e3"), "--set: replicas is '1e3', not an integer; it must be 0 .. 1,000,000");
  EXPECT_EQ(ranged.error_of("seed=9223372036854775807"), "no error");
  EXPECT_EQ(ranged.error_of("seed=9223372036854775808"),
            "--set: seed is 9223372036854775808, which does not fit into 64 bits");
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
  EXPECT_THAT(error_of("amp: bf61\n"), HasSubstr("valid values are none, bf16, fp16 (did you mean 'bf16'?)"));
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

TEST(Config, APipeIsRefusedAsSuch) {
  int ends[2] = {};
  ASSERT_EQ(::pipe(ends), 0);
  const std::string path = "/dev/fd/" + std::to_string(ends[0]);  // as the shell passes <(command)
  EXPECT_THAT(test::fault_of<DataError>([&] { (void)ConfigTree::from_file(path); }), HasSubstr(path + " is a pipe"));
  ::close(ends[0]);
  ::close(ends[1]);
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

std::string repeated(const std::string& text, int times) {
  std::string all;
  for (int i = 0; i < times; ++i) all += text;
  return all;
}

std::string why_not(std::string_view text, const JsonLimits& limits = {}) {
  try {
    (void)parse_json(text, limits);
    return "";
  } catch (const JsonError& error) {
    return error.message();
  }
}

TEST(Json, WhatIsWithinTheLimitsIsReadAsItStands) {
  EXPECT_EQ(parse_json(R"({"a": [1, 2.5, "]]]["], "a": null})"), json::parse(R"({"a": null})"));
  EXPECT_EQ(parse_ordered_json(R"({"b": 1, "a": 2})").begin().key(), "b");
  EXPECT_EQ(parse_json("\xEF\xBB\xBF[1]"), json::parse("[1]"));
  EXPECT_EQ(why_not(repeated("[", 64) + repeated("]", 64)), "");
}

TEST(Json, ADeepTextIsRefusedWithItsPlaceAndTheLimit) {
  const std::string words = "lists and objects are nested more than 64 deep";
  EXPECT_EQ(why_not("\n\n" + repeated("[", 200'000)), "line 3 (byte 67): " + words);
  EXPECT_EQ(why_not(repeated(R"({"a":)", 200'000)), "line 1 (byte 321): " + words);
  EXPECT_TRUE(json_or_null(repeated("[", 200'000) + repeated("]", 200'000)).is_null());
}

TEST(Json, BracketsWithinTextsAreNotCounted) {
  EXPECT_EQ(why_not('"' + repeated("[", 200'000) + '"'), "");
  EXPECT_EQ(why_not(R"("\")" + repeated("[", 200'000) + '"'), "");
  EXPECT_NE(why_not(R"(["\\",)" + repeated("[", 200'000)), "");
}

TEST(Json, ManyValuesAreRefused) {
  EXPECT_EQ(why_not("[" + repeated("[],", 600'000) + "0]"), "line 1 (byte 1500001): more than 1,000,000 values");
  EXPECT_EQ(why_not("{" + repeated("\"a\":0,", 10) + "\"a\":0}", {.values = 5}),
            "line 1 (byte 17): more than 5 values");
}

TEST(Json, PartsAreCountedAloneWhereACallbackTakesThemOneByOne) {
  const std::string list = "[" + repeated("[1,2,3],", 100) + "0]";
  EXPECT_NE(why_not(list, {.values = 10}), "");
  EXPECT_EQ(why_not(list, {.values = 10, .part_depth = 1}), "");
  EXPECT_NE(why_not("[[" + repeated("1,", 20) + "1]]", {.values = 10, .part_depth = 1}), "");
}

TEST(Json, ALongTextIsRefusedWithBothSizes) {
  EXPECT_EQ(why_not("[1, 2, 3]", {.bytes = 5}), "it has 9 B; the limit for JSON is 5 B");
}

TEST(Json, WhatIsNoJsonHasItsPlace) {
  EXPECT_EQ(why_not("{\n\"a\": x}"), "line 2 (byte 8): not JSON");
  EXPECT_NE(why_not("\"\xff\""), "");
  EXPECT_NE(why_not(""), "");
  EXPECT_EQ(why_not("1e999"), "a number too large for a double");
}

TEST(Json, CborIsBoundedToo) {
  std::string bytes;
  json::to_cbor(json::parse(R"({"a": [1, 2.5, null, "x"]})"), bytes);
  EXPECT_EQ(parse_cbor(bytes), json::parse(R"({"a": [1, 2.5, null, "x"]})"));
  EXPECT_THROW((void)parse_cbor(std::string(200'000, '\x81')), JsonError);
  EXPECT_THROW((void)parse_cbor(std::string(200'000, '\x9f')), JsonError);
  EXPECT_THROW((void)parse_cbor("\x9b\xff\xff\xff\xff\xff\xff\xff\xff"), JsonError);
  EXPECT_THROW((void)parse_cbor(""), JsonError);
}

TEST(Json, AFileIsNamedInItsErrors) {
  const test::TempDir folder;
  write_file_atomically(FileSystem::system(), folder / "a.json", repeated("[", 100));
  try {
    (void)read_json_file(FileSystem::system(), folder / "a.json");
    FAIL() << "no error";
  } catch (const DataError& error) {
    EXPECT_NE(error.message().find("a.json: line 1 (byte 65): "), std::string::npos) << error.message();
  }
  EXPECT_THROW((void)read_json_file(FileSystem::system(), folder / "a.json", {.bytes = 99}), DataError);
}

// Hostile YAML: each is rejected with its line number before a tree is built from it.

std::string refusal(const std::string& yaml) {
  try {
    (void)ConfigTree::from_text(yaml, "x.yml");
  } catch (const UsageError& error) {
    return error.message();
  }
  return "no error";
}

/// Nested lists or maps, each ten times as large as the one before.
std::string bomb(int levels, bool maps) {
  std::string text = "a0: &a0 " + std::string(maps ? "{k: 1}" : "[1]") + "\n";
  for (int level = 1; level <= levels; ++level) {
    text += "a" + std::to_string(level) + ": &a" + std::to_string(level) + (maps ? " {" : " [");
    for (int i = 0; i < 10; ++i) {
      if (i > 0) text += ", ";
      if (maps) text += "k" + std::to_string(i) + ": ";
      text += "*a" + std::to_string(level - 1);
    }
    text += maps ? "}\n" : "]\n";
  }
  return text;
}

std::string nested(int depth) { return "a: " + std::string(depth, '[') + std::string(depth, ']') + "\n"; }

TEST(Yaml, AnAliasToWhatItStandsInIsRefused) {
  for (const char* yaml : {"x: &x {<<: *x}\n", "x: &x [*x]\n", "x: &x\n  y:\n    z: *x\n", "&r {r: *r}\n"}) {
    EXPECT_THAT(refusal(yaml), AllOf(StartsWith("x.yml:"), HasSubstr("the alias is inside its own anchor"))) << yaml;
  }
  EXPECT_THAT(refusal("x: &x {<<: *x}\n"), StartsWith("x.yml:1:12: "));
}

TEST(Yaml, AnAliasMaySpareWritingAValueAgain) {
  const ConfigTree tree = ConfigTree::from_text("a: &a {lr: 1, betas: [2, 3]}\nb: *a\nc: [*a, *a]\n", "x.yml");
  EXPECT_EQ(tree.values().at("b.lr").yaml, "1");
  EXPECT_EQ(tree.values().at("b.betas").yaml, "[2, 3]");
}

TEST(Yaml, AliasesThatMultiplyAreRefused) {
  for (const bool maps : {false, true}) {
    EXPECT_THAT(refusal(bomb(6, maps)), HasSubstr("values once all aliases are expanded")) << maps;
    EXPECT_EQ(refusal(bomb(3, maps)), "no error");
  }
}

TEST(Yaml, AliasesThatRepeatALongTextAreRefused) {
  std::string yaml = "a: &a " + std::string(500'000, 'x') + "\nb: [";
  for (int i = 0; i < 300; ++i) yaml += "*a, ";
  EXPECT_THAT(refusal(yaml + "1]\n"), HasSubstr("bytes once all aliases are expanded"));
}

// Each level's key is the prefix of every key below it.
TEST(Yaml, KeysThatGrowWithTheirDepthAreRefused) {
  std::string yaml;
  for (int depth = 0; depth < 40; ++depth) yaml += "? " + std::string(50'000, 'k') + "\n: {";
  EXPECT_NE(refusal(yaml), "no error");
  std::string wide = std::string(100'000, 'k') + ":\n";
  for (int i = 0; i < 2000; ++i) wide += "  k" + std::to_string(i) + ": 1\n";
  EXPECT_NE(refusal(wide), "no error");
}

TEST(Yaml, DepthAndNumberOfValuesAreBounded) {
  EXPECT_EQ(refusal(nested(60)), "no error");
  EXPECT_THAT(refusal(nested(70)), AllOf(StartsWith("x.yml:1:"), HasSubstr("nested more than 64 deep")));
  EXPECT_THAT(refusal(nested(100'000)), HasSubstr("nested more than 64 deep"));
  std::string chain = "a0: &a0 [1]\n";  // none of the lists is deep by itself
  for (int i = 1; i < 100; ++i)
    chain += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [*a" + std::to_string(i - 1) + "]\n";
  EXPECT_THAT(refusal(chain), HasSubstr("nested more than 64 deep"));
  std::string many = "a: [";
  for (int i = 0; i < 100'001; ++i) many += "1,";
  EXPECT_THAT(refusal(many + "]\n"), HasSubstr("more than 100000 values"));
  EXPECT_THAT(refusal("a: " + std::string(5U << 20U, 'x') + "\n"), HasSubstr("the settings take"));
}

TEST(Yaml, AKeyThatStandsTwiceIsNamedWithBothLines) {
  EXPECT_THAT(refusal("epochs: 1\nlr: 2\nepochs: 3\n"),
              AllOf(StartsWith("x.yml:3:1: "), HasSubstr("'epochs' occurs twice in one map, first in line 1")));
  EXPECT_THAT(refusal("a: {b: 1, c: [{d: 1, d: 2}]}\n"), HasSubstr("'d' occurs twice"));
  EXPECT_THAT(refusal("optimizer.lr: 1\noptimizer: {lr: 2}\n"), HasSubstr("'optimizer.lr' occurs twice"));
  EXPECT_EQ(refusal("a: {b: 1}\nc: {b: 1}\n"), "no error");
}

TEST(Yaml, AKeyIsAText) {
  EXPECT_THAT(refusal("? [a, b]\n: 1\n"), HasSubstr("a key that is a list or a map"));
  EXPECT_THAT(refusal("? {a: b}\n: 1\n"), HasSubstr("a key that is a list or a map"));
  EXPECT_THAT(refusal("a: &a b\n*a : 1\n"), HasSubstr("a key that is an alias"));
}

TEST(Yaml, ASecondDocumentIsNotPassedOverInSilence) {
  EXPECT_THAT(refusal("epochs: 1\n---\nepochs: 2\n"),
              AllOf(StartsWith("x.yml:2:"), HasSubstr("a second document begins")));
  EXPECT_EQ(refusal("---\nepochs: 1\n...\n"), "no error");
}

// The same strings as an option's value, and as a quoted string that is reparsed as a field's value.
TEST(Yaml, ValuesAreReadWithTheSameBounds) {
  std::int64_t epochs = 1;
  std::vector<ConfigMap> groups;
  ConfigFields fields;
  fields.add("epochs", &epochs, "passes");
  fields.add("groups", &groups, "maps");
  for (const std::string& value : {std::string("&x {<<: *x}"), std::string("&x [*x]"),
                                   "[" + std::string(3000, '[') + std::string(3000, ']') + "]"}) {
    for (const std::string key : {"epochs", "groups"}) {
      ConfigTree set;
      set.set(key + "=" + value, "--set");
      EXPECT_THROW(fields.bind(set), UsageError) << value;
      EXPECT_THROW(fields.bind(ConfigTree::from_text(key + ": \"" + value + "\"\n", "x.yml")), UsageError) << value;
    }
  }
}

TEST(Yaml, ManyFilesThatIncludeEachOtherAreRefused) {
  const test::TempDir folder;
  for (int i = 0; i < 30; ++i) {
    const std::string next = std::to_string(i + 1) + ".yml";
    std::ofstream(folder / (std::to_string(i) + ".yml")) << "__include__: [" << next << ", " << next << "]\n";
  }
  std::ofstream(folder / "30.yml") << "epochs: 1\n";
  try {
    (void)ConfigTree::from_file(folder / "0.yml");
    FAIL() << "two to the power of 30 files were read";
  } catch (const UsageError& error) {
    EXPECT_THAT(error.message(), HasSubstr("more than 1000 files"));
  }
}

TEST(Yaml, ATextIsCheckedWithoutBindingIt) {
  EXPECT_EQ(yaml_problem("a: 1\nb: [2]\n"), "");
  EXPECT_EQ(yaml_problem("- a list\n"), "");
  EXPECT_EQ(yaml_problem(""), "");
  EXPECT_THAT(yaml_problem("x: &x {<<: *x}\n"), StartsWith("line 1, column 12: "));
  EXPECT_NE(yaml_problem("a: [1\n"), "");
}

}  // namespace config_test
}  // namespace lockstep
