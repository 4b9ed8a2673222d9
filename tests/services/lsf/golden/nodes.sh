#!/bin/sh
#BSUB -J k7f3a-1-1
#BSUB -Jd 'longshore run=run 1'
#BSUB -cwd '/data/u/jdoe/run 1'
#BSUB -o '/data/u/jdoe/run 1/batches/k7f3a-1-1.out'
#BSUB -n 12
#BSUB -M 6000MB
#BSUB -R 'rusage[mem=2000/host:tmp=1024/host] span[ptile=4]'
#BSUB -rn
# Each member of the batch is a line of the table; its output goes to its own log, and how it ended to a record.
set -- -m 1 -e '/data/u/jdoe/run 1/ends/k7f3a-1-1' '/data/u/jdoe/run 1/batches/k7f3a-1-1.tsv' && . '/data/u/jdoe/run 1/wms/longshore-job'
