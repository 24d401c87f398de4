// SPDX-License-Identifier: Apache-2.0
// The settings of the published network; the defaults are from the original classes.
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
  fields.add("dfine.levels", &options.levels, "number of scales, the coarsest of strides 8, 16 and 32").in({1, 3});
  fields.add("dfine.freeze_at", &options.freeze_at, "-1: train the whole backbone; 0: freeze its stem").in({-1, 3});
  fields.add("dfine.freeze_stem_only", &options.freeze_stem_only,
             "false: also freeze the backbone's stages up to dfine.freeze_at");
  fields.add("dfine.freeze_norm", &options.freeze_norm, "freeze the backbone's batch norms");
}

void describe_encoder(ConfigFields& fields, dfine::Options& options) {
  fields.add("dfine.encoder_hidden", &options.encoder_hidden, "channels of the encoder").in({4, 65536}, "channels");
  fields.add("dfine.encoder_heads", &options.encoder_heads, "attention heads of the encoder").in({1, 1024});
  fields.add("dfine.encoder_layers", &options.encoder_layers, "transformer layers on the coarsest scale")
      .in(kLayerCount, "layers");
  fields
      .add("dfine.encoder_feedforward", &options.encoder_feedforward, "inner width of the encoder's transformer layers")
      .in(kInnerWidth);
  fields.add("dfine.expansion", &options.expansion, "channels within a fusion block, relative to half the encoder's")
      .in(kMultiple);
  fields.add("dfine.depth_mult", &options.depth_mult, "factor for the three convolutions of a fusion block's branch")
      .in(kMultiple);
}

void describe_decoder(ConfigFields& fields, dfine::Options& options, std::vector<std::string>& points) {
  fields.add("dfine.hidden", &options.hidden, "channels of the decoder").in({4, 65536}, "channels");
  fields.add("dfine.heads", &options.heads, "attention heads of the decoder").in({1, 1024});
  fields.add("dfine.layers", &options.layers, "decoder layers, each of which refines the boxes").in({1, 100}, "layers");
  fields.add("dfine.feedforward", &options.feedforward, "inner width of the decoder layers").in(kInnerWidth);
  fields.add("dfine.eval_idx", &options.eval_idx, "the layer used in evaluation; negative: from the end")
      .in({-1e2, 1e2});
  fields.add("dfine.points", &points, "points that a head samples at each scale, finest first").in({1, 1024});
  fields.add("dfine.queries", &options.queries, "maximum number of objects that can be found").in({1, 100'000});
  fields.add("dfine.activation", &options.activation, "activation of the decoder's layers", {"relu", "silu"});
  fields.add("dfine.mlp_activation", &options.mlp_activation, "activation of the decoder's heads", {"relu", "silu"});
  fields.add("dfine.reg_max", &options.reg_max, "bins in a side's distribution, minus one").in({4, 1024});
  fields.add("dfine.reg_scale", &options.reg_scale, "scale of the distribution's bins");
  fields.add("dfine.up", &options.up, "scale of the distribution's outermost bins");
  fields.add("dfine.denoising", &options.denoising, "noisy objects per image, and as many negative ones; 0: none")
      .in({0, 50'000});
  fields.add("dfine.label_noise", &options.label_noise, "twice the probability of changing a label").in({0, 1});
  fields.add("dfine.box_noise", &options.box_noise, "maximum shift of a noisy box, relative to half its size")
      .in({.least = 0});
}

}  // namespace

void describe_dfine(ConfigFields& fields, dfine::Options& options, std::vector<std::string>& points) {
  describe_backbone(fields, options);
  describe_encoder(fields, options);
  describe_decoder(fields, options, points);
}

}  // namespace lockstep::detection
