// SPDX-License-Identifier: Apache-2.0
#include "detection/dfine/options.h"

#include <fmt/format.h>

#include <map>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"

namespace lockstep::detection::dfine {
namespace {

/// The differences between the seven backbones. In all of them, a stage's input is the previous stage's output; the
/// last two stages are light and have kernels of size 5.
struct Row {
  std::array<std::int64_t, 2> stem;
  std::array<std::int64_t, 4> middle;
  std::array<std::int64_t, 4> out;
  std::array<std::int64_t, 4> blocks;
  std::int64_t layers;
};

BackboneShape shape_of(const Row& row) {
  BackboneShape shape{.stem = row.stem};
  std::int64_t in = row.stem[1];
  for (std::size_t i = 0; i < 4; ++i) {
    shape.stages[i] = {.in = in,
                       .middle = row.middle[i],
                       .out = row.out[i],
                       .blocks = row.blocks[i],
                       .downsample = i > 0,
                       .light = i > 1,
                       .kernel = i > 1 ? 5 : 3,
                       .layers = row.layers};
    in = row.out[i];
  }
  return shape;
}

const std::map<std::string, BackboneShape>& table() {
  static const std::map<std::string, BackboneShape> kTable = {
      {"B0", shape_of({{16, 16}, {16, 32, 64, 128}, {64, 256, 512, 1024}, {1, 1, 2, 1}, 3})},
      {"B1", shape_of({{24, 32}, {32, 48, 96, 192}, {64, 256, 512, 1024}, {1, 1, 2, 1}, 3})},
      {"B2", shape_of({{24, 32}, {32, 64, 128, 256}, {96, 384, 768, 1536}, {1, 1, 3, 1}, 4})},
      {"B3", shape_of({{24, 32}, {32, 64, 128, 256}, {128, 512, 1024, 2048}, {1, 1, 3, 1}, 5})},
      {"B4", shape_of({{32, 48}, {48, 96, 192, 384}, {128, 512, 1024, 2048}, {1, 1, 3, 1}, 6})},
      {"B5", shape_of({{32, 64}, {64, 128, 256, 512}, {128, 512, 1024, 2048}, {1, 2, 5, 2}, 6})},
      {"B6", shape_of({{48, 96}, {96, 192, 384, 768}, {192, 512, 1024, 2048}, {2, 3, 6, 3}, 6})},
  };
  return kTable;
}

void require_multiple(const char* what, std::int64_t hidden, std::int64_t heads) {
  if (heads > 0 && hidden > 0 && hidden % heads == 0 && hidden % 4 == 0) return;
  throw UsageError(
      fmt::format("the {} has {} channels and {} heads: channels must be a multiple of both 4 and the number of heads",
                  what, hidden, heads));
}

}  // namespace

std::vector<std::string> backbone_names() {
  std::vector<std::string> names;
  for (const auto& [name, shape] : table()) names.push_back(name);
  return names;
}

const BackboneShape& backbone_shape(const std::string& name) {
  const auto found = table().find(name);
  if (found != table().end()) return found->second;
  throw UsageError(fmt::format("there is no backbone '{}'; it must be one of {}", name, text::join(backbone_names())));
}

std::int64_t Options::smallest_side() const {
  for (std::int64_t side = 2 * kCoarsestStride;; side += kCoarsestStride) {
    std::int64_t positions = 0;
    for (std::int64_t i = 0; i < levels; ++i)
      positions += (side / (kCoarsestStride >> i)) * (side / (kCoarsestStride >> i));
    if (positions >= queries) return side;
  }
}

void check(const Options& options) {
  (void)backbone_shape(options.backbone);
  if (options.levels < 1 || options.levels > 3 || std::ssize(options.points) != options.levels) {
    throw UsageError(fmt::format("there are {} scales, but points for {}; both numbers must be the same, 1 to 3",
                                 options.levels, options.points.size()));
  }
  require_multiple("encoder", options.encoder_hidden, options.encoder_heads);
  require_multiple("decoder", options.hidden, options.heads);
  if (options.reg_max < 4 || options.reg_max % 2 != 0) {
    throw UsageError(fmt::format("reg_max is {}; it must be even and at least 4", options.reg_max));
  }
  if (options.classes < 1 || options.queries < 1 || options.layers < 1) {
    throw UsageError(fmt::format("there must be at least one class, query and decoder layer, not {}, {} and {}",
                                 options.classes, options.queries, options.layers));
  }
  if (options.last_layer() < 0 || options.last_layer() >= options.layers) {
    throw UsageError(fmt::format("eval_idx is {}, but there are {} decoder layers", options.eval_idx, options.layers));
  }
  if (options.denoising < 0)
    throw UsageError(fmt::format("denoising is {}; it must be at least 0 (none)", options.denoising));
}

}  // namespace lockstep::detection::dfine
