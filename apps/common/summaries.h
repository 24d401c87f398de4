// SPDX-License-Identifier: Apache-2.0
// One line about each verb, for the lists of lockstep --help and lockstep-worker --help.
#pragma once

namespace lockstep::cli {

inline constexpr const char* kNewSummary = "write a small project that builds and trains";
inline constexpr const char* kRunSummary = "start and watch the ranks of a program in any language";
inline constexpr const char* kTrainSummary = "train a recipe: captcha, detection, segmentation or captioning";
inline constexpr const char* kEvalSummary = "evaluate a checkpoint on labelled data";
inline constexpr const char* kExplainSummary = "replay a step of a run: its samples, losses and gradients";
inline constexpr const char* kBisectSummary = "find the first step, layer and operator at which two runs differ";
inline constexpr const char* kPredictSummary = "run a trained model on files";
inline constexpr const char* kGenerateSummary = "generate synthetic data sets";
inline constexpr const char* kCheckpointSummary = "inspect, verify, compare, convert and prune checkpoints";
inline constexpr const char* kInspectSummary = "show data sets, settings, sample order, variables and GPUs";
inline constexpr const char* kBenchSummary = "measure all-reduce, training steps, loading and saving";
inline constexpr const char* kPackSummary = "pack a data set into one file, or check a packed file";
inline constexpr const char* kPlanSummary = "predict the speed of a run on other machines and links";
inline constexpr const char* kPlotSummary = "draw the curves of runs: loss, metrics, learning rate, images/s";
inline constexpr const char* kDashboardSummary = "serve a live page of runs: curves, ranks, verdicts, checkpoints";
inline constexpr const char* kTraceSummary = "merge the traces of a profiled run's ranks";
inline constexpr const char* kTuneSummary = "find the fastest settings of a recipe on this machine";
inline constexpr const char* kKernelsSummary = "show which kernels compute a network's layers, and what is slow";
inline constexpr const char* kDoctorSummary = "check this machine, or explain why a run hangs or failed";
inline constexpr const char* kCmakeDirSummary = "print the folder where CMake finds this Lockstep";

}  // namespace lockstep::cli
