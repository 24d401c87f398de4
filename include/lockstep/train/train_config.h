// SPDX-License-Identifier: Apache-2.0
// The settings that every recipe has. A recipe's own struct derives from this one and describes its further keys.
#pragma once

#include <cstdint>
#include <string>

#include "lockstep/base/config.h"
#include "lockstep/train/optimizer_config.h"
#include "lockstep/train/schedule_config.h"

#pragma GCC visibility push(default)

namespace lockstep {

/// Defaults, and the names under which YAML files and `--set` reach them (describe()).
struct TrainConfig {
  virtual ~TrainConfig() = default;

  // ---- what the result depends on ----
  std::int64_t seed = 0;
  std::int64_t replicas =
      0;              ///< data-parallel width; 0: as the checkpoint says, else the world size. World <= replicas
  bool exact = true;  ///< the same bits on any world size; false: sums in any order that is fast
  std::int64_t epochs = 10;
  std::int64_t max_steps = 0;         ///< optimizer steps; 0: no limit
  AutoInt batch_size{64};             ///< samples per replica and step; auto: as many as the GPU's memory holds
  std::int64_t total_batch_size = 0;  ///< the same over all replicas, instead of batch_size; 0: not set
  std::int64_t accumulate_steps = 1;  ///< batches whose gradients are added up before a step
  std::string amp = "none";           ///< none, bf16, fp16 (on CUDA)
  bool channels_last = true;          ///< images and weights of convolutions in memory as [N, H, W, C]
  bool fused_layers = true;           ///< on a CPU: lockstep::nn::optimize() over the model
  struct GradScaler {
    std::string enabled = "auto";  ///< auto (with fp16 only), true, false
    double init_scale = 65536;
    double growth_factor = 2.0;
    double backoff_factor = 0.5;
    std::int64_t growth_interval = 2000;
  } grad_scaler;                 ///< as lockstep::GradScalerOptions
  std::string tf32 = "default";  ///< of CUDA's float32: default (PyTorch's: convolutions only), true, false (for all)
  std::int64_t threads = 0;      ///< of libtorch, per replica; 0: as the checkpoint says, else 1
  bool drop_last = false;
  std::string bad_samples = "error";  ///< of one that cannot be read: error, or skip (left out, noted and counted)
  bool sync_batchnorm = false;        ///< lockstep::nn::BatchNorm over the batches of all replicas
  OptimizerConfig optimizer;
  ScheduleConfig schedule;
  double clip_norm = 0;   ///< 0: gradients are not clipped
  double clip_value = 0;  ///< of each element of a gradient; 0: not clipped. Not together with clip_norm
  struct Ema {
    double decay = 0;       ///< of lockstep::EMA, with which is evaluated; 0: none
    double warmups = 1000;  ///< updates until the decay has reached 63 % of its value
  } ema;
  struct Data {
    std::string train;
    std::string test;            ///< empty: no evaluation
    bool allow_outside = false;  ///< lists and annotations may name files outside of their folder (name_inside())
    std::int64_t max_pixels = 178'956'970;  ///< of a picture; more are refused before memory is asked for
  } data;
  /// A second stage that begins with the first one's best. With `roll_back` the average's decay is then searched for:
  /// an epoch that is no better than the stage so far is undone, and the decay lowered. A task may do something else in
  /// it (Task::begin_epoch).
  struct Stages {
    std::int64_t stop_epoch = 0;  ///< epochs of the first stage; 0: it is the only one
    std::int64_t patience = 0;    ///< it ends earlier after so many evaluations without a better one; 0: it does not
    std::int64_t epochs = 0;      ///< of the second stage; 0: up to TrainConfig::epochs, which is the limit anyway
    double lr = 0;                ///< of the second stage, constant, before lr_scaling; 0: the schedule goes on
    bool roll_back = true;        ///< false: the second stage goes on from epoch to epoch
    double ema_restart_decay = 0.9999;  ///< of the average, from there on
    double ema_decay_step = 1e-4;       ///< how much lower after each epoch that was undone
  } stages;
  struct StopAt {
    std::string metric;  ///< empty: train all epochs
    double value = 0;    ///< stop once an evaluation reaches it
  } stop_at;

  // ---- how fast, and what is written ----
  std::int64_t workers = 2;          ///< loader threads per replica; 0: load in the training thread
  std::int64_t prefetch_factor = 2;  ///< batches ahead per worker
  bool persistent_workers = true;    ///< loader threads live for the whole run; false: for an epoch
  /// Seconds that a step waits for its batch; 0: for ever. Below LOCKSTEP_TIMEOUT's 300, so that the rank whose sample
  /// hangs names it before the others give that rank up.
  double loader_timeout_s = 240;
  std::int64_t bucket_cap_mb = 25;     ///< gradients are reduced in buckets of so many MiB, the first of at most one
  bool cuda_graph = false;             ///< steps as CUDA graphs, where that can be (StepGraph)
  bool pin_memory = false;             ///< page-locked batches for copies to a GPU; without one it changes nothing
  std::int64_t log_every_steps = 10;   ///< 0: never
  std::int64_t eval_every_epochs = 1;  ///< 0: never
  struct Checkpoint {
    std::int64_t every_steps = 0;   ///< 0: at a new best and at the end only
    std::int64_t every_epochs = 0;  ///< besides, after every so many epochs; 0: not
    std::int64_t keep_last = 3;
    std::int64_t keep_every = 0;     ///< besides the last ones, those whose step is a multiple of it; 0: none
    bool async = true;               ///< written by a thread from a copy, while training goes on
    std::string when_busy = "wait";  ///< a checkpoint that is due while one is written: wait, or skip (with a note)
    bool sharded = false;            ///< each rank writes its part, into a folder that all share
  } checkpoint;

  /// Adds every key to `fields`, with what is known of it. A derived struct calls this first.
  virtual void describe(ConfigFields& fields);
  /// What describe() adds, for reading. Lifetime: this outlives it.
  [[nodiscard]] ConfigFields rows() const;

  /// The loss is scaled: grad_scaler.enabled, with `auto` decided.
  [[nodiscard]] bool scales_loss() const {
    return grad_scaler.enabled == "auto" ? amp == "fp16" : grad_scaler.enabled == "true";
  }

  /// A second stage may begin before the run ends.
  [[nodiscard]] bool has_second_stage() const {
    return stages.stop_epoch > 0 && (stages.stop_epoch < epochs || stages.patience > 0);
  }

  /// Throws: UsageError naming the first key whose value cannot be.
  virtual void validate() const;
};

}  // namespace lockstep

#pragma GCC visibility pop
