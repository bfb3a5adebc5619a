# SPDX-License-Identifier: GPL-2.0-or-later
"""The tests of a target under test."""
