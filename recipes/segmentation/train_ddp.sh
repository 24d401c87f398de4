#!/usr/bin/env bash
# The same launch without a separate launcher: `lockstep train` starts its ranks itself, restarts them from the last checkpoint
# when one dies, and puts their logs into the run's folder. Arguments passed to the script take precedence.
set -euo pipefail

NUM_GPUS=${NUM_GPUS:-2}
LOCKSTEP=${LOCKSTEP:-lockstep}
DATASET_PATH=${DATASET_PATH:-dataset/ScribbleSup/VOC2012}
LOGDIR=${LOGDIR:-log/train_ddp_r50}

exec "$LOCKSTEP" train segmentation:voc \
  --nproc_per_node "$NUM_GPUS" \
  --logdir "$LOGDIR" \
  --distributed \
  --layers 50 \
  --model_type res50_ASPP_lorm \
  --dataset_path "$DATASET_PATH" \
  --dataset ScribblePseudoDsDc \
  --train_path pascal_2012_scribble \
  --pesudo_path bmp_pseudolabel \
  --distancemap_s distance_map \
  --distancemap_c distance_pseudo \
  --l_segs 1 --l_pesudo 1 --l_lorm 1 --l_ds 1 --l_dc 1 \
  --label_smooth 0 \
  --numclasses 21 \
  --workers 4 \
  --batchsize 8 \
  --lr 1e-3 --momentum 0.9 --wdecay 5e-4 --warmup_epoch 5 \
  --epochs 50 \
  "$@"
