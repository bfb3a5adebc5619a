# SPDX-License-Identifier: GPL-2.0-or-later
"""The lab: fetch, patch, build and boot the reference kernel, in virtual time."""
