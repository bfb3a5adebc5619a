/* plugin.c
 * How Wireshark finds the dissector
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include <wireshark.h>

#include <epan/proto.h>

#include "compat.h"

#if NM_WIRESHARK(4, 2)
#include <wsutil/plugins.h>
#endif

void proto_register_nvme_mptcp(void);
void proto_reg_handoff_nvme_mptcp(void);

WS_DLL_PUBLIC_DEF const char plugin_version[] = NM_VERSION;
WS_DLL_PUBLIC_DEF const int plugin_want_major = WIRESHARK_VERSION_MAJOR;
WS_DLL_PUBLIC_DEF const int plugin_want_minor = WIRESHARK_VERSION_MINOR;

WS_DLL_PUBLIC void plugin_register(void);

WS_DLL_PUBLIC_DEF void
plugin_register(void)
{
	static proto_plugin plugin;

	plugin.register_protoinfo = proto_register_nvme_mptcp;
	plugin.register_handoff = proto_reg_handoff_nvme_mptcp;
	proto_register_plugin(&plugin);
}

#if NM_WIRESHARK(4, 2)
WS_DLL_PUBLIC uint32_t plugin_describe(void);

WS_DLL_PUBLIC_DEF uint32_t
plugin_describe(void)
{
	return WS_PLUGIN_DESC_DISSECTOR | WS_PLUGIN_DESC_TAP_LISTENER;
}
#endif
