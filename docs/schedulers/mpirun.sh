#!/bin/bash
# Every mpirun process is a rank. Usage: mpirun.sh RANKS PROGRAM [ARGUMENTS]
set -euo pipefail
ranks=$1
shift
# The address at which rank 0 serves the store: this machine's, if mpirun starts rank 0 here.
export MASTER_ADDR=${MASTER_ADDR:-$(hostname)}
export MASTER_PORT=${MASTER_PORT:-29500}
exec mpirun -np "$ranks" -x MASTER_ADDR -x MASTER_PORT -x LOCKSTEP_TOKEN "$@"
