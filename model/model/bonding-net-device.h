/*
 * SPDX-License-Identifier: GPL-2.0-only
 */

#ifndef BONDING_NET_DEVICE_H
#define BONDING_NET_DEVICE_H

#include "ns3/event-id.h"
#include "ns3/net-device.h"
#include "ns3/nstime.h"
#include "ns3/traced-callback.h"

#include <vector>

namespace ns3
{

/**
 * @ingroup nvme-mptcp
 * Several links used as one, like Linux's bonding driver.
 *
 * It has the IP address; its slaves have none. A GSO packet is one packet to it, as it is to Linux.
 * A slave whose link fails is not used from then on. When the link comes back, the slave is used
 * after the next look that the MII monitor takes, and with 802.3ad after LACP has made it part of
 * the aggregator again. What is sent meanwhile goes over the other slaves.
 */
class BondingNetDevice : public NetDevice
{
  public:
    /// How the slave is chosen that sends a packet
    enum Mode
    {
        BALANCE_RR,   //!< one after the other
        IEEE_802_3AD, //!< by a hash of addresses and ports: xmit_hash_policy layer3+4
    };

    /**
     * Get the type ID.
     * @return the type ID
     */
    static TypeId GetTypeId();

    BondingNetDevice();
    ~BondingNetDevice() override;

    /**
     * Add a slave. Both devices have to be in the same node already; the slave gets this device's
     * link address.
     * @param slave a device without an IP address
     */
    void AddSlave(Ptr<NetDevice> slave);

    /**
     * @return number of slaves, usable or not
     */
    std::size_t GetNSlaves() const;

    /**
     * The hash that chooses a slave with layer3+4, as a little-endian machine computes it.
     * @param packet an IPv4 or IPv6 packet
     * @param protocol its EtherType
     * @return the hash; 0 if it is neither
     */
    static uint32_t GetHash(Ptr<const Packet> packet, uint16_t protocol);

    /// @return the devices that are bonded, as they were added
    std::vector<Ptr<NetDevice>> GetSlaves() const;

    /**
     * TracedCallback signature of sends.
     * @param packet the packet
     * @param slave index of the slave, in the order in which they were added
     */
    typedef void (*SendTracedCallback)(Ptr<const Packet> packet, uint32_t slave);

    void SetIfIndex(const uint32_t index) override;
    uint32_t GetIfIndex() const override;
    Ptr<Channel> GetChannel() const override;
    void SetAddress(Address address) override;
    Address GetAddress() const override;
    bool SetMtu(const uint16_t mtu) override;
    uint16_t GetMtu() const override;
    bool IsLinkUp() const override;
    void AddLinkChangeCallback(Callback<void> callback) override;
    bool IsBroadcast() const override;
    Address GetBroadcast() const override;
    bool IsMulticast() const override;
    Address GetMulticast(Ipv4Address group) const override;
    Address GetMulticast(Ipv6Address group) const override;
    bool IsPointToPoint() const override;
    bool IsBridge() const override;
    bool Send(Ptr<Packet> packet, const Address& dest, uint16_t protocol) override;
    bool SendFrom(Ptr<Packet> packet,
                  const Address& source,
                  const Address& dest,
                  uint16_t protocol) override;
    Ptr<Node> GetNode() const override;
    void SetNode(Ptr<Node> node) override;
    bool NeedsArp() const override;
    void SetReceiveCallback(ReceiveCallback callback) override;
    void SetPromiscReceiveCallback(PromiscReceiveCallback callback) override;
    bool SupportsSendFrom() const override;

  protected:
    void DoDispose() override;

  private:
    /// A slave
    struct Slave
    {
        Ptr<NetDevice> device; //!< the device
        bool usable;           //!< packets may be sent over it
        EventId comesBack;     //!< when it becomes usable again
    };

    /**
     * Look which slaves have a link.
     */
    void LinksChanged();

    /**
     * Use a slave again.
     * @param index its index
     */
    void UseSlave(std::size_t index);

    /**
     * Choose a slave for a packet.
     * @param packet the packet
     * @param protocol its EtherType
     * @return its index; the number of slaves if none is usable
     */
    std::size_t ChooseSlave(Ptr<const Packet> packet, uint16_t protocol);

    /**
     * Choose a slave for a packet, and say so to the traces.
     * @param packet the packet
     * @param protocol its EtherType
     * @return the slave, null if none is usable
     */
    Ptr<NetDevice> TakeSlave(Ptr<const Packet> packet, uint16_t protocol);

    /**
     * Take a packet from a slave.
     * @param device the slave
     * @param packet the packet
     * @param protocol its EtherType
     * @param from the sender's link address
     * @param to the receiver's
     * @param type whom it is for
     */
    void ReceiveFromSlave(Ptr<NetDevice> device,
                          Ptr<const Packet> packet,
                          uint16_t protocol,
                          const Address& from,
                          const Address& to,
                          PacketType type);

    Mode m_mode;           //!< how slaves are chosen
    Time m_miiMonitor;     //!< time between two looks at the links
    Time m_aggregateDelay; //!< how long LACP takes to use a link again
    uint32_t m_sent{0};    //!< packets sent, for balance-rr

    std::vector<Slave> m_slaves;      //!< the slaves
    Ptr<Node> m_node;                 //!< the node
    Address m_address;                //!< link address
    uint32_t m_ifIndex{0};            //!< index in the node
    ReceiveCallback m_receive;        //!< where received packets go
    PromiscReceiveCallback m_promisc; //!< where all packets seen go
    TracedCallback<> m_linkChange;    //!< called when the first link comes or the last one goes

    TracedCallback<Ptr<const Packet>, uint32_t> m_sendTrace; //!< packets handed to a slave
    TracedCallback<Ptr<const Packet>> m_dropTrace;           //!< packets that no slave could send
};

} // namespace ns3

#endif // BONDING_NET_DEVICE_H
