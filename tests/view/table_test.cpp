// SPDX-License-Identifier: Apache-2.0
#include "lockstep/view/table.h"

#include <gtest/gtest.h>

#include "lockstep/base/error.h"

namespace lockstep::view {
namespace table_test {

TEST(Table, AlignsRowsThatComeOneByOne) {
  const Table table({{"epoch", 7}, {"loss", 8}, {"note", 0, Align::kLeft}});
  EXPECT_EQ(table.header(), "  epoch      loss  note\n-------  --------  ----\n");
  EXPECT_EQ(table.row({"1/150", "0.1042", "best"}), "  1/150    0.1042  best\n");
  EXPECT_EQ(table.row({"2/150", "0.0998", ""}), "  2/150    0.0998\n");
}

TEST(Table, LeavesOutTheLeastImportantColumnsWhereItIsTooWide) {
  const std::vector<Column> columns = {{"epoch", 7},
                                       {.title = "lr", .width = 9, .leave_out = 1},
                                       {"loss", 8},
                                       {.title = "memory", .width = 8, .leave_out = 2}};
  EXPECT_EQ(Table(columns, 38).row({"1/150", "6e-4", "0.1042", "2 GB"}), "  1/150       6e-4    0.1042      2 GB\n");
  EXPECT_EQ(Table(columns, 37).header(), "  epoch         lr      loss\n-------  ---------  --------\n");
  EXPECT_EQ(Table(columns, 20).row({"1/150", "6e-4", "0.1042", "2 GB"}), "  1/150    0.1042\n");
  EXPECT_EQ(Table(columns, 3).row({"1/150", "6e-4", "0.1042", "2 GB"}), "  1/150    0.1042\n") << "the rest stays";
}

TEST(Table, RefusesARowOfAnotherLength) { EXPECT_THROW((void)Table({{"a"}}).row({"1", "2"}), UsageError); }

TEST(Table, IsAsWideAsItsWidestCellInColumnsNotBytes) {
  EXPECT_EQ(render_table({{"名", 0, Align::kLeft}, {"n"}}, {{"验证码", "1"}, {"abc", "100"}}),
            "名        n\n------  ---\n验证码    1\nabc     100\n");
}

TEST(Table, ACellSteersNoTerminalAndStaysInItsRow) {
  EXPECT_EQ(render_table({{"class", 0, Align::kLeft}, {"n"}}, {{"\x1b[31mcat\n", "1"}}),
            "class          n\n-------------  -\n\\x1b[31mcat\\n  1\n");
}

TEST(Confusions, ListsTheMostFrequentFirst) {
  EXPECT_EQ(render_confusions({{"1", "I", 1}, {"0", "O", 12}, {"5", "S", 1}, {"2", "Z", 0}}, 2),
            "predicted O where 0 stood: 12 times\npredicted I where 1 stood: 1 time\nand 1 more kinds\n");
  EXPECT_EQ(render_confusions({}), "no confusions\n");
}

}  // namespace table_test
}  // namespace lockstep::view
