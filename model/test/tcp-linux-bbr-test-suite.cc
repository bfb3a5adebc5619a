/*
 * SPDX-License-Identifier: GPL-2.0-only
 */

#include "ns3/inet-socket-address.h"
#include "ns3/internet-stack-helper.h"
#include "ns3/ipv4-address-helper.h"
#include "ns3/netem-device.h"
#include "ns3/node.h"
#include "ns3/rng-seed-manager.h"
#include "ns3/simulator.h"
#include "ns3/string.h"
#include "ns3/tcp-bbr.h"
#include "ns3/tcp-linux-bbr.h"
#include "ns3/tcp-linux-reno.h"
#include "ns3/tcp-linux-socket-factory.h"
#include "ns3/tcp-linux-socket.h"
#include "ns3/test.h"

using namespace ns3;

namespace
{

/// A link with loss, and what crosses it
struct Crossing
{
    double rate;       //!< of the link, bit/s
    const char* delay; //!< of the link, each way
    const char* loss;  //!< share of packets
    uint32_t flows;    //!< connections
    double seconds;    //!< simulated
};

/**
 * @ingroup nvme-mptcp
 * @ingroup tests
 * BBR, ns-3's and Linux's, in TcpLinuxSocket, which sends packets of many segments, in the socket
 * that connects and in the one that is copied from a listening one. Loss that isn't congestion
 * doesn't slow BBR down, as it does Reno. With several flows on a link of little delay the
 * bandwidth-delay product of each is less than a GSO packet.
 */
class TcpLinuxBbrTest : public TestCase
{
  public:
    /**
     * @param congestion congestion control
     * @param accepted whether the socket that sends is the one that accepted the connection
     * @param crossing the link
     * @param low least share of the link's rate
     * @param high largest share
     */
    TcpLinuxBbrTest(TypeId congestion,
                    bool accepted,
                    const Crossing& crossing,
                    double low,
                    double high)
        : TestCase(congestion.GetName() + ", " + std::to_string(crossing.flows) + " at " +
                   crossing.loss + " of loss, " + (accepted ? "accepted" : "connected")),
          m_congestion(congestion),
          m_accepted(accepted),
          m_crossing(crossing),
          m_low(low),
          m_high(high)
    {
    }

  private:
    static constexpr uint32_t CHUNK = 1 << 16; //!< most bytes handed over at once

    void DoRun() override
    {
        RngSeedManager::SetSeed(1);
        RngSeedManager::SetRun(1);
        auto left = CreateObject<Node>();
        auto right = CreateObject<Node>();
        InternetStackHelper internet;
        internet.SetIpv6StackInstall(false);
        internet.Install(left);
        internet.Install(right);
        auto [a, b] = NetemNetDevice::Connect(left, right);
        NetDeviceContainer devices(a);
        devices.Add(b);
        for (const auto& device : {a, b})
        {
            device->SetAttribute("Rate", DataRateValue(DataRate(m_crossing.rate)));
            device->SetAttribute("Delay", StringValue(m_crossing.delay));
            device->SetAttribute("Loss", StringValue(m_crossing.loss));
        }
        Ipv4AddressHelper("10.0.1.0", "255.255.255.0").Assign(devices);

        auto listener = MakeSocket(right);
        listener->Bind(InetSocketAddress(Ipv4Address::GetAny(), 4420));
        listener->Listen();
        listener->SetAcceptCallback(MakeNullCallback<bool, Ptr<Socket>, const Address&>(),
                                    MakeCallback(&TcpLinuxBbrTest::Accepted, this));
        for (uint32_t flow = 0; flow < m_crossing.flows; flow++)
        {
            auto connector = MakeSocket(left);
            connector->Bind();
            Use(connector, !m_accepted);
            Simulator::ScheduleNow(
                [connector] { connector->Connect(InetSocketAddress("10.0.1.2", 4420)); });
        }
        Simulator::Stop(Seconds(m_crossing.seconds));
        Simulator::Run();
        const double share = m_received * 8 / m_crossing.seconds / m_crossing.rate;
        NS_TEST_EXPECT_MSG_GT(share, m_low, "too slow");
        NS_TEST_EXPECT_MSG_LT(share, m_high, "too fast");
        m_sockets.clear();
        Simulator::Destroy();
    }

    /**
     * Make a socket with the congestion control.
     * @param node its node
     * @return the socket
     */
    Ptr<Socket> MakeSocket(Ptr<Node> node) const
    {
        return TcpLinuxSocketFactory::Create(node, TcpLinuxSocket::GetTypeId(), m_congestion);
    }

    /**
     * Have a socket send, or receive.
     * @param socket the socket
     * @param sends whether it sends
     */
    void Use(Ptr<Socket> socket, bool sends)
    {
        m_sockets.push_back(socket);
        if (sends)
        {
            socket->SetConnectCallback(MakeCallback(&TcpLinuxBbrTest::Fill, this),
                                       MakeNullCallback<void, Ptr<Socket>>());
            socket->SetSendCallback(MakeCallback(&TcpLinuxBbrTest::FillMore, this));
        }
        else
        {
            socket->SetRecvCallback(MakeCallback(&TcpLinuxBbrTest::Receive, this));
        }
    }

    /**
     * Take a connection.
     * @param socket its socket
     */
    void Accepted(Ptr<Socket> socket, const Address& /* from */)
    {
        Use(socket, m_accepted);
        if (m_accepted)
        {
            Fill(socket);
        }
    }

    /**
     * Fill the send buffer.
     * @param socket the socket
     */
    void Fill(Ptr<Socket> socket)
    {
        while (const uint32_t room = std::min(socket->GetTxAvailable(), CHUNK))
        {
            if (socket->Send(Create<Packet>(room)) <= 0)
            {
                break;
            }
        }
    }

    /**
     * Fill the send buffer again.
     * @param socket the socket
     */
    void FillMore(Ptr<Socket> socket, uint32_t /* available */)
    {
        Fill(socket);
    }

    /**
     * Count what is received.
     * @param socket the socket
     */
    void Receive(Ptr<Socket> socket)
    {
        while (const auto packet = socket->Recv())
        {
            m_received += packet->GetSize();
        }
    }

    TypeId m_congestion;                //!< congestion control
    bool m_accepted;                    //!< the accepted socket sends
    Crossing m_crossing;                //!< the link
    double m_low;                       //!< least share
    double m_high;                      //!< largest share
    double m_received{0};               //!< bytes
    std::vector<Ptr<Socket>> m_sockets; //!< the connection's
};

/**
 * @ingroup nvme-mptcp
 * @ingroup tests
 * BBR in TcpLinuxSocket.
 */
class TcpLinuxBbrTestSuite : public TestSuite
{
  public:
    TcpLinuxBbrTestSuite()
        : TestSuite("tcp-linux-bbr", Type::SYSTEM)
    {
        const Crossing lone{50e6, "5ms", "0.01", 1, 4};
        const Crossing shared{1e9, "20us", "0.005", 9, 0.5};
        for (const bool accepted : {false, true})
        {
            for (const auto& congestion : {TcpBbr::GetTypeId(), TcpLinuxBbr::GetTypeId()})
            {
                AddTestCase(new TcpLinuxBbrTest(congestion, accepted, lone, 0.8, 1),
                            Duration::QUICK);
            }
            AddTestCase(new TcpLinuxBbrTest(TcpLinuxReno::GetTypeId(), accepted, lone, 0.1, 0.7),
                        Duration::QUICK);
            AddTestCase(new TcpLinuxBbrTest(TcpLinuxBbr::GetTypeId(), accepted, shared, 0.9, 1),
                        Duration::QUICK);
        }
    }
};

TcpLinuxBbrTestSuite g_tcpLinuxBbrTestSuite; //!< registers the suite

} // namespace
