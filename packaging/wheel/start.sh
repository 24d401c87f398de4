#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Becomes the program of this name in the lockstep package of this file's environment. Starting it through Python would take
# twenty times as long.
self=$0
[ ! -L "$self" ] || self=$(readlink -f "$self")
name=${self##*/}
folder=${self%/*}
# Fedora and openSUSE have this package in lib64.
for site in "$folder"/../lib/python3*/site-packages "$folder"/../lib64/python3*/site-packages \
  "$folder"/../lib/python3*/dist-packages "$folder"/..; do
  [ ! -x "$site/lockstep/bin/$name" ] || exec "$site/lockstep/bin/$name" "$@"
done
echo "error: there is no package lockstep next to $self; run pip install --force-reinstall @NAME@" >&2
exit 69
