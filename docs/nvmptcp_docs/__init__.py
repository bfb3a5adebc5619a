# SPDX-License-Identifier: GPL-2.0-or-later
"""Builds the site, and the Technical Proposal as PDF and DOCX."""
