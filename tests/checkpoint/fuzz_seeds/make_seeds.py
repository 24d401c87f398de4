#!/usr/bin/python3
"""Writes the seeds of fuzz/checkpoint_targets.cpp from tests/checkpoint/golden: run in this folder."""
import json
import pathlib
import shutil
import struct
import zipfile

golden = pathlib.Path("../golden")
for name in ("zip", "pickle", "safetensors", "manifest"):
    pathlib.Path(name).mkdir(exist_ok=True)
for name in ("state_dict", "deflated", "nested"):
    shutil.copy(golden / f"{name}.pth", f"zip/{name}.zip")
for name in ("state_dict", "nested", "types", "protocol4", "attack"):
    with zipfile.ZipFile(golden / f"{name}.pth") as archive:
        member = next(m for m in archive.namelist() if m.endswith("/data.pkl"))
        pathlib.Path(f"pickle/{name}.pkl").write_bytes(archive.read(member))
header = json.dumps({
    "__metadata__": {"format": "pt", "scalar.step": "12", "scalar.best": '{"float":"nan"}'},
    "a": {"dtype": "F32", "shape": [2, 2], "data_offsets": [0, 16]},
    "b": {"dtype": "BOOL", "shape": [3], "data_offsets": [16, 19]},
    "c": {"dtype": "I64", "shape": [0, 4], "data_offsets": [19, 19]},
}).encode()
pathlib.Path("safetensors/three.safetensors").write_bytes(struct.pack("<Q", len(header)) + header + bytes(19))
# A key that is no UTF-8, and a zip file that holds nothing.
pathlib.Path("pickle/latin_key.pkl").write_bytes(b"\x80\x02}X\x04\x00\x00\x00gr\xfcnK\x01s.")
zipfile.ZipFile("zip/empty.zip", "w").close()
MANIFEST = """{
  "format_version": 1,
  "step": 1200,
  "replicas": 2,
  "threads": 1,
  "libtorch": "1.13.0",
  "instruction_set": "AVX512",
  "configuration_hash": "5f1c",
  "files": {
    "config.yml": {"bytes": 563, "xxh3_128": "00112233445566778899aabbccddeeff"},
    "model.safetensors": {"bytes": 76294016, "xxh3_128": "ffeeddccbbaa99887766554433221100"}
  },
"""
pathlib.Path("manifest/one.json").write_text(MANIFEST)
absurd = MANIFEST.replace('"step": 1200', '"step": -5').replace('"replicas": 2', '"replicas": 0')
pathlib.Path("manifest/absurd.json").write_text(absurd.replace('"threads": 1', '"threads": 1000000000'))
