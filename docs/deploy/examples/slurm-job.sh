#!/bin/bash
#SBATCH --job-name=four-on-one
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=4
#SBATCH --gpus-per-node=1
# Four tasks, one GPU: a quarter for each.
srun /opt/cubfc/bin/cubfc run --share auto -- "${@:-./app}"
