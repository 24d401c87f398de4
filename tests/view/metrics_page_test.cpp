// SPDX-License-Identifier: Apache-2.0
#include "lockstep/view/metrics_page.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

namespace lockstep::view {
namespace metrics_page_test {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(MetricsPage, HasAHelpAndATypeBeforeEachFigure) {
  EXPECT_THAT(metrics_page({.recipe = "captcha", .run = "first", .step = 7, .loss = 0.25}),
              HasSubstr("# HELP lockstep_loss Loss of the last logged step, the mean over all replicas.\n"
                        "# TYPE lockstep_loss gauge\n"
                        "lockstep_loss{recipe=\"captcha\",run=\"first\"} 0.25\n"));
}

TEST(MetricsPage, LeavesOutWhatIsNotKnownYet) {
  const std::string page = metrics_page({.recipe = "captcha"});
  EXPECT_THAT(page, HasSubstr("lockstep_step{"));
  EXPECT_THAT(page, Not(HasSubstr("lockstep_loss")));
  EXPECT_THAT(page, Not(HasSubstr("lockstep_memory")));
  EXPECT_THAT(page, Not(HasSubstr("lockstep_metric")));
}

TEST(MetricsPage, EscapesNamesAndWritesNumbersAsPrometheusReadsThem) {
  const std::string page = metrics_page({.recipe = "a\"b\\c\nd",
                                         .metrics = {{"ap", std::numeric_limits<double>::quiet_NaN()},
                                                     {"psnr", std::numeric_limits<double>::infinity()}}});
  EXPECT_THAT(page, HasSubstr("recipe=\"a\\\"b\\\\c\\nd\""));
  EXPECT_THAT(page, HasSubstr("name=\"ap\"} NaN\n"));
  EXPECT_THAT(page, HasSubstr("name=\"psnr\"} +Inf\n"));
}

}  // namespace metrics_page_test
}  // namespace lockstep::view
