# SPDX-License-Identifier: GPL-2.0-or-later
"""What runs inside the guest: standard library only, started as `python -m nvmptcp_lab.guest.…`."""
