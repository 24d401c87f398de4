// SPDX-License-Identifier: Apache-2.0
// Random networks as ONNX: each is rejected with one error, or computes the same in ONNX Runtime. LOCKSTEP_NETWORKS
// sets how many (scripts/trials/trial onnx_networks runs many), LOCKSTEP_NETWORKS_SEED the first seed.
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <torch/nn.h>

#include <cstdlib>
#include <fstream>
#include <random>

#include "lockstep/base/error.h"
#include "lockstep/base/standard_streams.h"
#include "lockstep/base/text.h"
#include "lockstep/nn/onnx.h"
#include "support/temp_dir.h"
#include "worker/onnx/onnx_parity.h"

namespace lockstep::worker {
namespace onnx_networks_test {

using torch::Tensor;
using Step = std::function<Tensor(const Tensor&)>;

/// Draws the random numbers for one network.
class Draw {
 public:
  explicit Draw(std::uint64_t seed) : engine_(seed) {}
  std::int64_t to(std::int64_t below) {
    return static_cast<std::int64_t>(engine_() % static_cast<std::uint64_t>(below));
  }
  std::int64_t from(std::int64_t first, std::int64_t last) { return first + to(last - first + 1); }
  bool coin() { return to(2) == 0; }
  double part() { return static_cast<double>(to(1000)) / 1000; }
  /// A dimension other than the batch.
  std::int64_t dim(const Tensor& x) { return from(1, x.dim() - 1) - (coin() ? x.dim() : 0); }

 private:
  std::mt19937_64 engine_;
};

/// A network made of steps, each of which takes one of the previous values.
struct Network : torch::nn::Module {
  std::vector<std::int64_t> shape;  ///< shape of the argument, without the batch dimension
  std::vector<std::pair<std::size_t, Step>> steps;
  std::vector<std::string> words;  ///< a description of each step

  template <class Layer>
  Step layer(Layer made) {
    register_module("layer" + std::to_string(steps.size()) + "_" + std::to_string(children().size()), made);
    made->eval();
    return [made](const Tensor& x) mutable { return made->forward(x); };
  }
  [[nodiscard]] std::vector<Tensor> run(const Tensor& x) const {
    std::vector<Tensor> values = {x};
    for (const auto& [from, step] : steps) values.push_back(step(values[from]));
    return values;
  }
};

std::vector<std::int64_t> sizes_for(Draw& draw, std::int64_t dims, std::int64_t most) {
  std::vector<std::int64_t> sizes;
  for (std::int64_t i = 0; i < dims; ++i) sizes.push_back(draw.from(1, most));
  return sizes;
}

Step pointwise(Draw& draw, std::string& word) {
  using Function = std::pair<const char*, Step>;
  const double a = draw.part();
  const std::vector<Function> all = {
      {"relu", [](const Tensor& x) { return torch::relu(x); }},
      {"elu", [a](const Tensor& x) { return torch::elu(x, 0.5 + a); }},
      {"celu", [a](const Tensor& x) { return torch::celu(x, 0.5 + a); }},
      {"selu", [](const Tensor& x) { return torch::selu(x); }},
      {"gelu", [](const Tensor& x) { return torch::gelu(x); }},
      {"silu", [](const Tensor& x) { return torch::silu(x); }},
      {"mish", [](const Tensor& x) { return torch::mish(x); }},
      {"leaky_relu", [a](const Tensor& x) { return torch::leaky_relu(x, a); }},
      {"hardtanh", [a](const Tensor& x) { return torch::hardtanh(x, -a, a); }},
      {"hardswish", [](const Tensor& x) { return torch::hardswish(x); }},
      {"softplus", [a](const Tensor& x) { return torch::softplus(x, 0.5 + a); }},
      {"softshrink", [a](const Tensor& x) { return torch::softshrink(x, a); }},
      {"tanh", [](const Tensor& x) { return x.tanh(); }},
      {"sigmoid", [](const Tensor& x) { return x.sigmoid(); }},
      {"log1p", [](const Tensor& x) { return x.abs().log1p(); }},
      {"sin", [](const Tensor& x) { return x.sin() + x.cos() * x.atan(); }},
      {"clamp", [a](const Tensor& x) { return x.clamp(-a, {}); }},
      {"arithmetic", [a](const Tensor& x) { return (a - x) * 0.5 + x.square() / (x.abs() + 1); }},
      {"whole", [](const Tensor& x) { return x.to(torch::kLong).remainder(3).to(torch::kFloat) * 0; }},
      {"choice", [a](const Tensor& x) { return torch::where(x.isnan().logical_not(), x, torch::full_like(x, a)); }},
      {"digamma", [](const Tensor& x) { return (x.abs() + 1).digamma(); }},  // not in the table
      {"lerp", [a](const Tensor& x) { return x.lerp(x.sigmoid(), a); }}};
  const auto& [name, step] = all[static_cast<std::size_t>(draw.to(static_cast<std::int64_t>(all.size())))];
  word = name;
  return step;
}

Step along_a_dimension(Draw& draw, const Tensor& x, std::string& word) {
  const std::int64_t dim = draw.dim(x);
  const std::int64_t size = x.size(dim), other = draw.dim(x), k = draw.from(1, size), cut = draw.to(size);
  const bool keep = draw.coin();
  const std::vector<std::pair<const char*, Step>> all = {
      {"softmax", [=](const Tensor& v) { return v.softmax(dim); }},
      {"log_softmax", [=](const Tensor& v) { return v.log_softmax(dim) * 0.1; }},
      {"mean", [=](const Tensor& v) { return v.mean(dim, keep); }},
      {"sum", [=](const Tensor& v) { return v.sum(dim, keep); }},
      {"amax", [=](const Tensor& v) { return v.amax(dim, keep); }},
      {"max", [=](const Tensor& v) { return std::get<0>(v.max(dim, keep)); }},
      {"std", [=](const Tensor& v) { return v.var(dim, false, keep); }},
      {"norm", [=](const Tensor& v) { return (v + 1).norm(3, {dim}, keep); }},
      {"logsumexp", [=](const Tensor& v) { return v.logsumexp(dim, keep); }},
      {"topk", [=](const Tensor& v) { return std::get<0>(v.topk(k, dim)); }},
      {"sort", [=](const Tensor& v) { return std::get<0>(v.sort(dim, keep)); }},
      {"cumsum", [=](const Tensor& v) { return v.cumsum(dim); }},
      {"flip", [=](const Tensor& v) { return v.flip({dim}); }},
      {"roll", [=](const Tensor& v) { return v.roll(cut, dim < 0 ? dim + v.dim() : dim); }},
      {"select", [=](const Tensor& v) { return v.select(dim, cut - (keep ? size : 0)); }},
      {"narrow", [=](const Tensor& v) { return v.narrow(dim, cut, size - cut); }},
      {"slice", [=](const Tensor& v) { return v.slice(dim, cut - (keep ? size : 0), {}, 2); }},
      {"cat",
       [=](const Tensor& v) {
         return torch::cat({v, v.tanh(), v}, dim);
       }},
      {"stack",
       [=](const Tensor& v) {
         return torch::stack({v, v.tanh()}, dim);
       }},
      {"split", [=](const Tensor& v) { return v.split(k, dim).back(); }},
      {"chunk", [=](const Tensor& v) { return v.chunk(2, dim)[0]; }},
      {"unbind", [=](const Tensor& v) { return v.unbind(dim).front() + v.unbind(dim).back(); }},
      {"glu", [=](const Tensor& v) { return torch::glu(v, dim); }},
      {"transpose", [=](const Tensor& v) { return v.transpose(dim, other); }},
      {"movedim", [=](const Tensor& v) { return v.movedim(dim, other); }},
      {"unsqueeze", [=](const Tensor& v) { return v.unsqueeze(dim); }},
      {"squeeze", [=](const Tensor& v) { return v.squeeze(dim); }},
      {"flatten", [=](const Tensor& v) { return v.flatten(dim, -1); }},
      {"rows",
       [=](const Tensor& v) {
         return v.reshape({v.size(0), -1});
       }},
      {"repeat", [=](const Tensor& v) { return v.repeat_interleave(2, dim); }},
      {"unflatten",
       [=](const Tensor& v) {
         return v.unflatten(dim, {k, size / k});
       }},
      {"expand",
       [=](const Tensor& v) {
         return v.unsqueeze(1).expand_as(torch::stack({v, v}, 1)).mean(1);
       }},
      {"index",
       [=](const Tensor& v) {
         return v.index_select(dim, torch::tensor({cut, size - 1, std::int64_t{0}}));
       }},
      {"gather", [=](const Tensor& v) { return v.gather(dim, torch::full_like(v, cut, torch::kLong)); }},
      {"triu", [=](const Tensor& v) { return v.triu(cut - 2); }}};
  const auto& [name, step] = all[static_cast<std::size_t>(draw.to(static_cast<std::int64_t>(all.size())))];
  word = std::string(name) + "@" + std::to_string(dim);
  return step;
}

Step of_vectors(Draw& draw, Network& net, const Tensor& x, std::string& word) {
  using namespace torch::nn;
  const std::int64_t width = x.size(-1), hidden = draw.from(1, 5);
  const bool coin = draw.coin();
  const std::int64_t which = draw.to(x.dim() == 3 ? 12 : 3);
  constexpr const char* kWords[] = {"Linear", "LayerNorm",   "matmul",    "LSTM",      "GRU",        "RNN",
                                    "Conv1d", "BatchNorm1d", "AvgPool1d", "attention", "Upsample1d", "MaxPool1d"};
  word = kWords[which];
  const auto first = [](auto layer) {
    return [layer](const Tensor& v) mutable { return std::get<0>(layer->forward(v)); };
  };
  if (which == 0) return net.layer(Linear(LinearOptions(width, hidden).bias(coin)));
  if (which == 1) return net.layer(LayerNorm(LayerNormOptions({width}).elementwise_affine(coin)));
  if (which == 2) return [](const Tensor& v) { return torch::matmul(v.unsqueeze(-1), v.unsqueeze(-2)).mean(-1); };
  const std::int64_t layers = draw.from(1, 2), kernel = draw.from(1, 3), channels = x.size(1);
  if (which == 3) {
    LSTM layer(
        LSTMOptions(width, hidden).batch_first(coin).bidirectional(draw.coin()).num_layers(layers).bias(draw.coin()));
    net.register_module("lstm" + std::to_string(net.steps.size()) + "_" + std::to_string(net.children().size()), layer);
    layer->eval();
    if (coin) return first(layer);
    return [layer](const Tensor& v) mutable { return std::get<0>(layer->forward(v.transpose(0, 1))).transpose(0, 1); };
  }
  if (which == 4 || which == 5) {
    const std::string name = "rnn" + std::to_string(net.steps.size()) + "_" + std::to_string(net.children().size());
    if (which == 4) {
      return first(net.register_module(
          name,
          GRU(GRUOptions(width, hidden).batch_first(true).bidirectional(coin).num_layers(layers).bias(draw.coin()))));
    }
    RNNOptions options = RNNOptions(width, hidden).batch_first(true).bidirectional(coin).num_layers(layers);
    if (draw.coin()) options.nonlinearity(torch::kReLU);
    return first(net.register_module(name, RNN(options)));
  }
  if (which == 6)
    return net.layer(Conv1d(Conv1dOptions(channels, hidden, kernel).stride(layers).padding(1).bias(coin)));
  if (which == 7) return net.layer(BatchNorm1d(BatchNorm1dOptions(channels).affine(coin)));
  if (which == 8) return net.layer(AvgPool1d(AvgPool1dOptions(kernel).ceil_mode(coin).stride(2)));
  if (which == 9) {
    MultiheadAttention layer = net.register_module(
        "attention" + std::to_string(net.steps.size()) + "_" + std::to_string(net.children().size()),
        MultiheadAttention(width, 1));
    layer->eval();
    return [layer](const Tensor& v) mutable {
      const Tensor t = v.transpose(0, 1);
      return std::get<0>(layer->forward(t, t, t)).transpose(0, 1);
    };
  }
  if (which == 10)
    return net.layer(Upsample(UpsampleOptions()
                                  .scale_factor(std::vector<double>{0.5 + 2 * draw.part()})
                                  .mode(torch::kLinear)
                                  .align_corners(coin)));
  return net.layer(MaxPool1d(MaxPool1dOptions(kernel).ceil_mode(coin).dilation(layers)));
}

Step of_pictures(Draw& draw, Network& net, const Tensor& x, std::string& word) {
  using namespace torch::nn;
  const std::int64_t channels = x.size(1), out = draw.from(1, 5), kernel = draw.from(1, 3), stride = draw.from(1, 3);
  const std::int64_t padding = draw.to(kernel / 2 + 1), dilation = draw.from(1, 2), which = draw.to(21);
  const bool coin = draw.coin(), other = draw.coin();
  constexpr const char* kWords[] = {
      "Conv2d",          "grouped",   "same",      "ConvTranspose2d",   "BatchNorm2d",       "InstanceNorm2d",
      "GroupNorm",       "MaxPool2d", "AvgPool2d", "AdaptiveAvgPool2d", "AdaptiveMaxPool2d", "unpool",
      "Unfold",          "fold",      "bilinear",  "nearest",           "bicubic",           "pad",
      "pixel_unshuffle", "circular",  "PReLU"};
  word = kWords[which];
  const std::vector<double> scales = {0.5 + 2 * draw.part(), 0.5 + 2 * draw.part()};
  if (which == 0)
    return net.layer(Conv2d(Conv2dOptions(channels, out, {kernel, draw.from(1, 3)})
                                .stride(stride)
                                .padding(padding)
                                .dilation(dilation)
                                .bias(coin)));
  if (which == 1) return net.layer(Conv2d(Conv2dOptions(channels, channels * 2, kernel).groups(channels).padding(1)));
  if (which == 2)
    return net.layer(Conv2d(Conv2dOptions(channels, out, {kernel, 4}).padding(torch::kSame).dilation(dilation)));
  if (which == 3)
    return net.layer(ConvTranspose2d(ConvTranspose2dOptions(channels, out, kernel)
                                         .stride(stride)
                                         .padding(padding)
                                         .output_padding(stride - 1)
                                         .dilation(dilation)));
  if (which == 4) return net.layer(BatchNorm2d(BatchNorm2dOptions(channels).affine(coin)));
  if (which == 5)
    return net.layer(InstanceNorm2d(InstanceNorm2dOptions(channels).affine(coin).track_running_stats(other)));
  if (which == 6) return net.layer(GroupNorm(GroupNormOptions(channels % 2 == 0 ? 2 : 1, channels).affine(coin)));
  if (which == 7)
    return net.layer(
        MaxPool2d(MaxPool2dOptions(kernel).stride(stride).padding(padding).dilation(dilation).ceil_mode(coin)));
  if (which == 8)
    return net.layer(
        AvgPool2d(AvgPool2dOptions(kernel).stride(stride).padding(padding).ceil_mode(coin).count_include_pad(other)));
  if (which == 9) return net.layer(AdaptiveAvgPool2d(AdaptiveAvgPool2dOptions(sizes_for(draw, 2, 5))));
  if (which == 10) return net.layer(AdaptiveMaxPool2d(AdaptiveMaxPool2dOptions(sizes_for(draw, 2, 5))));
  if (which == 11) {
    return [kernel](const Tensor& v) {
      const auto [greatest, places] = torch::max_pool2d_with_indices(v, kernel);
      return torch::max_unpool2d(greatest, places, {v.size(2), v.size(3)});
    };
  }
  if (which == 12) return net.layer(Unfold(UnfoldOptions(kernel).padding(padding).stride(stride).dilation(dilation)));
  if (which == 13) {
    return [=](const Tensor& v) {
      const torch::IntArrayRef sizes = v.sizes().slice(2);
      return torch::col2im(
          torch::im2col(v, {kernel, kernel}, {dilation, dilation}, {padding, padding}, {stride, stride}), sizes,
          {kernel, kernel}, {dilation, dilation}, {padding, padding}, {stride, stride});
    };
  }
  if (which == 14)
    return net.layer(Upsample(UpsampleOptions().scale_factor(scales).mode(torch::kBilinear).align_corners(coin)));
  if (which == 15)
    return net.layer(
        Upsample((coin ? UpsampleOptions().size(sizes_for(draw, 2, 12)) : UpsampleOptions().scale_factor(scales))
                     .mode(torch::kNearest)));
  if (which == 16)
    return net.layer(
        Upsample(UpsampleOptions().size(sizes_for(draw, 2, 12)).mode(torch::kBicubic).align_corners(coin)));
  if (which == 17 || which == 19) {
    torch::nn::functional::PadFuncOptions options({draw.to(3), draw.to(3), draw.to(3), draw.to(3)});
    if (which == 19) {
      options.mode(torch::kCircular);
    } else if (coin) {
      options.mode(torch::kReflect);
    } else if (other) {
      options.mode(torch::kReplicate);
    } else {
      options.value(draw.part());
    }
    return [options](const Tensor& v) { return torch::nn::functional::pad(v, options); };
  }
  if (which == 18) return net.layer(PixelUnshuffle(PixelUnshuffleOptions(2)));
  return net.layer(PReLU(PReLUOptions().num_parameters(coin ? channels : 1)));
}

Step drawn_step(Draw& draw, Network& net, const Tensor& x, std::string& word) {
  const std::int64_t kind = draw.to(5);
  if (kind == 0 || x.dim() < 2) return pointwise(draw, word);
  if (x.dim() == 4 && kind > 1) return of_pictures(draw, net, x, word);
  return kind == 1 || x.dim() > 3 ? along_a_dimension(draw, x, word) : of_vectors(draw, net, x, word);
}

bool is_usable(const Tensor& x) {
  return x.dim() >= 1 && x.dim() <= 5 && x.size(0) == 2 && x.numel() > 0 && x.numel() < 20000 &&
         x.isfinite().all().item<bool>() && x.abs().max().item<double>() < 1e3 && x.abs().max().item<double>() > 0.05;
}

std::shared_ptr<Network> drawn_network(std::uint64_t seed) {
  const torch::NoGradGuard no_grad;
  torch::manual_seed(seed);
  Draw draw(seed);
  auto net = std::make_shared<Network>();
  net->shape = draw.to(3) == 0 ? sizes_for(draw, draw.from(1, 2), 8)
                               : std::vector<std::int64_t>{draw.from(1, 4), draw.from(3, 9), draw.from(3, 9)};
  std::vector<std::int64_t> shape = net->shape;
  shape.insert(shape.begin(), 2);
  std::vector<Tensor> values = {torch::randn(shape)};
  const std::int64_t wanted = draw.from(1, 7);
  for (int tries = 0; tries < 60 && static_cast<std::int64_t>(net->steps.size()) < wanted; ++tries) {
    const std::size_t from = draw.to(3) > 0
                                 ? values.size() - 1
                                 : static_cast<std::size_t>(draw.to(static_cast<std::int64_t>(values.size())));
    std::string word;
    try {
      const Step step = drawn_step(draw, *net, values[from], word);
      net->eval();
      const Tensor made = step(values[from]);
      if (!is_usable(made)) continue;
      values.push_back(made);
      net->steps.emplace_back(from, step);
      net->words.push_back(word + "(" + std::to_string(from) + ")");
    } catch (const std::exception&) {  // the shapes do not match: try another one
    }
  }
  return net;
}

/// "" if the results agree or an error says what cannot be exported.
std::string judged(const OnnxRuntime& runtime, std::uint64_t seed, int& refused) {
  const auto net = drawn_network(seed);
  if (net->steps.empty()) return "";
  const nn::NetworkFunction function = {.inputs = {"x"},
                                        .outputs = {"last", "first"},
                                        .example =
                                            [&net](std::int64_t batch) {
                                              std::vector<std::int64_t> shape = net->shape;
                                              shape.insert(shape.begin(), batch);
                                              torch::manual_seed(static_cast<std::uint64_t>(batch));
                                              return std::vector<Tensor>{torch::randn(shape)};
                                            },
                                        .run =
                                            [&net](const std::vector<Tensor>& in) {
                                              const std::vector<Tensor> values = net->run(in[0]);
                                              return std::vector<Tensor>{values.back(), values[1]};
                                            }};
  std::string words = fmt::format("{}: [{}] ", seed, fmt::join(net->shape, ", ")) + text::join(net->words);
  const test::TempDir folder;
  try {
    std::ofstream(folder / "model.onnx", std::ios::binary) << nn::to_onnx(*net, function).model;
  } catch (const UsageError& error) {
    ++refused;
    const std::string said = error.what();
    return said.find("cannot be written as ONNX") != std::string::npos ? "" : words + ": " + said;
  } catch (const std::exception& error) {
    return words + ": no error of ours: " + error.what();
  }
  try {
    (void)compare_onnx(runtime, folder / "model.onnx", function);
    return "";
  } catch (const std::exception& error) {
    return words + ": " + error.what();
  }
}

std::uint64_t number(const char* name, std::uint64_t otherwise) {
  const char* given = std::getenv(name);
  return given == nullptr ? otherwise : std::strtoull(given, nullptr, 10);
}

TEST(OnnxNetworks, DrawnOnesComputeTheSameInOnnxRuntimeOrAreRefused) {
  const auto runtime = find_onnx_runtime("");
  if (!runtime) GTEST_SKIP() << "no ONNX Runtime in python3 or node";
  const std::uint64_t count = number("LOCKSTEP_NETWORKS", 20);
  const std::uint64_t first = number("LOCKSTEP_NETWORKS_SEED", 1);
  int refused = 0;
  for (std::uint64_t seed = first; seed < first + count; ++seed) {
    const std::string wrong = judged(*runtime, seed, refused);
    EXPECT_EQ(wrong, "");
  }
  print_to(stdout, "refused: {}\n", refused);
  EXPECT_LE(refused, static_cast<int>(count) / 2) << "too few are written";
}

}  // namespace onnx_networks_test
}  // namespace lockstep::worker
