// SPDX-License-Identifier: Apache-2.0
#include "captioning/origin_keys.h"

#include <algorithm>

namespace lockstep::captioning {

OriginKeys::OriginKeys() {
  add_training();
  add_data();
  add_model();
  add_solver();
  add_scores();
}

void OriginKeys::add(const char* key, ConfigFields::Target target) { fields_.add(key, target, "of the original"); }

template <class T>
void OriginKeys::without_meaning(const std::vector<const char*>& keys) {
  for (const char* key : keys) {
    add(key, &std::get<T>(unused_.emplace_back(T{})));
    unused_names_.emplace_back(key);
  }
}

void OriginKeys::add_training() {
  add("SEED", &seed);
  add("TRAIN.BATCH_SIZE", &batch_size);
  add("TRAIN.SCHEDULED_SAMPLING.START", &sampling_start);
  add("TRAIN.SCHEDULED_SAMPLING.INC_EVERY", &sampling_inc_every);
  add("TRAIN.SCHEDULED_SAMPLING.INC_PROB", &sampling_inc_prob);
  add("TRAIN.SCHEDULED_SAMPLING.MAX_PROB", &sampling_max_prob);
  add("TRAIN.REINFORCEMENT.START", &reinforcement_start);
  without_meaning<std::string>({"LOGGER_NAME", "ROOT_DIR", "TEMP_DIR"});
  without_meaning<std::int64_t>({"TEST.BATCH_SIZE"});
}

void OriginKeys::add_data() {
  add("DATA_LOADER.NUM_WORKERS", &num_workers);
  add("DATA_LOADER.PIN_MEMORY", &pin_memory);
  add("DATA_LOADER.DROP_LAST", &drop_last);
  add("DATA_LOADER.SHUFFLE", &shuffle);
  add("DATA_LOADER.TRAIN_ATT_FEATS", &train_features);
  add("DATA_LOADER.VAL_ATT_FEATS", &val_features);
  add("DATA_LOADER.TRAIN_ID", &train_id);
  add("DATA_LOADER.VAL_ID", &val_id);
  add("DATA_LOADER.TEST_ATT_FEATS", &test_features);
  add("DATA_LOADER.TEST_ID", &test_id);
  add("DATA_LOADER.INPUT_SEQ_PATH", &input_seq_path);
  add("DATA_LOADER.SEQ_PER_IMG", &seq_per_img);
  add("DATA_LOADER.MAX_FEAT", &max_feat);
  without_meaning<std::string>({"DATA_LOADER.TRAIN_GV_FEAT", "DATA_LOADER.VAL_GV_FEAT", "DATA_LOADER.TEST_GV_FEAT",
                                "DATA_LOADER.TEST_4W_ID", "DATA_LOADER.TARGET_SEQ_PATH"});
}

void OriginKeys::add_model() {
  add("MODEL.TYPE", &model_type);
  add("MODEL.SEQ_LEN", &seq_len);
  add("MODEL.VOCAB_SIZE", &vocab_size);
  add("MODEL.WORD_EMBED_DIM", &word_embed_dim);
  add("MODEL.WORD_EMBED_ACT", &word_embed_act);
  add("MODEL.DROPOUT_WORD_EMBED", &dropout_word_embed);
  add("MODEL.ATT_FEATS_DIM", &att_feats_dim);
  add("MODEL.ATT_FEATS_EMBED_DIM", &att_feats_embed_dim);
  add("MODEL.DROPOUT_ATT_EMBED", &dropout_att_embed);
  add("MODEL.RNN_SIZE", &rnn_size);
  add("MODEL.DROPOUT_LM", &dropout_lm);
  add("MODEL.BILINEAR.DIM", &bilinear_dim);
  add("MODEL.BILINEAR.ENCODE_ATT_MID_DIM", &encode_att_mid_dim);
  add("MODEL.BILINEAR.DECODE_ATT_MID_DIM", &decode_att_mid_dim);
  add("MODEL.BILINEAR.ENCODE_DROPOUT", &encode_dropout);
  add("MODEL.BILINEAR.DECODE_DROPOUT", &decode_dropout);
  add("MODEL.BILINEAR.ENCODE_ATT_MID_DROPOUT", &encode_mid_dropout);
  add("MODEL.BILINEAR.DECODE_ATT_MID_DROPOUT", &decode_mid_dropout);
  add("MODEL.BILINEAR.ENCODE_BIFEAT_EMB_DROPOUT", &fusion_dropout);
  add("MODEL.BILINEAR.ENCODE_LAYERS", &encode_layers);
  add("MODEL.BILINEAR.DECODE_LAYERS", &decode_layers);
  add("MODEL.BILINEAR.HEAD", &head);
  without_meaning<std::string>({"MODEL.GVFEAT_EMBED_ACT", "MODEL.ATT_FEATS_EMBED_ACT", "MODEL.ATT_ACT",
                                "MODEL.BILINEAR.ACT", "MODEL.BILINEAR.TYPE", "MODEL.BILINEAR.ATTTYPE",
                                "MODEL.BILINEAR.ENCODE_BLOCK", "MODEL.BILINEAR.DECODE_BLOCK",
                                "MODEL.BILINEAR.BIFEAT_EMB_ACT"});
  without_meaning<std::int64_t>({"MODEL.GVFEAT_DIM", "MODEL.GVFEAT_EMBED_DIM", "MODEL.ATT_HIDDEN_SIZE",
                                 "MODEL.BILINEAR.ATT_DIM", "MODEL.TRANSFORMER.PE_MAX_LEN"});
  without_meaning<bool>({"MODEL.WORD_EMBED_NORM", "MODEL.ATT_FEATS_NORM"});
  without_meaning<double>({"MODEL.DROPOUT_GV_EMBED", "MODEL.ATT_HIDDEN_DROP", "MODEL.BOTTOM_UP.DROPOUT_FIRST_INPUT",
                           "MODEL.BOTTOM_UP.DROPOUT_SEC_INPUT", "MODEL.BILINEAR.ENCODE_FF_DROPOUT",
                           "MODEL.BILINEAR.DECODE_FF_DROPOUT", "MODEL.BILINEAR.ELU_ALPHA",
                           "MODEL.BILINEAR.DECODE_BIFEAT_EMB_DROPOUT"});
}

void OriginKeys::add_solver() {
  add("SOLVER.BASE_LR", &base_lr);
  add("SOLVER.TYPE", &solver_type);
  add("SOLVER.MAX_EPOCH", &max_epoch);
  add("SOLVER.GRAD_CLIP", &grad_clip);
  add("SOLVER.GRAD_CLIP_TYPE", &grad_clip_type);
  add("SOLVER.WEIGHT_DECAY", &weight_decay);
  add("SOLVER.WEIGHT_DECAY_BIAS", &weight_decay_bias);
  add("SOLVER.BIAS_LR_FACTOR", &bias_lr_factor);
  add("SOLVER.DISPLAY", &display);
  add("SOLVER.TEST_INTERVAL", &test_interval);
  add("SOLVER.SNAPSHOT_ITERS", &snapshot_iters);
  add("SOLVER.SGD.MOMENTUM", &momentum);
  add("SOLVER.ADAM.BETAS", &betas);
  add("SOLVER.ADAM.EPS", &eps);
  add("SOLVER.LR_POLICY.TYPE", &lr_policy);
  add("SOLVER.LR_POLICY.GAMMA", &gamma);
  add("SOLVER.LR_POLICY.STEP_SIZE", &step_size);
  add("SOLVER.LR_POLICY.STEPS", &steps);
  add("SOLVER.LR_POLICY.SETP_TYPE", &setp_type);
  add("SOLVER.LR_POLICY.WARMUP", &warmup);
  add("SOLVER.LR_POLICY.FACTOR", &factor);
  add("SOLVER.LR_POLICY.MODEL_SIZE", &model_size);
  add("SOLVER.LR_POLICY.PLATEAU_FACTOR", &plateau_factor);
  add("SOLVER.LR_POLICY.PLATEAU_PATIENCE", &plateau_patience);
  without_meaning<std::int64_t>({"SOLVER.MAX_ITER"});
}

void OriginKeys::add_scores() {
  add("LOSSES.XE_TYPE", &xe_type);
  add("LOSSES.RL_TYPE", &rl_type);
  add("LOSSES.LABELSMOOTHING", &label_smoothing);
  add("SCORER.TYPES", &scorers);
  add("SCORER.CIDER_CACHED", &cider_cached);
  add("INFERENCE.VOCAB", &vocab);
  add("INFERENCE.VAL_ANNFILE", &val_annfile);
  add("INFERENCE.TEST_ANNFILE", &test_annfile);
  add("INFERENCE.BEAM_SIZE", &beam_size);
  add("INFERENCE.GREEDY_DECODE", &greedy_decode);
  without_meaning<std::vector<std::string>>({"SCORER.WEIGHTS"});
  without_meaning<std::string>(
      {"SCORER.GT_PATH", "INFERENCE.ID_KEY", "INFERENCE.CAP_KEY", "INFERENCE.EVAL", "INFERENCE.COCO_PATH"});
}

void OriginKeys::read(const ConfigTree& file) {
  fields_.bind(file);
  for (const std::string& name : unused_names_) {
    if (has(name)) others_.push_back(name);
  }
}

std::string OriginKeys::text_of(const std::string& key) const {
  const auto& fields = fields_.fields();
  const auto field = std::find_if(fields.begin(), fields.end(), [&](const auto& each) { return each.key == key; });
  return field == fields.end() ? "" : ConfigFields::value_text(field->target);
}

std::string OriginKeys::origin(const std::string& key) const {
  const auto& fields = fields_.fields();
  const auto field = std::find_if(fields.begin(), fields.end(), [&](const auto& each) { return each.key == key; });
  return field == fields.end() ? "default" : field->origin;
}

}  // namespace lockstep::captioning
