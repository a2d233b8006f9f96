#!/bin/bash
# Slurm's TaskProlog (slurm.conf), or `srun --task-prolog=FILE`: lines `export NAME=value` on the standard output
# become variables of the task. Where there is no GPU, or no library, nothing changes.
#
# LIBCUBFC          the library
# SHARDS_PER_GPU    what gres.conf says of a GPU (Name=shard); then the tasks of a job that has shards are a group on each
#                   node, which has that share of the GPU together
library=${LIBCUBFC:-/opt/cubfc/lib/libcubfc.so}
shards_per_gpu=${SHARDS_PER_GPU:-}

[ -n "${SLURM_GPUS_ON_NODE:-}${SLURM_SHARDS_ON_NODE:-}" ] || exit 0
[ -r "$library" ] || exit 0
case ":${LD_PRELOAD:-}:" in
  *libcubfc.so:*) ;; # the user's own
  *) echo "export LD_PRELOAD=${LD_PRELOAD:+$LD_PRELOAD:}$library" ;;
esac

# Hundredths of a percent: the shell has no fractions.
if [ -n "$shards_per_gpu" ] && [ -n "${SLURM_SHARDS_ON_NODE:-}" ] &&
  [ -z "${CUBFC_MEM_FRACTION:-}${CUBFC_MEM_LIMIT:-}${CUBFC_GROUP:-}${CUBFC_GROUP_LIMIT:-}" ]; then
  share=$((SLURM_SHARDS_ON_NODE * 10000 / shards_per_gpu))
  if [ "$share" -lt 10000 ] && [ "$share" -gt 0 ]; then
    echo "export CUBFC_GROUP=slurm-${SLURM_JOB_ID:-0}"
    printf 'export CUBFC_GROUP_LIMIT=%d.%02d%%\n' $((share / 100)) $((share % 100))
    echo "export CUBFC_LIMIT_ORIGIN=shard:$SLURM_SHARDS_ON_NODE"
    echo "export SHARDS_PER_GPU=$shards_per_gpu"
  fi
fi
[ -n "${CUBFC_LABELS:-}" ] || echo "export CUBFC_LABELS=slurm_job=${SLURM_JOB_ID:-0},slurm_task=${SLURM_PROCID:-0}"
