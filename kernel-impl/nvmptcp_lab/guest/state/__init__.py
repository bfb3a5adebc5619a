# SPDX-License-Identifier: GPL-2.0-or-later
"""What `nvmptcp-lab state` runs in its guests; no part of a performance cell."""
