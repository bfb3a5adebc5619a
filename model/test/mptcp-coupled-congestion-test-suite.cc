/*
 * SPDX-License-Identifier: GPL-2.0-only
 */

#include "ns3/bulk-send-application.h"
#include "ns3/bulk-send-helper.h"
#include "ns3/config.h"
#include "ns3/data-rate.h"
#include "ns3/inet-socket-address.h"
#include "ns3/internet-stack-helper.h"
#include "ns3/ipv4-address-helper.h"
#include "ns3/mptcp-coupled-congestion.h"
#include "ns3/netem-device.h"
#include "ns3/node.h"
#include "ns3/packet-sink-helper.h"
#include "ns3/packet-sink.h"
#include "ns3/rng-seed-manager.h"
#include "ns3/simulator.h"
#include "ns3/string.h"
#include "ns3/tcp-l4-protocol.h"
#include "ns3/tcp-socket-base.h"
#include "ns3/tcp-socket-factory.h"
#include "ns3/test.h"
#include "ns3/uinteger.h"

#include <cmath>

using namespace ns3;

namespace
{

constexpr uint32_t SEGMENT = 1000; //!< bytes of a segment

/// A subflow, as its congestion control sees it
struct Subflow
{
    /**
     * @tparam T its congestion control
     * @param type an object of T
     * @param window congestion window in segments
     * @param rtt round-trip time
     * @param acked segments acknowledged so far
     */
    template <typename T>
    Subflow(Ptr<T> type, uint32_t window, Time rtt, uint32_t acked = 1)
        : congestion(type),
          tcb(CreateObject<TcpSocketState>())
    {
        tcb->m_segmentSize = SEGMENT;
        tcb->m_cWnd = window * SEGMENT;
        tcb->m_ssThresh = SEGMENT; // congestion avoidance
        tcb->m_srtt = rtt;
        type->PktsAcked(tcb, acked, rtt);
    }

    /**
     * Acknowledge segments.
     * @param segments how many
     * @return by how many segments the window grew
     */
    double Acknowledge(uint32_t segments)
    {
        const double before = tcb->m_cWnd.Get();
        for (uint32_t i = 0; i < segments; i++)
        {
            congestion->IncreaseWindow(tcb, 1);
        }
        return (tcb->m_cWnd.Get() - before) / SEGMENT;
    }

    Ptr<MptcpCoupledCongestion> congestion; //!< its congestion control
    Ptr<TcpSocketState> tcb;                //!< its state
};

/**
 * @ingroup nvme-mptcp
 * @ingroup tests
 * RFC 6356's alpha and what follows from it.
 */
class MptcpLiaTest : public TestCase
{
  public:
    MptcpLiaTest()
        : TestCase("LIA: alpha and increase are those of RFC 6356")
    {
    }

  private:
    void DoRun() override
    {
        constexpr double EXACT = 1e-9;
        auto group = Create<MptcpCoupledGroup>();

        // alone, a subflow is a TCP flow
        Subflow fast(CreateObject<MptcpLia>(), 10, MilliSeconds(10));
        group->Add(fast.congestion);
        NS_TEST_EXPECT_MSG_EQ_TOL(MptcpLia::GetAlpha(group->GetActive()), 1, EXACT, "alone");
        NS_TEST_EXPECT_MSG_EQ(fast.Acknowledge(9), 0, "grew too fast alone");
        NS_TEST_EXPECT_MSG_EQ(fast.Acknowledge(2), 1, "didn't grow alone");

        // 10 segments at 10 ms and 20 at 40 ms: 30 * (10/0.01²) / (10/0.01 + 20/0.04)²
        fast.tcb->m_cWnd = 10 * SEGMENT;
        Subflow slow(CreateObject<MptcpLia>(), 20, MilliSeconds(40));
        group->Add(slow.congestion);
        NS_TEST_EXPECT_MSG_EQ_TOL(MptcpLia::GetAlpha(group->GetActive()),
                                  4.0 / 3,
                                  EXACT,
                                  "two unequal subflows");
        // alpha/30 of a segment for each: the window of 20 takes 23 acknowledgments, not 20
        NS_TEST_EXPECT_MSG_EQ(slow.Acknowledge(22), 0, "grew too fast");
        NS_TEST_EXPECT_MSG_EQ(slow.Acknowledge(1), 1, "grew too slowly");

        // never faster than TCP: alpha/total is 1/2.05 here, but a window of 4 grows by 1/4
        fast.tcb->m_cWnd = 4 * SEGMENT;
        fast.tcb->m_srtt = MilliSeconds(60);
        slow.tcb->m_cWnd = 2 * SEGMENT;
        slow.tcb->m_srtt = MilliSeconds(1);
        NS_TEST_EXPECT_MSG_EQ(fast.Acknowledge(3), 0, "grew faster than TCP");

        // n equal subflows: alpha is 1/n
        group->Remove(fast.congestion);
        group->Remove(slow.congestion);
        std::vector<Subflow> equal;
        for (int i = 0; i < 4; i++)
        {
            equal.emplace_back(CreateObject<MptcpLia>(), 25, MilliSeconds(20));
            group->Add(equal.back().congestion);
        }
        NS_TEST_EXPECT_MSG_EQ_TOL(MptcpLia::GetAlpha(group->GetActive()), 0.25, EXACT, "four");

        // slow start isn't coupled; in recovery the window to come counts; who is gone, doesn't
        equal[0].tcb->m_ssThresh = 100 * SEGMENT;
        NS_TEST_EXPECT_MSG_EQ(equal[0].Acknowledge(5), 5, "slow start");
        equal[0].tcb->m_congState = TcpSocketState::CA_RECOVERY;
        NS_TEST_EXPECT_MSG_EQ(equal[0].congestion->GetWindow(), 100, "recovery");
        equal.pop_back();
        NS_TEST_EXPECT_MSG_EQ(group->GetActive().size(), 3, "a subflow that is gone counts");
    }
};

/**
 * @ingroup nvme-mptcp
 * @ingroup tests
 * OLIA's alpha and what follows from it.
 */
class MptcpOliaTest : public TestCase
{
  public:
    MptcpOliaTest()
        : TestCase("OLIA: traffic moves to good paths with small windows")
    {
    }

  private:
    void DoRun() override
    {
        constexpr double EXACT = 1e-9;
        auto group = Create<MptcpCoupledGroup>();
        const auto alpha = [&group](const Subflow& subflow) {
            return DynamicCast<MptcpOlia>(subflow.congestion)->GetAlpha(group->GetActive());
        };
        // the first has gone without loss for longest, but a small window
        std::vector<Subflow> subflows;
        subflows.emplace_back(CreateObject<MptcpOlia>(), 10, MilliSeconds(10), 1000);
        subflows.emplace_back(CreateObject<MptcpOlia>(), 20, MilliSeconds(10), 500);
        subflows.emplace_back(CreateObject<MptcpOlia>(), 20, MilliSeconds(10), 100);
        subflows.emplace_back(CreateObject<MptcpOlia>(), 5, MilliSeconds(10), 10);
        for (auto& subflow : subflows)
        {
            group->Add(subflow.congestion);
        }
        NS_TEST_EXPECT_MSG_EQ_TOL(alpha(subflows[0]), 1.0 / 4, EXACT, "best path, small window");
        NS_TEST_EXPECT_MSG_EQ_TOL(alpha(subflows[1]), -1.0 / 8, EXACT, "largest window");
        NS_TEST_EXPECT_MSG_EQ_TOL(alpha(subflows[2]), -1.0 / 8, EXACT, "largest window");
        NS_TEST_EXPECT_MSG_EQ_TOL(alpha(subflows[3]), 0, EXACT, "neither");

        // each acknowledgment on the first: (10/rtt²) / (55/rtt)² + alpha/10 = 0.0283
        NS_TEST_EXPECT_MSG_EQ(subflows[0].Acknowledge(35), 0, "grew too fast");
        NS_TEST_EXPECT_MSG_EQ(subflows[0].Acknowledge(1), 1, "grew too slowly");

        // a loss: what lies between two of them still counts, the longer of both
        subflows[0].congestion->CongestionStateSet(subflows[0].tcb, TcpSocketState::CA_RECOVERY);
        NS_TEST_EXPECT_MSG_EQ_TOL(alpha(subflows[0]), 1.0 / 4, EXACT, "after a loss");
        subflows[0].congestion->PktsAcked(subflows[0].tcb, 10, MilliSeconds(10));
        subflows[0].congestion->CongestionStateSet(subflows[0].tcb, TcpSocketState::CA_RECOVERY);
        NS_TEST_EXPECT_MSG_EQ_TOL(alpha(subflows[0]), 0, EXACT, "after two losses");
        NS_TEST_EXPECT_MSG_EQ_TOL(alpha(subflows[1]),
                                  0,
                                  EXACT,
                                  "the best path has the largest window");

        // half the round-trip time makes a path four times as good
        subflows[2].tcb->m_srtt = MilliSeconds(3);
        subflows[2].tcb->m_cWnd = 19 * SEGMENT;
        NS_TEST_EXPECT_MSG_EQ_TOL(alpha(subflows[2]), 1.0 / 4, EXACT, "short round trips");

        // a window may shrink, but not below one segment
        subflows[1].tcb->m_cWnd = 100 * SEGMENT;
        subflows[1].tcb->m_srtt = Seconds(10);
        const double shrunk = subflows[1].Acknowledge(2000);
        NS_TEST_EXPECT_MSG_LT(shrunk, 0, "the largest window doesn't shrink");
        NS_TEST_EXPECT_MSG_GT_OR_EQ(subflows[1].tcb->m_cWnd.Get(), SEGMENT, "no window left");
    }
};

/**
 * @ingroup nvme-mptcp
 * @ingroup tests
 * Two subflows and a TCP flow share a link. Uncoupled, the connection has two thirds of it; LIA and
 * OLIA are made to take no more than TCP does (RFC 6356 §2).
 */
class MptcpCoupledFairnessTest : public TestCase
{
  public:
    /**
     * @param type congestion control of the subflows
     * @param low least share of the link that they may get together
     * @param high largest share
     */
    MptcpCoupledFairnessTest(const std::string& type, double low, double high)
        : TestCase("share of a link that two subflows and a TCP flow use: " + type),
          m_type(type),
          m_low(low),
          m_high(high)
    {
    }

  private:
    void DoRun() override
    {
        RngSeedManager::SetSeed(1);
        RngSeedManager::SetRun(1);
        Config::SetDefault("ns3::TcpSocket::SegmentSize", UintegerValue(1448));
        Config::SetDefault("ns3::TcpSocket::SndBufSize", UintegerValue(1 << 20));
        Config::SetDefault("ns3::TcpSocket::RcvBufSize", UintegerValue(1 << 20));
        auto host = CreateObject<Node>();
        auto target = CreateObject<Node>();
        InternetStackHelper internet;
        internet.SetIpv6StackInstall(false);
        internet.Install(host);
        internet.Install(target);
        auto [left, right] = NetemNetDevice::Connect(host, target);
        left->SetAttribute("Rate", StringValue("10Mbps"));
        left->SetAttribute("Delay", StringValue("10ms"));
        left->SetAttribute("Loss", StringValue("0.0005"));
        left->SetAttribute("Limit", UintegerValue(30));
        right->SetAttribute("Delay", StringValue("10ms"));
        NetDeviceContainer devices(left);
        devices.Add(right);
        Ipv4AddressHelper addresses("10.0.1.0", "255.255.255.0");
        addresses.Assign(devices);

        const InetSocketAddress address("10.0.1.2", 4420);
        auto sink = PacketSinkHelper("ns3::TcpSocketFactory", address).Install(target);
        sink.Get(0)->TraceConnectWithoutContext(
            "RxWithAddresses",
            MakeCallback(&MptcpCoupledFairnessTest::Received, this));
        auto group = Create<MptcpCoupledGroup>();
        for (uint32_t i = 0; i < 3; i++)
        {
            BulkSendHelper sender("ns3::TcpSocketFactory", address);
            sender.SetAttribute("MaxBytes", UintegerValue(0));
            sender.SetAttribute("Local", AddressValue(InetSocketAddress("10.0.1.1", 1000 + i)));
            auto application = DynamicCast<BulkSendApplication>(sender.Install(host).Get(0));
            Simulator::Schedule(MilliSeconds(1) * (i + 1), [this, application, group, i] {
                auto socket = DynamicCast<TcpSocketBase>(application->GetSocket());
                ObjectFactory factory(i < 2 ? m_type : "ns3::TcpLinuxReno");
                auto congestion = factory.Create<TcpCongestionOps>();
                socket->SetCongestionControlAlgorithm(congestion);
                group->Add(congestion);
            });
        }
        Simulator::Stop(Seconds(60));
        Simulator::Run();
        const double coupled = m_received[1000] + m_received[1001];
        const double share = coupled / (coupled + m_received[1002]);
        NS_TEST_EXPECT_MSG_GT(m_received[1000], 0, "no data of the first subflow");
        NS_TEST_EXPECT_MSG_GT(m_received[1001], 0, "no data of the second subflow");
        NS_TEST_EXPECT_MSG_GT(share, m_low, "the subflows get too little");
        NS_TEST_EXPECT_MSG_LT(share, m_high, "the subflows get too much");
        Simulator::Destroy();
        Config::Reset();
    }

    /**
     * Count what is received.
     * @param packet the packet
     * @param from the sender
     */
    void Received(Ptr<const Packet> packet, const Address& from, const Address& /* to */)
    {
        m_received[InetSocketAddress::ConvertFrom(from).GetPort()] += packet->GetSize();
    }

    std::string m_type;                    //!< congestion control of the subflows
    double m_low;                          //!< least share
    double m_high;                         //!< largest share
    std::map<uint16_t, double> m_received; //!< bytes by the sender's port
};

/**
 * @ingroup nvme-mptcp
 * @ingroup tests
 * LIA and OLIA.
 */
class MptcpCoupledCongestionTestSuite : public TestSuite
{
  public:
    MptcpCoupledCongestionTestSuite()
        : TestSuite("mptcp-coupled-congestion", Type::UNIT)
    {
        AddTestCase(new MptcpLiaTest, Duration::QUICK);
        AddTestCase(new MptcpOliaTest, Duration::QUICK);
        AddTestCase(new MptcpCoupledFairnessTest("ns3::TcpLinuxReno", 0.6, 0.74), Duration::QUICK);
        AddTestCase(new MptcpCoupledFairnessTest("ns3::MptcpLia", 0.36, 0.55), Duration::QUICK);
        AddTestCase(new MptcpCoupledFairnessTest("ns3::MptcpOlia", 0.36, 0.55), Duration::QUICK);
    }
};

MptcpCoupledCongestionTestSuite g_mptcpCoupledCongestionTestSuite; //!< registers the suite

} // namespace
