# SPDX-License-Identifier: GPL-2.0-or-later
"""Runs the ns-3 model: scenarios, validation against the kernel, sweeps, benchmark."""
