# SPDX-License-Identifier: Apache-2.0
"""Writes the seeds FOLDER/npz/*.npz, small features written by NumPy itself, and FOLDER/npy, the array of each. The tests of
captioning read them too.

    scripts/trials/fuzz --unpack FOLDER && python3 fuzz/make_npz.py FOLDER && scripts/trials/fuzz --pack FOLDER

Run with Python 3 and NumPy (1.24.2 wrote those in the archive). The value at row r and column c is 4 r + c / 2 - 3. wide.npz has
a different shape; absurd.npz claims one too large for any memory. The first byte of an npy chooses stored (0) or deflated.
"""
import io
import pathlib
import sys
import zipfile

import numpy as np

OUT = pathlib.Path(sys.argv[1]) / "npz"
ROWS, WIDTH = 6, 4


def main():
    OUT.mkdir(parents=True, exist_ok=True)
    feat = np.array([[4 * r + c / 2 - 3 for c in range(WIDTH)] for r in range(ROWS)], dtype="<f4")
    np.savez(OUT / "f4.npz", feat=feat)
    np.savez_compressed(OUT / "f4_deflated.npz", feat=feat)
    np.savez(OUT / "f2.npz", feat=feat.astype("<f2"))
    np.savez_compressed(OUT / "f8_fortran_deflated.npz", feat=np.asfortranarray(feat.astype("<f8")))
    np.savez(OUT / "three_sides.npz", feat=feat.reshape(2, 3, WIDTH))
    np.savez(OUT / "three_sides_fortran.npz", feat=np.asfortranarray(feat.reshape(2, 3, WIDTH)))
    np.savez(OUT / "two_arrays.npz", boxes=np.zeros((ROWS, 4), dtype="<i4"), feat=feat)
    for version in ((2, 0), (3, 0)):
        write_member(f"format_{version[0]}.npz", npy(feat, version))
    np.savez(OUT / "wide.npz", feat=feat.reshape(4, 6))
    write_member("absurd.npz", npy(feat, (1, 0)).replace(b"(6, 4), }" + 18 * b" ", b"(4611686018427387904, 4), }"))
    arrays = OUT.parent / "npy"
    arrays.mkdir(exist_ok=True)
    for path in OUT.glob("*.npz"):
        (arrays / path.stem).write_bytes(b"\0" + zipfile.ZipFile(path).read("feat.npy"))


def npy(feat, version):
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, feat, version=version)
    return buffer.getvalue()


def write_member(name, content):
    with zipfile.ZipFile(OUT / name, "w") as out:
        out.writestr(zipfile.ZipInfo("feat.npy"), content)


main()
