/*
 * SPDX-License-Identifier: GPL-2.0-only
 */

#ifndef NVME_IDENTIFY_H
#define NVME_IDENTIFY_H

#include <cstdint>

namespace ns3
{

/**
 * @ingroup nvme-mptcp
 * Byte offsets in the Identify Controller data structure (NVM Express Base Specification), of what
 * a target says and a host heeds.
 */
namespace nvme_identify
{

constexpr uint32_t MDTS = 77;     //!< Maximum Data Transfer Size
constexpr uint32_t CNTLID = 78;   //!< Controller ID
constexpr uint32_t CTRATT = 96;   //!< Controller Attributes
constexpr uint32_t KAS = 320;     //!< Keep Alive Support
constexpr uint32_t MAXCMD = 514;  //!< Maximum Outstanding Commands
constexpr uint32_t IOCCSZ = 1792; //!< I/O Queue Command Capsule Supported Size
constexpr uint32_t IORCSZ = 1796; //!< I/O Queue Response Capsule Supported Size

constexpr uint8_t TBKAS = 0x40; //!< Traffic Based Keep Alive Support, a bit of CTRATT

} // namespace nvme_identify

} // namespace ns3

#endif // NVME_IDENTIFY_H
