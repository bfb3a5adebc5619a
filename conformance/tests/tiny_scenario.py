# SPDX-License-Identifier: GPL-2.0-or-later
"""A scenario whose runs take no time: two paths, and a run each over TCP and MPTCP."""

TINY = """
title = "Tiny"
[topology]
paths = 2
rate = "100mbit"
[association]
ports = 1
transport = ["tcp", "mptcp"]
[fio]
rw = "randread"
runtime = 1
iodepth = 4
numjobs = 1
"""
