/*
 * SPDX-License-Identifier: GPL-2.0-only
 */

// NetemNetDevice, TcpLinuxSocket and its parts.

#include "ns3/boolean.h"
#include "ns3/double.h"
#include "ns3/gso-tag.h"
#include "ns3/internet-stack-helper.h"
#include "ns3/ipv4-address-helper.h"
#include "ns3/ipv4-header.h"
#include "ns3/ipv4-interface.h"
#include "ns3/ipv4-l3-protocol.h"
#include "ns3/net-device-container.h"
#include "ns3/netem-device.h"
#include "ns3/node-container.h"
#include "ns3/node.h"
#include "ns3/object-factory.h"
#include "ns3/simulator.h"
#include "ns3/string.h"
#include "ns3/tcp-congestion-ops.h"
#include "ns3/tcp-flow-table.h"
#include "ns3/tcp-header.h"
#include "ns3/tcp-linux-cubic.h"
#include "ns3/tcp-linux-receive-queue.h"
#include "ns3/tcp-linux-send-queue.h"
#include "ns3/tcp-linux-socket-factory.h"
#include "ns3/tcp-linux-socket.h"
#include "ns3/tcp-option-rfc793.h"
#include "ns3/test.h"
#include "ns3/uinteger.h"

#include <cmath>
#include <map>
#include <vector>

using namespace ns3;

namespace
{

constexpr uint32_t MSS = 1448;

/**
 * @ingroup nvme-mptcp
 * @defgroup nvme-mptcp-test Tests of nvme-mptcp
 */

/**
 * @ingroup nvme-mptcp-test
 * Departure times of NetemNetDevice against figures worked out by hand from netem's rules.
 */
class NetemTimesTest : public TestCase
{
  public:
    NetemTimesTest()
        : TestCase("netem: departure times, to the nanosecond")
    {
    }

  private:
    void DoRun() override;

    /**
     * Make a link and note when packets arrive.
     * @param rate bits per second, 0: no limit
     * @param delay the delay
     */
    void Build(uint64_t rate, Time delay);

    /**
     * Send a packet.
     * @param at when
     * @param size bytes of the packet, or of payload if it has a GsoTag
     * @param gso whether it is a GSO packet
     */
    void Send(Time at, uint32_t size, bool gso = false);

    /**
     * Run, and compare.
     * @param expected arrivals in ns
     * @param what what is tested
     */
    void Expect(const std::vector<int64_t>& expected, const std::string& what);

    Ptr<NetemNetDevice> m_device;    //!< sends
    std::vector<int64_t> m_arrivals; //!< in ns
    uint32_t m_drops{0};             //!< packets dropped
};

void
NetemTimesTest::Build(uint64_t rate, Time delay)
{
    auto [a, b] = NetemNetDevice::Connect(CreateObject<Node>(), CreateObject<Node>());
    a->SetAttribute("Rate", DataRateValue(DataRate(rate)));
    a->SetAttribute("Delay", TimeValue(delay));
    b->SetReceiveCallback([this](Ptr<NetDevice>, Ptr<const Packet>, uint16_t, const Address&) {
        m_arrivals.push_back(Simulator::Now().GetNanoSeconds());
        return true;
    });
    a->TraceConnectWithoutContext(
        "Drop",
        Callback<void, Ptr<const Packet>, NetemNetDevice::DropReason>(
            [this](Ptr<const Packet>, NetemNetDevice::DropReason) { ++m_drops; }));
    m_device = a;
}

void
NetemTimesTest::Send(Time at, uint32_t size, bool gso)
{
    Simulator::ScheduleWithContext(m_device->GetNode()->GetId(), at, [this, size, gso]() {
        auto packet = Create<Packet>(gso ? size + 52 : size);
        if (gso)
        {
            packet->AddPacketTag(GsoTag(size, MSS, 52));
        }
        m_device->Send(packet, Mac48Address(), Ipv4L3Protocol::PROT_NUMBER);
    });
}

void
NetemTimesTest::Expect(const std::vector<int64_t>& expected, const std::string& what)
{
    Simulator::Run();
    NS_TEST_EXPECT_MSG_EQ(m_arrivals.size(), expected.size(), what << ": packets");
    for (std::size_t i = 0; i < std::min(expected.size(), m_arrivals.size()); ++i)
    {
        NS_TEST_EXPECT_MSG_EQ(m_arrivals[i], expected[i], what << ": packet " << i);
    }
    Simulator::Destroy();
    m_device = nullptr;
    m_arrivals.clear();
    m_drops = 0;
}

void
NetemTimesTest::DoRun()
{
    // 1000 bytes and an Ethernet header at 125 000 000 bytes/s take 8112 ns
    Build(1000000000, MilliSeconds(5));
    Send(Time(0), 1000);
    Send(Time(0), 1000);
    Send(MilliSeconds(1), 1000); // the queue's delay is part of the delay
    Expect({5008112, 5016224, 6008112}, "rate and delay");

    // 1014 bytes at 875 000 bytes/s take 1158857.14 ns: the fraction is cut for each packet
    Build(7000000, Time(0));
    Send(Time(0), 1000);
    Send(Time(0), 1000);
    Expect({1158857, 2317714}, "odd rate");

    // no rate: the delay alone
    Build(0, MicroSeconds(250));
    Send(Time(0), 1000);
    Send(Time(0), 60000, true);
    Expect({250000, 250000}, "delay alone");

    // ten segments have ten headers: 14480 + 10 x (52 + 14) = 15140 bytes
    Build(1000000000, Time(0));
    Send(Time(0), 10 * MSS, true);
    Send(Time(0), 10 * MSS + 1, true); // eleven: 15207 bytes
    Expect({121120, 242776}, "GSO packets");

    // a full queue drops; a GSO packet is one
    Build(1000000000, MilliSeconds(5));
    m_device->SetAttribute("Limit", UintegerValue(2));
    for (int i = 0; i < 4; ++i)
    {
        Send(Time(0), 10 * MSS, true);
    }
    Simulator::Schedule(MilliSeconds(1), [this]() {
        NS_TEST_EXPECT_MSG_EQ(m_drops, 2, "packets beyond the limit");
        NS_TEST_EXPECT_MSG_EQ(m_device->GetQueueLength(), 2, "packets queued");
    });
    Expect({5121120, 5242240}, "limit");

    // what is queued keeps its time when the delay changes
    Build(0, MilliSeconds(5));
    Send(Time(0), 1000);
    Simulator::Schedule(MilliSeconds(1),
                        [this]() { m_device->SetAttribute("Delay", TimeValue(MilliSeconds(1))); });
    Send(MilliSeconds(2), 1000);
    Expect({3000000, 5000000}, "change of delay");

    // a link that goes down forgets its queue
    Build(0, MilliSeconds(5));
    Send(Time(0), 1000);
    Simulator::Schedule(MilliSeconds(1), [this]() { m_device->SetUp(false); });
    Send(MilliSeconds(2), 1000);
    Simulator::Schedule(MilliSeconds(3), [this]() {
        NS_TEST_EXPECT_MSG_EQ(m_drops, 2, "packets dropped by a link that is down");
        m_device->SetUp(true);
    });
    Send(MilliSeconds(4), 1000);
    Expect({9000000}, "down and up");
}

/**
 * @ingroup nvme-mptcp-test
 * Random loss and jitter of NetemNetDevice, and its congestion marks.
 */
class NetemRandomTest : public TestCase
{
  public:
    NetemRandomTest()
        : TestCase("netem: loss, jitter, marks")
    {
    }

  private:
    void DoRun() override;
};

void
NetemRandomTest::DoRun()
{
    constexpr int COUNT = 20000;
    auto [a, b] = NetemNetDevice::Connect(CreateObject<Node>(), CreateObject<Node>());
    a->AssignStreams(1);
    a->SetAttribute("Loss", DoubleValue(0.1));
    a->SetAttribute("Delay", TimeValue(MilliSeconds(5)));
    a->SetAttribute("Jitter", TimeValue(MilliSeconds(1)));
    a->SetAttribute("Limit", UintegerValue(COUNT));
    a->SetAttribute("EcnThreshold", UintegerValue(COUNT / 2));
    std::vector<Time> arrivals;
    int marked = 0;
    b->SetReceiveCallback([&](Ptr<NetDevice>, Ptr<const Packet> packet, uint16_t, const Address&) {
        Ipv4Header header;
        packet->PeekHeader(header);
        marked += header.GetEcn() == Ipv4Header::ECN_CE;
        arrivals.push_back(Simulator::Now());
        return true;
    });
    for (int i = 0; i < COUNT; ++i)
    {
        auto packet = Create<Packet>(100);
        Ipv4Header header;
        header.SetPayloadSize(100);
        header.SetEcn(i % 2 ? Ipv4Header::ECN_ECT0 : Ipv4Header::ECN_NotECT);
        packet->AddHeader(header);
        a->Send(packet, Mac48Address(), Ipv4L3Protocol::PROT_NUMBER);
    }
    Simulator::Run();
    // three standard deviations of a binomial distribution
    double deviation = 3 * std::sqrt(COUNT * 0.1 * 0.9);
    NS_TEST_EXPECT_MSG_EQ_TOL(arrivals.size(), COUNT * 0.9, deviation, "packets that arrived");
    Time sum;
    for (auto at : arrivals)
    {
        sum += at;
        NS_TEST_EXPECT_MSG_GT_OR_EQ(at, MilliSeconds(4), "earlier than delay - jitter");
        NS_TEST_EXPECT_MSG_LT(at, MilliSeconds(6), "later than delay + jitter");
    }
    double mean = sum.GetSeconds() / arrivals.size();
    NS_TEST_EXPECT_MSG_EQ_TOL(mean, 0.005, 3 * 0.001 / std::sqrt(3.0 * arrivals.size()), "mean");
    // those that found 10000 packets queued: 8000 of 18000, half of them can be marked
    NS_TEST_EXPECT_MSG_EQ_TOL(marked, COUNT * 0.2, deviation, "packets marked");
    Simulator::Destroy();
}

/**
 * @ingroup nvme-mptcp-test
 * TcpLinuxCubic against the formulas of RFC 9438.
 */
class CubicTest : public TestCase
{
  public:
    CubicTest()
        : TestCase("CUBIC: window against RFC 9438")
    {
    }

  private:
    void DoRun() override;

    /**
     * Acknowledge whole windows.
     * @param rtt round-trip time
     * @param until when to stop
     */
    void Grow(Time rtt, Time until);

    Ptr<TcpSocketState> m_tcb;  //!< the connection's state
    Ptr<TcpLinuxCubic> m_cubic; //!< the algorithm
};

void
CubicTest::Grow(Time rtt, Time until)
{
    // ten ACKs a round trip
    double due = 0;
    for (Time at = rtt / 10; at < until; at += rtt / 10)
    {
        Simulator::Schedule(at, [this, rtt, &due]() {
            due += m_tcb->GetCwndInSegments() / 10.0;
            auto acked = static_cast<uint32_t>(due);
            due -= acked;
            m_cubic->PktsAcked(m_tcb, acked, rtt);
            m_cubic->IncreaseWindow(m_tcb, acked);
        });
    }
    Simulator::Stop(until);
    Simulator::Run();
}

void
CubicTest::DoRun()
{
    constexpr double C = 0.4;
    constexpr double BETA = 0.7;
    Time rtt = MilliSeconds(100);
    for (uint32_t window : {100U, 1000U, 5000U})
    {
        for (int seconds : {2, 5, 9})
        {
            m_tcb = CreateObject<TcpSocketState>();
            m_tcb->m_segmentSize = MSS;
            m_tcb->m_cWnd = window * MSS;
            m_cubic = CreateObject<TcpLinuxCubic>();
            m_cubic->SetAttribute("TcpFriendliness", BooleanValue(false));
            m_cubic->Init(m_tcb);
            m_tcb->m_ssThresh = m_cubic->GetSsThresh(m_tcb, window * MSS);
            NS_TEST_EXPECT_MSG_EQ_TOL(m_tcb->GetSsThreshInSegments(),
                                      window * BETA,
                                      1,
                                      "threshold");
            m_tcb->m_cWnd = m_tcb->m_ssThresh.Get();
            Grow(rtt, Seconds(seconds));
            double k = std::cbrt(window * (1 - BETA) / C);
            double expected = C * std::pow(seconds - k, 3) + window;
            NS_TEST_EXPECT_MSG_EQ_TOL(m_tcb->GetCwndInSegments(),
                                      expected,
                                      0.02 * expected + 2,
                                      "window " << window << " after " << seconds << " s");
            Simulator::Destroy();
        }
    }

    // short round trips: the Reno-friendly window, 3 (1 - beta) / (1 + beta) packets a round trip
    constexpr uint32_t SMALL = 40;
    m_tcb = CreateObject<TcpSocketState>();
    m_tcb->m_segmentSize = MSS;
    m_tcb->m_cWnd = SMALL * MSS;
    m_cubic = CreateObject<TcpLinuxCubic>();
    m_cubic->Init(m_tcb);
    m_tcb->m_ssThresh = m_cubic->GetSsThresh(m_tcb, SMALL * MSS);
    m_tcb->m_cWnd = m_tcb->m_ssThresh.Get();
    uint32_t before = m_tcb->GetCwndInSegments();
    Grow(MilliSeconds(10), MilliSeconds(400)); // 40 round trips
    double grown = 40 * 3 * (1 - BETA) / (1 + BETA);
    NS_TEST_EXPECT_MSG_EQ_TOL(m_tcb->GetCwndInSegments(),
                              before + grown,
                              0.15 * grown + 1,
                              "Reno-friendly window");

    Simulator::Destroy();

    // fast convergence: after a loss at 900 packets that follows one at 1000 the plateau is not
    // 900, but (1 + beta) / 2 of it
    m_tcb = CreateObject<TcpSocketState>();
    m_tcb->m_segmentSize = MSS;
    m_tcb->m_cWnd = 1000 * MSS;
    m_cubic = CreateObject<TcpLinuxCubic>();
    m_cubic->SetAttribute("TcpFriendliness", BooleanValue(false));
    m_cubic->Init(m_tcb);
    m_cubic->GetSsThresh(m_tcb, 0);
    m_tcb->m_cWnd = 900 * MSS;
    m_tcb->m_ssThresh = m_cubic->GetSsThresh(m_tcb, 0);
    m_tcb->m_cWnd = m_tcb->m_ssThresh.Get();
    double plateau = 900 * (1 + BETA) / 2;
    Grow(rtt, Seconds(std::cbrt((plateau - 900 * BETA) / C)));
    NS_TEST_EXPECT_MSG_EQ_TOL(m_tcb->GetCwndInSegments(), plateau, 0.02 * plateau, "plateau");
    Simulator::Destroy();
    m_cubic = nullptr;
    m_tcb = nullptr;
}

/**
 * @ingroup nvme-mptcp-test
 * Two nodes, a link, a connection.
 */
class Connection
{
  public:
    /**
     * @param delay one-way delay
     * @param rate rate in bits per second
     */
    Connection(Time delay, uint64_t rate);
    ~Connection();

    /**
     * Write bytes as soon as there is room, whenever there is.
     * @param bytes the bytes, from the client to the server
     * @param piece size of the pieces
     */
    void Write(std::vector<uint8_t> bytes, uint32_t piece);

    /**
     * The same with zero bytes, of which the server only counts what it receives.
     * @param size number of bytes
     * @param piece size of the pieces
     */
    void WriteZeros(uint64_t size, uint32_t piece);

    /// Begin: connect at 1 ms.
    void Start();

    NodeContainer nodes;           //!< client, server
    Ptr<NetemNetDevice> out;       //!< the client's device
    Ptr<NetemNetDevice> back;      //!< the server's device
    Ptr<TcpLinuxSocket> client;    //!< sends
    Ptr<TcpLinuxSocket> server;    //!< receives, once it is accepted
    Ptr<Socket> listener;          //!< accepts
    bool keep{true};               //!< whether what is received is kept
    uint64_t count{0};             //!< bytes received by the server
    std::vector<uint8_t> received; //!< the same, if they are kept
    Time lastReceived;             //!< when the server got something last
    bool clientClosed{false};      //!< the client was told of the end
    bool serverClosed{false};      //!< the server was told of the end
    bool failed{false};            //!< either was told of an error

  private:
    /// Hand over what fits.
    void Pump();

    std::vector<uint8_t> m_bytes; //!< to be written, empty: zeros
    uint64_t m_size{0};           //!< number of bytes to be written
    uint64_t m_written{0};        //!< bytes handed over
    uint32_t m_piece{1};          //!< size of the pieces
};

Connection::Connection(Time delay, uint64_t rate)
    : nodes(2)
{
    InternetStackHelper().Install(nodes);
    TcpLinuxSocketFactory::Install(nodes);
    std::tie(out, back) = NetemNetDevice::Connect(nodes.Get(0), nodes.Get(1));
    int64_t stream = 1;
    for (const auto& device : {out, back})
    {
        device->SetAttribute("Delay", TimeValue(delay));
        device->SetAttribute("Rate", DataRateValue(DataRate(rate)));
        device->SetAttribute("Limit", UintegerValue(100000));
        stream += device->AssignStreams(stream);
    }
    Ipv4AddressHelper("10.0.1.0", "255.255.255.0")
        .Assign(NetDeviceContainer(NetDeviceContainer(out), NetDeviceContainer(back)));
    auto type = TcpLinuxSocketFactory::GetTypeId();
    client = DynamicCast<TcpLinuxSocket>(Socket::CreateSocket(nodes.Get(0), type));
    listener = Socket::CreateSocket(nodes.Get(1), type);
}

Connection::~Connection()
{
    Simulator::Destroy();
}

void
Connection::Write(std::vector<uint8_t> bytes, uint32_t piece)
{
    m_bytes = std::move(bytes);
    m_size = m_bytes.size();
    m_piece = piece;
}

void
Connection::WriteZeros(uint64_t size, uint32_t piece)
{
    m_size = size;
    m_piece = piece;
    keep = false;
}

void
Connection::Pump()
{
    // as a non-blocking sendmsg(): what has no room waits
    while (m_written < m_size)
    {
        auto room = static_cast<uint64_t>(client->GetTxAvailable());
        uint64_t size = std::min<uint64_t>({m_piece, m_size - m_written, room});
        if (size == 0)
        {
            return;
        }
        client->Send(m_bytes.empty() ? Create<Packet>(size)
                                     : Create<Packet>(m_bytes.data() + m_written, size),
                     0);
        m_written += size;
    }
}

void
Connection::Start()
{
    listener->Bind(InetSocketAddress(Ipv4Address::GetAny(), 4420));
    listener->Listen();
    listener->SetAcceptCallback(
        [](Ptr<Socket>, const Address&) { return true; },
        [this](Ptr<Socket> socket, const Address&) {
            server = DynamicCast<TcpLinuxSocket>(socket);
            server->SetRecvCallback([this](Ptr<Socket> from) {
                while (auto packet = from->Recv())
                {
                    if (packet->GetSize() == 0)
                    {
                        break;
                    }
                    count += packet->GetSize();
                    if (keep)
                    {
                        received.resize(count);
                        packet->CopyData(received.data() + count - packet->GetSize(),
                                         packet->GetSize());
                    }
                    lastReceived = Simulator::Now();
                }
            });
            server->SetCloseCallbacks([this](Ptr<Socket>) { serverClosed = true; },
                                      [this](Ptr<Socket>) { failed = true; });
        });
    client->SetConnectCallback([this](Ptr<Socket>) { Pump(); },
                               [this](Ptr<Socket>) { failed = true; });
    client->SetSendCallback([this](Ptr<Socket>, uint32_t) { Pump(); });
    client->SetCloseCallbacks([this](Ptr<Socket>) { clientClosed = true; },
                              [this](Ptr<Socket>) { failed = true; });
    Simulator::ScheduleWithContext(nodes.Get(0)->GetId(), MilliSeconds(1), [this]() {
        client->Bind();
        client->Connect(InetSocketAddress("10.0.1.2", 4420));
    });
}

/**
 * @ingroup nvme-mptcp-test
 * @param size number of bytes
 * @return bytes without a short period
 */
std::vector<uint8_t>
Noise(std::size_t size)
{
    std::vector<uint8_t> bytes(size);
    uint32_t state = 1;
    for (auto& byte : bytes)
    {
        state = state * 1664525 + 1013904223;
        byte = state >> 24;
    }
    return bytes;
}

/**
 * @ingroup nvme-mptcp-test
 * GSO packets of the first round trips, against tcp_tso_autosize()'s rule.
 */
class AutosizeTest : public TestCase
{
  public:
    AutosizeTest()
        : TestCase("TSO autosizing")
    {
    }

  private:
    void DoRun() override;

    /**
     * Sizes of the first packets.
     * @param delay one-way delay
     * @param gso whether GSO is on
     * @return segments of each packet of the initial window
     */
    std::vector<uint32_t> FirstWindow(Time delay, bool gso);
};

std::vector<uint32_t>
AutosizeTest::FirstWindow(Time delay, bool gso)
{
    Connection connection(delay, 0);
    connection.client->SetAttribute("Gso", BooleanValue(gso));
    std::vector<uint32_t> sizes;
    uint32_t segments = 0;
    connection.client->TraceConnectWithoutContext(
        "Transmit",
        Callback<void, uint64_t, uint32_t, uint32_t, bool>(
            [&](uint64_t, uint32_t, uint32_t count, bool) {
                if (segments < 10)
                {
                    sizes.push_back(count);
                }
                else
                {
                    // the rule, by the figures that the socket shows
                    auto socket = connection.client;
                    uint64_t bytes = socket->GetPacingRateBytes() / 1024;
                    int64_t halvings = socket->GetMinRtt().GetMicroSeconds() / 512;
                    bytes += halvings < 32 ? 65215 >> halvings : 0;
                    uint64_t most = std::max<uint64_t>(std::min<uint64_t>(bytes, 65215) / MSS, 2);
                    NS_TEST_EXPECT_MSG_LT_OR_EQ(count, gso ? most : 1, "segments of a packet");
                }
                segments += count;
            }));
    connection.WriteZeros(3000000, 65536);
    connection.Start();
    Simulator::Stop(Seconds(2));
    Simulator::Run();
    NS_TEST_EXPECT_MSG_EQ(connection.count, 3000000, "bytes received");
    return sizes;
}

void
AutosizeTest::DoRun()
{
    // 10 ms: 2 x 10 x 1448 bytes / 10 ms / 1024 is less than a segment, so the least, two
    auto far = FirstWindow(MilliSeconds(5), true);
    NS_TEST_EXPECT_MSG_EQ((far == std::vector<uint32_t>{2, 2, 2, 2, 2}), true, "far peer");
    // 0.1 ms: all that half a window allows, so that there are two packets in flight
    auto near = FirstWindow(MicroSeconds(50), true);
    NS_TEST_EXPECT_MSG_EQ((near == std::vector<uint32_t>{5, 5}), true, "near peer");
    auto plain = FirstWindow(MilliSeconds(5), false);
    NS_TEST_EXPECT_MSG_EQ((plain == std::vector<uint32_t>(10, 1)), true, "without GSO");
}

/**
 * @ingroup nvme-mptcp-test
 * A stream through a bad link arrives unchanged.
 */
class StreamTest : public TestCase
{
  public:
    /**
     * @param loss probability of loss, both ways
     * @param jitter jitter, both ways; packets overtake each other
     * @param piece size of the writes
     * @param gso whether GSO is on
     */
    StreamTest(double loss, Time jitter, uint32_t piece, bool gso)
        : TestCase("byte stream: loss " + std::to_string(loss) + ", jitter " +
                   std::to_string(jitter.GetMicroSeconds()) + " us, writes of " +
                   std::to_string(piece) + (gso ? "" : ", no GSO")),
          m_loss(loss),
          m_jitter(jitter),
          m_piece(piece),
          m_gso(gso)
    {
    }

  private:
    void DoRun() override;

    double m_loss;    //!< probability of loss
    Time m_jitter;    //!< jitter
    uint32_t m_piece; //!< size of the writes
    bool m_gso;       //!< whether GSO is on
};

void
StreamTest::DoRun()
{
    Connection connection(MilliSeconds(2), 0);
    for (const auto& device : {connection.out, connection.back})
    {
        device->SetAttribute("Loss", DoubleValue(m_loss));
        device->SetAttribute("Jitter", TimeValue(m_jitter));
    }
    connection.client->SetAttribute("Gso", BooleanValue(m_gso));
    auto bytes = Noise(2000000);
    connection.Write(bytes, m_piece);
    connection.Start();
    Simulator::Schedule(Seconds(100), [&]() { connection.client->Close(); });
    Simulator::Schedule(Seconds(140), [&]() { connection.server->Close(); });
    Simulator::Stop(Seconds(200));
    Simulator::Run();
    NS_TEST_EXPECT_MSG_EQ(connection.received.size(), bytes.size(), "bytes received");
    NS_TEST_EXPECT_MSG_EQ((connection.received == bytes), true, "the bytes are the same");
    NS_TEST_EXPECT_MSG_EQ(connection.failed, false, "no error");
    NS_TEST_EXPECT_MSG_EQ(connection.serverClosed, true, "the server saw the FIN");
    NS_TEST_EXPECT_MSG_EQ(connection.clientClosed, true, "the client saw the FIN");
    NS_TEST_EXPECT_MSG_EQ(connection.client->GetQueued(), 0, "nothing is left to acknowledge");
    if (m_loss > 0)
    {
        NS_TEST_EXPECT_MSG_GT(connection.client->GetTotalRetransmits(), 0, "something was resent");
    }
}

/**
 * @ingroup nvme-mptcp-test
 * Each end says the MSS of its link; segments are as large as the smaller one allows.
 */
class MssTest : public TestCase
{
  public:
    /**
     * @param clientMtu the client's MTU
     * @param serverMtu the server's MTU
     */
    MssTest(uint32_t clientMtu, uint32_t serverMtu)
        : TestCase("MSS: MTU " + std::to_string(clientMtu) + " to " + std::to_string(serverMtu)),
          m_clientMtu(clientMtu),
          m_serverMtu(serverMtu)
    {
    }

  private:
    void DoRun() override;

    uint32_t m_clientMtu; //!< the client's MTU
    uint32_t m_serverMtu; //!< the server's MTU
};

void
MssTest::DoRun()
{
    Connection connection(MilliSeconds(1), 0);
    connection.out->SetAttribute("Mtu", UintegerValue(m_clientMtu));
    connection.back->SetAttribute("Mtu", UintegerValue(m_serverMtu));
    connection.client->SetAttribute("Gso", BooleanValue(false));
    std::vector<uint16_t> said;
    auto watch = Callback<void, Ptr<const Packet>, uint32_t>([&](auto packet, uint32_t) {
        auto copy = packet->Copy();
        Ipv4Header ip;
        TcpHeader tcp;
        copy->RemoveHeader(ip);
        copy->RemoveHeader(tcp);
        const auto option = tcp.GetOption(TcpOption::MSS);
        NS_TEST_EXPECT_MSG_EQ(bool(option), bool(tcp.GetFlags() & TcpHeader::SYN), "only in SYNs");
        if (option)
        {
            said.push_back(DynamicCast<const TcpOptionMSS>(option)->GetMSS());
        }
    });
    connection.out->TraceConnectWithoutContext("Send", watch);
    connection.back->TraceConnectWithoutContext("Send", watch);
    uint32_t largest = 0;
    connection.client->TraceConnectWithoutContext(
        "Transmit",
        Callback<void, uint64_t, uint32_t, uint32_t, bool>(
            [&](uint64_t, uint32_t size, uint32_t, bool) { largest = std::max(largest, size); }));
    connection.WriteZeros(100000, 65536);
    connection.Start();
    Simulator::Stop(Seconds(1));
    Simulator::Run();
    NS_TEST_EXPECT_MSG_EQ(connection.count, 100000, "bytes received");
    NS_TEST_ASSERT_MSG_EQ(said.size(), 2, "a SYN and a SYN-ACK");
    NS_TEST_EXPECT_MSG_EQ(said[0], m_clientMtu - 40, "the client's");
    NS_TEST_EXPECT_MSG_EQ(said[1], m_serverMtu - 40, "the server's");
    NS_TEST_EXPECT_MSG_EQ(largest, std::min(m_clientMtu, m_serverMtu) - 40 - 12, "timestamps: 12");
}

/**
 * @ingroup nvme-mptcp-test
 * Packets that are lost one by one are repaired without a time-out.
 */
class RecoveryTest : public TestCase
{
  public:
    RecoveryTest()
        : TestCase("recovery of one loss without a time-out")
    {
    }

  private:
    void DoRun() override;

    /**
     * Lose a packet.
     * @param lost number of the packet, from 0
     * @param size bytes of the transfer
     * @param resent segments that may be resent at most
     */
    void LoseOne(uint32_t lost, uint32_t size, uint32_t resent);
};

void
RecoveryTest::LoseOne(uint32_t lost, uint32_t size, uint32_t resent)
{
    Connection connection(MilliSeconds(5), 1000000000);
    uint32_t sent = 0;
    uint32_t segmentsLost = 0;
    connection.client->TraceConnectWithoutContext(
        "Transmit",
        Callback<void, uint64_t, uint32_t, uint32_t, bool>(
            [&](uint64_t, uint32_t, uint32_t segments, bool again) {
                bool now = !again && sent == lost;
                segmentsLost += now ? segments : 0;
                sent += again ? 0 : 1;
                connection.out->SetAttribute("Loss", DoubleValue(now ? 1.0 : 0.0));
            }));
    connection.Write(Noise(size), 65536);
    connection.Start();
    Simulator::Stop(Seconds(3));
    Simulator::Run();
    NS_TEST_EXPECT_MSG_EQ(connection.received.size(), size, "bytes received");
    NS_TEST_EXPECT_MSG_EQ(connection.client->GetTimeouts(), 0, "time-outs");
    NS_TEST_EXPECT_MSG_GT(segmentsLost, 0, "a packet was lost");
    NS_TEST_EXPECT_MSG_GT_OR_EQ(connection.client->GetTotalRetransmits(),
                                segmentsLost,
                                "what was lost was resent");
    NS_TEST_EXPECT_MSG_LT_OR_EQ(connection.client->GetTotalRetransmits(),
                                segmentsLost + resent,
                                "what was resent beyond");
    NS_TEST_EXPECT_MSG_LT(connection.lastReceived, MilliSeconds(600), "time of the transfer");
}

void
RecoveryTest::DoRun()
{
    LoseOne(0, 1000000, 0);  // the first
    LoseOne(20, 1000000, 0); // one in the middle
    LoseOne(4, 10 * MSS, 1); // the last: a tail-loss probe finds out
}

/**
 * @ingroup nvme-mptcp-test
 * Round-trip times are differences of stamps in whole microseconds.
 */
class RttTest : public TestCase
{
  public:
    RttTest()
        : TestCase("round-trip times: stamps in whole microseconds")
    {
    }

  private:
    void DoRun() override;
};

void
RttTest::DoRun()
{
    Connection connection(NanoSeconds(50495), 0);
    connection.WriteZeros(1000000, 65536);
    connection.Start();
    // Each ACK comes 100.99 us after its data, which left right after an ACK: from 1100.99 us on,
    // 1100 to 1201, 1201 to 1302, ... The handshake began at 1000.00 us and its sample is 100 us.
    Simulator::Stop(MilliSeconds(3));
    Simulator::Run();
    NS_TEST_EXPECT_MSG_EQ(connection.client->GetSrtt(), MicroSeconds(101), "smoothed");
    NS_TEST_EXPECT_MSG_EQ(connection.client->GetMinRtt(), MicroSeconds(100), "least");
}

/**
 * @ingroup nvme-mptcp-test
 * Time-outs double, and end the connection at last.
 */
class RtoTest : public TestCase
{
  public:
    RtoTest()
        : TestCase("retransmission time-outs")
    {
    }

  private:
    void DoRun() override;
};

void
RtoTest::DoRun()
{
    for (bool ticks : {false, true})
    {
        Connection connection(MilliSeconds(5), 0);
        connection.client->SetAttribute("EarlyRetransmit", BooleanValue(false));
        connection.client->SetAttribute("Retries", UintegerValue(6));
        connection.client->SetAttribute("Tick", TimeValue(ticks ? MilliSeconds(1) : Time(0)));
        std::vector<Time> sent;
        connection.client->TraceConnectWithoutContext(
            "Transmit",
            Callback<void, uint64_t, uint32_t, uint32_t, bool>(
                [&](uint64_t, uint32_t, uint32_t, bool) { sent.push_back(Simulator::Now()); }));
        connection.WriteZeros(1000, 1000);
        connection.Start();
        // the handshake is over by 12 ms, so the data is out and nothing comes back
        Simulator::Schedule(MicroSeconds(10999),
                            [&]() { connection.out->SetAttribute("Loss", DoubleValue(1.0)); });
        Simulator::Stop(Seconds(60));
        Simulator::Run();
        NS_TEST_EXPECT_MSG_EQ(sent.size(), 7, "transmissions before it gives up");
        NS_TEST_EXPECT_MSG_EQ(connection.client->GetTimeouts(), 6, "time-outs");
        NS_TEST_EXPECT_MSG_EQ(connection.failed, true, "the application learns of it");
        // one sample of 10 ms: 10 + max(4 x 5, 200) ms
        Time expected = MilliSeconds(210);
        for (std::size_t i = 1; i < sent.size(); ++i, expected = expected * 2)
        {
            Time gap = sent[i] - sent[i - 1];
            if (ticks)
            {
                // never early, and late by no more than the wheel's grain
                NS_TEST_EXPECT_MSG_GT_OR_EQ(gap, expected, "time-out " << i);
                NS_TEST_EXPECT_MSG_LT_OR_EQ(gap, expected + expected / 7, "time-out " << i);
            }
            else
            {
                NS_TEST_EXPECT_MSG_EQ(gap, expected, "time-out " << i);
            }
        }
    }
}

/**
 * @ingroup nvme-mptcp-test
 * The receive buffer follows the rate, up to tcp_rmem's limit, which then limits the rate.
 */
class BufferTest : public TestCase
{
  public:
    BufferTest()
        : TestCase("buffers tune themselves")
    {
    }

  private:
    void DoRun() override;

    /**
     * Transfer for some seconds.
     * @param rmem the receiver's tcp_rmem
     * @param wmem the sender's tcp_wmem
     * @return bytes per second, from the first second to the third
     */
    double GetRate(const std::string& rmem, const std::string& wmem);

    /**
     * Connect.
     * @param header MAX_TCP_HEADER of the client
     * @return its first send buffer, for ten segments, in bytes
     */
    uint64_t GetFirstSndBuf(uint32_t header);
};

double
BufferTest::GetRate(const std::string& rmem, const std::string& wmem)
{
    Connection connection(MilliSeconds(5), 1000000000);
    connection.client->SetAttribute("Wmem", StringValue(wmem));
    connection.listener->SetAttribute("Rmem", StringValue(rmem));
    connection.WriteZeros(1000000000, 262144);
    connection.Start();
    uint64_t before = 0;
    uint64_t after = 0;
    Simulator::Schedule(Seconds(1), [&]() { before = connection.count; });
    Simulator::Schedule(Seconds(2), [&]() { after = connection.count; });
    Simulator::Stop(Seconds(2));
    Simulator::Run();
    return after - before;
}

uint64_t
BufferTest::GetFirstSndBuf(uint32_t header)
{
    Connection connection(MilliSeconds(5), 1000000000);
    connection.client->SetAttribute("MaxTcpHeader", UintegerValue(header));
    connection.Start();
    Simulator::Stop(MilliSeconds(100));
    Simulator::Run();
    return connection.client->GetSndBuf();
}

void
BufferTest::DoRun()
{
    // the first as Linux 7.3 in the lab; the second follows from the same rule
    NS_TEST_EXPECT_MSG_EQ(GetFirstSndBuf(192), 46080, "a segment in a block of 2048 bytes");
    NS_TEST_EXPECT_MSG_EQ(GetFirstSndBuf(320), 87040, "a segment in a block of 4096 bytes");
    // payload of a full link: 1448 of 1514 bytes
    constexpr double LINK = 125e6 * 1448 / 1514;
    NS_TEST_EXPECT_MSG_EQ_TOL(GetRate("4096 131072 6291456", "4096 16384 4194304"),
                              LINK,
                              0.01 * LINK,
                              "large buffers fill the link");
    // Linux 7.3 in the same place: 18.8 MB/s at a window of 199552 bytes, 23.5 MB/s
    NS_TEST_EXPECT_MSG_EQ_TOL(GetRate("4096 131072 262144", "4096 16384 4194304"),
                              18.8e6,
                              0.05 * 18.8e6,
                              "tcp_rmem limits the rate");
    NS_TEST_EXPECT_MSG_EQ_TOL(GetRate("4096 131072 6291456", "4096 16384 262144"),
                              23.5e6,
                              0.1 * 23.5e6,
                              "tcp_wmem limits the rate");
}

/**
 * @ingroup nvme-mptcp-test
 * A queue of the own host that is full refuses packets: nothing is lost by that.
 */
class LocalDropTest : public TestCase
{
  public:
    LocalDropTest()
        : TestCase("packets refused by the own host's queue")
    {
    }

  private:
    void DoRun() override;
};

void
LocalDropTest::DoRun()
{
    Connection connection(MilliSeconds(5), 100000000);
    connection.out->SetAttribute("Limit", UintegerValue(20));
    uint64_t before = NetemNetDevice::GetRefusals().full;
    auto bytes = Noise(20000000);
    connection.Write(bytes, 65536);
    connection.Start();
    Simulator::Stop(Seconds(5));
    Simulator::Run();
    NS_TEST_EXPECT_MSG_EQ((connection.received == bytes), true, "the bytes are the same");
    NS_TEST_EXPECT_MSG_GT(NetemNetDevice::GetRefusals().full, before, "packets were refused");
    NS_TEST_EXPECT_MSG_EQ(connection.client->GetTotalRetransmits(), 0, "none was resent");
    NS_TEST_EXPECT_MSG_GT_OR_EQ(connection.client->GetBytesSent(), bytes.size(), "bytes sent");
    NS_TEST_EXPECT_MSG_LT(connection.lastReceived, Seconds(1.9), "the link stays busy");
}

/**
 * @ingroup nvme-mptcp-test
 * Congestion marks shrink the window before packets are dropped.
 */
class EcnTest : public TestCase
{
  public:
    EcnTest()
        : TestCase("explicit congestion notification")
    {
    }

  private:
    void DoRun() override;
};

void
EcnTest::DoRun()
{
    for (bool ecn : {true, false})
    {
        Connection connection(MilliSeconds(5), 100000000);
        connection.out->SetAttribute("EcnThreshold", UintegerValue(60));
        for (const auto& socket : {Ptr<Socket>(connection.client), connection.listener})
        {
            socket->SetAttribute("UseEcn", StringValue(ecn ? "On" : "Off"));
        }
        uint32_t longest = 0;
        connection.out->TraceConnectWithoutContext(
            "Enqueue",
            Callback<void, Ptr<const Packet>, uint32_t>([&](Ptr<const Packet>, uint32_t) {
                if (Simulator::Now() > Seconds(1))
                {
                    longest = std::max(longest, connection.out->GetQueueLength());
                }
            }));
        connection.WriteZeros(40000000, 65536);
        connection.Start();
        Simulator::Stop(Seconds(3));
        Simulator::Run();
        NS_TEST_EXPECT_MSG_EQ(connection.client->GetTotalRetransmits(), 0, "nothing is resent");
        NS_TEST_EXPECT_MSG_GT(connection.count, 2.8 * 100e6 / 8 * 0.9, "the link is used");
        NS_TEST_EXPECT_MSG_EQ((longest < 90), ecn, "marks keep the queue short");
    }
}

/**
 * @ingroup nvme-mptcp-test
 * Packets of an established connection are found without a search, those of a closed one aren't
 * handed to a socket that is gone.
 */
class FlowTableTest : public TestCase
{
  public:
    FlowTableTest()
        : TestCase("table of flows")
    {
    }

  private:
    void DoRun() override;
};

void
FlowTableTest::DoRun()
{
    constexpr uint32_t SEARCHED = 4; // handshake and first data, before the table has the flow
    Connection connection(MilliSeconds(1), 1000000000);
    uint64_t sent = 0;
    connection.out->TraceConnectWithoutContext(
        "Send",
        Callback<void, Ptr<const Packet>, uint32_t>([&](Ptr<const Packet>, uint32_t) { sent++; }));
    connection.WriteZeros(10000000, 65536);
    connection.Start();
    Simulator::Stop(Seconds(1));
    Simulator::Run();
    const auto table = connection.nodes.Get(1)->GetObject<TcpFlowTable>();
    NS_TEST_EXPECT_MSG_EQ(connection.count, 10000000, "all has come");
    NS_TEST_EXPECT_MSG_GT(sent, 100, "packets were sent");
    NS_TEST_EXPECT_MSG_GT_OR_EQ(table->GetFound() + SEARCHED, sent, "they were found at once");
    NS_TEST_EXPECT_MSG_LT(table->GetFound(), sent, "but for the handshake");

    // what comes after the end is answered by TCP, as without the table
    const uint64_t found = table->GetFound();
    Address address;
    connection.client->GetSockName(address);
    const auto from = InetSocketAddress::ConvertFrom(address);
    const TcpFlowTable::Flow flow{Ipv4Address("10.0.1.2"), 9, from.GetIpv4(), from.GetPort()};
    table->Add(flow, PeekPointer(connection.server));
    table->Remove(flow, PeekPointer(connection.server));
    TcpHeader header;
    header.SetSourcePort(from.GetPort());
    header.SetDestinationPort(9);
    auto packet = Create<Packet>();
    packet->AddHeader(header);
    Ipv4Header ip;
    ip.SetSource(from.GetIpv4());
    ip.SetDestination(Ipv4Address("10.0.1.2"));
    const auto interface = connection.nodes.Get(1)->GetObject<Ipv4L3Protocol>()->GetInterface(1);
    NS_TEST_EXPECT_MSG_EQ(table->Receive(packet, ip, interface),
                          IpL4Protocol::RX_ENDPOINT_CLOSED,
                          "nobody is there");
    NS_TEST_EXPECT_MSG_EQ(table->GetFound(), found, "nothing is found");
}

/**
 * @ingroup nvme-mptcp-test
 * Congestion controls of ns-3 work on the socket, one that paces too.
 */
class OtherControlsTest : public TestCase
{
  public:
    OtherControlsTest()
        : TestCase("congestion controls of ns-3")
    {
    }

  private:
    void DoRun() override;
};

void
OtherControlsTest::DoRun()
{
    // what NewReno can reach at this loss is far below the link, BBR does not mind it
    std::map<std::string, double> rates;
    for (const auto* name : {"ns3::TcpNewReno", "ns3::TcpBbr"})
    {
        Connection connection(MilliSeconds(5), 100000000);
        connection.out->SetAttribute("Loss", DoubleValue(0.005));
        ObjectFactory make(name);
        connection.client->SetCongestionControlAlgorithm(make.Create<TcpCongestionOps>());
        connection.WriteZeros(100000000, 65536);
        connection.Start();
        Simulator::Stop(Seconds(5));
        Simulator::Run();
        rates[name] = connection.count / 5.0;
    }
    NS_TEST_EXPECT_MSG_GT(rates["ns3::TcpNewReno"], 1.5e6, "NewReno");
    NS_TEST_EXPECT_MSG_LT(rates["ns3::TcpNewReno"], 6e6, "NewReno");
    NS_TEST_EXPECT_MSG_GT(rates["ns3::TcpBbr"], 9e6, "BBR");
}

/**
 * @ingroup nvme-mptcp-test
 * The counters of the scoreboard against those counted anew, under random events.
 */
class SendQueueTest : public TestCase
{
  public:
    SendQueueTest()
        : TestCase("scoreboard: counters")
    {
    }

  private:
    void DoRun() override;
};

void
SendQueueTest::DoRun()
{
    auto ignore = TcpLinuxSendQueue::Delivered([](const TcpLinuxSkb&) {});
    auto random = CreateObject<UniformRandomVariable>();
    random->SetStream(7);
    TcpLinuxSendQueue queue(1280);
    queue.Start(1);
    auto bytes = Noise(2000000);
    std::size_t written = 0;
    for (int step = 0; step < 20000; ++step)
    {
        uint64_t span = queue.GetNext() - queue.GetUna();
        uint64_t at = queue.GetUna() + random->GetInteger(0, span / MSS) * MSS;
        switch (random->GetInteger(0, 6))
        {
        case 0:
            if (written < bytes.size())
            {
                uint32_t size = random->GetInteger(1, 20000);
                size = std::min<std::size_t>(size, bytes.size() - written);
                queue.Append(Create<Packet>(bytes.data() + written, size), 45 * MSS, step % 3 == 0);
                written += size;
            }
            break;
        case 1:
        case 2:
            if (auto head = queue.GetHead())
            {
                uint32_t size = random->GetInteger(1, 10) * MSS;
                queue.GrowHead(size);
                if (head->GetSize() > size)
                {
                    queue.SplitHead(size);
                }
                auto& skb = queue.Sent(MSS);
                queue.Stamp(skb, NanoSeconds(step));
                auto copy = queue.CopyData(skb.seq, skb.GetSize());
                std::vector<uint8_t> sent(copy->GetSize());
                copy->CopyData(sent.data(), sent.size());
                bool same = std::equal(sent.begin(), sent.end(), bytes.begin() + skb.seq - 1);
                NS_TEST_EXPECT_MSG_EQ(same, true, "bytes of a packet");
            }
            break;
        case 3:
            if (span > 0)
            {
                uint64_t end = std::min(at + random->GetInteger(1, 20) * MSS, queue.GetNext());
                TcpLinuxSendQueue::AckResult result;
                if (at < end)
                {
                    queue.Sack(at, end, MSS, 0, ignore, result);
                }
            }
            break;
        case 4:
            if (span > 0)
            {
                TcpLinuxSendQueue::AckResult result;
                queue.Acknowledge(std::min(at, queue.GetNext()), MSS, 0, ignore, result);
            }
            break;
        default:
            for (auto& [seq, skb] : queue.GetSent())
            {
                if (random->GetInteger(0, 9) == 0 && !skb.sacked)
                {
                    queue.MarkLost(skb);
                }
                else if (skb.lost && !skb.resent)
                {
                    queue.MarkResent(skb);
                    queue.Stamp(skb, NanoSeconds(step));
                }
            }
        }
        uint32_t out = 0;
        uint32_t sacked = 0;
        uint32_t lost = 0;
        uint32_t resent = 0;
        uint64_t next = queue.GetUna();
        for (const auto& [seq, skb] : queue.GetSent())
        {
            NS_TEST_ASSERT_MSG_EQ(seq, next, "packets follow each other");
            next = skb.end;
            out += skb.segments;
            sacked += skb.sacked ? skb.segments : 0;
            lost += skb.lost ? skb.segments : 0;
            resent += skb.resent ? skb.segments : 0;
        }
        NS_TEST_ASSERT_MSG_EQ(next, queue.GetNext(), "the last packet's end");
        NS_TEST_ASSERT_MSG_EQ(queue.GetPacketsOut(), out, "packets out at step " << step);
        NS_TEST_ASSERT_MSG_EQ(queue.GetSackedOut(), sacked, "packets SACKed at step " << step);
        NS_TEST_ASSERT_MSG_EQ(queue.GetLostOut(), lost, "packets lost at step " << step);
        NS_TEST_ASSERT_MSG_EQ(queue.GetResentOut(), resent, "packets resent at step " << step);
    }
    NS_TEST_EXPECT_MSG_EQ(written, bytes.size(), "all was written");
}

/**
 * @ingroup nvme-mptcp-test
 * Packets in any order, whole, overlapping and twice, make the stream.
 */
class ReceiveQueueTest : public TestCase
{
  public:
    ReceiveQueueTest()
        : TestCase("receive queue: order and SACK blocks")
    {
    }

  private:
    void DoRun() override;
};

void
ReceiveQueueTest::DoRun()
{
    using Range = TcpLinuxReceiveQueue::Range;
    auto bytes = Noise(200000);
    auto random = CreateObject<UniformRandomVariable>();
    random->SetStream(8);
    TcpLinuxReceiveQueue queue(1280);
    queue.Start(0);
    auto insert = [&](uint64_t start, uint64_t end) {
        return queue.Insert(start, Create<Packet>(bytes.data() + start, end - start));
    };
    std::vector<uint8_t> read;
    while (queue.GetNext() < bytes.size())
    {
        uint64_t low = queue.GetNext() > 5000 ? queue.GetNext() - 5000 : 0;
        uint64_t start = std::min<uint64_t>(low + random->GetInteger(0, 30000), bytes.size() - 1);
        uint64_t end = std::min<uint64_t>(start + random->GetInteger(1, 4000), bytes.size());
        insert(start, end);
        for (const auto& [first, last] : queue.GetSackBlocks())
        {
            NS_TEST_ASSERT_MSG_GT(first, queue.GetNext(), "a block lies behind a gap");
            NS_TEST_ASSERT_MSG_LT(first, last, "a block is not empty");
        }
        while (auto packet = queue.Read(random->GetInteger(1, 3000)))
        {
            std::size_t at = read.size();
            read.resize(at + packet->GetSize());
            packet->CopyData(read.data() + at, packet->GetSize());
        }
    }
    NS_TEST_EXPECT_MSG_EQ((read == bytes), true, "the stream");
    NS_TEST_EXPECT_MSG_EQ(queue.GetMemory(), 0, "memory of an empty queue");

    queue = TcpLinuxReceiveQueue(1280);
    queue.Start(0);
    NS_TEST_EXPECT_MSG_EQ(insert(1000, 2000), TcpLinuxReceiveQueue::OUT_OF_ORDER, "gap");
    insert(3000, 4000);
    insert(5000, 6000);
    NS_TEST_EXPECT_MSG_EQ(
        (queue.GetSackBlocks() == std::vector<Range>{{5000, 6000}, {3000, 4000}, {1000, 2000}}),
        true,
        "the latest block comes first");
    NS_TEST_EXPECT_MSG_EQ(queue.IsSackUrgent(), true, "a third block");
    insert(2000, 3000);
    NS_TEST_EXPECT_MSG_EQ((queue.GetSackBlocks() == std::vector<Range>{{1000, 4000}, {5000, 6000}}),
                          true,
                          "blocks that touch are joined");
    insert(3500, 4500);
    NS_TEST_EXPECT_MSG_EQ((queue.TakeDsack() == Range(3500, 4000)), true, "bytes that came twice");
    NS_TEST_EXPECT_MSG_EQ(insert(0, 1000), TcpLinuxReceiveQueue::IN_ORDER, "gap filled");
    NS_TEST_EXPECT_MSG_EQ(queue.GetNext(), 4500, "next byte");
    NS_TEST_EXPECT_MSG_EQ(insert(100, 200), TcpLinuxReceiveQueue::OLD, "old packet");
    NS_TEST_EXPECT_MSG_EQ((queue.TakeDsack() == Range(100, 200)), true, "old bytes");
}

/**
 * @ingroup nvme-mptcp-test
 * The suite.
 */
class TcpLinuxTestSuite : public TestSuite
{
  public:
    TcpLinuxTestSuite()
        : TestSuite("nvme-mptcp-tcp-linux", Type::UNIT)
    {
        AddTestCase(new NetemTimesTest, Duration::QUICK);
        AddTestCase(new NetemRandomTest, Duration::QUICK);
        AddTestCase(new CubicTest, Duration::QUICK);
        AddTestCase(new SendQueueTest, Duration::QUICK);
        AddTestCase(new ReceiveQueueTest, Duration::QUICK);
        AddTestCase(new AutosizeTest, Duration::QUICK);
        AddTestCase(new MssTest(1500, 1500), Duration::QUICK);
        AddTestCase(new MssTest(9000, 1500), Duration::QUICK);
        AddTestCase(new MssTest(1500, 9000), Duration::QUICK);
        AddTestCase(new StreamTest(0, Time(0), 1000, true), Duration::QUICK);
        AddTestCase(new StreamTest(0.01, Time(0), 65536, true), Duration::QUICK);
        AddTestCase(new StreamTest(0.05, MilliSeconds(1), 1000, true), Duration::QUICK);
        AddTestCase(new StreamTest(0.02, MilliSeconds(1), 10000, false), Duration::QUICK);
        AddTestCase(new StreamTest(0, MilliSeconds(2), 100000, true), Duration::QUICK);
        AddTestCase(new RecoveryTest, Duration::QUICK);
        AddTestCase(new RttTest, Duration::QUICK);
        AddTestCase(new RtoTest, Duration::QUICK);
        AddTestCase(new BufferTest, Duration::QUICK);
        AddTestCase(new LocalDropTest, Duration::QUICK);
        AddTestCase(new EcnTest, Duration::QUICK);
        AddTestCase(new FlowTableTest, Duration::QUICK);
        AddTestCase(new OtherControlsTest, Duration::QUICK);
    }
};

const TcpLinuxTestSuite g_tcpLinuxTestSuite; //!< registers the suite

} // namespace
