# SPDX-License-Identifier: GPL-2.0-or-later
"""Scapy layers: MPTCP options, NVMe/TCP PDUs, NVMe commands, discovery information.

Each module stands alone and follows Scapy's habits, so that it can be offered to scapy.contrib.
"""
