// SPDX-License-Identifier: Apache-2.0
#include "lockstep/train/train_config.h"

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/base/option_words.h"
#include "train/settings/metrics_address.h"

namespace lockstep {

namespace {

/// Throws: UsageError if the second stage would begin before any evaluation, or if there are stage settings without
///         a second stage.
void require_base(const TrainConfig& config) {
  const std::int64_t stop = config.stages.stop_epoch;
  if (stop == 0 && (config.stages.patience > 0 || config.stages.epochs > 0 || config.stages.lr > 0)) {
    throw UsageError("stages.patience, stages.epochs or stages.lr is set, but there is only one stage (stop_epoch=0)",
                     "set stop_epoch to the maximum number of epochs of the first stage");
  }
  if (!config.has_second_stage()) return;
  if (!config.has_evaluations()) {
    throw UsageError(
        fmt::format("stop_epoch is {}, but the first stage has no best checkpoint without evaluations", stop),
        "set data.test and eval_every_epochs, or stop_epoch=0 for one stage");
  }
  const std::int64_t first = (config.eval_from_epoch / config.eval_every_epochs + 1) * config.eval_every_epochs;
  if (first > stop) {
    throw UsageError(
        fmt::format("stop_epoch is {}, but the first evaluation comes after {} epochs (eval_every_epochs{})", stop,
                    first, config.eval_from_epoch > 0 ? ", eval_from_epoch" : ""),
        "evaluate within the first stage: " + setting_words("eval_every_epochs=1") + " " +
            setting_words("eval_from_epoch=0"));
  }
}

constexpr double kMostSteps = 1e15;
constexpr double kMostEpochs = 1e8;
constexpr double kMostEvaluations = 1e9;
constexpr ConfigRange kSteps{0, kMostSteps};
constexpr ConfigRange kEpochs{0, kMostEpochs};
constexpr ConfigRange kAverage{.least = 0, .most = 1, .below = true};  // decay of a moving average

void describe_data(ConfigFields& fields, TrainConfig::Data& data) {
  fields.add("data.train", &data.train, "folder of the training samples").at_resume(OnResume::kFree).per_host();
  fields.add("data.test", &data.test, "folder of the held-out samples; empty: no evaluation")
      .at_resume(OnResume::kFree)
      .per_host();
  fields
      .add("data.skip_samples", &data.skip_samples,
           "file listing samples to skip, one name per line; read when the run starts or resumes")
      .at_resume(OnResume::kFree)
      .per_host();
  fields
      .add("data.skipped_samples", &data.skipped_samples,
           "samples skipped so far because of data.skip_samples, as {epoch, batch, samples} entries; maintained by the "
           "run")
      .at_resume(OnResume::kCheckpoint);
  fields
      .add("data.allow_outside", &data.allow_outside,
           "lists and annotations may refer to files outside their folder, via .. or absolute paths")
      .at_resume(OnResume::kFree);
  fields
      .add("data.max_pixels", &data.max_pixels,
           "maximum number of pixels per image; above a quarter of it, images out of proportion to their file size are "
           "rejected too")
      .in({1, 1e10}, "pixels")
      .at_resume(OnResume::kFree);
}

/// Adds the settings for run length and step size.
void describe_course(ConfigFields& fields, TrainConfig& config) {
  fields.add("seed", &config.seed, "random seed for initial weights, sample order and dropout");
  fields
      .add("replicas", &config.replicas,
           "data-parallel width, which determines the result; 0: the checkpoint's, otherwise the job's maximum number "
           "of ranks")
      .in({0, 1e6})
      .at_resume(OnResume::kCheckpoint);
  fields.add("exact", &config.exact,
             "bitwise-identical results on any number of processes; false: the fastest summation order");
  fields.add("epochs", &config.epochs, "passes over data.train")
      .in({1, kMostEpochs}, "epochs")
      .at_resume(OnResume::kFreeLength);
  fields.add("max_steps", &config.max_steps, "stop after this many optimizer steps; 0: no limit")
      .in(kSteps, "steps")
      .at_resume(OnResume::kFreeLength);
  fields.add("batch_size", &config.batch_size, "samples per replica per step; auto: as many as fit in GPU memory")
      .in({1, 1e7}, "samples");
  fields
      .add("total_batch_size", &config.total_batch_size,
           "samples per step across all replicas; 0: determined by batch_size")
      .in({0, 1e13}, "samples");
  fields.add("accumulate_steps", &config.accumulate_steps, "batches per step; their gradients are averaged")
      .in({1, 1e5}, "batches");
}

void describe_precision(ConfigFields& fields, TrainConfig& config) {
  TrainConfig::GradScaler& scaler = config.grad_scaler;
  fields.add("amp", &config.amp, "mixed precision of the forward pass; fp16 needs CUDA", {"none", "bf16", "fp16"});
  fields.add("channels_last", &config.channels_last, "store images and convolution weights as [N, H, W, C]").tuned();
  fields
      .add("fused_layers", &config.fused_layers,
           "use custom kernels: fused batch norm, ReLU and pooling (with dropout on a CPU), and 3x3 convolutions on a "
           "CPU")
      .tuned();
  fields.add("grad_scaler.enabled", &scaler.enabled,
             "scale the loss so that small gradients do not vanish; auto: with amp fp16", {"auto", "true", "false"});
  fields.add("grad_scaler.init_scale", &scaler.init_scale, "initial loss scale").in({.least = 0, .above = true});
  fields
      .add("grad_scaler.growth_factor", &scaler.growth_factor,
           "factor applied to the scale after growth_interval good steps")
      .in({.least = 1, .above = true});
  fields
      .add("grad_scaler.backoff_factor", &scaler.backoff_factor,
           "factor applied to the scale after a step with non-finite gradients")
      .in({.least = 0, .most = 1, .above = true, .below = true});
  fields.add("grad_scaler.growth_interval", &scaler.growth_interval, "good steps before the scale grows")
      .in({1, 1e9}, "steps");
  fields.add(
      "tf32", &config.tf32,
      "TF32 for float32 on CUDA: only in convolutions (default), also in matrix products (true), or nowhere (false)",
      {"default", "true", "false"});
}

/// Adds the performance settings.
void describe_speed(ConfigFields& fields, TrainConfig& config) {
  fields
      .add("cuda_graph", &config.cuda_graph,
           "record forward and backward and replay them; auto: if the step supports it; true: fail if it does not",
           {"auto", "true", "false"})
      .at_resume(OnResume::kFree);  // equal on all hosts: collectives depend on whether a step is recorded
  fields.add("threads", &config.threads, "libtorch threads per replica; 0: the checkpoint's value, otherwise 1")
      .in({0, 4096}, "threads")
      .at_resume(OnResume::kCheckpoint)
      .tuned();
  fields.add("workers", &config.workers, "loader threads per replica; 0: load in the training thread")
      .in({0, 4096}, "threads")
      .at_resume(OnResume::kFree)
      .per_host()
      .tuned();
  fields.add("prefetch_factor", &config.prefetch_factor, "batches loaded ahead per worker")
      .in({1, 10'000}, "batches")
      .at_resume(OnResume::kFree)
      .per_host()
      .tuned();
  fields
      .add("persistent_workers", &config.persistent_workers,
           "keep loader threads for the whole run; false: for one epoch")
      .at_resume(OnResume::kFree)
      .per_host();
  fields
      .add("loader_timeout_s", &config.loader_timeout_s,
           "seconds a step waits for its batch before failing; 0: forever")
      .in({0, 1e9}, "seconds")
      .at_resume(OnResume::kFree)
      .per_host();
  fields.add("bucket_cap_mb", &config.bucket_cap_mb, "gradient bucket size in MiB; does not affect results")
      .in({1, 1e6}, "MiB")
      .at_resume(OnResume::kFree)
      .tuned();
  fields.add("pin_memory", &config.pin_memory, "use pinned memory for copies to a GPU; no effect without a GPU")
      .at_resume(OnResume::kFree)
      .per_host();
}

/// Adds the settings for metrics and monitoring.
void describe_curves(ConfigFields& fields, TrainConfig& config) {
  fields
      .add("tensorboard", &config.tensorboard,
           "where TensorBoard files go: auto is the run folder's tensorboard/, none, or a folder")
      .at_resume(OnResume::kFree)
      .per_host();
  fields
      .add("check_gradients", &config.check_gradients,
           "stop at the first non-finite gradient and name its parameter; report unusual norms")
      .at_resume(OnResume::kFree);
  fields
      .add("digests", &config.digests,
           "keep a digest of every step's loss, gradients and weights in digests.bin; auto: on the CPU",
           {"auto", "true", "false"})
      .at_resume(OnResume::kFree);
  fields
      .add("guard", &config.guard,
           "every N steps, another rank recomputes a replica and all ranks compare weights; 0: never")
      .in(kSteps, "steps")
      .at_resume(OnResume::kFree);
  fields
      .add("tensorboard_histograms", &config.tensorboard_histograms,
           "log weight and gradient histograms to TensorBoard every N steps; 0: never")
      .in(kSteps, "steps")
      .at_resume(OnResume::kFree);
  fields
      .add(
          "metrics_address", &config.metrics_address,
          "PORT on 127.0.0.1, or HOST:PORT, on which to serve the run's metrics to Prometheus at /metrics; empty: none")
      .at_resume(OnResume::kFree)
      .per_host();
}

void describe_section_timeouts(ConfigFields& fields, TrainConfig::SectionTimeout& limits) {
  const auto add = [&fields](const char* key, double* limit, const char* help) {
    fields.add(key, limit, help).in({-1, 1e9}, "seconds").at_resume(OnResume::kFree).per_host();
  };
  add("section_timeout.setup", &limits.setup, "timeout for setup, in seconds; -1: 1800; 0: no limit");
  add("section_timeout.data", &limits.data,
      "timeout for a batch, in seconds; -1: ten times the longest so far, at least 60, and LOCKSTEP_TIMEOUT for the "
      "first (same below); 0: no limit");
  add("section_timeout.forward", &limits.forward, "seconds for the forward pass");
  add("section_timeout.backward", &limits.backward, "seconds for the backward pass");
  add("section_timeout.optimizer", &limits.optimizer, "seconds for the optimizer step");
  add("section_timeout.evaluate", &limits.evaluate,
      "seconds an evaluation may go without progress; -1: 1800 for the first");
  add("section_timeout.save", &limits.save,
      "seconds for a checkpoint; -1: ten times the longest so far, at least 1800");
}

void describe_stages(ConfigFields& fields, TrainConfig::Stages& stages) {
  fields
      .add("stop_epoch", &stages.stop_epoch,
           "epochs of the first stage; the second stage starts from its best checkpoint; 0: one stage")
      .in(kEpochs, "epochs");
  fields
      .add("stages.patience", &stages.patience,
           "end the first stage early after this many evaluations without improvement; 0: never")
      .in({0, kMostEvaluations}, "evaluations");
  fields.add("stages.epochs", &stages.epochs, "epochs of the second stage; 0: all remaining epochs")
      .in(kEpochs, "epochs");
  fields.add("stages.lr", &stages.lr, "learning rate of the second stage; 0: the schedule continues").in({.least = 0});
  fields.add("stages.roll_back", &stages.roll_back,
             "roll back second-stage epochs that bring no improvement; false: always continue from the latest epoch");
  fields
      .add("ema_restart_decay", &stages.ema_restart_decay,
           "decay of the moving average at the start of the second stage")
      .in(kAverage);
  fields
      .add("ema_decay_step", &stages.ema_decay_step,
           "how much that decay drops each time a second-stage epoch is rolled back")
      .in({.least = 0});
}

void describe_checkpoints(ConfigFields& fields, TrainConfig::Checkpoint& checkpoint) {
  const auto add = [&fields](const char* key, ConfigFields::Target target, const char* help,
                             std::vector<std::string> choices = {}) -> ConfigFields::Field& {
    return fields.add(key, target, help, std::move(choices)).at_resume(OnResume::kFree);
  };
  add("checkpoint.every_steps", &checkpoint.every_steps, "save every N steps; 0: only at a new best and at the end")
      .in(kSteps, "steps");
  add("checkpoint.every_epochs", &checkpoint.every_epochs, "also save every N epochs; 0: don't").in(kEpochs, "epochs");
  add("checkpoint.keep_last", &checkpoint.keep_last, "number of step checkpoints to keep").in({1, 1e9}, "checkpoints");
  add("checkpoint.keep_every", &checkpoint.keep_every,
      "also keep checkpoints whose step is a multiple of this; 0: none")
      .in(kSteps, "steps");
  add("checkpoint.async", &checkpoint.async,
      "write checkpoints in a background thread, from a copy, while training continues");
  add("checkpoint.when_busy", &checkpoint.when_busy,
      "a checkpoint that comes due while another is being written waits, or is skipped with a note", {"wait", "skip"});
  add("checkpoint.sharded", &checkpoint.sharded, "each rank writes its part to a folder that all ranks share");
  add("checkpoint.require_finite", &checkpoint.require_finite,
      "fail rather than save, or resume from, weights, moments or averages that are NaN or infinite");
}

}  // namespace

void TrainConfig::describe(ConfigFields& fields) {
  describe_course(fields, *this);
  describe_precision(fields, *this);
  describe_speed(fields, *this);
  describe_section_timeouts(fields, section_timeout);
  fields.add("drop_last", &drop_last, "drop the last batch if it is not full");
  fields.add("bad_samples", &bad_samples, "how to treat unreadable samples: fail, or skip and note them",
             {"error", "skip"});
  fields.add("sync_batchnorm", &sync_batchnorm,
             "lockstep::nn::BatchNorm computes its statistics over the batches of all replicas");
  fields.add("log_every_steps", &log_every_steps, "write a line to log.jsonl every N steps; 0: never")
      .in(kSteps, "steps")
      .at_resume(OnResume::kFree);
  describe_curves(fields, *this);
  fields.add("eval_every_epochs", &eval_every_epochs, "evaluate on data.test every N epochs; 0: never")
      .in(kEpochs, "epochs")
      .at_resume(OnResume::kFreeEvaluations);
  fields
      .add("eval_from_epoch", &eval_from_epoch,
           "first epoch to evaluate, counting from 0; the last one is always evaluated")
      .in(kEpochs, "epochs")
      .at_resume(OnResume::kFreeEvaluations);
  describe_data(fields, data);
  optimizer.describe(fields);
  schedule.describe(fields);
  fields.add("clip_norm", &clip_norm, "maximum norm over all gradients, measured unscaled; 0: no clipping")
      .in({.least = 0});
  fields.add("clip_value", &clip_value, "maximum absolute value of a gradient element; 0: no clipping")
      .in({.least = 0});
  fields.add("ema.decay", &ema.decay, "evaluate with a moving average of the weights; 0: with the weights")
      .in(kAverage)
      .at_resume(OnResume::kFreeToBegin);
  fields.add("ema.warmups", &ema.warmups, "steps until the average's decay has risen to 63 % of ema.decay")
      .in({.least = 0}, "steps")
      .at_resume(OnResume::kFreeToBegin);
  fields.add("ema.start", &ema.start, "initial steps to exclude from the average")
      .in({0, 1e9}, "steps")
      .at_resume(OnResume::kFreeToBegin);
  describe_stages(fields, stages);
  fields
      .add("stop_at.metric", &stop_at.metric,
           "stop once this metric of data.test reaches stop_at.value; empty: train all epochs")
      .at_resume(OnResume::kFreeEvaluations);
  fields.add("stop_at.value", &stop_at.value, "target value for stop_at.metric").at_resume(OnResume::kFree);
  describe_checkpoints(fields, checkpoint);
}

ConfigFields TrainConfig::rows() const {
  ConfigFields fields;
  // describe() only takes addresses and changes nothing; the rows are only read.
  const_cast<TrainConfig*>(this)->describe(fields);  // NOLINT(cppcoreguidelines-pro-type-const-cast)
  return fields;
}

void TrainConfig::validate() const {
  rows().check();
  if (checkpoint.sharded && checkpoint.when_busy == "skip") {
    throw UsageError("checkpoint.when_busy is skip, but checkpoint.sharded is set",
                     "ranks cannot skip saves independently: " + setting_words("checkpoint.when_busy=wait"));
  }
  optimizer.validate();
  schedule.validate();
  if (clip_norm > 0 && clip_value > 0) {
    throw UsageError("clip_norm and clip_value are both set", "use only one of them: " + setting_words("clip_value=0"));
  }
  if (schedule.type == "plateau" && !has_evaluations()) {
    throw UsageError("schedule.type is plateau, which needs evaluations", "set data.test and eval_every_epochs");
  }
  require_base(*this);
  if (tensorboard.empty()) throw UsageError("tensorboard is empty", "use auto, none or a folder");
  if (!metrics_address.empty()) (void)train::parse_address(metrics_address);
  if (data.train.empty()) throw UsageError("data.train is not set", setting_words("data.train=FOLDER"));
}

}  // namespace lockstep
