// SPDX-License-Identifier: Apache-2.0
// Digests of updates against a slow reference in libtorch's integer operators.
#include <ATen/core/ivalue.h>  // before any other torch header

#include <ATen/ops/empty_like.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <hwy/targets.h>

#include <cstring>
#include <set>
#include <string>
#include <vector>

#include "lockstep/optim/make_optimizer.h"
#include "lockstep/tensor/random.h"
#include "lockstep/tensor/threads.h"
#include "optim/digest.h"

namespace lockstep {
namespace digest_test {

using optim::digest_words;

constexpr std::uint64_t kSeed = 0x1234'5678'9ABC'DEF0;

std::uint64_t reference(const at::Tensor& tensor, std::int64_t first = 0, std::uint64_t seed = kSeed) {
  if (tensor.numel() == 0) return 0;
  return static_cast<std::uint64_t>(optim::digest_by_operators(tensor, first, seed).item<std::int64_t>());
}

std::uint64_t digest_of(const std::vector<std::uint32_t>& words, std::int64_t first = 0) {
  return digest_words({words.data(), static_cast<std::int64_t>(words.size()), first}, kSeed);
}

std::vector<std::uint32_t> random_words(std::int64_t count) {
  seed_all(7);
  const at::Tensor values = at::randn({count});
  std::vector<std::uint32_t> words(static_cast<std::size_t>(count));
  std::memcpy(words.data(), values.data_ptr(), words.size() * 4);
  return words;
}

TEST(Digest, IsTheReferencesOnEveryInstructionSetAndFromAnyPlace) {
  seed_all(1);
  const at::Tensor values = at::randn({80});
  for (const std::int64_t target : hwy::SupportedAndGeneratedTargets()) {
    hwy::GetChosenTarget().Update(target);
    for (std::int64_t count = 0; count <= 70; ++count) {
      for (const std::int64_t first : {0, 1, 6, 1'000'000'007}) {
        const at::Tensor part = values.narrow(0, 3, count);
        EXPECT_EQ(digest_words({part.data_ptr(), count, first}, kSeed), reference(part, first))
            << count << " from " << first << " on " << hwy::TargetName(target);
      }
    }
  }
  hwy::GetChosenTarget().DeInit();
}

TEST(Digest, SeesEveryBit) {
  std::vector<std::uint32_t> words = random_words(67);
  const std::uint64_t whole = digest_of(words);
  std::set<std::uint64_t> seen = {whole};
  for (std::uint32_t& word : words) {
    for (int bit = 0; bit < 32; ++bit) {
      word ^= 1U << static_cast<unsigned>(bit);
      EXPECT_TRUE(seen.insert(digest_of(words)).second);
      word ^= 1U << static_cast<unsigned>(bit);
    }
  }
  EXPECT_EQ(digest_of(words), whole);
}

TEST(Digest, SeesAnyTwoElementsInEachOthersPlace) {
  std::vector<std::uint32_t> words = random_words(300);
  for (std::size_t i = 0; i < words.size(); i += 3) words[i] = words[0] ^ static_cast<std::uint32_t>(i);  // nearby ones
  const std::uint64_t whole = digest_of(words);
  for (std::size_t i = 0; i < words.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      std::swap(words[i], words[j]);
      EXPECT_NE(digest_of(words), whole) << i << " and " << j;
      std::swap(words[i], words[j]);
    }
  }
}

TEST(Digest, OfPartsAddsUpToTheWhole) {
  const std::vector<std::uint32_t> words = random_words(101);
  for (std::int64_t cut = 0; cut <= 101; ++cut) {
    const std::uint64_t first = digest_words({words.data(), cut, 0}, kSeed);
    const std::uint64_t second = digest_words({words.data() + cut, 101 - cut, cut}, kSeed);
    EXPECT_EQ(first + second, digest_of(words)) << cut;
  }
}

TEST(Digest, OfAFloat64TakesItsHalves) {
  seed_all(2);
  const at::Tensor values = at::randn({9}, at::kDouble);
  EXPECT_EQ(digest_words({values.data_ptr(), 18, 2 * 5}, kSeed), reference(values, 5));
}

NamedTensors parameters_of(at::ScalarType type) {
  seed_all(3);
  const auto made = [type](at::IntArrayRef sizes) { return at::randn(sizes).to(type); };
  return {{"first.weight", made({301, 501})},
          {"images", made({5, 3, 3, 3}).contiguous(at::MemoryFormat::ChannelsLast)},
          {"strided", at::ones({7, 10}, type).slice(1, 0, 10, 2)},
          {"bias", made({33})},
          {"empty", made({0})},
          {"unused", made({11})}};
}

UpdateDigest reference_of(const NamedTensors& parameters) {
  UpdateDigest sum;
  for (const auto& [name, value] : parameters) {
    const std::uint64_t seed = optim::digest_seed(name);
    if (value.grad().defined()) sum.gradients += reference(value.grad(), 0, seed);
    sum.weights += reference(value, 0, seed);
  }
  return sum;
}

/// Sets gradients in the memory order of their parameters.
void set_gradients(const NamedTensors& parameters) {
  seed_all(4);
  for (const auto& [name, value] : parameters) {
    if (name != "unused") value.mutable_grad() = at::empty_like(value).copy_(at::randn(value.sizes()));
  }
}

TEST(Digest, OfEveryOptimizerIsTheReferences) {
  for (const char* type : {"adam", "adamw", "sgd", "rmsprop", "adagrad", "lion", "lars", "lamb"}) {
    for (const at::ScalarType scalar : {at::kFloat, at::kDouble}) {
      for (const int threads : {1, 3}) {
        tensor::set_threads(threads);
        const NamedTensors parameters = parameters_of(scalar);
        const auto optimizer = make_optimizer(type, parameters, {.lr = 0.01});
        EXPECT_EQ(optimizer->update_digest(), std::nullopt);
        optimizer->digest_updates();
        EXPECT_EQ(optimizer->update_digest(), reference_of(parameters)) << "before the first step";
        for (int step = 0; step < 3; ++step) {
          set_gradients(parameters);
          optimizer->step(0.5);
          EXPECT_EQ(optimizer->update_digest(), reference_of(parameters)) << type << " " << threads << " " << step;
        }
      }
    }
  }
  tensor::set_threads(1);
}

TEST(Digest, ChangesNoUpdate) {
  const NamedTensors plain = parameters_of(at::kFloat);
  const NamedTensors digested = parameters_of(at::kFloat);
  const auto one = make_optimizer("adamw", plain, {.lr = 0.01});
  const auto other = make_optimizer("adamw", digested, {.lr = 0.01});
  other->digest_updates();
  for (int step = 0; step < 3; ++step) {
    set_gradients(plain);
    set_gradients(digested);
    one->step();
    other->step();
  }
  for (std::size_t i = 0; i < plain.size(); ++i) EXPECT_TRUE(plain[i].second.equal(digested[i].second));
}

TEST(Digest, DependsOnTheParametersNames) { EXPECT_NE(optim::digest_seed("a.weight"), optim::digest_seed("b.weight")); }

}  // namespace digest_test
}  // namespace lockstep
