// SPDX-License-Identifier: Apache-2.0
// The chain that is chosen by name.
#include "lockstep/data/augment/augmentations.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include "lockstep/base/error.h"
#include "lockstep/data/augment/to_tensor.h"
#include "lockstep/data/compose.h"

namespace lockstep {
namespace augmentations_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string fault_of(std::string_view text) {
  try {
    (void)parse_augmentation(text);
  } catch (const UsageError& fault) {
    return fault.what();
  }
  return "no UsageError";
}

AnnotatedImage picture() { return {.pixels = Image{{4, 2}, 1, {0, 1, 2, 3, 4, 5, 6, 7}}}; }

TEST(Augmentations, RunInOrderAsAStepOfCompose) {
  Augmentations chain;
  chain.add(parse_augmentation("horizontal_flip p=1"));
  chain.add(make_augmentation("center_crop", {{"size", {2, 2}}}));
  const Compose compose{
      chain, [](AnnotatedImage& image) { EXPECT_THAT(image.pixels.decoded().pixels, ElementsAre(2, 1, 6, 5)); }};
  SampleContext context(0, 0, 0);
  (void)compose(picture(), context);
}

TEST(Augmentations, EachRunOnAPictureWithTheirDefaults) {
  for (const std::string& name : augmentation_names()) {
    AnnotatedImage image{.pixels = Image{{64, 48}, 3, std::vector<std::uint8_t>(64 * 48 * 3, 9)}};
    image.objects = {{.box = {8, 8, 40, 40}}};
    SampleContext context(1, 2, 3);
    make_augmentation(name).run(image, context);
    EXPECT_GT(image.pixels.size().width, 0) << name;
  }
}

TEST(Augmentations, SayWhichNameIsWrong) {
  EXPECT_THAT(fault_of("horizontal_flop"), HasSubstr("did you mean 'horizontal_flip'?"));
  EXPECT_THAT(fault_of("rotation degree=3"), HasSubstr("did you mean 'degrees'?"));
  EXPECT_THAT(fault_of("resize size=3"), HasSubstr("size of augmentation resize takes 2 values, not 1"));
  EXPECT_THAT(fault_of("resize size=3,x"), HasSubstr("'x' is no number"));
  EXPECT_THAT(fault_of("resize size"), HasSubstr("'size' is no setting"));
}

}  // namespace augmentations_test
}  // namespace lockstep
