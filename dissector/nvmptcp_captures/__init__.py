# SPDX-License-Identifier: GPL-2.0-or-later
"""The captures that the dissector is tested with: made in the lab, counted by the kernel."""
