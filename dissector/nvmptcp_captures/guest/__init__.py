# SPDX-License-Identifier: GPL-2.0-or-later
"""What runs inside the lab's guest while a capture is made."""
