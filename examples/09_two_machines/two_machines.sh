#!/usr/bin/env bash
# Runs one command on several machines at once: here, network namespaces on this machine, joined by a bridge.
#
# usage: two_machines.sh COUNT COMMAND
#
# On each machine, bash runs COMMAND with MACHINE (0, 1, ...) in its environment; machine N has the address 10.77.0.(N + 1).
# The exit code is that of the first machine that failed.
#
# Everything lives in separate namespaces (network, mount, PID), which the kernel removes when this script ends, even if it is
# killed, so nothing is left to clean up. It needs `ip` and root, or a kernel with user namespaces.
set -euo pipefail

if [ -z "${INSIDE_TWO_MACHINES:-}" ]; then
  user=$([ "$(id -u)" = 0 ] || echo "--user --map-root-user")
  # shellcheck disable=SC2086  # two words, or none
  INSIDE_TWO_MACHINES=1 exec unshare $user --net --mount --pid --fork --kill-child --mount-proc bash "$0" "$@"
fi

count=$1 command=$2
mount -t tmpfs tmpfs /run # `ip` keeps the names of namespaces there; this folder is private to this script
ip link add br0 type bridge
ip link set br0 up
for ((machine = 0; machine < count; machine++)); do
  ip netns add "m$machine"
  ip link add "p$machine" type veth peer name eth0 netns "m$machine"
  ip link set "p$machine" master br0 up
  ip -n "m$machine" link set lo up
  ip -n "m$machine" link set eth0 up
  ip -n "m$machine" address add "10.77.0.$((machine + 1))/24" dev eth0
done

pids=()
for ((machine = 0; machine < count; machine++)); do
  MACHINE=$machine LOCKSTEP_HOST_ID=machine-$machine ip netns exec "m$machine" bash -c "$command" &
  pids+=($!)
done
code=0
for pid in "${pids[@]}"; do
  wait "$pid" || { ended=$? && [ "$code" != 0 ] || code=$ended; }
done
exit "$code"
