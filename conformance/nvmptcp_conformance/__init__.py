# SPDX-License-Identifier: GPL-2.0-or-later
"""Conformance of NVMe/TCP over Multipath TCP."""
