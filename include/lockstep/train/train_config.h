// SPDX-License-Identifier: Apache-2.0
// The settings that every recipe has. A recipe's own struct derives from this one and describes its further keys.
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

  // ---- the settings that the result depends on ----
  std::int64_t seed = 0;  ///< for weights, order of samples, augmentations and dropout
  std::int64_t replicas =
      0;                     ///< data-parallel width; 0: the checkpoint's, else the largest world. At least the present
  bool exact = true;         ///< the same bits on any world size; false: sums in any fast order
  std::int64_t epochs = 10;  ///< passes over the training set
  std::int64_t max_steps = 0;         ///< optimizer steps; 0: no limit
  AutoInt batch_size{64};             ///< samples per replica and step; auto: as many as fit in the GPU's memory
  std::int64_t total_batch_size = 0;  ///< samples per step over all replicas, instead of batch_size; 0: not set
  std::int64_t accumulate_steps = 1;  ///< batches a step; it uses the mean of their gradients
  std::string amp = "none";           ///< none, bf16, fp16 (on CUDA)
  bool channels_last = true;          ///< images and weights of convolutions lie in memory as [N, H, W, C]
  bool fused_layers = true;           ///< runs lockstep::nn::optimize() over the model
  /// How the loss is scaled with amp fp16.
  struct GradScaler {
    std::string enabled = "auto";         ///< auto (with fp16 only), true, false
    double init_scale = 65536;            ///< the first scale
    double growth_factor = 2.0;           ///< the factor on the scale after growth_interval good steps
    double backoff_factor = 0.5;          ///< the factor on the scale at a step whose gradients are not finite
    std::int64_t growth_interval = 2000;  ///< good steps until the scale grows
  } grad_scaler;                          ///< as lockstep::GradScalerOptions
  std::string tf32 = "default";  ///< TF32 for CUDA's float32: default (PyTorch's: convolutions only), true, false (for
                                 ///< all)
  std::int64_t threads = 0;      ///< threads of libtorch per replica; 0: the checkpoint's number, else 1
  bool drop_last = false;        ///< leaves out the last batch of an epoch if it is not full
  std::string bad_samples = "error";  ///< a sample that cannot be read is an error, or is skipped (left out, noted and
                                      ///< counted)
  bool sync_batchnorm = false;        ///< lockstep::nn::BatchNorm takes its statistics over the batches of all replicas
  OptimizerConfig optimizer;          ///< the optimizer and its options
  ScheduleConfig schedule;            ///< the learning rate of each step
  double clip_norm = 0;               ///< 0: gradients are not clipped
  double clip_value = 0;  ///< limit of each element of a gradient; 0: not clipped. Not together with clip_norm
  /// The moving average of the weights.
  struct Ema {
    double decay = 0;        ///< decay of lockstep::EMA, which is then evaluated; 0: none
    double warmups = 1000;   ///< updates until the decay has reached 63 % of its value
    std::int64_t start = 0;  ///< first steps that are not averaged
  } ema;                     ///< the moving average
  /// The places of the samples.
  struct Data {
    std::string train;  ///< a path, as the task or recipe understands it
    std::string test;   ///< empty: no evaluation
    /// A file with the names of samples, one a line, that are left out from the start or resumption of the run on.
    /// Another sample replaces each, drawn by seed, epoch and index: batches keep their size, epochs their steps. A run
    /// reads it once, and then has its samples in skipped_samples.
    std::string skip_samples;
    std::vector<ConfigMap> skipped_samples;  ///< {epoch, batch, samples}: indices that are left out from that batch of
                                             ///< that epoch on, in this run and in every one that goes on from it
    bool allow_outside = false;  ///< lists and annotations may name files outside of their folder (name_inside())
    std::int64_t max_pixels = 178'956'970;  ///< limit for a picture; a larger one is refused before its memory is
                                            ///< allocated
  } data;                                   ///< the places of the samples
  /// A second stage that begins with the first one's best weights. With `roll_back` it searches for the average's
  /// decay: an epoch that is no better than the stage so far is undone, and the decay is lowered. A task may train
  /// differently in it (Task::begin_epoch).
  struct Stages {
    std::int64_t stop_epoch = 0;  ///< epochs of the first stage; 0: there is no second one
    std::int64_t patience = 0;    ///< the first stage ends early after so many evaluations without a better one; 0: it
                                  ///< does not
    std::int64_t epochs = 0;      ///< epochs of the second stage; 0: up to TrainConfig::epochs, which is the limit
                                  ///< anyway
    double lr = 0;                ///< constant rate of the second stage, before lr_scaling; 0: the schedule continues
    bool roll_back = true;        ///< false: the second stage continues from epoch to epoch
    double ema_restart_decay = 0.9999;  ///< decay of the average from the second stage on
    double ema_decay_step = 1e-4;       ///< how much the decay falls after each epoch that was undone
  } stages;                             ///< the second stage
  /// When a run may end early.
  struct StopAt {
    std::string metric;  ///< empty: train all epochs
    double value = 0;    ///< stops once an evaluation reaches it
  } stop_at;             ///< when the run may end early

  // ---- speed and output ----
  std::int64_t workers = 2;          ///< loader threads per replica; 0: load in the training thread
  std::int64_t prefetch_factor = 2;  ///< batches ahead per worker
  bool persistent_workers = true;    ///< loader threads live for the whole run; false: for one epoch
  /// Seconds that a step waits for its batch; 0: for ever. It is less than LOCKSTEP_TIMEOUT's 300, so that a rank whose
  /// sample hangs names it before the other ranks time out.
  double loader_timeout_s = 240;
  /// Seconds that a rank may stay in a section without a sign of life before the launcher reports a hang; 0: any time;
  /// -1: ten times the longest so far, at least 60 (lockstep/flight/watch.h).
  struct SectionTimeout {
    double setup = -1;                ///< building the task, data and model
    double data = -1;                 ///< waiting for a batch
    double forward = -1;              ///< the forward pass
    double backward = -1;             ///< the backward pass
    double optimizer = -1;            ///< the update of the weights
    double evaluate = -1;             ///< an evaluation
    double save = -1;                 ///< writing a checkpoint
  } section_timeout;                  ///< limits of sections
  std::int64_t bucket_cap_mb = 25;    ///< MiB of a bucket in which gradients are reduced; the first bucket has at most
                                      ///< one MiB
  std::string cuda_graph = "auto";    ///< auto, true or false: runs steps as CUDA graphs (StepGraph)
  bool pin_memory = true;             ///< page-locked batches for copies to a GPU; no effect without a GPU
  std::int64_t log_every_steps = 10;  ///< 0: never
  /// The folder of TensorBoard's event files: auto is run_dir/tensorboard; none; or a folder, in which the run gets a
  /// folder of its name.
  std::string tensorboard = "auto";
  /// Each step checks the norm of the gradients: the run ends at the first that is not finite, with the names of the
  /// parameters, and reports one far above the usual. With clip_norm the first half costs nothing.
  bool check_gradients = false;
  std::string digests = "auto";  ///< auto (on the CPU), true or false: a digest of each step, in digests.bin
  std::int64_t guard = 0;        ///< steps between two at which a replica is computed again by another rank; 0: never
  std::int64_t tensorboard_histograms = 0;  ///< steps between two histograms of weights and gradients; 0: never
  std::string metrics_address;  ///< PORT on loopback, or HOST:PORT, that serves /metrics for Prometheus; empty: none
  std::int64_t eval_every_epochs = 1;  ///< 0: never
  std::int64_t eval_from_epoch = 0;    ///< first epoch, from 0, whose end is evaluated; the last one always is
  /// When checkpoints are written, and which stay.
  struct Checkpoint {
    std::int64_t every_steps = 0;    ///< 0: only at a new best and at the end
    std::int64_t every_epochs = 0;   ///< also after every so many epochs; 0: not
    std::int64_t keep_last = 3;      ///< how many step checkpoints stay
    std::int64_t keep_every = 0;     ///< besides the last ones, keeps those whose step is a multiple of it; 0: none
    bool async = true;               ///< a thread writes a copy while training continues
    std::string when_busy = "wait";  ///< a checkpoint that is due while another is written: wait, or skip (with a note)
    bool sharded = false;            ///< each rank writes its part, into a folder that all share
    /// A checkpoint whose weights, moments or average are NaN or infinite (FiniteCheck) is neither written nor resumed
    /// from: the run ends instead, with the name of the tensor and of the last good checkpoint.
    bool require_finite = true;
  } checkpoint;  ///< when checkpoints are written

  /// Adds every key to `fields`, with its description. A derived struct calls this first.
  virtual void describe(ConfigFields& fields);
  /// Returns the rows of describe(), for reading. Lifetime: this object outlives the result.
  [[nodiscard]] ConfigFields rows() const;

  /// Returns true if the loss is scaled: grad_scaler.enabled, with `auto` decided.
  [[nodiscard]] bool scales_loss() const {
    return grad_scaler.enabled == "auto" ? amp == "fp16" : grad_scaler.enabled == "true";
  }

  /// Returns true if a second stage may begin before the run ends.
  [[nodiscard]] bool has_second_stage() const {
    return stages.stop_epoch > 0 && (stages.stop_epoch < epochs || stages.patience > 0);
  }

  /// Returns the data of evaluations: data.test, unless a recipe has them elsewhere; empty: there are none.
  [[nodiscard]] virtual const std::string& test_data() const { return data.test; }
  /// Returns true if the run evaluates.
  [[nodiscard]] bool has_evaluations() const { return eval_every_epochs > 0 && !test_data().empty(); }

  /// Returns settings, a.b=c each, with which `lockstep train` evaluates the best weights once more when the training
  /// is complete: those of a further test set. Empty: there is none.
  [[nodiscard]] virtual std::vector<std::string> settings_of_final_test() const { return {}; }

  /// Checks the values. Throws: UsageError naming the first key whose value is invalid.
  virtual void validate() const;
};

}  // namespace lockstep

#pragma GCC visibility pop
