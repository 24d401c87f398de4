// SPDX-License-Identifier: Apache-2.0
#include "lockstep/train/train_config.h"

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "train/settings/numbers.h"

namespace lockstep {

using train::require_setting;

namespace {

/// Throws: UsageError where the second stage would begin before anything was evaluated, or settings of stages are there
/// without one.
void require_base(const TrainConfig& config) {
  const std::int64_t stop = config.stages.stop_epoch;
  if (stop == 0 && (config.stages.patience > 0 || config.stages.epochs > 0 || config.stages.lr > 0)) {
    throw UsageError("stages.patience, stages.epochs or stages.lr is set, and there is one stage only (stop_epoch=0)",
                     "stop_epoch: the epochs that the first stage has at most");
  }
  if (!config.has_second_stage()) return;
  if (config.data.test.empty() || config.eval_every_epochs == 0) {
    throw UsageError(fmt::format("stop_epoch is {}, and without evaluations the first stage has no best", stop),
                     "set data.test and eval_every_epochs, or stop_epoch=0 for one stage");
  }
  if (config.eval_every_epochs > stop) {
    throw UsageError(fmt::format("stop_epoch is {}, and the first evaluation comes after {} epochs (eval_every_epochs)",
                                 stop, config.eval_every_epochs),
                     "an evaluation within the first stage: --set eval_every_epochs=1");
  }
}

void describe_data(ConfigFields& fields, TrainConfig::Data& data) {
  fields.add("data.train", &data.train, "folder of the training samples");
  fields.add("data.test", &data.test, "folder of the held-out samples; empty: no evaluation");
  fields.add("data.allow_outside", &data.allow_outside,
             "lists and annotations may name files outside of their folder: by .., or absolute");
  fields.add(
      "data.max_pixels", &data.max_pixels,
      "of a picture; larger ones are refused, and ones of a quarter of it that are out of proportion to their file");
}

}  // namespace

void TrainConfig::describe(ConfigFields& fields) {
  fields.add("seed", &seed, "weights, order of the samples, dropout");
  fields.add("replicas", &replicas,
             "data-parallel width that the result depends on; 0: the checkpoint's, else the world size");
  fields.add("exact", &exact, "the same bits on any number of processes; false: whatever order of additions is fast");
  fields.add("epochs", &epochs, "passes over data.train");
  fields.add("max_steps", &max_steps, "stop after so many optimizer steps; 0: no limit");
  fields.add("batch_size", &batch_size,
             "samples per replica and step; auto: as many as fit into the memory of the GPU");
  fields.add("total_batch_size", &total_batch_size, "samples per step over all replicas; 0: batch_size says it");
  fields.add("accumulate_steps", &accumulate_steps, "batches whose gradients are added up before a step");
  fields.add("amp", &amp, "mixed precision of the forward pass; fp16 needs CUDA", {"none", "bf16", "fp16"});
  fields.add("channels_last", &channels_last, "images and weights of convolutions in memory as [N, H, W, C]");
  fields.add(
      "fused_layers", &fused_layers,
      "on a CPU: kernels of our own for 3x3 convolutions and for batch norm, dropout, ReLU and pooling as one layer");
  fields.add("grad_scaler.enabled", &grad_scaler.enabled,
             "scale the loss so that small gradients do not vanish; auto: with amp fp16", {"auto", "true", "false"});
  fields.add("grad_scaler.init_scale", &grad_scaler.init_scale, "the first scale");
  fields.add("grad_scaler.growth_factor", &grad_scaler.growth_factor,
             "and its factor after growth_interval good steps");
  fields.add("grad_scaler.backoff_factor", &grad_scaler.backoff_factor, "and at a step whose gradients are not finite");
  fields.add("grad_scaler.growth_interval", &grad_scaler.growth_interval, "good steps until the scale grows");
  fields.add("tf32", &tf32,
             "TF32 for float32 on CUDA: in convolutions only (default), in matrix products too, or nowhere",
             {"default", "true", "false"});
  fields.add("cuda_graph", &cuda_graph,
             "record forward and backward once and replay them: faster where a GPU waits for the host");
  fields.add("threads", &threads, "threads of libtorch per replica; 0: the checkpoint's, else 1");
  fields.add("workers", &workers, "loader threads per replica; 0: load in the training thread");
  fields.add("prefetch_factor", &prefetch_factor, "batches loaded ahead per worker");
  fields.add("persistent_workers", &persistent_workers, "loader threads live for the whole run; false: for an epoch");
  fields.add("loader_timeout_s", &loader_timeout_s,
             "seconds that a step waits for its batch before it is an error; 0: for ever");
  fields.add("bucket_cap_mb", &bucket_cap_mb, "gradients are reduced in buckets of so many MiB; changes no bits");
  fields.add("pin_memory", &pin_memory, "page-locked batches for copies to a GPU; without one it changes nothing");
  fields.add("drop_last", &drop_last, "leave out the last batch where it is not full");
  fields.add("bad_samples", &bad_samples, "what a sample that cannot be read is: an error, or left out and noted",
             {"error", "skip"});
  fields.add("sync_batchnorm", &sync_batchnorm,
             "lockstep::nn::BatchNorm takes its statistics over the batches of all replicas");
  fields.add("log_every_steps", &log_every_steps, "a line in log.jsonl every so many steps; 0: never");
  fields.add("eval_every_epochs", &eval_every_epochs, "evaluate data.test every so many epochs; 0: never");
  describe_data(fields, data);
  optimizer.describe(fields);
  schedule.describe(fields);
  fields.add("clip_norm", &clip_norm, "largest norm of all gradients; 0: no clipping");
  fields.add("clip_value", &clip_value, "largest element of a gradient; 0: no clipping");
  fields.add("ema.decay", &ema.decay, "evaluate with a moving average of the weights; 0: with the weights");
  fields.add("ema.warmups", &ema.warmups, "steps until the average's decay has risen to 63 % of ema.decay");
  fields.add("stop_epoch", &stages.stop_epoch,
             "epochs of a first stage, with whose best a second one begins; 0: there is one stage");
  fields.add("stages.patience", &stages.patience,
             "the first stage ends earlier after so many evaluations without a better one; 0: it does not");
  fields.add("stages.epochs", &stages.epochs, "of the second stage; 0: what is left of epochs");
  fields.add("stages.lr", &stages.lr, "learning rate of the second stage; 0: the schedule goes on");
  fields.add("stages.roll_back", &stages.roll_back,
             "an epoch of the second stage that is no better is undone; false: it goes on from epoch to epoch");
  fields.add("ema_restart_decay", &stages.ema_restart_decay, "of the moving average when the second stage begins");
  fields.add("ema_decay_step", &stages.ema_decay_step,
             "how much lower it becomes after an epoch of the second stage that is no better and is undone");
  fields.add("stop_at.metric", &stop_at.metric, "stop once this metric of data.test ...");
  fields.add("stop_at.value", &stop_at.value, "... reaches this value; no metric: train all epochs");
  fields.add("checkpoint.every_steps", &checkpoint.every_steps,
             "save every so many steps; 0: at a new best and at the end only");
  fields.add("checkpoint.every_epochs", &checkpoint.every_epochs, "save after every so many epochs too; 0: not");
  fields.add("checkpoint.keep_last", &checkpoint.keep_last, "how many step checkpoints stay");
  fields.add("checkpoint.keep_every", &checkpoint.keep_every,
             "besides, those whose step is a multiple of it stay; 0: none");
  fields.add("checkpoint.async", &checkpoint.async,
             "write checkpoints in a thread, from a copy, while training goes on");
  fields.add("checkpoint.when_busy", &checkpoint.when_busy,
             "a checkpoint that is due while one is written waits, or is skipped with a note", {"wait", "skip"});
  fields.add("checkpoint.sharded", &checkpoint.sharded,
             "each rank writes its part, into a folder that all ranks share");
}

void TrainConfig::validate() const {
  const auto number = [](std::int64_t value) { return static_cast<double>(value); };
  require_setting(epochs > 0, "epochs", number(epochs), "at least 1");
  require_setting(max_steps >= 0, "max_steps", number(max_steps), "0 or more");
  require_setting(batch_size.is_auto() || batch_size > 0, "batch_size", batch_size.is_auto() ? 0 : number(batch_size),
                  "at least 1, or auto");
  require_setting(total_batch_size >= 0, "total_batch_size", number(total_batch_size), "0 or more");
  require_setting(accumulate_steps > 0, "accumulate_steps", number(accumulate_steps), "at least 1");
  // The others of grad_scaler are checked by GradScaler itself.
  require_setting(grad_scaler.init_scale > 0, "grad_scaler.init_scale", grad_scaler.init_scale, "above 0");
  require_setting(threads >= 0, "threads", number(threads), "0 or more");
  require_setting(replicas >= 0, "replicas", number(replicas), "0 or more");
  require_setting(workers >= 0, "workers", number(workers), "0 or more");
  require_setting(prefetch_factor > 0, "prefetch_factor", number(prefetch_factor), "at least 1");
  require_setting(loader_timeout_s >= 0, "loader_timeout_s", loader_timeout_s, "0 or more");
  require_setting(data.max_pixels >= 1, "data.max_pixels", number(data.max_pixels), "at least 1");
  require_setting(bucket_cap_mb > 0 && bucket_cap_mb <= 1'000'000, "bucket_cap_mb", number(bucket_cap_mb),
                  "1 to 1,000,000");
  require_setting(log_every_steps >= 0, "log_every_steps", number(log_every_steps), "0 or more");
  require_setting(eval_every_epochs >= 0, "eval_every_epochs", number(eval_every_epochs), "0 or more");
  require_setting(clip_norm >= 0, "clip_norm", clip_norm, "0 or more");
  require_setting(clip_value >= 0, "clip_value", clip_value, "0 or more");
  require_setting(checkpoint.every_epochs >= 0, "checkpoint.every_epochs", number(checkpoint.every_epochs),
                  "0 or more");
  require_setting(checkpoint.every_steps >= 0, "checkpoint.every_steps", number(checkpoint.every_steps), "0 or more");
  require_setting(checkpoint.keep_last > 0, "checkpoint.keep_last", number(checkpoint.keep_last), "at least 1");
  require_setting(checkpoint.keep_every >= 0, "checkpoint.keep_every", number(checkpoint.keep_every), "0 or more");
  if (checkpoint.sharded && checkpoint.when_busy == "skip") {
    throw UsageError("checkpoint.when_busy is skip and checkpoint.sharded is set",
                     "ranks cannot skip each for itself: --set checkpoint.when_busy=wait");
  }
  require_setting(ema.decay >= 0 && ema.decay < 1, "ema.decay", ema.decay, "0 or more, below 1");
  require_setting(ema.warmups >= 0, "ema.warmups", ema.warmups, "0 or more");
  require_setting(stages.stop_epoch >= 0, "stop_epoch", number(stages.stop_epoch), "0 or more");
  require_setting(stages.patience >= 0, "stages.patience", number(stages.patience), "0 or more");
  require_setting(stages.epochs >= 0, "stages.epochs", number(stages.epochs), "0 or more");
  require_setting(stages.lr >= 0, "stages.lr", stages.lr, "0 or more");
  require_setting(stages.ema_restart_decay >= 0 && stages.ema_restart_decay < 1, "ema_restart_decay",
                  stages.ema_restart_decay, "0 or more, below 1");
  require_setting(stages.ema_decay_step >= 0, "ema_decay_step", stages.ema_decay_step, "0 or more");
  optimizer.validate();
  schedule.validate();
  if (clip_norm > 0 && clip_value > 0) {
    throw UsageError("clip_norm and clip_value are both set", "clip by one of them: --set clip_value=0");
  }
  if (schedule.type == "plateau" && (data.test.empty() || eval_every_epochs == 0)) {
    throw UsageError("schedule.type is plateau, which needs evaluations", "set data.test and eval_every_epochs");
  }
  require_base(*this);
  if (data.train.empty()) {
    throw UsageError("data.train is not set", "--set data.train=FOLDER");
  }
}

}  // namespace lockstep
