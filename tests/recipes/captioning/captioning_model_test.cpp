// SPDX-License-Identifier: Apache-2.0
// The networks: one word at a time gives the same as all at once, masks work, and every parameter learns.
#include <ATen/core/ivalue.h>  // before any other torch header
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <ATen/Parallel.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/optim/adam.h>
#include <torch/utils.h>

#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "captioning/model/grid_backbone.h"
#include "captioning/model/layers.h"
#include "captioning/model/model.h"
#include "captioning/model/x_linear.h"
#include "lockstep/base/error.h"
#include "lockstep/nn/optimize.h"
#include "lockstep/optim/autocast.h"
#include "lockstep/train/prepare.h"

namespace lockstep::captioning {
namespace captioning_model_test {

using Sizes = std::vector<std::int64_t>;
constexpr ModelType kBoth[] = {ModelType::kTransformer, ModelType::kXLinear};
constexpr std::int64_t kWords = 11;

/// A small network for unordered features [B, L, 12], without dropout.
ModelOptions tiny(ModelType type) {
  return {.type = type,
          .vocabulary = kWords,
          .feature_width = 12,
          .dim = 16,
          .heads = 4,
          .encoder_layers = 2,
          .decoder_layers = 2,
          .feed_forward = 24,
          .dropout = 0,
          .window = 0};
}

ModelOptions with_pictures(ModelType type) {
  ModelOptions options = tiny(type);
  options.backbone = {.type = BackboneType::kSmall, .output_stride = 8, .width = 8};
  options.window = 3;
  return options;
}

at::Tensor some_words(std::int64_t rows, std::int64_t length) {
  at::Tensor words = at::randint(1, kWords, {rows, length}, at::kLong);
  words.select(1, 0).fill_(0);
  return words;
}

double difference(const at::Tensor& one, const at::Tensor& other) { return (one - other).abs().max().item<double>(); }

/// Weights far from zero, so that a symmetric initialization hides nothing.
std::shared_ptr<Captioner> stirred(const ModelOptions& options) {
  at::manual_seed(3);
  auto net = make_captioner(options);
  const at::NoGradGuard guard;
  for (at::Tensor& parameter : net->parameters()) parameter.add_(at::randn_like(parameter), 0.05);
  return net;
}

at::Tensor stepped(Captioner& net, const Memory& memory, const at::Tensor& inputs) {
  DecoderState state = net.start(memory);
  std::vector<at::Tensor> columns;
  for (std::int64_t t = 0; t < inputs.size(1); ++t) columns.push_back(net.step(memory, state, inputs.select(1, t)));
  EXPECT_EQ(state.position, inputs.size(1));
  return at::stack(columns, 1);
}

TEST(CaptioningModel, OneWordAfterAnotherGivesWhatAllAtOnceGive) {
  for (const ModelType type : kBoth) {
    const auto net = stirred(tiny(type));
    const Memory memory = repeated(net->encode(at::randn({3, 5, 12}), {5, 2, 4}), 2);
    const at::Tensor inputs = some_words(6, 7);
    const at::Tensor together = net->log_probs(memory, inputs);
    ASSERT_EQ(together.sizes().vec(), (Sizes{6, 7, kWords}));
    EXPECT_LT(difference(together.exp().sum(2), at::ones({6, 7})), 1e-5);
    EXPECT_LT(difference(stepped(*net, memory, inputs), together), 1e-5) << to_string(type);
  }
}

TEST(CaptioningModel, RowsOfAPictureSeeThatPictureWhetherMemoryWasRepeatedOrNot) {
  for (const ModelType type : kBoth) {
    const auto net = stirred(tiny(type));
    const at::Tensor data = at::randn({2, 4, 12});
    const at::Tensor inputs = some_words(6, 5);
    const at::Tensor all = net->log_probs(net->encode(data, {}), inputs);
    for (std::int64_t picture = 0; picture < 2; ++picture) {
      const Memory own = net->encode(data.narrow(0, picture, 1), {});
      const at::Tensor rows = inputs.narrow(0, 3 * picture, 3);
      EXPECT_LT(difference(net->log_probs(own, rows), all.narrow(0, 3 * picture, 3)), 1e-5) << to_string(type);
    }
  }
}

TEST(CaptioningModel, SelectedRowsGoOnWhereTheirOriginsStood) {
  for (const ModelType type : kBoth) {
    const auto net = stirred(tiny(type));
    const Memory memory = repeated(net->encode(at::randn({2, 4, 12}), {}), 3);
    const at::Tensor inputs = some_words(6, 4);
    const at::Tensor rows = at::tensor({2, 0, 2, 5, 5, 3}, at::kLong);
    DecoderState state = select_rows(net->start(memory), rows);
    for (std::int64_t t = 0; t < 3; ++t) static_cast<void>(net->step(memory, state, inputs.select(1, t)));
    state = select_rows(state, rows);
    const at::Tensor last = at::tensor({7, 1, 2, 3, 9, 9}, at::kLong);
    const at::Tensor seen = at::cat({inputs.narrow(1, 0, 3).index_select(0, rows), last.unsqueeze(1)}, 1);
    EXPECT_LT(difference(net->step(memory, state, last), net->log_probs(memory, seen).select(1, 3)), 1e-5)
        << to_string(type);
  }
}

TEST(CaptioningModel, WhatStandsInPaddedRowsChangesNothing) {
  for (const ModelType type : kBoth) {
    const auto net = stirred(tiny(type));
    const at::Tensor data = at::randn({2, 3, 12});
    const at::Tensor inputs = some_words(2, 5);
    const Memory plain = net->encode(data.narrow(0, 1, 1), {});
    EXPECT_FALSE(plain.mask.defined());
    at::Tensor padded = at::full({2, 6, 12}, 50.0F);
    padded.narrow(1, 0, 3).copy_(data);
    const Memory memory = net->encode(padded, {6, 3});
    const at::Tensor result = net->log_probs(memory, inputs).narrow(0, 1, 1);
    EXPECT_LT(difference(result, net->log_probs(plain, inputs.narrow(0, 1, 1))), 1e-5) << to_string(type);
  }
}

TEST(CaptioningModel, ALaterWordChangesNothingBeforeIt) {
  for (const ModelType type : kBoth) {
    const auto net = stirred(tiny(type));
    const Memory memory = net->encode(at::randn({2, 4, 12}), {});
    const at::Tensor inputs = some_words(2, 6);
    at::Tensor other = inputs.clone();
    other.select(1, 4).add_(1).remainder_(kWords);
    const at::Tensor one = net->log_probs(memory, inputs);
    const at::Tensor two = net->log_probs(memory, other);
    EXPECT_TRUE(one.narrow(1, 0, 4).equal(two.narrow(1, 0, 4))) << to_string(type);
    EXPECT_GT(difference(one.select(1, 4), two.select(1, 4)), 1e-3) << to_string(type);
    EXPECT_GT(difference(one.select(1, 5), two.select(1, 5)), 1e-4) << to_string(type);
  }
}

/// Computed element by element from the paper's formulas.
TEST(CaptioningXLinear, AttentionIsWhatItsFormulasSayForEachRegion) {
  at::manual_seed(5);
  ModelOptions options = tiny(ModelType::kXLinear);
  options.x_linear = {.middle_dim = 3, .attention_dropout = 0, .middle_dropout = 0};
  BilinearAttention attention(options);
  const at::NoGradGuard guard;
  std::map<std::string, at::Tensor> w;
  for (const auto& item : attention.named_parameters()) {
    item.value().add_(at::randn_like(item.value()), 0.3);
    w[item.key()] = item.value();
  }
  const auto normed = [&](const std::string& name, const at::Tensor& x, std::int64_t half) {
    const at::Tensor line = at::matmul(w[name + ".linear.weight"].narrow(0, 16 * half, 16), x) +
                            w[name + ".linear.bias"].narrow(0, 16 * half, 16);
    const at::Tensor active = at::where(line > 0, line, 1.3 * ((line / 1.3).exp() - 1)).view({4, 4});
    const at::Tensor centred = active - active.mean(1, true);
    const at::Tensor unit = centred / (centred.square().mean(1, true) + 1e-5).sqrt();
    return (unit.view({16}) * w[name + ".norm_weight"].narrow(0, 16 * half, 16) +
            w[name + ".norm_bias"].narrow(0, 16 * half, 16))
        .view({4, 4});
  };
  const at::Tensor tokens = at::randn({2, 5, 16});
  const at::Tensor queries = at::randn({2, 3, 16});
  const at::Tensor mask = at::tensor({1, 1, 1, 1, 1, 1, 1, 1, 0, 0}).view({2, 5}).to(at::kBool);
  const at::Tensor result = attention.forward(queries, attention.look(tokens), mask);
  for (const auto& [b, regions] : {std::pair{0, 5}, std::pair{1, 3}}) {
    for (std::int64_t s = 0; s < 3; ++s) {
      const at::Tensor q = normed("of_query", queries[b][s], 0);
      std::vector<at::Tensor> middles;
      std::vector<at::Tensor> values;
      for (std::int64_t l = 0; l < regions; ++l) {
        const at::Tensor product = q * normed("of_regions", tokens[b][l], 0);
        middles.push_back((at::matmul(product, w["middle.weight"].t()) + w["middle.bias"]).relu());
        values.push_back(normed("of_regions", tokens[b][l], 1));
      }
      const at::Tensor middle = at::stack(middles);  // [L, heads, 3]
      const at::Tensor share = at::softmax(at::matmul(middle, w["region_weight.weight"].t()), 0);
      const at::Tensor channels =
          (at::matmul(middle.mean(0), w["channel_weight.weight"].t()) + w["channel_weight.bias"]).sigmoid();
      const at::Tensor found = normed("of_query", queries[b][s], 1) * (share * at::stack(values)).sum(0) * channels;
      EXPECT_LT(difference(result[b][s], found.flatten()), 1e-5) << b << ", " << s;
    }
  }
}

/// The network in training, with all of its options.
void expect_gradients_everywhere(const ModelOptions& options, const at::Tensor& data,
                                 const std::vector<std::int64_t>& lengths, double scheduled_sampling) {
  const auto net = make_captioner(options);
  const Memory memory = net->encode(data, lengths);
  const at::Tensor logs = net->log_probs(memory, some_words(2 * data.size(0), 5), scheduled_sampling);
  (logs * at::randn_like(logs)).sum().backward();
  for (const auto& item : net->named_parameters()) {
    ASSERT_TRUE(item.value().grad().defined()) << to_string(options.type) << " " << item.key();
    EXPECT_TRUE(item.value().grad().isfinite().all().item<bool>()) << item.key();
    EXPECT_GT(item.value().grad().abs().max().item<double>(), 0) << to_string(options.type) << " " << item.key();
  }
}

TEST(CaptioningModel, EveryParameterLearnsFromFeaturesFromPicturesAndWithItsOwnWords) {
  for (const ModelType type : kBoth) {
    ModelOptions options = tiny(type);
    options.dropout = 0.1;
    expect_gradients_everywhere(options, at::randn({3, 6, 12}), {6, 2, 4}, 0);
    expect_gradients_everywhere(options, at::randn({3, 6, 12}), {}, 0.5);
    options.grid_height = 3;
    options.grid_width = 2;
    options.window = 2;
    expect_gradients_everywhere(options, at::randn({3, 6, 12}), {6, 6, 6}, 0);
    options = with_pictures(type);
    options.dropout = 0.1;
    expect_gradients_everywhere(options, at::randn({3, 3, 40, 56}), {}, 0);
  }
}

TEST(CaptioningModel, AResNetIsABackboneToo) {
  for (const ModelType type : kBoth) {
    ModelOptions options = with_pictures(type);
    options.backbone = {.type = BackboneType::kResNet, .layers = 18, .output_stride = 16};
    expect_gradients_everywhere(options, at::randn({2, 3, 48, 32}), {}, 0);
  }
}

TEST(CaptioningModel, GridsOfABackboneAreNumberedRowByRowAndTellTheirCornersApart) {
  const auto net = stirred(with_pictures(ModelType::kXLinear));
  net->eval();
  const at::NoGradGuard guard;
  // The image is uniform: far from the edges, only positions distinguish cells. 9 x 11 cells.
  const Memory memory = net->encode(at::full({1, 3, 72, 88}, 0.5F), {});
  EXPECT_EQ(memory.tokens.sizes().vec(), (Sizes{1, 99, 16}));
  const auto at_place = [&](std::int64_t row, std::int64_t column) { return memory.tokens[0][row * 11 + column]; };
  EXPECT_GT(difference(at_place(4, 5), at_place(4, 6)), 1e-3);
  EXPECT_GT(difference(at_place(4, 5), at_place(5, 5)), 1e-3);
  const at::Tensor positions = grid_sinusoids(5, 7, 16);
  EXPECT_TRUE(positions[9].equal(at::cat({sinusoids(1, 1, 8)[0], sinusoids(2, 1, 8)[0]})));
  EXPECT_NEAR(sinusoids(3, 1, 8)[0][2].item<double>(), std::sin(3 * std::pow(10000.0, -0.25)), 1e-6);
  EXPECT_NEAR(sinusoids(3, 1, 8)[0][5].item<double>(), std::cos(3 * std::pow(10000.0, -0.5)), 1e-6);
}

TEST(CaptioningModel, ScheduledSamplingOfZeroIsTeacherForcingAndOfOneReadsNothingButTheFirstWord) {
  for (const ModelType type : kBoth) {
    const auto net = stirred(tiny(type));
    const Memory memory = net->encode(at::randn({2, 4, 12}), {});
    const at::Tensor inputs = some_words(4, 6);
    const at::Tensor other = at::cat({inputs.narrow(1, 0, 1), some_words(4, 6).narrow(1, 1, 5)}, 1);
    EXPECT_TRUE(net->log_probs(memory, inputs, 0).equal(net->log_probs(memory, inputs)));
    const auto drawn = [&](const at::Tensor& words, double probability) {
      at::manual_seed(8);
      return net->log_probs(memory, words, probability);
    };
    EXPECT_TRUE(drawn(inputs, 0.5).equal(drawn(inputs, 0.5)));
    EXPECT_GT(difference(drawn(inputs, 0.5), net->log_probs(memory, inputs)), 1e-3);
    // One word is a smaller product than six words, and its last bits depend on the processor.
    EXPECT_LT(difference(drawn(inputs, 1).select(1, 0), net->log_probs(memory, inputs).select(1, 0)), 1e-5);
    // The transformer's first pass reads the given words. Only X-linear's words do not depend on them.
    if (type == ModelType::kXLinear) {
      EXPECT_TRUE(drawn(inputs, 1).equal(drawn(other, 1)));
    }
  }
}

/// With the given probability, a word is replaced by one drawn from the distribution after the previous word.
TEST(CaptioningModel, DrawnWordsFollowTheDistributionAndTheProbability) {
  at::manual_seed(2);
  const at::Tensor words = at::full({4000}, 9, at::kLong);
  const at::Tensor logits = at::tensor({0.2, 0.8, 1e-9}).log().to(at::kFloat).expand({4000, 3});
  const at::Tensor drawn = partly_drawn(words, logits, 0.25);
  EXPECT_NEAR((drawn == 9).sum().item<double>() / 4000, 0.75, 0.03);
  EXPECT_NEAR((drawn == 1).sum().item<double>() / 4000, 0.2, 0.03);
  EXPECT_NEAR((drawn == 0).sum().item<double>() / 4000, 0.05, 0.02);
}

TEST(CaptioningModel, LogitsThatAreNoNumbersAreDrawnFromAllTheSameAndChangeNoOtherRow) {
  const at::Tensor words = at::full({64}, 9, at::kLong);
  const at::Tensor logits = at::randn({64, 5});
  at::manual_seed(4);
  const at::Tensor wanted = partly_drawn(words, logits, 1);
  at::Tensor broken = logits.clone();
  broken.narrow(0, 60, 4).fill_(std::numeric_limits<float>::quiet_NaN());
  at::manual_seed(4);
  const at::Tensor drawn = partly_drawn(words, broken, 1);
  EXPECT_TRUE(drawn.narrow(0, 0, 60).equal(wanted.narrow(0, 0, 60)));
  EXPECT_TRUE(drawn.ge(0).logical_and(drawn.lt(5)).all().item<bool>());
  const auto net = stirred(tiny(ModelType::kXLinear));
  const Memory memory = net->encode(at::full({2, 4, 12}, std::numeric_limits<float>::quiet_NaN()), {});
  EXPECT_TRUE(net->log_probs(memory, some_words(4, 6), 0.5).isnan().any().item<bool>());
}

TEST(CaptioningModel, DetachedMemoryHasNoGradientAndRepeatedMemoryNothingNew) {
  const auto net = make_captioner(tiny(ModelType::kTransformer));
  const Memory memory = net->encode(at::randn({2, 4, 12}), {4, 3});
  const Memory alone = detached(memory);
  EXPECT_FALSE(alone.tokens.requires_grad() || alone.global.requires_grad());
  for (const at::Tensor& tensor : alone.extra) EXPECT_FALSE(tensor.requires_grad());
  EXPECT_TRUE(memory.extra[0].requires_grad());
  const Memory twelve = repeated(repeated(memory, 2), 3);
  EXPECT_EQ(twelve.rows(), 12);
  EXPECT_TRUE(twelve.tokens.is_same(memory.tokens));
}

TEST(CaptioningModel, WorksUnderAutocastToBfloat16InChannelsLastAndOptimized) {
  for (const ModelType type : kBoth) {
    ModelOptions options = with_pictures(type);
    options.dropout = 0.1;
    const auto net = make_captioner(options);
    const nn::Optimized done = nn::optimize(*net);
    EXPECT_TRUE(done.left.empty());
    use_channels_last(*net);
    at::Tensor logs;
    {
      // Autocast keeps cached copies of the weights, none of which may come from a pass without gradients.
      const Autocast autocast(at::kCPU, Amp::kBf16, {.weight_cache = true});
      const Memory memory = net->encode(to_channels_last(at::randn({2, 3, 32, 32})), {});
      {
        const NoGrad guard;
        const Memory own = repeated(detached(memory), 2);
        DecoderState state = net->start(own);
        const at::Tensor zeros = at::zeros({4}, at::kLong);
        EXPECT_EQ(net->step(own, state, zeros).scalar_type(), at::kFloat);
        EXPECT_EQ(net->step(own, state, zeros).sizes().vec(), (Sizes{4, kWords}));
      }
      logs = net->log_probs(memory, some_words(4, 5), 0.5);
      EXPECT_EQ(net->logits(memory, some_words(4, 5), 0).scalar_type(), at::kBFloat16);
    }
    EXPECT_EQ(logs.scalar_type(), at::kFloat);
    logs.select(2, 1).sum().backward();
    for (const auto& item : net->named_parameters()) {
      ASSERT_TRUE(item.value().grad().defined()) << item.key();
      EXPECT_TRUE(item.value().grad().isfinite().all().item<bool>()) << item.key();
    }
  }
}

TEST(CaptioningModel, LearnsAFewCaptionsByHeart) {
  for (const ModelType type : kBoth) {
    at::manual_seed(4);
    const auto net = make_captioner(tiny(type));
    const at::Tensor data = at::randn({4, 5, 12});
    const at::Tensor inputs = some_words(8, 6);
    const at::Tensor next = at::cat({inputs.narrow(1, 1, 5), at::zeros({8, 1}, at::kLong)}, 1).unsqueeze(2);
    torch::optim::Adam optimizer(net->parameters(), 0.02);
    const auto step = [&] {
      optimizer.zero_grad();
      const at::Tensor loss = -net->log_probs(net->encode(data, {5, 4, 5, 3}), inputs).gather(2, next).mean();
      loss.backward();
      optimizer.step();
      return loss.item<double>();
    };
    EXPECT_NEAR(step(), std::log(kWords), 1.2) << to_string(type);
    for (int i = 0; i < 70; ++i) step();
    // The model can distinguish an image's two captions only once they differ, from the second word on.
    EXPECT_LT(step(), 0.4) << to_string(type);
  }
}

/// Compares words and gradients on one thread and on two, except the weights of libtorch's convolutions: it sums their
/// gradients per thread.
void expect_the_same_bits(const ModelOptions& options, const at::Tensor& data,
                          const std::vector<std::int64_t>& lengths) {
  const auto net = stirred(options);
  const at::Tensor inputs = some_words(5 * data.size(0), 12);
  const auto gradients = [&](int threads) {
    at::set_num_threads(threads);
    at::manual_seed(6);
    net->zero_grad();
    const at::Tensor logs = net->log_probs(net->encode(data, lengths), inputs, 0.3);
    (logs * logs).mean().backward();
    std::vector<at::Tensor> all = {logs.detach()};
    for (const at::Tensor& parameter : net->parameters()) all.push_back(parameter.grad().clone());
    return all;
  };
  const auto with_two = gradients(2);
  const auto with_one = gradients(1);
  const auto names = net->named_parameters().keys();
  for (std::size_t i = 0; i < with_one.size(); ++i) {
    if (i > 0 && names[i - 1].starts_with("features.backbone.conv")) continue;
    EXPECT_TRUE(with_one[i].equal(with_two[i]))
        << to_string(options.type) << " " << (i == 0 ? "log_probs" : names[i - 1]);
  }
}

/// True if libtorch's products at these networks' sizes have different bits on two threads than on one.
bool products_depend_on_threads() {
  at::manual_seed(1);
  for (const std::int64_t inner : {12, 16, 30, 64, 256}) {
    const at::Tensor left = at::randn({240, inner});
    const at::Tensor right = at::randn({inner, 256});
    at::set_num_threads(1);
    const at::Tensor one = left.mm(right);
    const at::Tensor one_turned = left.t().mm(left);
    at::set_num_threads(2);
    if (!left.mm(right).equal(one) || !left.t().mm(left).equal(one_turned)) return true;
  }
  return false;
}

TEST(CaptioningModel, GivesTheSameBitsOnAnyNumberOfThreadsWhereProductsDo) {
  if (products_depend_on_threads()) GTEST_SKIP() << "products of this OpenBLAS have other bits on other threads";
  for (const ModelType type : kBoth) {
    ModelOptions options = tiny(type);
    options.dim = 64;
    options.feed_forward = 256;
    options.dropout = 0.1;
    expect_the_same_bits(options, at::randn({8, 30, 12}), std::vector<std::int64_t>(8, 20));
    options.backbone = {.type = BackboneType::kSmall, .output_stride = 8, .width = 8};
    options.window = 3;
    expect_the_same_bits(options, at::randn({8, 3, 40, 56}), {});
  }
}

/// Below the kernel's minimum size, between the two sizes, and above both; dense and transposed.
TEST(CaptioningModel, LayerNormsHaveGradientsOfTheSameBitsOnAnyNumberOfThreads) {
  at::manual_seed(7);
  nn::LayerNorm layer = layer_norm(16);
  for (const std::int64_t rows : {40, 130, 300, 2000}) {
    const at::Tensor wide = at::randn({16, rows});
    for (const at::Tensor& x : {wide.t(), wide.t().contiguous()}) {
      const auto gradients = [&](int threads) {
        at::set_num_threads(threads);
        layer->zero_grad();
        const at::Tensor out = normed(layer, x);
        (out * out * out).sum().backward();
        return std::vector<at::Tensor>{out.detach(), layer->weight.grad().clone(), layer->bias.grad().clone()};
      };
      const auto with_two = gradients(2);
      const auto with_one = gradients(1);
      for (std::size_t i = 0; i < 3; ++i) EXPECT_TRUE(with_one[i].equal(with_two[i])) << rows << " rows, " << i;
    }
  }
}

template <class Change>
std::string refusal(ModelType type, const Change& change) {
  ModelOptions options = tiny(type);
  change(options);
  try {
    static_cast<void>(make_captioner(options));
  } catch (const UsageError& error) {
    return error.what();
  }
  return "";
}

TEST(CaptioningModel, RefusesSizesThatDoNotFitAndNamesThem) {
  for (const ModelType type : kBoth) {
    const auto refused = [&](const auto& change) { return refusal(type, change); };
    using ::testing::HasSubstr;
    EXPECT_EQ(refused([](ModelOptions&) {}), "");
    EXPECT_THAT(refused([](ModelOptions& o) { o.vocabulary = 1; }), HasSubstr("word ids is 1"));
    EXPECT_THAT(refused([](ModelOptions& o) { o.heads = 3; }), HasSubstr("dim is 16 and there are 3 heads"));
    EXPECT_THAT(refused([](ModelOptions& o) { o.heads = 0; }), HasSubstr("heads is 0"));
    EXPECT_THAT(refused([](ModelOptions& o) { o.dropout = 1; }), HasSubstr("dropout is 1"));
    EXPECT_THAT(refused([](ModelOptions& o) { o.window = -1; }), HasSubstr("window's side is -1"));
    EXPECT_THAT(refused([](ModelOptions& o) { o.grid_height = 3; }), HasSubstr("3 high and 0 wide"));
    EXPECT_THAT(refused([](ModelOptions& o) { o.encoder_layers = -1; }), HasSubstr("encoder layers is -1"));
    EXPECT_THAT(refused([](ModelOptions& o) { o.feature_width = 0; }), HasSubstr("features are 0 wide"));
    EXPECT_THAT(refused([](ModelOptions& o) { o.backbone = {.type = BackboneType::kSmall, .output_stride = 6}; }),
                HasSubstr("output stride 6"));
    EXPECT_THAT(refused([](ModelOptions& o) { o.backbone = {.type = BackboneType::kResNet, .layers = 19}; }),
                HasSubstr("19 layers"));
  }
  EXPECT_EQ(model_type_from_name("x_linear"), ModelType::kXLinear);
  EXPECT_EQ(to_string(backbone_type_from_name("resnet")), "resnet");
  EXPECT_THROW(static_cast<void>(model_type_from_name("xlan")), UsageError);
  EXPECT_THROW(static_cast<void>(backbone_type_from_name("")), UsageError);
}

std::string encoding_error(const ModelOptions& options, const at::Tensor& data,
                           const std::vector<std::int64_t>& lengths = {}) {
  try {
    static_cast<void>(make_captioner(options)->encode(data, lengths));
  } catch (const UsageError& error) {
    return error.what();
  }
  return "";
}

TEST(CaptioningModel, RefusesDataOfAnotherShapeAndRowsThatMakeNoGrid) {
  using ::testing::HasSubstr;
  const ModelOptions plain = tiny(ModelType::kTransformer);
  ModelOptions windows = plain;
  windows.window = 2;
  EXPECT_EQ(encoding_error(windows, at::zeros({2, 9, 12})), "");
  EXPECT_THAT(encoding_error(windows, at::zeros({2, 8, 12})), HasSubstr("8 rows of features do not form a grid"));
  EXPECT_THAT(encoding_error(windows, at::zeros({2, 9, 12}), {9, 4}), HasSubstr("do not form a grid"));
  EXPECT_THAT(encoding_error(plain, at::zeros({2, 9, 13})), HasSubstr("13 wide, but the network takes 12"));
  EXPECT_THAT(encoding_error(plain, at::zeros({2, 3, 9, 12})), HasSubstr("4 dimensions"));
  EXPECT_THAT(encoding_error(plain, at::zeros({2, 9, 12}), {9, 0}), HasSubstr("image 1 of the batch has 0 rows"));
  EXPECT_THAT(encoding_error(plain, at::zeros({2, 9, 12}), {9, 10}), HasSubstr("has 10 rows"));
  EXPECT_THAT(encoding_error(plain, at::zeros({2, 9, 12}), {9}), HasSubstr("lengths for 1 images"));
  EXPECT_THAT(encoding_error(with_pictures(ModelType::kXLinear), at::zeros({2, 9, 12})), HasSubstr("3 dimensions"));
}

TEST(CaptioningModel, LayersThatAreNotGivenAreThoseOfTheOrigins) {
  const auto layers = [](ModelType type, const std::string& prefix) {
    ModelOptions options = tiny(type);
    options.encoder_layers = options.decoder_layers = 0;
    std::set<std::string> names;
    for (const auto& item : make_captioner(options)->named_parameters()) {
      if (item.key().starts_with(prefix)) names.insert(item.key().substr(0, item.key().find('.', prefix.size())));
    }
    return names.size();
  };
  EXPECT_EQ(layers(ModelType::kTransformer, "encoder"), 3U);
  EXPECT_EQ(layers(ModelType::kTransformer, "decoder"), 3U);
  EXPECT_EQ(layers(ModelType::kXLinear, "encoder.layer"), 4U);
  EXPECT_EQ(layers(ModelType::kXLinear, "decoder.attention"), 1U);
}

}  // namespace captioning_model_test
}  // namespace lockstep::captioning
