/*
 * SPDX-License-Identifier: GPL-2.0-only
 */

#ifndef NETEM_DEVICE_H
#define NETEM_DEVICE_H

#include "ns3/channel.h"
#include "ns3/data-rate.h"
#include "ns3/mac48-address.h"
#include "ns3/net-device.h"
#include "ns3/nstime.h"
#include "ns3/random-variable-stream.h"
#include "ns3/traced-callback.h"

#include <deque>

namespace ns3
{

class NetemNetDevice;

/**
 * @ingroup nvme-mptcp
 * The pair that two NetemNetDevice make, like a veth pair. It has no delay of its own.
 */
class NetemChannel : public Channel
{
  public:
    /**
     * Get the type ID.
     * @return the type ID
     */
    static TypeId GetTypeId();

    /**
     * Connect a device. A channel has two.
     * @param device the device
     */
    void Attach(Ptr<NetemNetDevice> device);

    /**
     * @param device one end
     * @return the other end, null while there is none
     */
    Ptr<NetemNetDevice> GetPeer(const NetemNetDevice* device) const;

    std::size_t GetNDevices() const override;
    Ptr<NetDevice> GetDevice(std::size_t i) const override;

  private:
    Ptr<NetemNetDevice> m_ends[2]; //!< the devices
};

/**
 * @ingroup nvme-mptcp
 * One end of a link, with what Linux's tc-netem(8) does to the packets it sends: loss, a queue of
 * limited length, delay with uniform jitter, and a rate. When a packet leaves is computed on its
 * arrival exactly as netem does, in whole nanoseconds; see doc/nvme-mptcp.rst.
 *
 * netem sees whole GSO packets: one is lost, queued and delayed as a whole, and takes the time of
 * all its segments (GsoTag). The Ethernet header counts, preamble and check sequence don't, as on a
 * veth.
 *
 * All attributes may be changed while packets are queued; those keep the times they have.
 */
class NetemNetDevice : public NetDevice
{
  public:
    /**
     * Get the type ID.
     * @return the type ID
     */
    static TypeId GetTypeId();

    NetemNetDevice();
    ~NetemNetDevice() override;

    /**
     * Why a packet was dropped.
     */
    enum DropReason
    {
        DROP_LOSS,  //!< random loss
        DROP_LIMIT, //!< the queue is full
        DROP_DOWN,  //!< an end of the link is down, or went down while the packet was queued
    };

    /**
     * Make a link: two devices with addresses, and their channel.
     * @param a node of the first device
     * @param b node of the second
     * @return the devices, of a and b
     */
    static std::pair<Ptr<NetemNetDevice>, Ptr<NetemNetDevice>> Connect(Ptr<Node> a, Ptr<Node> b);

    /**
     * Bytes that a packet takes on the wire, with an Ethernet header a segment.
     * @param packet an IP packet
     * @return bytes
     */
    static uint32_t GetWireBytes(Ptr<const Packet> packet);

    /**
     * Set this end up or down. A link is up if both its ends are; going down empties both queues.
     * @param up whether it is up
     */
    void SetUp(bool up);

    /**
     * @return whether this end is up
     */
    bool GetUp() const;

    /**
     * @return packets queued; a GSO packet is one
     */
    uint32_t GetQueueLength() const;

    /// How many packets were refused on their way out, of all devices.
    struct Refusals
    {
        uint64_t full{0}; //!< the queue was full: the sender is told that the packet was not taken
        uint64_t down{0}; //!< the link was down: the sender is told of congestion
    };

    /**
     * Of all devices, so that a sender learns what became of a packet that the IP layer handed down
     * for it: ns-3's tells it nothing.
     * @return refused packets
     */
    static const Refusals& GetRefusals();

    /**
     * Use given random number streams from now on.
     * @param stream the first stream
     * @return number of streams used
     */
    int64_t AssignStreams(int64_t stream);

    /**
     * What the pair's other end delivers.
     * @param packet an IP packet
     * @param protocol its EtherType
     */
    void Receive(Ptr<Packet> packet, uint16_t protocol);

    /**
     * Set the channel; NetemChannel::Attach does it.
     * @param channel the channel
     */
    void SetChannel(Ptr<NetemChannel> channel);

    void SetIfIndex(const uint32_t index) override;
    uint32_t GetIfIndex() const override;
    Ptr<Channel> GetChannel() const override;
    void SetAddress(Address address) override;
    Address GetAddress() const override;
    bool SetMtu(const uint16_t mtu) override;

    /**
     * The largest packet that the IP layer may hand over: a whole GSO packet.
     * @return 65535
     */
    uint16_t GetMtu() const override;

    /**
     * @return the largest IP packet on the wire, in bytes
     */
    uint16_t GetLinkMtu() const;
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
    void SetReceiveCallback(ReceiveCallback cb) override;
    void SetPromiscReceiveCallback(PromiscReceiveCallback cb) override;
    bool SupportsSendFrom() const override;

    /**
     * TracedCallback signature of sends and receptions.
     * @param packet the IP packet, maybe with a GsoTag
     * @param wireBytes its bytes on the wire
     */
    typedef void (*PacketTracedCallback)(Ptr<const Packet> packet, uint32_t wireBytes);

    /**
     * TracedCallback signature of drops.
     * @param packet the IP packet, maybe with a GsoTag
     * @param reason why it was dropped
     */
    typedef void (*DropTracedCallback)(Ptr<const Packet> packet, DropReason reason);

  protected:
    void DoDispose() override;

  private:
    /// A packet in the queue
    struct Queued
    {
        Time leaves;        //!< when it leaves
        Ptr<Packet> packet; //!< an IP packet
        uint16_t protocol;  //!< its EtherType
    };

    /**
     * Compute when a packet that arrives now leaves.
     * @param packet the packet
     * @return the time
     */
    Time GetDeparture(Ptr<const Packet> packet) const;

    /**
     * Mark a packet as having met congestion, if its IP header allows it.
     * @param packet an IPv4 packet
     * @param protocol its EtherType
     */
    static void MarkCongestion(Ptr<Packet> packet, uint16_t protocol);

    /// Drop what is queued, since the link is down.
    void Flush();

    /// Tell both ends of a change of the link.
    void LinkChanged();

    /// Have Deliver called when the first packet leaves.
    void ScheduleFirst();

    /// Give the other end all packets whose time has come.
    void Deliver();

    static Refusals m_refusals; //!< packets refused by all devices

    DataRate m_rate;         //!< rate; 0: no limit
    Time m_delay;            //!< delay
    Time m_jitter;           //!< half-width of the uniform distribution around the delay
    double m_loss;           //!< probability of a packet's loss
    uint32_t m_limit;        //!< most packets queued
    bool m_needsArp;         //!< the peer's hardware address has to be looked up
    uint32_t m_ecnThreshold; //!< mark packets that find as many in the queue; 0: none
    uint16_t m_mtu;          //!< largest IP packet on the wire
    bool m_up{true};         //!< this end is up

    std::deque<Queued> m_queue;                //!< packets by the time they leave
    Ptr<UniformRandomVariable> m_lossRandom;   //!< draws losses
    Ptr<UniformRandomVariable> m_jitterRandom; //!< draws jitter

    Ptr<NetemChannel> m_channel;      //!< the pair
    Ptr<Node> m_node;                 //!< the node
    Mac48Address m_address;           //!< link address
    uint32_t m_ifIndex{0};            //!< index in the node
    ReceiveCallback m_receive;        //!< where received packets go
    PromiscReceiveCallback m_promisc; //!< where all packets seen go
    TracedCallback<> m_linkChange;    //!< called on changes of the link

    TracedCallback<Ptr<const Packet>, uint32_t> m_sendTrace;    //!< packets that left
    TracedCallback<Ptr<const Packet>, uint32_t> m_receiveTrace; //!< packets received
    TracedCallback<Ptr<const Packet>, uint32_t> m_enqueueTrace; //!< packets handed over
    TracedCallback<Ptr<const Packet>, DropReason> m_dropTrace;  //!< packets dropped
};

} // namespace ns3

#endif // NETEM_DEVICE_H
