#!/bin/sh
#SBATCH --job-name=k7f3a-1-1
#SBATCH --comment="longshore run=run 1"
#SBATCH --chdir="/data/u/jdoe/run 1"
#SBATCH --output="/data/u/jdoe/run 1/batches/k7f3a-1-1.out"
#SBATCH --open-mode=append
#SBATCH --export=ALL
#SBATCH --no-requeue
#SBATCH --cpus-per-task=1
#DW jobdw capacity=1GB
#SBATCH hetjob
#SBATCH --cpus-per-task=2
# Each member of the batch is a line of the table; its output goes to its own log, and how it ended to a record.
set -- -m 1 -e '/data/u/jdoe/run 1/ends/k7f3a-1-1' '/data/u/jdoe/run 1/batches/k7f3a-1-1.tsv' && . '/data/u/jdoe/run 1/wms/longshore-job'
