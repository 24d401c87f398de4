// SPDX-License-Identifier: Apache-2.0
// The settings that every recipe has. A recipe's own struct derives from TrainConfig and describes its additional keys.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/base/config.h"
#include "lockstep/train/optimizer_config.h"
#include "lockstep/train/schedule_config.h"

#pragma GCC visibility push(default)

namespace lockstep {

/// The settings of a run, with their defaults. describe() names them for YAML files and `--set`.
struct TrainConfig {
  virtual ~TrainConfig() = default;

  // ---- settings that change the result ----
  std::int64_t seed = 0;  ///< the seed for weights, sample order, augmentations and dropout
  std::int64_t replicas =
      0;  ///< data-parallel width, at least the world size; 0: the checkpoint's, else the largest world size
  bool exact = true;         ///< the result is bit for bit the same at any world size; false: sums in the fastest order
  std::int64_t epochs = 10;  ///< passes over the training set
  std::int64_t max_steps = 0;         ///< optimizer steps; 0: no limit
  AutoInt batch_size{64};             ///< samples per replica and step; auto: as many as fit in the GPU's memory
  std::int64_t total_batch_size = 0;  ///< samples per step over all replicas, instead of batch_size; 0: not set
  std::int64_t accumulate_steps = 1;  ///< batches per step; the step uses the mean of their gradients
  std::string amp = "none";           ///< none, bf16, fp16 (on CUDA)
  bool channels_last = true;          ///< images and convolution weights are stored as [N, H, W, C]
  bool fused_layers = true;           ///< runs lockstep::nn::optimize() over the model
  /// Loss scaling with amp fp16, as in lockstep::GradScalerOptions.
  struct GradScaler {
    std::string enabled = "auto";         ///< auto (with fp16 only), true, false
    double init_scale = 65536;            ///< the first scale
    double growth_factor = 2.0;           ///< multiplies the scale after growth_interval good steps
    double backoff_factor = 0.5;          ///< multiplies the scale after a step with non-finite gradients
    std::int64_t growth_interval = 2000;  ///< good steps before the scale grows
  } grad_scaler;                          ///< loss scaling
  std::string tf32 = "default";       ///< TF32 for CUDA's float32: default (PyTorch's: convolutions only), true, false
  std::int64_t threads = 0;           ///< libtorch threads per replica; 0: the checkpoint's number, else 1
  bool drop_last = false;             ///< drops the last batch of an epoch if it is not full
  std::string bad_samples = "error";  ///< a sample that cannot be read is an error, or skipped (and logged and counted)
  bool sync_batchnorm = false;  ///< lockstep::nn::BatchNorm computes its statistics over the batches of all replicas
  OptimizerConfig optimizer;    ///< the optimizer and its options
  ScheduleConfig schedule;      ///< the learning rate of each step
  double clip_norm = 0;         ///< 0: gradients are not clipped
  double clip_value = 0;        ///< limit on each gradient element; 0: not clipped. Cannot be used with clip_norm
  /// The moving average of the weights.
  struct Ema {
    double decay = 0;        ///< decay of lockstep::EMA; evaluations then use the average; 0: no average
    double warmups = 1000;   ///< updates until the decay has reached 63 % of its value
    std::int64_t start = 0;  ///< number of initial steps excluded from the average
  } ema;                     ///< the moving average
  /// The locations of the samples.
  struct Data {
    std::string train;  ///< the training set: a path, or any string that the task or recipe understands
    std::string test;   ///< the test set; empty: no evaluation
    /// A file with the names of samples, one per line, to skip from the start or resumption of the run. Another sample,
    /// drawn from seed, epoch and index, replaces each of them, so batches keep their size and epochs their number of
    /// steps. A run reads the file once and then keeps its samples in skipped_samples.
    std::string skip_samples;
    std::vector<ConfigMap> skipped_samples;  ///< {epoch, batch, samples}: indices to skip starting with that batch of
                                             ///< that epoch, in this run and in every run that resumes from it
    bool allow_outside = false;  ///< lists and annotations may name files outside their folder (name_inside())
    std::int64_t max_pixels = 178'956'970;  ///< pixel limit for an image, checked before its memory is allocated
  } data;                                   ///< the locations of the samples
  /// A second stage that begins with the best weights of the first stage. With `roll_back` it searches for the decay of
  /// the moving average: an epoch that is no better than the best of the stage is undone, and the decay is lowered. A
  /// task may train differently in the second stage (Task::begin_epoch).
  struct Stages {
    std::int64_t stop_epoch = 0;  ///< epochs of the first stage; 0: there is no second stage
    std::int64_t patience = 0;    ///< evaluations without a new best after which the first stage ends; 0: no limit
    std::int64_t epochs = 0;      ///< epochs of the second stage, at most up to TrainConfig::epochs; 0: all that remain
    double lr = 0;                ///< constant rate of the second stage, before lr_scaling; 0: the schedule continues
    bool roll_back = true;        ///< false: no epoch of the second stage is undone
    double ema_restart_decay = 0.9999;  ///< decay of the average starting with the second stage
    double ema_decay_step = 1e-4;       ///< amount by which the decay falls after each undone epoch
  } stages;                             ///< the second stage
  /// When a run may end early.
  struct StopAt {
    std::string metric;  ///< the metric to watch; empty: train all epochs
    double value = 0;    ///< the run stops after the first evaluation that reaches this value
  } stop_at;             ///< when the run may end early

  // ---- speed and output ----
  std::int64_t workers = 2;          ///< loader threads per replica; 0: load on the training thread
  std::int64_t prefetch_factor = 2;  ///< batches prefetched per worker
  bool persistent_workers = true;    ///< loader threads live for the whole run; false: for one epoch
  /// Seconds that a step waits for its batch; 0: no limit. The default is less than the 300 of LOCKSTEP_TIMEOUT, so
  /// that a rank stuck on a sample can name the sample before the other ranks time out.
  double loader_timeout_s = 240;
  /// Seconds that a rank may stay in a section without progress before the launcher reports a hang; 0: no limit; -1:
  /// ten times the longest time so far, at least 60 (lockstep/flight/watch.h).
  struct SectionTimeout {
    double setup = -1;                ///< building the task, data and model
    double data = -1;                 ///< waiting for a batch
    double forward = -1;              ///< the forward pass
    double backward = -1;             ///< the backward pass
    double optimizer = -1;            ///< the update of the weights
    double evaluate = -1;             ///< an evaluation
    double save = -1;                 ///< writing a checkpoint
  } section_timeout;                  ///< limits of sections
  std::int64_t bucket_cap_mb = 25;    ///< size of a gradient bucket in MiB; the first one is at most 1 MiB
  std::string cuda_graph = "auto";    ///< auto, true or false: runs steps as CUDA graphs (StepGraph)
  bool pin_memory = true;             ///< page-locked batches for copies to a GPU; no effect without a GPU
  std::int64_t log_every_steps = 10;  ///< steps between log lines; 0: never
  /// The folder of TensorBoard's event files: auto (run_dir/tensorboard), none, or a folder in which the run creates a
  /// subfolder with the run's name.
  std::string tensorboard = "auto";
  /// Each step checks the norm of the gradients. If it is not finite, the run ends with an error that names the
  /// parameters; if it is far above the usual norm, the run reports it. With clip_norm the check for finite norms costs
  /// nothing.
  bool check_gradients = false;
  std::string digests = "auto";  ///< auto (true on the CPU), true or false: writes a digest of each step to digests.bin
  std::int64_t guard = 0;        ///< interval in steps at which another rank recomputes a replica; 0: never
  std::int64_t tensorboard_histograms = 0;  ///< steps between histograms of weights and gradients; 0: never
  std::string metrics_address;  ///< PORT on loopback, or HOST:PORT, that serves /metrics for Prometheus; empty: none
  std::int64_t eval_every_epochs = 1;  ///< epochs between evaluations; 0: never
  std::int64_t eval_from_epoch = 0;    ///< first epoch (from 0) that ends with an evaluation; the last one always does
  /// When checkpoints are written, and which are kept.
  struct Checkpoint {
    std::int64_t every_steps = 0;    ///< steps between checkpoints; 0: only at a new best and at the end
    std::int64_t every_epochs = 0;   ///< epochs between additional checkpoints; 0: none
    std::int64_t keep_last = 3;      ///< number of latest step checkpoints to keep
    std::int64_t keep_every = 0;     ///< older checkpoints are kept if their step is a multiple of this number; 0: none
    bool async = true;               ///< a thread writes a copy while training continues
    std::string when_busy = "wait";  ///< if the previous save is unfinished: wait, or skip (with a note)
    bool sharded = false;            ///< each rank writes its part into a folder that all ranks share
    /// A checkpoint whose weights, moments or average are NaN or infinite (FiniteCheck) is neither written nor resumed
    /// from: the run ends instead, with an error that names the tensor and the last good checkpoint.
    bool require_finite = true;
  } checkpoint;  ///< when checkpoints are written

  /// Adds every key to `fields`, with its description. A derived struct calls this first.
  virtual void describe(ConfigFields& fields);
  /// Returns the rows of describe(), for reading only. Lifetime: this object outlives the result.
  [[nodiscard]] ConfigFields rows() const;

  /// Returns true if the loss is scaled: the value of grad_scaler.enabled after resolving `auto`.
  [[nodiscard]] bool scales_loss() const {
    return grad_scaler.enabled == "auto" ? amp == "fp16" : grad_scaler.enabled == "true";
  }

  /// Returns true if a second stage may begin before the run ends.
  [[nodiscard]] bool has_second_stage() const {
    return stages.stop_epoch > 0 && (stages.stop_epoch < epochs || stages.patience > 0);
  }

  /// Returns the evaluation data: data.test, unless a recipe keeps it elsewhere; empty if there are no evaluations.
  [[nodiscard]] virtual const std::string& test_data() const { return data.test; }
  /// Returns true if the run evaluates.
  [[nodiscard]] bool has_evaluations() const { return eval_every_epochs > 0 && !test_data().empty(); }

  /// Returns settings (a.b=c) of an additional test set, with which `lockstep train` evaluates the best weights once
  /// more when training is complete. Empty if there is none.
  [[nodiscard]] virtual std::vector<std::string> settings_of_final_test() const { return {}; }

  /// Checks the values. Throws: UsageError naming the first key whose value is invalid.
  virtual void validate() const;
};

}  // namespace lockstep

#pragma GCC visibility pop
