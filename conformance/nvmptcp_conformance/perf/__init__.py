# SPDX-License-Identifier: GPL-2.0-or-later
"""Performance: scenario files, their runner, comparison, plots and the page of results."""
