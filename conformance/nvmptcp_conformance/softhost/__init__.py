# SPDX-License-Identifier: GPL-2.0-or-later
"""A user-space NVMe/TCP host that knows the MPTCP variant: known good, and with one fault switched
on known bad. `python -m nvmptcp_conformance.softhost --help`.
"""

from .host import HostOptions, SoftHost

__all__ = ["HostOptions", "SoftHost"]
