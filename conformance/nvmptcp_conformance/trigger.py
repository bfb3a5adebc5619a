# SPDX-License-Identifier: GPL-2.0-or-later
"""What a trigger makes a host under test do; its environment says what. This module imports nothing
else, so that triggers start fast.

NVMPTCP_ACTION        `connect` to an NVM subsystem, or `discover`: read the discovery log at the
                      address, and connect to what it lists
NVMPTCP_TRADDR, NVMPTCP_TRSVCID, NVMPTCP_NQN   where to
NVMPTCP_TCP_VARIANT   `tcp`, `mptcp`, `mptcp-only` (MPTCP is required), or empty: no setting
NVMPTCP_HDGST, NVMPTCP_DDGST   1: ask for these digests
NVMPTCP_COPY          then copy so many bytes from the start of the namespace to what follows them
NVMPTCP_MAX_SUBFLOWS  the most subflows of a connection; empty: no setting

It ends with 0 when that is done and leaves the host connected, or stays in the foreground until
SIGTERM; it ends with 77 where the host has no such function or setting, and with another code where
the host couldn't connect. The untrigger makes the host disconnect in an orderly way.
"""

NOT_SUPPORTED = 77  # exit code of a trigger
