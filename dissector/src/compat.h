/* compat.h
 * What differs between Wireshark 4.0, 4.4 and 4.6
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef NM_COMPAT_H
#define NM_COMPAT_H

#include <ws_version.h>

#define NM_WIRESHARK(major, minor) \
	(WIRESHARK_VERSION_MAJOR > (major) || \
	 (WIRESHARK_VERSION_MAJOR == (major) && WIRESHARK_VERSION_MINOR >= (minor)))

#if NM_WIRESHARK(4, 4)
typedef bool nm_bool;
#else
typedef gboolean nm_bool;
#define tvb_get_uint8 tvb_get_guint8
#endif

/* Since 4.6 the start of a tap tells whether it succeeded. */
#if NM_WIRESHARK(4, 6)
typedef bool nm_tap_start_t;
#define NM_TAP_STARTED return true
#else
typedef void nm_tap_start_t;
#define NM_TAP_STARTED return
#endif

#endif
