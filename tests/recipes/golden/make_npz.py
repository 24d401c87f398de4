# SPDX-License-Identifier: Apache-2.0
"""Writes npz/*.npz: small features as numpy itself writes them, which captioning_npz_test.cpp reads and scripts/fuzz
starts from.

Run with Python 3 and numpy (1.24.2 wrote those that lie here). The value at row r and column c is 4 r + c / 2 - 3.
"""
import pathlib

import numpy as np

OUT = pathlib.Path(__file__).parent / "npz"
ROWS, WIDTH = 6, 4


def main():
    OUT.mkdir(exist_ok=True)
    feat = np.array([[4 * r + c / 2 - 3 for c in range(WIDTH)] for r in range(ROWS)], dtype="<f4")
    np.savez(OUT / "f4.npz", feat=feat)
    np.savez_compressed(OUT / "f4_deflated.npz", feat=feat)
    np.savez(OUT / "f2.npz", feat=feat.astype("<f2"))
    np.savez_compressed(OUT / "f8_fortran_deflated.npz", feat=np.asfortranarray(feat.astype("<f8")))
    np.savez(OUT / "three_sides.npz", feat=feat.reshape(2, 3, WIDTH))
    np.savez(OUT / "three_sides_fortran.npz", feat=np.asfortranarray(feat.reshape(2, 3, WIDTH)))
    np.savez(OUT / "two_arrays.npz", boxes=np.zeros((ROWS, 4), dtype="<i4"), feat=feat)
    for version in ((2, 0), (3, 0)):
        write_version(OUT / f"format_{version[0]}.npz", feat, version)


def write_version(path, feat, version):
    import zipfile
    with zipfile.ZipFile(path, "w") as out, out.open("feat.npy", "w") as member:
        np.lib.format.write_array(member, feat, version=version)


main()
