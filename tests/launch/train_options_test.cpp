// SPDX-License-Identifier: Apache-2.0
#include "lockstep/launch/train_options.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

namespace lockstep {
namespace train_options_test {

using ::testing::EndsWith;
using ::testing::Not;
using Words = std::vector<std::string>;

TEST(TrainOptions, AreFoundByEachOfTheirNames) {
  EXPECT_EQ(find_train_option("--run-dir")->name, "--run-dir");
  EXPECT_EQ(find_train_option("--run_dir=runs/a_b")->name, "--run-dir");
  EXPECT_EQ(find_train_option("-r")->name, "--resume");
  EXPECT_EQ(find_train_option("--run-id")->name, "--rdzv-id");
  for (const char* none : {"--batch-size", "captcha", "-x", "--", "-", "", "--run"}) {
    EXPECT_EQ(find_train_option(none), nullptr) << none;
  }
}

TEST(TrainOptions, HaveANameALetterAndASentenceOfTheirOwn) {
  std::set<std::string_view> names;
  std::set<char> letters;
  for (const TrainOption& option : train_options()) {
    EXPECT_TRUE(names.insert(option.name).second) << option.name;
    if (option.letter != '\0') {
      EXPECT_TRUE(letters.insert(option.letter).second) << option.name;
    }
    EXPECT_FALSE(option.help.empty()) << option.name;
    EXPECT_THAT(std::string(option.help), Not(EndsWith("."))) << option.name;
  }
}

/// The launcher and the ranks agree on the recipe, whichever option comes first.
TEST(TrainOptions, DoNotHideTheRecipe) {
  for (const TrainOption& option : train_options()) {
    Words words{std::string(option.name)};
    if (!option.value.empty()) words.emplace_back("x=1");
    if (option.name == "--update") words.emplace_back("--quiet");
    words.emplace_back("captcha:digits");
    EXPECT_EQ(recipe_word(words), "captcha:digits") << option.name;
    words.erase(words.end() - 1);
    EXPECT_EQ(recipe_word(words), "") << option.name;
  }
}

struct Typed {
  const char* words;
  const char* recipe;
};

Words split(const std::string& text) {
  Words words;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find(' ', at), text.size());
    words.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return words;
}

TEST(RecipeWord, IsTheFirstWordThatIsNoOptionAndNoOptionsValue) {
  for (const Typed& typed :
       {Typed{"captcha:digits --epochs 5", "captcha:digits"}, Typed{"--run-dir runs/a captcha", "captcha"},
        Typed{"--run_dir=runs/a captcha", "captcha"}, Typed{"-r auto --no-tensorboard captcha", "captcha"},
        Typed{"-u epochs=5 seed=1 --quiet captcha", "captcha"}, Typed{"--set a=b settings.yml", "settings.yml"},
        Typed{"--backend shm --log-level debug captcha", "captcha"}, Typed{"-c settings.yml --device cuda", ""},
        Typed{"--", ""}, Typed{"-- captcha", ""}}) {
    EXPECT_EQ(recipe_word(split(typed.words)), typed.recipe) << typed.words;
  }
}

/// Only the recipe knows its settings, but they can be given as options before it.
TEST(RecipeWord, IsFoundBehindSettingsThatAreTypedAsOptions) {
  for (const Typed& typed : {Typed{"--batch-size 4 detection:smoke --nproc-per-node 2", "detection:smoke"},
                             Typed{"--distributed detection:smoke", "detection:smoke"},
                             Typed{"--distributed detection:smoke --batch-size 4", "detection:smoke"},
                             Typed{"--batch-size 4 --distributed detection:smoke", "detection:smoke"},
                             Typed{"--ema.enabled true detection:smoke", "detection:smoke"},
                             Typed{"--lr 1e-3 --distributed detection:smoke", "detection:smoke"},
                             Typed{"--batch-size 4 -c settings.yml", ""}}) {
    EXPECT_EQ(recipe_word(split(typed.words)), typed.recipe) << typed.words;
  }
}

}  // namespace train_options_test
}  // namespace lockstep
