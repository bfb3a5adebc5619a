# SPDX-License-Identifier: GPL-2.0-or-later
"""What talks to a device under test."""
