#!/bin/sh
#BSUB -J k7f3a-1-1
#BSUB -Jd 'longshore run=run 1'
#BSUB -cwd '/data/u/jdoe/run 1'
#BSUB -o '/data/u/jdoe/run 1/batches/k7f3a-1-1.out'
#BSUB -q short
#BSUB -P survey
#BSUB -G astro
#BSUB -app sim
#BSUB -sla gold
#BSUB -m 'hostA hostB'
#BSUB -sp 50
#BSUB -n 1
#BSUB -R 'select[haswell]'
#BSUB -R 'span[ptile=2]'
#BSUB -x
#BSUB -rn
# Each member of the batch is a line of the table; its output goes to its own log, and how it ended to a record.
set -- -m 1 -e '/data/u/jdoe/run 1/ends/k7f3a-1-1' '/data/u/jdoe/run 1/batches/k7f3a-1-1.tsv' && . '/data/u/jdoe/run 1/wms/longshore-job'
