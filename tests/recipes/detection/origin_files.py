# SPDX-License-Identifier: Apache-2.0
"""Re-creates the settings files of D-FINE (4a1f73a) and DEIM (09d35d5): names, keys, numbers and patterns, as JSON, which is also
YAML. DEIMv2 (0fff8d4) has the files of DEIM again, under the same names.

    origin_files.py FOLDER                  # FOLDER/{dfine,deim}/configs, FOLDER/data, FOLDER/{trained,refused}.txt
    origin_files.py FOLDER LOCKSTEP [WORD] # then trains each file with WORD in its name for two steps with its full network
"""
import json
import pathlib
import random
import struct
import subprocess
import sys
import time
import zlib

STRONG = ["RandomPhotometricDistort", "RandomZoomOut", "RandomIoUCrop"]
OPERATIONS = [{"type": "RandomPhotometricDistort", "p": 0.5}, {"type": "RandomZoomOut", "fill": 0},
              {"type": "RandomIoUCrop", "p": 0.8}, {"type": "SanitizeBoundingBoxes", "min_size": 1},
              {"type": "RandomHorizontalFlip"}, {"type": "Resize", "size": [640, 640]},
              {"type": "SanitizeBoundingBoxes", "min_size": 1},
              {"type": "ConvertPILImage", "dtype": "float32", "scale": True},
              {"type": "ConvertBoxes", "fmt": "cxcywh", "normalize": True}]
EVALUATION = [{"type": "Resize", "size": [640, 640]}, {"type": "ConvertPILImage", "dtype": "float32", "scale": True}]
MOSAIC = {"type": "Mosaic", "output_size": 320, "rotation_range": 10, "translation_range": [0.1, 0.1],
          "scaling_range": [0.5, 1.5], "probability": 1.0, "fill_value": 0, "use_cache": False, "max_cached_images": 50,
          "random_pop": True}

# The patterns of optimizer.params. The second of THREE matches nothing: ".*norm" or "bn" would have to be at the start of the
# name.
BACKBONE = "^(?=.*backbone)(?!.*norm|bn).*$"
TWO = [BACKBONE, "^(?=.*(?:encoder|decoder))(?=.*(?:norm|bn)).*$"]
THREE = [BACKBONE, "^(?=.*backbone)(?=.*norm|bn).*$", "^(?=.*(?:encoder|decoder))(?=.*(?:norm|bn|bias)).*$"]
OF_DEIM = ["^(?=.*backbone)(?!.*bn).*$", "^(?=.*(?:norm|bn)).*$"]

FREE = {"freeze_at": -1, "freeze_norm": False, "use_lab": True}
FROZEN = {"freeze_stem_only": True, "freeze_at": 0, "freeze_norm": True}
ALL = [1, 2, 3]
SIZES = {
    "n": {"HGNetv2": {"name": "B0", "return_idx": [2, 3], **FREE},
          "HybridEncoder": {"in_channels": [512, 1024], "feat_strides": [16, 32], "hidden_dim": 128, "use_encoder_idx": [1],
                            "dim_feedforward": 512, "expansion": 0.34, "depth_mult": 0.5},
          "DFINETransformer": {"feat_channels": [128, 128], "feat_strides": [16, 32], "hidden_dim": 128,
                               "dim_feedforward": 512, "num_levels": 2, "num_layers": 3, "eval_idx": -1,
                               "num_points": [6, 6]}},
    "s": {"HGNetv2": {"name": "B0", "return_idx": ALL, **FREE},
          "DFINETransformer": {"num_layers": 3, "eval_idx": -1},
          "HybridEncoder": {"in_channels": [256, 512, 1024], "hidden_dim": 256, "depth_mult": 0.34, "expansion": 0.5}},
    "m": {"HGNetv2": {"name": "B2", "return_idx": ALL, **FREE},
          "DFINETransformer": {"num_layers": 4, "eval_idx": -1},
          "HybridEncoder": {"in_channels": [384, 768, 1536], "hidden_dim": 256, "depth_mult": 0.67}},
    "l": {"HGNetv2": {"name": "B4", "return_idx": ALL, **FROZEN}},
    "x": {"HGNetv2": {"name": "B5", "return_idx": ALL, **FROZEN},
          "HybridEncoder": {"hidden_dim": 384, "dim_feedforward": 2048},
          "DFINETransformer": {"feat_channels": [384, 384, 384], "reg_scale": 8}},
}
REPEAT = {"n": None, "s": 20, "m": 6, "l": 4, "x": 3}

# File: the backbone's rate, rate, weight decay, epochs, last epoch of the first stage, decay of the second stage's moving
# average.
DFINE = {
    "dfine_hgnetv2_n_coco": (4e-4, 8e-4, 1e-4, 160, 148, 0.9999),
    "dfine_hgnetv2_s_coco": (1e-4, 2e-4, 1e-4, 132, 120, 0.9999),
    "dfine_hgnetv2_m_coco": (2e-5, 2e-4, 1e-4, 132, 120, 0.9999),
    "dfine_hgnetv2_l_coco": (1.25e-5, 2.5e-4, 1.25e-4, 80, 72, 0.9999),
    "dfine_hgnetv2_x_coco": (2.5e-6, 2.5e-4, 1.25e-4, 80, 72, 0.9998),
    "crowdhuman/dfine_hgnetv2_n_ch": (4e-4, 8e-4, 1e-4, 220, 200, 0.9999),
    "crowdhuman/dfine_hgnetv2_s_ch": (2e-4, 4e-4, 1e-4, 220, 200, 0.9999),
    "crowdhuman/dfine_hgnetv2_m_ch": (2.5e-5, 2.5e-4, 1.25e-4, 220, 200, 0.9999),
    "crowdhuman/dfine_hgnetv2_l_ch": (1.25e-5, 2.5e-4, 1.25e-4, 140, 120, 0.9999),
    "crowdhuman/dfine_hgnetv2_x_ch": (2.5e-6, 2.5e-4, 1.25e-4, 140, 120, 0.9998),
    "custom/dfine_hgnetv2_n_custom": (4e-4, 8e-4, 1e-4, 220, 200, 0.9999),
    "custom/dfine_hgnetv2_s_custom": (2e-4, 4e-4, 1e-4, 220, 200, 0.9999),
    "custom/dfine_hgnetv2_m_custom": (2.5e-5, 2.5e-4, 1.25e-4, 132, 120, 0.9999),
    "custom/dfine_hgnetv2_l_custom": (1.25e-5, 2.5e-4, 1.25e-4, 80, 72, 0.9999),
    "custom/dfine_hgnetv2_x_custom": (2.5e-6, 2.5e-4, 1.25e-4, 80, 72, 0.9998),
    "custom/objects365/dfine_hgnetv2_s_obj2custom": (1.25e-4, 2.5e-4, 1.25e-4, 64, 56, 0.9999),
    "custom/objects365/dfine_hgnetv2_m_obj2custom": (2.5e-5, 2.5e-4, 1.25e-4, 56, 48, 0.9999),
    "custom/objects365/dfine_hgnetv2_l_obj2custom": (1.25e-5, 2.5e-4, 1.25e-4, 36, 30, 0.9999),
    "custom/objects365/dfine_hgnetv2_x_obj2custom": (2.5e-6, 2.5e-4, 1.25e-4, 36, 30, 0.9999),
    "objects365/dfine_hgnetv2_n_obj365": (4e-4, 8e-4, 1e-4, 48, 500, None),
    "objects365/dfine_hgnetv2_s_obj365": (1.25e-4, 2.5e-4, 1.25e-4, 36, 500, None),
    "objects365/dfine_hgnetv2_m_obj365": (2.5e-5, 2.5e-4, 1.25e-4, 36, 500, None),
    "objects365/dfine_hgnetv2_l_obj365": (1.25e-5, 2.5e-4, 1.25e-4, 24, 500, None),
    "objects365/dfine_hgnetv2_x_obj365": (2.5e-6, 2.5e-4, 1.25e-4, 24, 500, None),
    "objects365/dfine_hgnetv2_n_obj2coco": (4e-4, 8e-4, 1e-4, 64, 56, 0.9999),
    "objects365/dfine_hgnetv2_s_obj2coco": (1.25e-4, 2.5e-4, 1.25e-4, 64, 56, 0.9999),
    "objects365/dfine_hgnetv2_m_obj2coco": (2.5e-5, 2.5e-4, 1.25e-4, 56, 48, 0.9999),
    "objects365/dfine_hgnetv2_l_obj2coco": (1.25e-5, 2.5e-4, 1.25e-4, 36, 30, 0.9999),
    "objects365/dfine_hgnetv2_x_obj2coco": (2.5e-6, 2.5e-4, 1.25e-4, 36, 30, 0.9999),
}
DEIM_DFINE = {name: DFINE[name] for name in list(DFINE)[:5]} | {
    "object365/dfine_hgnetv2_x_obj2coco": (2.5e-6, 2.5e-4, 1.25e-4, 36, 30, 0.9999)}
# The same, then the policy's epochs, flat epochs, epochs without augmentation, and other keys.
DEIM = {
    "deim_hgnetv2_n_coco": (4e-4, 8e-4, 1e-4, 160, [4, 78, 148], 7800, 12, {"lr_gamma": 1.0}),
    "deim_hgnetv2_s_coco": (2e-4, 4e-4, 1e-4, 132, [4, 64, 120], 64, 12, {}),
    "deim_hgnetv2_m_coco": (4e-5, 4e-4, 1e-4, 102, [4, 49, 90], 49, 12, {}),
    "deim_hgnetv2_l_coco": (2.5e-5, 5e-4, 1.25e-4, 58, [4, 29, 50], 29, 8, {}),
    "deim_hgnetv2_x_coco": (5e-6, 5e-4, 1.25e-4, 58, [4, 29, 50], 29, 8, {}),
    "object365/deim_hgnetv2_x_obj2coco_24e": (2.5e-6, 2.5e-4, 1.25e-4, 24, [2, 12, 20], 12000, 4,
                                              {"lrsheduler": "flatcosine", "lr_gamma": 1, "warmup_iter": 0}),
}
RTDETR = ["deim_r18vd_120e_coco", "deim_r34vd_120e_coco", "deim_r50vd_m_60e_coco", "deim_r50vd_60e_coco",
          "deim_r101vd_60e_coco", "rtdetrv2_r18vd_120e_coco", "rtdetrv2_r34vd_120e_coco", "rtdetrv2_r50vd_m_7x_coco",
          "rtdetrv2_r50vd_6x_coco", "rtdetrv2_r101vd_6x_coco"]

# Name: number of classes, and the ids used in its annotations.
COCO_IDS = [i for i in range(1, 91) if i not in (12, 26, 29, 30, 45, 66, 68, 69, 71, 83)]
SETS = {"coco": (80, COCO_IDS), "crowdhuman": (1, [0]), "custom": (777, list(range(777))),
        "obj365": (366, list(range(1, 366)))}


def merged(*trees):
    out = {}
    for tree in trees:
        for key, value in tree.items():
            both = isinstance(value, dict) and isinstance(out.get(key), dict)
            out[key] = merged(out[key], value) if both else value
    return out


def dataset(name):
    classes, _ = SETS[name]
    loader = {"type": "DataLoader", "num_workers": 4, "collate_fn": {"type": "BatchImageCollateFunction"}}

    def part(which):
        return loader | {"dataset": {"type": "CocoDetection", "img_folder": f"/data/{name}/{which}",
                                     "ann_file": f"/data/{name}/{which}.json", "return_masks": False,
                                     "transforms": {"type": "Compose", "ops": None}},
                         "shuffle": which == "train", "drop_last": which == "train"}

    return {"task": "detection", "evaluator": {"type": "CocoEvaluator", "iou_types": ["bbox"]}, "num_classes": classes,
            "remap_mscoco_category": name == "coco", "train_dataloader": part("train"), "val_dataloader": part("val")}


def runtime(project):
    own = {"use_wandb": False, "project_name": "D-FINE", "exp_name": "baseline"} if project == "dfine" else {}
    return {"print_freq": 100, "output_dir": "./logs", "checkpoint_freq": 12, "sync_bn": True,
            "find_unused_parameters": False, "use_amp": False, "scaler": {"type": "GradScaler", "enabled": True},
            "use_ema": False, "ema": {"type": "ModelEMA", "decay": 0.9999, "warmups": 1000}} | own


def loaders(project):
    stopped = STRONG if project == "dfine" else ["Mosaic"] + STRONG
    return {"train_dataloader": {"dataset": {"transforms": {"ops": OPERATIONS, "policy": {
                "name": "stop_epoch", "epoch": 72, "ops": stopped}}},
                "collate_fn": {"type": "BatchImageCollateFunction", "base_size": 640, "base_size_repeat": 3,
                               "stop_epoch": 72},
                "shuffle": True, "total_batch_size": 32, "num_workers": 4},
            "val_dataloader": {"dataset": {"transforms": {"ops": EVALUATION}}, "shuffle": False, "total_batch_size": 64,
                               "num_workers": 4}}


def groups(patterns, backbone):
    out = [{"params": pattern} for pattern in patterns]
    for group in out[:-1]:
        group["lr"] = backbone
    for group in out[1:]:
        group["weight_decay"] = 0.0
    return out


def optimizer(patterns, backbone, rate, decay):
    return {"optimizer": {"type": "AdamW", "params": groups(patterns, backbone), "lr": rate, "betas": [0.9, 0.999],
                          "weight_decay": decay}}


def training(epochs):
    first = ["^(?=.*backbone)(?!.*norm).*$", TWO[1]]
    return optimizer(first, 1.25e-5, 2.5e-4, 1.25e-4) | {
        "use_amp": True, "use_ema": True, "ema": {"type": "ModelEMA", "decay": 0.9999, "warmups": 1000, "start": 0},
        epochs: 72, "clip_max_norm": 0.1,
        "lr_scheduler": {"type": "MultiStepLR", "milestones": [500], "gamma": 0.1},
        "lr_warmup_scheduler": {"type": "LinearWarmup", "warmup_duration": 500}}


def network(project):
    model, criterion, processor = {"dfine": ("DFINE", "DFINECriterion", "DFINEPostProcessor"),
                                   "deim": ("DEIM", "DEIMCriterion", "PostProcessor")}[project]
    weights = {"loss_vfl": 1, "loss_bbox": 5, "loss_giou": 2, "loss_fgl": 0.15, "loss_ddf": 1.5}
    flat = {} if project == "dfine" else {"lrsheduler": "flatcosine", "lr_gamma": 1, "warmup_iter": 500,
                                          "flat_epoch": 4000000, "no_aug_epoch": 0, "checkpoint_freq": 4}
    return flat | {
        "task": "detection", "model": model, "criterion": criterion, "postprocessor": processor, "use_focal_loss": True,
        "eval_spatial_size": [640, 640],
        model: {"backbone": "HGNetv2", "encoder": "HybridEncoder", "decoder": "DFINETransformer"},
        "HGNetv2": {"pretrained": True, "local_model_dir": "weight/hgnetv2/"},
        "HybridEncoder": {"in_channels": [512, 1024, 2048], "feat_strides": [8, 16, 32], "hidden_dim": 256,
                          "use_encoder_idx": [2], "num_encoder_layers": 1, "nhead": 8, "dim_feedforward": 1024,
                          "dropout": 0.0, "enc_act": "gelu", "expansion": 1.0, "depth_mult": 1, "act": "silu"},
        "DFINETransformer": {"feat_channels": [256, 256, 256], "feat_strides": [8, 16, 32], "hidden_dim": 256,
                             "num_levels": 3, "num_layers": 6, "eval_idx": -1, "num_queries": 300, "num_denoising": 100,
                             "label_noise_ratio": 0.5, "box_noise_scale": 1.0, "reg_max": 32, "reg_scale": 4,
                             "layer_scale": 1, "num_points": [3, 6, 3], "cross_attn_method": "default",
                             "query_select_method": "default"},
        processor: {"num_top_queries": 300},
        criterion: {"weight_dict": weights, "losses": ["vfl", "boxes", "local"], "alpha": 0.75, "gamma": 2.0,
                    "reg_max": 32, "matcher": {"type": "HungarianMatcher", "alpha": 0.25, "gamma": 2.0,
                                               "weight_dict": {"cost_class": 2, "cost_bbox": 5, "cost_giou": 2}}}}


DEIM_BASE = {
    "train_dataloader": {"dataset": {"transforms": {"ops": [MOSAIC] + OPERATIONS, "mosaic_prob": 0.5, "policy": {
                             "epoch": [4, 29, 50], "ops": ["Mosaic"] + STRONG}}},
                         "collate_fn": {"mixup_prob": 0.5, "mixup_epochs": [4, 29], "stop_epoch": 50}},
    "HGNetv2": {"freeze_at": -1, "freeze_norm": False}, "DFINETransformer": {"activation": "silu", "mlp_act": "silu"},
    "lrsheduler": "flatcosine", "lr_gamma": 0.5, "warmup_iter": 2000, "flat_epoch": 29, "no_aug_epoch": 8,
    "DEIMCriterion": {"weight_dict": {"loss_mal": 1, "loss_bbox": 5, "loss_giou": 2, "loss_fgl": 0.15, "loss_ddf": 1.5},
                      "losses": ["mal", "boxes", "local"], "gamma": 1.5}}


def size_of(name):
    return name.split("hgnetv2_")[1][0]


def set_of(name):
    return next((each for each in ("crowdhuman", "custom", "obj365") if each in name.replace("objects365/", "")), "coco")


def stages(policy, stop, more):
    return {"train_dataloader": {"dataset": {"transforms": {"policy": {"epoch": policy}}},
                                 "collate_fn": {"stop_epoch": stop} | more}}


def dfine_file(name, row, epochs_key):
    backbone, rate, decay, epochs, stop, restart = row
    size = size_of(name)
    tree = merged(SIZES[size], optimizer(THREE if size in "nsm" else TWO, backbone, rate, decay), {epochs_key: epochs},
                  stages(stop, stop, {"base_size_repeat": 10 if size == "s" and "obj2" in name else REPEAT[size]} | (
                      {} if restart is None else {"ema_restart_decay": restart})))
    if size == "n" or (size == "s" and ("_ch" in name or name.endswith("s_custom"))):
        batch = 128 if size == "n" else 64
        tree = merged(tree, {"train_dataloader": {"total_batch_size": batch},
                             "val_dataloader": {"total_batch_size": 2 * batch}})
    if "obj2" in name:
        tree |= {"ema": {"warmups": 0}, "lr_warmup_scheduler": {"warmup_duration": 0}}
    if "obj2custom" in name:
        tree["HGNetv2"] = tree["HGNetv2"] | {"pretrained": False}
    if "obj365" in name:
        tree |= {"checkpoint_freq": 1, "print_freq": 500 if size == "n" else 1000}
    return tree


def deim_file(name, row):
    backbone, rate, decay, epochs, policy, flat, last, more = row
    size = size_of(name)
    patterns = {"n": THREE, "s": OF_DEIM, "m": OF_DEIM}.get(size, TWO)
    tree = merged(optimizer(patterns, backbone, rate, decay), stages(policy, policy[2], {"mixup_epochs": policy[:2]}),
                  {"epoches": epochs, "flat_epoch": flat, "no_aug_epoch": last}, more)
    if size == "n":
        tree["train_dataloader"]["collate_fn"]["base_size_repeat"] = None
    if "obj2coco" in name:
        tree |= {"HGNetv2": {"freeze_at": 0, "freeze_norm": True},
                 "DFINETransformer": {"activation": "relu", "mlp_act": "relu"}}
    return tree


def write(path, tree, includes=()):
    path.parent.mkdir(parents=True, exist_ok=True)
    head = {"__include__": list(includes)} if includes else {}
    path.write_text(json.dumps(head | {"output_dir": f"./output/{path.stem}"} | tree, indent=1))


def write_project(folder, project):
    """Writes a project's files; returns those that train and those that are rejected."""
    base = folder / ("dfine/include" if project == "dfine" else "base")
    epochs = "epochs" if project == "dfine" else "epoches"
    for name in SETS:
        write(folder / "dataset" / f"{name}_detection.yml", dataset(name))
    write(folder / "runtime.yml", runtime(project))
    for name, tree in (("dataloader", loaders(project)), ("optimizer", training(epochs)),
                       ("dfine_hgnetv2", network(project)), ("deim", DEIM_BASE)):
        write(base / f"{name}.yml", tree)
    made = []
    home = folder / ("dfine" if project == "dfine" else "deim_dfine")
    for name, row in (DFINE if project == "dfine" else DEIM_DFINE).items():
        up = "../" * (name.count("/") + 1)
        inner = "../" * name.count("/") + "./include" if project == "dfine" else up + "base"
        write(home / f"{name}.yml", dfine_file(name, row, epochs),
              [f"{up}dataset/{set_of(name)}_detection.yml", f"{up}runtime.yml"] +
              [f"{inner}/{each}.yml" for each in ("dataloader", "optimizer", "dfine_hgnetv2")])
        made.append(home / f"{name}.yml")
    refused = []
    for name, row in DEIM.items() if project == "deim" else ():
        up = "../" * (name.count("/") + 1)
        before = name.split("/")[-1].replace("deim_", "dfine_").replace("_24e", "")
        write(home / f"{name}.yml", deim_file(name, row), [f"./{before}.yml", f"{up}base/deim.yml"])
        made.append(home / f"{name}.yml")
    for name in RTDETR if project == "deim" else ():
        parts = {"backbone": "PResNet", "encoder": "HybridEncoder", "decoder": "RTDETRTransformerv2"}
        write(folder / "deim_rtdetrv2" / f"{name}.yml", {"DEIM": parts},
              ["../dataset/coco_detection.yml", "../runtime.yml", "../base/dataloader.yml"])
        refused.append(folder / "deim_rtdetrv2" / f"{name}.yml")
    return made, refused


def picture(side, box, color):
    """A PNG with a box on noise."""
    x, y, width, height = box
    rows = b""
    for row in range(side):
        rows += b"\0"
        for column in range(side):
            inside = x <= column < x + width and y <= row < y + height
            rows += bytes(color) if inside else bytes(random.randrange(60) for _ in range(3))

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)) +
            chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


def write_data(folder):
    random.seed(3)
    for part in ("train", "val"):
        (folder / part).mkdir(parents=True)
        boxes = []
        for index in range(4):
            box = [random.randrange(5, 30), random.randrange(5, 30), random.randrange(15, 30), random.randrange(15, 30)]
            boxes.append(box)
            color = [random.randrange(100, 256) for _ in range(3)]
            (folder / part / f"{index}.png").write_bytes(picture(64, box, color))
        for name, (_, ids) in SETS.items():
            (folder / f"{name}_{part}.json").write_text(json.dumps({
                "images": [{"id": i, "file_name": f"{i}.png", "width": 64, "height": 64} for i in range(4)],
                "categories": [{"id": i, "name": f"class {i}"} for i in ids],
                "annotations": [{"id": i, "image_id": i, "category_id": ids[i % len(ids)], "bbox": box, "iscrowd": 0,
                                 "area": box[2] * box[3]} for i, box in enumerate(boxes)]}))


def train(lockstep, folder, file):
    name = set_of(str(file.relative_to(folder)))
    side = 256 if "_n_" in file.name else 128  # enough for as many positions as queries
    loader = [f"{key}_dataloader.dataset.{word}" for key in ("train", "val") for word in ("ann_file", "img_folder")]
    value = [f"{folder}/data/{name}_train.json", f"{folder}/data/train", f"{folder}/data/{name}_val.json",
             f"{folder}/data/val"]
    began = time.monotonic()
    done = subprocess.run(
        [lockstep, "train", "detection", "--master_port=7777", "--nproc_per_node=1", "-c", str(file), "--use-amp",
         "--seed=0", "--device", "cpu", "--output-dir", f"{folder}/run", "-u",
         *(f"{a}={b}" for a, b in zip(loader, value)), f"eval_spatial_size=[{side}, {side}]", "max_steps=2",
         "train_dataloader.total_batch_size=2", "train_dataloader.collate_fn.base_size_repeat=null"],
        capture_output=True, text=True, timeout=600, check=False)
    subprocess.run(["rm", "-rf", f"{folder}/run"], check=True)
    empty = done.stderr.count("is empty: it matches no parameter")
    fault = next((line for line in done.stderr.splitlines() if line.startswith("error")), "")
    print(f"{done.returncode}  {time.monotonic() - began:5.1f} s  {empty} empty groups  {file.relative_to(folder)} {fault}",
          flush=True)
    return done.returncode == 0


def main():
    folder = pathlib.Path(sys.argv[1]).resolve()
    made, refused = [], []
    for project in ("dfine", "deim"):
        some, others = write_project(folder / project / "configs", project)
        made += some
        refused += others
    write_data(folder / "data")
    (folder / "trained.txt").write_text("".join(f"{set_of(str(f.relative_to(folder)))} {f}\n" for f in made))
    (folder / "refused.txt").write_text("".join(f"coco {f}\n" for f in refused))
    if len(sys.argv) < 3:
        return 0
    word = sys.argv[3] if len(sys.argv) > 3 else ""
    good = [train(sys.argv[2], folder, file) for file in made if word in file.name]
    print(f"{sum(good)} of {len(good)} trained")
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
