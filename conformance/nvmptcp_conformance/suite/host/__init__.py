# SPDX-License-Identifier: GPL-2.0-or-later
"""Tests of a host, a file a chapter of the proposal."""
