// SPDX-License-Identifier: Apache-2.0
// YAML that is made to harm its reader: each is refused with its line before a tree is built of it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "lockstep/base/config.h"
#include "lockstep/base/error.h"
#include "lockstep/base/file_system.h"
#include "support/temp_dir.h"

namespace lockstep {
namespace yaml_test {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

std::string refusal(const std::string& yaml) {
  try {
    (void)ConfigTree::from_text(yaml, "x.yml");
  } catch (const UsageError& error) {
    return error.message();
  }
  return "no error";
}

/// Levels of a list or a map, each ten times the one before it.
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
    EXPECT_THAT(refusal(yaml), AllOf(StartsWith("x.yml:"), HasSubstr("the alias stands in what it means"))) << yaml;
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
    EXPECT_THAT(refusal(bomb(6, maps)), HasSubstr("values once its aliases are written out")) << maps;
    EXPECT_EQ(refusal(bomb(3, maps)), "no error");
  }
}

TEST(Yaml, AliasesThatRepeatALongTextAreRefused) {
  std::string yaml = "a: &a " + std::string(500'000, 'x') + "\nb: [";
  for (int i = 0; i < 300; ++i) yaml += "*a, ";
  EXPECT_THAT(refusal(yaml + "1]\n"), HasSubstr("bytes once its aliases are written out"));
}

// Each level's key stands in front of every key below it.
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
  std::string chain = "a0: &a0 [1]\n";  // none is deep where it stands
  for (int i = 1; i < 100; ++i)
    chain += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [*a" + std::to_string(i - 1) + "]\n";
  EXPECT_THAT(refusal(chain), HasSubstr("nested more than 64 deep"));
  std::string many = "a: [";
  for (int i = 0; i < 100'001; ++i) many += "1,";
  EXPECT_THAT(refusal(many + "]\n"), HasSubstr("more than 100000 values"));
  EXPECT_THAT(refusal("a: " + std::string(5U << 20U, 'x') + "\n"), HasSubstr("are no settings"));
}

TEST(Yaml, AKeyThatStandsTwiceIsNamedWithBothLines) {
  EXPECT_THAT(refusal("epochs: 1\nlr: 2\nepochs: 3\n"),
              AllOf(StartsWith("x.yml:3:1: "), HasSubstr("'epochs' stands twice in one map, first in line 1")));
  EXPECT_THAT(refusal("a: {b: 1, c: [{d: 1, d: 2}]}\n"), HasSubstr("'d' stands twice"));
  EXPECT_THAT(refusal("optimizer.lr: 1\noptimizer: {lr: 2}\n"), HasSubstr("'optimizer.lr' stands twice"));
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

// The same texts as the value of an option, and of a quoted text that is read again as the value of a field.
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

}  // namespace yaml_test
}  // namespace lockstep
