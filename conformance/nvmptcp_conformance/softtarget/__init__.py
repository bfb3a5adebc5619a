# SPDX-License-Identifier: GPL-2.0-or-later
"""A user-space NVMe/TCP target of the MPTCP variant: known good, and with one fault switched on
known bad. `python -m nvmptcp_conformance.softtarget --help`.
"""

from .target import SoftTarget, TargetOptions

__all__ = ["SoftTarget", "TargetOptions"]
