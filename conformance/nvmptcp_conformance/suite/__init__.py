# SPDX-License-Identifier: GPL-2.0-or-later
"""The tests of a device under test, a file for each chapter of the proposal.

They need a device: `nvmptcp-conformance` runs them, not a bare pytest.
"""
