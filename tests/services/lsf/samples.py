"""Replies of LSF's programs as public documents and the test data of other projects have them, each with its source.

Names of users, hosts and jobs are changed.
"""

from __future__ import annotations

from typing import Final

# IBM documentation, "messaging example messages"; ert, tests of its LSF driver.
BSUB_DEFAULT: Final = "Job <29209> is submitted to default queue <normal>.\n"
BSUB_QUEUE: Final = "Job <29210> is submitted to queue <regress>.\n"
BSUB_REFUSED: Final = "short: User cannot use the queue. Job not submitted.\n"
BSUB_NOISE: Final = "Cannot connect to LSF. Please wait ...\n*** Notice of the site ***\n"

# BatchEuphoria, tests of its LSF job manager; the field names are those of IBM's page on bjobs -o.
BJOBS_DONE: Final = r"""{ "COMMAND":"bjobs", "JOBS":1, "RECORDS":[ { "JOBID":"22005", "JOB_NAME":"ls -l", "STAT":"DONE",
"EXIT_CODE":"", "EXIT_REASON":"", "EXEC_HOST":"cn019:cn019", "SUBMIT_TIME":"Dec 28 19:56", "START_TIME":"Dec 28 19:56",
"FINISH_TIME":"Dec 28 19:56 L", "CPU_USED":"00:00:01", "RUN_TIME":"16038 second(s)", "MAX_MEM":"5.2 Gbytes",
"RUNTIMELIMIT":"1440.0", "DEPENDENCY":"done(22004)", "EXEC_CWD":"\/home\/otptest" } ] }
"""
BJOBS_KILLED: Final = r"""{"COMMAND":"bjobs","JOBS":1,"RECORDS":[{"JOBID":"22006","JOBINDEX":"4","JOB_NAME":"k7-1-1[4]",
"STAT":"EXIT","EXIT_REASON":"TERM_OWNER: job killed by owner","EXIT_CODE":""}]}"""
# argonne-lcf/balsam and psij-python skip records with an error.
BJOBS_UNKNOWN: Final = '{"COMMAND":"bjobs","JOBS":1,"RECORDS":[{"JOBID":"123","ERROR":"Job <123> is not found"}]}'
BJOBS_NONE: Final = '{"COMMAND":"bjobs","JOBS":0,"RECORDS":[]}'
# Names are not always escaped: this is no JSON.
BJOBS_BROKEN: Final = '{"COMMAND":"bjobs","JOBS":1,"RECORDS":[{"JOBID":"1","JOB_NAME":"a"b","STAT":"RUN"}]}'
# The separator of ert: bjobs -o '... delimiter="^"'.
BJOBS_TEXT = (
    "1^0^DONE^-^-^a^b\n22006^4^EXIT^140^TERM_RUNLIMIT: job killed after reaching LSF run time limit^k7-1-1[4]\n"
)

# IBM's page bhist.1; HP XC, Platform LSF Configuration Reference: termination reasons. Long lines are wrapped.
BHIST_DONE: Final = """
Job <1962>, Job Name <k7-1-2>, User <user1>, Project <default>, Command <#!/bin/sh; {
                     true>
Tue Nov  5 14:11:02: Submitted from host <hostB>, to Queue <normal>, CWD <$HOME>;
Tue Nov  5 14:11:04: Dispatched to <hostA>;
Tue Nov  5 14:11:04: Starting (Pid 8920);
Tue Nov  5 14:13:22: Done successfully. The CPU time used is 0.5 seconds;

Summary of time in seconds spent in various states by  Tue Nov  5 14:13:22
  PEND     PSUSP    RUN      USUSP    SSUSP    UNKWN    TOTAL
  2        0        138      0        0        0        140
"""
BHIST_RUNLIMIT: Final = """
Job <1963>, User <user1>, Project <default>, Command <sleep 9999>
Tue Nov  5 14:11:04: [1] started on <4*hostA>;
Tue Nov  5 14:22:04: Exited with exit code 140. The CPU time used is 0.1 seconds;
Tue Nov  5 14:22:04: Completed <exit>; TERM_RUNLIMIT: job killed after reaching LSF run
                      time limit;
"""
BHIST_SIGNAL: Final = """
Job <1964[3]>, User <user1>, Project <default>, Command <sleep 9999>
Tue Nov  5 14:11:04: Starting (Pid 8920);
Tue Nov  5 14:22:04: Exited by signal 2. The CPU time used is 0.1 seconds;
"""
BHIST_RUNNING: Final = """
Job <1965>, User <user1>, Project <default>, Command <sleep 9999>
Tue Nov  5 14:11:04: Starting (Pid 8920);
"""

# Wellcome Sanger, course on its farm; ensembl-hive matches the first line.
BACCT_MEMLIMIT: Final = """
Accounting information about jobs that are:
  - submitted by all users.
------------------------------------------------------------------------------

Job <4020>, Job Name <k7-1-9>, User <user1>, Project <default>, Status <EXIT>, Queue <normal>, Command <python>
Tue Nov  5 14:11:04: Submitted from host <hostB>;
Tue Nov  5 14:11:05: Dispatched to <hostC>;
Tue Nov  5 14:11:18: Completed <exit>; TERM_MEMLIMIT: job killed after reaching LSF memory usage limit;

Accounting information about this job:
     CPU_T     WAIT     TURNAROUND   STATUS     HOG_FACTOR    MEM    SWAP
     10.71        1             13     exit         0.8240   2.1G      0M
------------------------------------------------------------------------------
"""

# ert; IBM's page bkill.1.
BKILL_DONE: Final = "Job <11> is being terminated\n"
BKILL_OVER: Final = "Job <11>: Job has already finished\n"
BKILL_NONE: Final = "Job <22>: No matching job found\n"

# The report of a job in its -o file: the line of TERM_MEMLIMIT is that of the Sanger course.
REPORT: Final = """
Sender: LSF System <lsfadmin@hostC>
Subject: Job 4020[2]: <k7-1-9[2]> in cluster <main> Exited

TERM_MEMLIMIT: job killed after reaching LSF memory usage limit.
Exited with exit code 137.
    Max Memory :                                 25600 MB

Sender: LSF System <lsfadmin@hostC>
Subject: Job 4020[3]: <k7-1-9[3]> in cluster <main> Exited

Exited with exit code 137.
"""

# lsid and bparams -a, as administrators show them in public notes.
LSID: Final = """IBM Spectrum LSF Standard 10.1.0.8, May 10 2019
Copyright International Business Machines Corp. 1992, 2016.

My cluster name is main
My master name is hostA
"""
BPARAMS: Final = "MBD_SLEEP_TIME = 10 (seconds)\nCLEAN_PERIOD = 3600 (seconds)\nMAX_JOB_ARRAY_SIZE = 500\n"
