# SPDX-License-Identifier: GPL-2.0-or-later
"""The results of a run, and their forms: terminal, JSON, JUnit, HTML."""
