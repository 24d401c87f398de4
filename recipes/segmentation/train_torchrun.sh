#!/usr/bin/env bash
# The original launch under torchrun, with its arguments: 2 ranks that `lockstep run`, which accepts torchrun's options, starts
# and watches. Arguments passed to the script come last and take precedence:
#   bash train_torchrun.sh --epochs 10 --batchsize 4
set -euo pipefail

NUM_GPUS=${NUM_GPUS:-2}
LOCKSTEP=${LOCKSTEP:-lockstep}
DATASET_PATH=${DATASET_PATH:-dataset/ScribbleSup/VOC2012}
LOGDIR=${LOGDIR:-log/train_torchrun_r50}

exec "$LOCKSTEP" run \
  --nproc_per_node="$NUM_GPUS" \
  --standalone \
  "$LOCKSTEP" train segmentation:voc \
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
