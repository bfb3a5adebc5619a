/*
 * SPDX-License-Identifier: GPL-2.0-only
 */

#include "ns3/bonding-net-device.h"
#include "ns3/enum.h"
#include "ns3/internet-stack-helper.h"
#include "ns3/ipv4-address-helper.h"
#include "ns3/ipv4-header.h"
#include "ns3/ipv4-l3-protocol.h"
#include "ns3/ipv6-header.h"
#include "ns3/ipv6-l3-protocol.h"
#include "ns3/netem-device.h"
#include "ns3/node-container.h"
#include "ns3/node.h"
#include "ns3/simulator.h"
#include "ns3/string.h"
#include "ns3/tcp-linux-socket-factory.h"
#include "ns3/test.h"
#include "ns3/udp-header.h"
#include "ns3/udp-socket-factory.h"
#include "ns3/uinteger.h"

#include <algorithm>
#include <map>
#include <set>

using namespace ns3;

namespace
{

/**
 * @ingroup nvme-mptcp
 * @ingroup tests
 * The layer3+4 hash against Linux's.
 *
 * The slaves were read off the kernel's counters: Linux 7.3, four paths, mode balance-xor with
 * xmit_hash_policy layer3+4, which chooses as 802.3ad does; UDP from 10.0.100.1 to 10.0.100.2 and
 * from fd00:100::1 to fd00:100::2.
 */
class BondingHashTest : public TestCase
{
  public:
    BondingHashTest()
        : TestCase("layer3+4 chooses the slaves that Linux chooses")
    {
    }

  private:
    void DoRun() override
    {
        struct Flow
        {
            uint16_t source;      //!< port
            uint16_t destination; //!< port
            uint32_t slave;       //!< of four
        };

        const std::vector<Flow> flows{{40000, 4420, 1},
                                      {40001, 4420, 1},
                                      {40002, 4420, 0},
                                      {40003, 4420, 0},
                                      {40004, 4420, 3},
                                      {40006, 4420, 2},
                                      {40008, 4420, 1},
                                      {49153, 8009, 2},
                                      {50000, 4420, 2},
                                      {60999, 4421, 3},
                                      {33333, 4420, 0},
                                      {34567, 12345, 1}};
        for (const Flow& flow : flows)
        {
            UdpHeader udp;
            udp.SetSourcePort(flow.source);
            udp.SetDestinationPort(flow.destination);

            Ipv4Header ipv4;
            ipv4.SetSource("10.0.100.1");
            ipv4.SetDestination("10.0.100.2");
            ipv4.SetProtocol(17);
            auto packet = Create<Packet>(1000);
            packet->AddHeader(udp);
            packet->AddHeader(ipv4);
            const uint32_t hash4 = BondingNetDevice::GetHash(packet, Ipv4L3Protocol::PROT_NUMBER);
            NS_TEST_EXPECT_MSG_EQ(hash4 % 4, flow.slave, "IPv4, source port " << flow.source);

            Ipv6Header ipv6;
            ipv6.SetSource("fd00:100::1");
            ipv6.SetDestination("fd00:100::2");
            ipv6.SetNextHeader(17);
            packet = Create<Packet>(1000);
            packet->AddHeader(udp);
            packet->AddHeader(ipv6);
            const uint32_t hash6 = BondingNetDevice::GetHash(packet, Ipv6L3Protocol::PROT_NUMBER);
            NS_TEST_EXPECT_MSG_EQ(hash6 % 4, flow.slave, "IPv6, source port " << flow.source);
        }
    }
};

/**
 * @ingroup nvme-mptcp
 * @ingroup tests
 * Packets over four links, one of which fails and comes back.
 */
class BondingFailureTest : public TestCase
{
  public:
    /**
     * @param mode how slaves are chosen
     * @param name what is tested
     */
    BondingFailureTest(BondingNetDevice::Mode mode, const std::string& name)
        : TestCase(name),
          m_mode(mode)
    {
    }

  private:
    static constexpr std::size_t LINKS = 4;
    static constexpr uint32_t FLOWS = 16;

    void DoRun() override
    {
        auto host = CreateObject<Node>();
        auto target = CreateObject<Node>();
        InternetStackHelper internet;
        internet.SetIpv6StackInstall(false);
        internet.Install(host);
        internet.Install(target);
        auto sender = MakeBond(host);
        auto receiver = MakeBond(target);
        Ptr<NetemNetDevice> link;
        for (std::size_t i = 0; i < LINKS; i++)
        {
            auto [left, right] = NetemNetDevice::Connect(host, target);
            sender->AddSlave(left);
            receiver->AddSlave(right);
            link = left;
        }
        Ipv4AddressHelper addresses("10.0.100.0", "255.255.255.0");
        NetDeviceContainer devices(sender);
        devices.Add(receiver);
        addresses.Assign(devices);

        auto sink = Socket::CreateSocket(target, UdpSocketFactory::GetTypeId());
        sink->Bind(InetSocketAddress(Ipv4Address::GetAny(), 4420));
        sink->SetRecvCallback(MakeCallback(&BondingFailureTest::Receive, this));
        std::vector<Ptr<Socket>> flows;
        for (uint32_t i = 0; i < FLOWS; i++)
        {
            flows.push_back(Socket::CreateSocket(host, UdpSocketFactory::GetTypeId()));
            flows.back()->Bind(InetSocketAddress("10.0.100.1", 40000 + i));
            flows.back()->Connect(InetSocketAddress("10.0.100.2", 4420));
        }
        sender->TraceConnectWithoutContext("Send", MakeCallback(&BondingFailureTest::Sent, this));

        const auto sendAll = [&flows] {
            for (const auto& flow : flows)
            {
                flow->Send(Create<Packet>(1000));
            }
        };
        // all links; without the last; the link is back but was not looked at; with it again
        const Time back = MilliSeconds(550);
        const Time used = MilliSeconds(600) +
                          (m_mode == BondingNetDevice::IEEE_802_3AD ? Seconds(2) : Seconds(0));
        Simulator::Schedule(MilliSeconds(100), sendAll);
        Simulator::Schedule(MilliSeconds(300), [&link] { link->SetUp(false); });
        Simulator::Schedule(MilliSeconds(300) + NanoSeconds(1), sendAll);
        Simulator::Schedule(back, [&link] { link->SetUp(true); });
        Simulator::Schedule(used - NanoSeconds(1), sendAll);
        Simulator::Schedule(used + NanoSeconds(1), sendAll);
        Simulator::Run();

        const auto expect = [this](Time at, bool last) {
            NS_TEST_ASSERT_MSG_EQ(m_sent.count(at), 1, "nothing was sent at " << at.As(Time::MS));
            auto& counts = m_sent[at];
            uint32_t sum = 0;
            for (std::size_t i = 0; i < LINKS; i++)
            {
                sum += counts[i];
                const bool used = i < LINKS - 1 || last;
                NS_TEST_EXPECT_MSG_EQ((counts[i] > 0), used, "link " << i << at.As(Time::MS));
                if (m_mode == BondingNetDevice::BALANCE_RR && last)
                {
                    NS_TEST_EXPECT_MSG_EQ(counts[i], FLOWS / LINKS, "not one after the other");
                }
            }
            NS_TEST_EXPECT_MSG_EQ(sum, FLOWS, "packets lost in the device");
        };
        expect(MilliSeconds(100), true);
        expect(MilliSeconds(300) + NanoSeconds(1), false);
        expect(used - NanoSeconds(1), false);
        expect(used + NanoSeconds(1), true);
        NS_TEST_EXPECT_MSG_EQ(m_received, 4 * FLOWS, "packets lost");
        Simulator::Destroy();
    }

    /**
     * Make a bonding device.
     * @param node its node
     * @return the device, without slaves
     */
    Ptr<BondingNetDevice> MakeBond(Ptr<Node> node)
    {
        auto device = CreateObject<BondingNetDevice>();
        device->SetAttribute("Mode", EnumValue(m_mode));
        node->AddDevice(device);
        return device;
    }

    /**
     * Count what is sent.
     * @param packet a packet
     * @param slave the slave that sends it
     */
    void Sent(Ptr<const Packet> /* packet */, uint32_t slave)
    {
        m_sent[Simulator::Now()][slave]++;
    }

    /**
     * Count what is received.
     * @param socket the receiver
     */
    void Receive(Ptr<Socket> socket)
    {
        while (socket->Recv())
        {
            m_received++;
        }
    }

    BondingNetDevice::Mode m_mode;                          //!< how slaves are chosen
    std::map<Time, std::map<std::size_t, uint32_t>> m_sent; //!< packets by time and slave
    uint32_t m_received{0};                                 //!< packets received
};

/**
 * @ingroup nvme-mptcp
 * @ingroup tests
 * A TCP flow over links of 1 Gbit/s with LACP: segments fit the links, and all take the same one.
 */
class BondingTcpTest : public TestCase
{
  public:
    BondingTcpTest()
        : TestCase("TCP over 802.3ad")
    {
    }

  private:
    static constexpr uint32_t BYTES = 4'000'000;

    void DoRun() override
    {
        NodeContainer nodes(2);
        InternetStackHelper internet;
        internet.SetIpv6StackInstall(false);
        internet.Install(nodes);
        TcpLinuxSocketFactory::Install(nodes);
        NetDeviceContainer bonds;
        for (uint32_t i = 0; i < nodes.GetN(); i++)
        {
            auto bond = CreateObject<BondingNetDevice>();
            bond->SetAttribute("Mode", EnumValue(BondingNetDevice::IEEE_802_3AD));
            nodes.Get(i)->AddDevice(bond);
            bonds.Add(bond);
        }
        for (uint32_t i = 0; i < 2; i++)
        {
            auto [left, right] = NetemNetDevice::Connect(nodes.Get(0), nodes.Get(1));
            left->SetAttribute("Rate", StringValue("1Gbps"));
            DynamicCast<BondingNetDevice>(bonds.Get(0))->AddSlave(left);
            DynamicCast<BondingNetDevice>(bonds.Get(1))->AddSlave(right);
        }
        Ipv4AddressHelper("10.0.100.0", "255.255.255.0").Assign(bonds);
        bonds.Get(0)->TraceConnectWithoutContext("Send", MakeCallback(&BondingTcpTest::Sent, this));

        auto server = Socket::CreateSocket(nodes.Get(1), TcpLinuxSocketFactory::GetTypeId());
        server->Bind(InetSocketAddress(Ipv4Address::GetAny(), 4420));
        server->SetAcceptCallback(MakeNullCallback<bool, Ptr<Socket>, const Address&>(),
                                  MakeCallback(&BondingTcpTest::Accept, this));
        server->Listen();
        auto client = Socket::CreateSocket(nodes.Get(0), TcpLinuxSocketFactory::GetTypeId());
        client->SetSendCallback(MakeCallback(&BondingTcpTest::Write, this));
        client->SetConnectCallback(MakeCallback(&BondingTcpTest::Connected, this),
                                   MakeNullCallback<void, Ptr<Socket>>());
        client->Connect(InetSocketAddress("10.0.100.2", 4420));
        Simulator::Stop(Seconds(5));
        Simulator::Run();
        NS_TEST_EXPECT_MSG_EQ(m_received, BYTES, "all arrived");
        UintegerValue segment;
        client->GetAttribute("SegmentSize", segment);
        NS_TEST_EXPECT_MSG_EQ(segment.Get(), 1448, "as the links have it, not the device");
        NS_TEST_EXPECT_MSG_EQ(m_links.size(), 1, "no fragment went elsewhere");
        // 4 MB with their headers over 1 Gbit/s
        NS_TEST_EXPECT_MSG_GT(m_last, MilliSeconds(33), "no faster than a link");
        Simulator::Destroy();
    }

    void Connected(Ptr<Socket> client) ///< @param client the host's socket
    {
        Write(client, client->GetTxAvailable());
    }

    /**
     * @param client the host's socket
     * @param room in its send buffer, bytes
     */
    void Write(Ptr<Socket> client, uint32_t room)
    {
        while (const uint32_t bytes = std::min({room, BYTES - m_written, 60'000U}))
        {
            if (client->Send(Create<Packet>(bytes)) < 0)
            {
                return;
            }
            m_written += bytes;
            room = client->GetTxAvailable();
        }
    }

    /**
     * @param socket the target's
     * @param from the host's address
     */
    void Accept(Ptr<Socket> socket, const Address& /* from */)
    {
        socket->SetRecvCallback(MakeCallback(&BondingTcpTest::Receive, this));
    }

    void Receive(Ptr<Socket> socket) ///< @param socket the target's
    {
        while (auto packet = socket->Recv())
        {
            m_received += packet->GetSize();
            m_last = Simulator::Now();
        }
    }

    /**
     * @param packet what is sent
     * @param slave the slave that sends it
     */
    void Sent(Ptr<const Packet> packet, uint32_t slave)
    {
        if (packet->GetSize() > 1000)
        {
            m_links.insert(slave);
        }
    }

    uint32_t m_written{0};      //!< bytes given to TCP
    uint32_t m_received{0};     //!< bytes that arrived
    Time m_last;                //!< when the last ones did
    std::set<uint32_t> m_links; //!< that data was sent over
};

/**
 * @ingroup nvme-mptcp
 * @ingroup tests
 * BondingNetDevice.
 */
class BondingTestSuite : public TestSuite
{
  public:
    BondingTestSuite()
        : TestSuite("nvme-mptcp-bonding", Type::UNIT)
    {
        AddTestCase(new BondingHashTest, Duration::QUICK);
        AddTestCase(new BondingTcpTest, Duration::QUICK);
        AddTestCase(new BondingFailureTest(BondingNetDevice::BALANCE_RR,
                                           "balance-rr goes around a link that fails"),
                    Duration::QUICK);
        AddTestCase(new BondingFailureTest(BondingNetDevice::IEEE_802_3AD,
                                           "802.3ad goes around a link that fails"),
                    Duration::QUICK);
    }
};

BondingTestSuite g_bondingTestSuite; //!< registers the suite

} // namespace
