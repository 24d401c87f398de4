// SPDX-License-Identifier: Apache-2.0
// The settings of the published network; the defaults are from the origin's classes.
#include "detection/config.h"

#include "detection/dfine/options.h"

namespace lockstep::detection {
namespace {

constexpr ConfigRange kInnerWidth{1, 65536};
constexpr ConfigRange kLayerCount{0, 100};
constexpr ConfigRange kMultiple{.least = 0, .most = 100, .above = true};

void describe_backbone(ConfigFields& fields, dfine::Options& options) {
  fields.add("dfine.backbone", &options.backbone, "HGNetv2's size", dfine::backbone_names());
  fields.add("dfine.use_lab", &options.use_lab, "a learnable scale and bias after each activation of the backbone");
  fields.add("dfine.levels", &options.levels, "scales of strides 8, 16, 32; 2: 16 and 32").in({1, 3});
  fields.add("dfine.freeze_at", &options.freeze_at, "-1: the whole backbone learns; 0: its stem does not").in({-1, 3});
  fields.add("dfine.freeze_stem_only", &options.freeze_stem_only,
             "false: nor do the backbone's stages up to dfine.freeze_at");
  fields.add("dfine.freeze_norm", &options.freeze_norm, "the backbone's batch norms stay as they are");
}

void describe_encoder(ConfigFields& fields, dfine::Options& options) {
  fields.add("dfine.encoder_hidden", &options.encoder_hidden, "channels of the encoder").in({4, 65536}, "channels");
  fields.add("dfine.encoder_heads", &options.encoder_heads, "of its attention").in({1, 1024});
  fields.add("dfine.encoder_layers", &options.encoder_layers, "transformer layers on the coarsest scale")
      .in(kLayerCount, "layers");
  fields.add("dfine.encoder_feedforward", &options.encoder_feedforward, "their inner width").in(kInnerWidth);
  fields.add("dfine.expansion", &options.expansion, "channels within a fusion block, in halves of the encoder's")
      .in(kMultiple);
  fields.add("dfine.depth_mult", &options.depth_mult, "of the three convolutions of a fusion block's branch")
      .in(kMultiple);
}

void describe_decoder(ConfigFields& fields, dfine::Options& options, std::vector<std::string>& points) {
  fields.add("dfine.hidden", &options.hidden, "channels of the decoder").in({4, 65536}, "channels");
  fields.add("dfine.heads", &options.heads, "of its attention").in({1, 1024});
  fields.add("dfine.layers", &options.layers, "each refines the boxes").in({1, 100}, "layers");
  fields.add("dfine.feedforward", &options.feedforward, "their inner width").in(kInnerWidth);
  fields.add("dfine.eval_idx", &options.eval_idx, "the layer that evaluation uses; negative: from the end")
      .in({-1e2, 1e2});
  fields.add("dfine.points", &points, "that a head samples of each scale, the finest first").in({1, 1024});
  fields.add("dfine.queries", &options.queries, "objects that can be found at most").in({1, 100'000});
  fields.add("dfine.activation", &options.activation, "of the decoder's layers", {"relu", "silu"});
  fields.add("dfine.mlp_activation", &options.mlp_activation, "of the decoder's heads", {"relu", "silu"});
  fields.add("dfine.reg_max", &options.reg_max, "bins of a side's distribution, less one").in({4, 1024});
  fields.add("dfine.reg_scale", &options.reg_scale, "of the distribution's bins");
  fields.add("dfine.up", &options.up, "of the distribution's ends");
  fields.add("dfine.denoising", &options.denoising, "noisy objects an image, and as many negative ones; 0: none")
      .in({0, 50'000});
  fields.add("dfine.label_noise", &options.label_noise, "half of it is the probability of another label").in({0, 1});
  fields.add("dfine.box_noise", &options.box_noise, "of a noisy box, in halves of its size").in({.least = 0});
}

}  // namespace

void describe_dfine(ConfigFields& fields, dfine::Options& options, std::vector<std::string>& points) {
  describe_backbone(fields, options);
  describe_encoder(fields, options);
  describe_decoder(fields, options, points);
}

}  // namespace lockstep::detection
