// SPDX-License-Identifier: Apache-2.0
// The rows of a batch: which samples are written there, and that the data set's own memory stays the same.
#include <ATen/core/ivalue.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <utility>
#include <vector>

#include "lockstep/data/augment/color.h"
#include "lockstep/data/augment/to_tensor.h"
#include "lockstep/data/image_dataset.h"
#include "lockstep/data/loader.h"

namespace lockstep {
namespace loader_rows_test {

/// Image n has one row of two pixels of value n, and class n.
class Grays final : public ImageSource {
 public:
  [[nodiscard]] std::int64_t size() const override { return 8; }
  [[nodiscard]] AnnotatedImage get(std::int64_t index) const override {
    const auto value = static_cast<std::uint8_t>(index);
    AnnotatedImage picture{.pixels = Image{{2, 1}, 1, {value, value}}};
    picture.label = index;
    return picture;
  }
};

std::vector<at::Tensor> data_of(const std::shared_ptr<Dataset>& set, std::int64_t batch_size, std::int64_t epoch = 0) {
  std::vector<at::Tensor> rows;
  DataLoader loader(set, {.batch_size = batch_size});
  for (const Batch& batch : loader.epoch(epoch)) {
    for (std::int64_t i = 0; i < batch.size; ++i) rows.push_back(batch.data[i].clone());
  }
  return rows;
}

void expect_same_rows(const std::vector<at::Tensor>& got, const std::vector<at::Tensor>& want) {
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_TRUE(at::equal(got[i], want[i])) << "row " << i;
}

TEST(Normalize, LeavesTheDataSetAsItIsInAllEpochs) {
  const at::Tensor images = at::full({2, 1, 4, 4}, 2.0F);
  const auto views = make_dataset(2, [images](std::int64_t i) { return Sample{images[i], {}, {}}; });
  const at::Tensor image = at::full({1, 4, 4}, 2.0F);
  const auto same = make_dataset(2, [image](std::int64_t) { return Sample{image, {}, {}}; });
  for (const auto& set : {views, same}) {
    const auto changed = transform(set, Normalize{{0.5F}, {0.5F}});
    for (const std::int64_t epoch : {0, 1}) {
      expect_same_rows(data_of(changed, 2, epoch), {at::full({1, 4, 4}, 3.0F), at::full({1, 4, 4}, 3.0F)});
    }
  }
  EXPECT_TRUE(at::equal(images, at::full({2, 1, 4, 4}, 2.0F)));
  EXPECT_TRUE(at::equal(image, at::full({1, 4, 4}, 2.0F)));
}

TEST(RandomErasing, LeavesTheDataSetAsItIs) {
  const at::Tensor images = at::full({2, 1, 8, 8}, 2.0F);
  const auto views = make_dataset(2, [images](std::int64_t i) { return Sample{images[i], {}, {}}; });
  const auto rows = data_of(transform(views, Compose{RandomErasing{.p = 1.0}}), 2);
  ASSERT_EQ(rows.size(), 2U);
  for (const at::Tensor& row : rows) EXPECT_LT(row.sum().item<float>(), 128.0F) << "a part was erased";
  EXPECT_TRUE(at::equal(images, at::full({2, 1, 8, 8}, 2.0F)));
}

TEST(Normalize, KeepsASampleInItsRow) {
  std::vector<void*> before;
  std::vector<void*> after;
  const auto set = make_dataset(3, [&](std::int64_t i, SampleContext& context) {
    Sample sample{context.empty_data({1, 2, 2}), {}, {}};
    sample.data.fill_(static_cast<double>(i));
    before.push_back(sample.data.data_ptr());
    sample = Normalize{{0.5F}, {0.5F}}(std::move(sample));
    after.push_back(sample.data.data_ptr());
    return sample;
  });
  expect_same_rows(data_of(set, 3), {at::full({1, 2, 2}, -1.0F), at::full({1, 2, 2}, 1.0F), at::full({1, 2, 2}, 3.0F)});
  EXPECT_EQ(before, after) << "nothing was copied";
}

TEST(Rows, HoldAViewOfThemInItsOwnOrder) {
  const auto set = make_dataset(4, [](std::int64_t i, SampleContext& context) {
    Sample sample{context.empty_data({1, 3, 3}), {}, {}};
    sample.data.copy_(at::arange(9).view({1, 3, 3}).add(i));
    sample.data = sample.data.transpose(1, 2);
    return sample;
  });
  const auto together = data_of(set, 4);
  expect_same_rows(together, data_of(set, 1));
  EXPECT_EQ(together.at(3)[0][1][0].item<float>(), 4.0F);
}

TEST(Rows, AreHandedOutOnceSoThatTwoSamplesMayBeMixed) {
  const auto base = image_dataset(std::make_shared<Grays>(), Compose{ToTensor{}});
  const auto mixed = transform(base, [base](const Sample& own, SampleContext& context) {
    const Sample other = base->get((context.index + 3) % 8, context);
    return Sample{own.data.mul(0.5).add(other.data.mul(0.5)), own.target, {}};
  });
  DataLoader loader(mixed, {.batch_size = 4});
  for (const Batch& batch : loader.epoch(0)) {
    for (std::int64_t i = 0; i < batch.size; ++i) {
      const std::int64_t n = batch.indices[static_cast<std::size_t>(i)];
      const double mean = 0.5 * static_cast<double>(n + (n + 3) % 8) / 255.0;
      EXPECT_NEAR(batch.data[i][0][0][1].item<double>(), mean, 1e-6) << "sample " << n;
      EXPECT_EQ(batch.target[i].item<std::int64_t>(), n);
    }
  }
}

}  // namespace loader_rows_test
}  // namespace lockstep
