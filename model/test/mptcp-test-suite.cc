/*
 * SPDX-License-Identifier: GPL-2.0-only
 */

#include "ns3/boolean.h"
#include "ns3/config.h"
#include "ns3/data-rate.h"
#include "ns3/double.h"
#include "ns3/gso-tag.h"
#include "ns3/internet-stack-helper.h"
#include "ns3/ipv4-address-helper.h"
#include "ns3/ipv6-address-helper.h"
#include "ns3/mptcp-address.h"
#include "ns3/mptcp-crypto.h"
#include "ns3/mptcp-helper.h"
#include "ns3/mptcp-mapping.h"
#include "ns3/mptcp-option-tag.h"
#include "ns3/mptcp-option.h"
#include "ns3/mptcp-receive-queue.h"
#include "ns3/mptcp-scheduler-default.h"
#include "ns3/mptcp-send-queue.h"
#include "ns3/mptcp-sequence.h"
#include "ns3/mptcp-socket.h"
#include "ns3/mptcp-subflow.h"
#include "ns3/netem-device.h"
#include "ns3/node-container.h"
#include "ns3/rng-seed-manager.h"
#include "ns3/simulator.h"
#include "ns3/string.h"
#include "ns3/tcp-linux-socket-factory.h"
#include "ns3/test.h"
#include "ns3/uinteger.h"

#include <algorithm>
#include <functional>
#include <random>
#include <set>
#include <vector>

using namespace ns3;

namespace
{

/**
 * The test data: a byte depends on its place, so one in the wrong place shows.
 * @param offset place of the first byte
 * @param size number of bytes
 * @return the bytes
 */
std::vector<uint8_t>
MakeBytes(uint64_t offset, uint32_t size)
{
    std::vector<uint8_t> bytes(size);
    for (uint32_t i = 0; i < size; ++i)
    {
        const uint64_t place = offset + i;
        bytes[i] = static_cast<uint8_t>(place * 31 + (place >> 8) * 17 + (place >> 16));
    }
    return bytes;
}

/**
 * A packet of the test data.
 * @param offset place of the first byte
 * @param size number of bytes
 * @return the packet
 */
Ptr<Packet>
MakePacket(uint64_t offset, uint32_t size)
{
    const std::vector<uint8_t> bytes = MakeBytes(offset, size);
    return Create<Packet>(bytes.data(), size);
}

/**
 * Compare a packet with the test data.
 * @param packet the packet
 * @param offset place of its first byte
 * @return whether they are the same
 */
bool
IsRight(Ptr<const Packet> packet, uint64_t offset)
{
    std::vector<uint8_t> bytes(packet->GetSize());
    packet->CopyData(bytes.data(), packet->GetSize());
    return bytes == MakeBytes(offset, packet->GetSize());
}

/**
 * Sequence numbers wrap, and lose their upper half on the wire.
 */
class MptcpSequenceTest : public TestCase
{
  public:
    MptcpSequenceTest()
        : TestCase("sequence numbers: order and expansion around the wrap")
    {
    }

  private:
    void DoRun() override
    {
        NS_TEST_EXPECT_MSG_EQ(MptcpBefore(UINT64_MAX, 0), true, "after the wrap");
        NS_TEST_EXPECT_MSG_EQ(MptcpBefore(0, UINT64_MAX), false, "before the wrap");
        NS_TEST_EXPECT_MSG_EQ(MptcpBefore(7, 7), false, "equal");
        NS_TEST_EXPECT_MSG_EQ(MptcpSubflowBefore(UINT32_MAX, 0), true, "32 bits");
        const uint64_t near = 0x1'0000'0005;
        NS_TEST_EXPECT_MSG_EQ(MptcpExpand(near, 0x10), 0x1'0000'0010, "ahead");
        NS_TEST_EXPECT_MSG_EQ(MptcpExpand(near, 0xffff'fff0), 0xffff'fff0, "behind the wrap");
        NS_TEST_EXPECT_MSG_EQ(MptcpExpand(0xffff'fff0, 0x5), near, "across the wrap");
    }
};

/**
 * Data in any order, overlapping, several times, comes out once and in order.
 */
class MptcpReceiveQueueTest : public TestCase
{
  public:
    /**
     * @param start data sequence number of the first byte
     */
    explicit MptcpReceiveQueueTest(uint64_t start)
        : TestCase("receive queue from " + std::to_string(start)),
          m_start(start)
    {
    }

  private:
    void DoRun() override
    {
        constexpr uint32_t total = 20000;
        std::mt19937 random(1);
        MptcpReceiveQueue queue;
        queue.Reset(m_start);
        uint64_t read = 0;
        uint32_t fresh = 0;
        while (read < total)
        {
            // anywhere in the part that is not read, some of it before
            const auto low = static_cast<uint32_t>(read > 500 ? read - 500 : 0);
            const uint32_t begin = low + random() % std::min<uint32_t>(total - low, 4000);
            const uint32_t size = std::min<uint32_t>(1 + random() % 1500, total - begin);
            fresh += queue.Insert(m_start + begin, MakePacket(begin, size));
            if (random() % 4 == 0)
            {
                while (Ptr<Packet> packet = queue.Extract(1 + random() % 3000))
                {
                    NS_TEST_ASSERT_MSG_EQ(IsRight(packet, read), true, "data at " << read);
                    read += packet->GetSize();
                }
            }
        }
        NS_TEST_EXPECT_MSG_EQ(queue.GetNext(), m_start + total, "next");
        NS_TEST_EXPECT_MSG_EQ(fresh, total, "each byte was new once");
        NS_TEST_EXPECT_MSG_EQ(queue.IsEmpty(), true, "nothing left");
        NS_TEST_EXPECT_MSG_EQ(queue.Insert(m_start + total - 1, MakePacket(total - 1, 1)),
                              0,
                              "old data");
        queue.Insert(m_start + total + 10, MakePacket(0, 10));
        NS_TEST_EXPECT_MSG_EQ(queue.GetOutOfOrderBytes(), 10, "behind a hole");
        NS_TEST_EXPECT_MSG_EQ(queue.GetInOrderBytes(), 0, "nothing to read");
    }

    uint64_t m_start; //!< data sequence number of the first byte
};

/**
 * The queue of what is to be sent and acknowledged.
 */
class MptcpSendQueueTest : public TestCase
{
  public:
    MptcpSendQueueTest()
        : TestCase("send queue: chunks, acknowledgement, sending again")
    {
    }

  private:
    void DoRun() override
    {
        MptcpSendQueue queue;
        const uint64_t start = UINT64_MAX - 1000;
        queue.Reset(start);
        queue.Add(MakePacket(0, 80000), true);
        NS_TEST_EXPECT_MSG_EQ(queue.GetBytes(), 80000, "bytes");
        NS_TEST_EXPECT_MSG_EQ(queue.GetEnd(), start + 80000, "end, behind the wrap");
        NS_TEST_EXPECT_MSG_EQ(queue.GetPending()->data->GetSize(),
                              MptcpSendQueue::CHUNK_BYTES,
                              "chunk");
        NS_TEST_EXPECT_MSG_EQ(queue.GetPending()->endOfRecord, false, "not the last chunk");
        queue.MarkSent(MptcpSendQueue::CHUNK_BYTES);
        queue.MarkSent(100);
        queue.Acknowledge(start + 50);
        NS_TEST_EXPECT_MSG_EQ(queue.GetBytes(), 79950, "a part of the first chunk is gone");
        const auto* chunk = queue.GetSentFrom(start + 50);
        NS_TEST_ASSERT_MSG_NE(chunk, nullptr, "the rest of it was sent");
        NS_TEST_EXPECT_MSG_EQ(IsRight(chunk->data, 50), true, "and is what it was");
        NS_TEST_EXPECT_MSG_EQ(queue.GetSentFrom(start + MptcpSendQueue::CHUNK_BYTES + 100),
                              nullptr,
                              "not sent yet");
        queue.Restart();
        NS_TEST_EXPECT_MSG_EQ(queue.GetPending()->dsn, start + 50, "from the first byte");
        queue.Acknowledge(start + 70000);
        NS_TEST_EXPECT_MSG_EQ(queue.GetPending()->dsn, start + 70000, "acknowledged meanwhile");
        NS_TEST_EXPECT_MSG_EQ(queue.GetPending()->endOfRecord, true, "the last chunk");
        queue.Acknowledge(start + 80000);
        NS_TEST_EXPECT_MSG_EQ(queue.IsEmpty(), true, "all is acknowledged");
        NS_TEST_EXPECT_MSG_EQ(queue.GetPending(), nullptr, "nothing to send");
    }
};

/**
 * Mappings of both directions.
 */
class MptcpMappingTest : public TestCase
{
  public:
    MptcpMappingTest()
        : TestCase("mappings: growing, finding, contradictions")
    {
    }

  private:
    void DoRun() override
    {
        MptcpMappingList sent;
        sent.Append(1, 1000, MakePacket(0, 300), 1000, false);
        sent.Append(301, 1300, MakePacket(0, 800), 1000, false);
        NS_TEST_EXPECT_MSG_EQ(sent.GetSize(), 2, "grew to its limit");
        NS_TEST_EXPECT_MSG_EQ(sent.Find(1000)->length, 1000, "the limit");
        NS_TEST_EXPECT_MSG_EQ(sent.Find(1001)->dsn, 2000, "the rest");
        NS_TEST_EXPECT_MSG_EQ(sent.Find(1101), nullptr, "nothing is mapped there");
        sent.Append(1101, 5000, MakePacket(0, 10), 1000, false);
        NS_TEST_EXPECT_MSG_EQ(sent.GetSize(), 3, "elsewhere in the connection");
        sent.Close();
        sent.Append(1111, 5010, MakePacket(0, 10), 1000, false);
        NS_TEST_EXPECT_MSG_EQ(sent.GetSize(), 4, "closed");
        sent.DiscardBefore(1001);
        NS_TEST_EXPECT_MSG_EQ(sent.GetSize(), 3, "the first is acknowledged");

        MptcpMappingList received;
        MptcpMapping mapping;
        mapping.dsn = 7000;
        mapping.ssn = UINT32_MAX - 10; // wraps
        mapping.length = 100;
        NS_TEST_EXPECT_MSG_EQ(received.Insert(mapping), true, "new");
        NS_TEST_EXPECT_MSG_EQ(received.Insert(mapping), true, "again");
        NS_TEST_EXPECT_MSG_EQ(received.GetSize(), 1, "once");
        MptcpMapping earlier = mapping;
        earlier.ssn -= 50;
        earlier.length = 50;
        NS_TEST_EXPECT_MSG_EQ(received.Insert(earlier), true, "out of order");
        NS_TEST_EXPECT_MSG_EQ(received.Find(20)->ssn, mapping.ssn, "behind the wrap");
        mapping.dsn = 8000;
        NS_TEST_EXPECT_MSG_EQ(received.Insert(mapping), false, "contradicts");
        earlier.length = 51;
        NS_TEST_EXPECT_MSG_EQ(received.Insert(earlier), false, "overlaps");
    }
};

/// Two nodes, joined by links, with MPTCP connections between them.
class MptcpTestCase : public TestCase
{
  public:
    /**
     * @param name what is tested
     * @param links number of links
     * @param ipv6 their addresses are IPv6, and the nodes know no other
     */
    MptcpTestCase(const std::string& name, uint32_t links, bool ipv6 = false)
        : TestCase(name),
          m_links(links),
          m_ipv6(ipv6)
    {
    }

    /// What a node speaks.
    enum class Protocol
    {
        MPTCP, //!< MPTCP
        TCP,   //!< only TCP
    };

  protected:
    static constexpr uint16_t PORT = 4420; //!< where the target listens

    /// Make nodes and links.
    void DoSetup() override
    {
        RngSeedManager::SetSeed(1);
        RngSeedManager::SetRun(1);
        m_nodes.Create(2);
        InternetStackHelper internet;
        internet.SetIpv4StackInstall(!m_ipv6);
        internet.SetIpv6StackInstall(m_ipv6);
        // addresses are of use at once, without duplicate address detection
        Config::SetDefault("ns3::Icmpv6L4Protocol::DAD", BooleanValue(false));
        internet.Install(m_nodes);
        TcpLinuxSocketFactory::Install(m_nodes);
        for (uint32_t i = 0; i < m_links; ++i)
        {
            auto [host, target] = NetemNetDevice::Connect(m_nodes.Get(0), m_nodes.Get(1));
            m_host.push_back(host);
            m_target.push_back(target);
            const std::string number = std::to_string(i + 1);
            const NetDeviceContainer ends{NetDeviceContainer(host), NetDeviceContainer(target)};
            if (m_ipv6)
            {
                Ipv6AddressHelper addresses(("fd00:" + number + "::").c_str(), 64);
                m_addresses.emplace_back(addresses.Assign(ends).GetAddress(1, 1));
            }
            else
            {
                Ipv4AddressHelper addresses(("10.0." + number + ".0").c_str(), "255.255.255.0");
                m_addresses.emplace_back(addresses.Assign(ends).GetAddress(1));
            }
            for (const Ptr<NetemNetDevice>& device : {host, target})
            {
                device->SetAttribute("Rate", DataRateValue(DataRate("100Mbps")));
                device->SetAttribute("Delay", TimeValue(MilliSeconds(1)));
                device->AssignStreams(10 * i + (device == host));
            }
        }
        MptcpHelper mptcp;
        mptcp.Set("Subflows", UintegerValue(8));
        mptcp.Set("AddAddrAccepted", UintegerValue(8));
        for (const auto& [name, value] : m_settings)
        {
            mptcp.Set(name, StringValue(value));
        }
        mptcp.Install(m_nodes);
        MptcpHelper::AssignStreams(m_nodes, 1000);
        for (uint32_t i = 0; i < m_links; ++i)
        {
            m_endpoints.push_back(
                MptcpHelper::AddEndpoint(m_nodes.Get(1), m_addresses[i], MptcpPathManager::SIGNAL));
        }
    }

    void DoTeardown() override
    {
        Simulator::Destroy();
        m_client = nullptr;
        m_server = nullptr;
        m_accepted = nullptr;
        m_host.clear();
        m_target.clear();
        m_addresses.clear();
        m_nodes = NodeContainer();
    }

    /**
     * @param protocol what the socket is to speak
     * @return name of a socket factory
     */
    static std::string FactoryOf(Protocol protocol)
    {
        return protocol == Protocol::MPTCP ? "ns3::MptcpSocketFactory"
                                           : "ns3::TcpLinuxSocketFactory";
    }

    /**
     * Have the host connect to the target.
     * @param host what the host speaks
     * @param target what the target speaks
     */
    void Connect(Protocol host = Protocol::MPTCP, Protocol target = Protocol::MPTCP)
    {
        m_server = Socket::CreateSocket(m_nodes.Get(1), TypeId::LookupByName(FactoryOf(target)));
        m_server->Bind(MptcpWithPort(m_addresses[0], PORT));
        m_server->SetAcceptCallback(MakeNullCallback<bool, Ptr<Socket>, const Address&>(),
                                    MakeCallback(&MptcpTestCase::OnAccept, this));
        m_server->Listen();
        Simulator::Schedule(MilliSeconds(1), [this, host]() {
            m_client = Socket::CreateSocket(m_nodes.Get(0), TypeId::LookupByName(FactoryOf(host)));
            m_client->SetConnectCallback(MakeCallback(&MptcpTestCase::OnConnected, this),
                                         MakeNullCallback<void, Ptr<Socket>>());
            m_client->SetSendCallback(MakeCallback(&MptcpTestCase::OnRoom, this));
            m_client->Connect(MptcpWithPort(m_addresses[0], PORT));
        });
    }

    /**
     * Have the host send bytes to the target, beginning after 0.1 s, then close.
     * @param bytes how many
     * @param host what the host speaks
     * @param target what the target speaks
     */
    void Transfer(uint64_t bytes,
                  Protocol host = Protocol::MPTCP,
                  Protocol target = Protocol::MPTCP)
    {
        m_total = bytes;
        Connect(host, target);
        Simulator::Schedule(MilliSeconds(100), [this]() {
            m_sending = true;
            OnRoom(m_client, m_client->GetTxAvailable());
        });
    }

    /**
     * @param packet a packet
     * @return its MPTCP options
     */
    static std::vector<MptcpOption> GetOptions(Ptr<const Packet> packet)
    {
        MptcpOptionTag tag;
        packet->PeekPacketTag(tag);
        return DecodeMptcpOptions(tag.GetBytes());
    }

    /// @return the host's connection
    Ptr<MptcpSocket> GetConnection() const
    {
        return DynamicCast<MptcpSocket>(m_client);
    }

    /**
     * The client is connected.
     * @param socket the client
     */
    void OnConnected(Ptr<Socket> /* socket */)
    {
        m_connected = true;
    }

    /**
     * There is room in the client's send buffer.
     * @param socket the client
     * @param room how many bytes
     */
    void OnRoom(Ptr<Socket> socket, uint32_t /* room */)
    {
        while (m_sending && m_sent < m_total && socket->GetTxAvailable() > 0)
        {
            const auto bytes = static_cast<uint32_t>(
                std::min<uint64_t>({m_total - m_sent, socket->GetTxAvailable(), 10000}));
            if (socket->Send(MakePacket(m_sent, bytes)) < 0)
            {
                break;
            }
            m_sent += bytes;
        }
        if (m_sending && m_sent == m_total)
        {
            m_sending = false;
            socket->Close();
        }
    }

    /**
     * The target has a connection.
     * @param socket the socket
     * @param from the host's address
     */
    void OnAccept(Ptr<Socket> socket, const Address& /* from */)
    {
        m_accepted = socket;
        socket->SetRecvCallback(MakeCallback(&MptcpTestCase::OnData, this));
        socket->SetCloseCallbacks(MakeCallback(&MptcpTestCase::OnClosed, this),
                                  MakeCallback(&MptcpTestCase::OnError, this));
    }

    /**
     * The target got data.
     * @param socket the socket
     */
    void OnData(Ptr<Socket> socket)
    {
        while (m_reading && socket->GetRxAvailable() > 0)
        {
            Ptr<Packet> packet = socket->Recv(100000, 0);
            if (!IsRight(packet, m_received))
            {
                m_wrong = true;
            }
            m_received += packet->GetSize();
            if (m_received == m_total)
            {
                m_finished = Simulator::Now();
            }
        }
    }

    /**
     * The host closed.
     * @param socket the target's socket
     */
    void OnClosed(Ptr<Socket> socket)
    {
        ++m_closed;
        socket->Close();
    }

    /**
     * The connection broke.
     * @param socket the target's socket
     */
    void OnError(Ptr<Socket> /* socket */)
    {
        ++m_errors;
    }

    /// All that was sent arrived, unchanged.
    void ExpectAll()
    {
        NS_TEST_EXPECT_MSG_EQ(m_received, m_total, "bytes received");
        NS_TEST_EXPECT_MSG_EQ(m_wrong, false, "they are right");
        NS_TEST_EXPECT_MSG_EQ(m_closed, 1, "closed once");
        NS_TEST_EXPECT_MSG_EQ(m_errors, 0, "without an error");
    }

    uint32_t m_links;                                            //!< number of links
    bool m_ipv6;                                                 //!< the links' addresses
    std::vector<Address> m_addresses;                            //!< the target's, of each link
    std::vector<std::pair<std::string, std::string>> m_settings; //!< of the path managers
    NodeContainer m_nodes;                                       //!< host and target
    std::vector<Ptr<NetemNetDevice>> m_host;                     //!< the host's devices
    std::vector<Ptr<NetemNetDevice>> m_target;                   //!< the target's devices
    std::vector<uint8_t> m_endpoints;                            //!< IDs of the target's endpoints
    Ptr<Socket> m_server;                                        //!< the target's listener
    Ptr<Socket> m_client;                                        //!< the host's socket
    Ptr<Socket> m_accepted;                                      //!< the target's socket
    bool m_connected{false};                                     //!< the host is connected
    bool m_sending{false};                                       //!< the host is sending
    bool m_reading{true};                                        //!< the target reads
    uint64_t m_total{0};                                         //!< bytes to send
    uint64_t m_sent{0};                                          //!< bytes sent
    uint64_t m_received{0};                                      //!< bytes received
    bool m_wrong{false};                                         //!< some of them are wrong
    uint32_t m_closed{0}; //!< how often the target saw the end
    uint32_t m_errors{0}; //!< how often it saw an error
    Time m_finished;      //!< when all was received
};

/**
 * A transfer fills all paths.
 */
class MptcpTransferTest : public MptcpTestCase
{
  public:
    MptcpTransferTest()
        : MptcpTestCase("four paths carry a transfer, and are full", 4)
    {
    }

  private:
    void DoRun() override
    {
        Transfer(40'000'000);
        std::size_t subflows = 0;
        Simulator::Schedule(MilliSeconds(99),
                            [&]() { subflows = GetConnection()->GetSubflows().size(); });
        Simulator::Stop(Seconds(20));
        Simulator::Run();
        NS_TEST_EXPECT_MSG_EQ(subflows, 4, "subflows");
        ExpectAll();
        // 4 x 100 Mbit/s less headers carry 40 MB in 0.85 s
        const double rate = m_total / (m_finished - MilliSeconds(100)).GetSeconds();
        NS_TEST_EXPECT_MSG_GT(rate, 42e6, "bytes per second");
    }
};

/**
 * Packets are lost on every path, in both directions.
 */
class MptcpLossTest : public MptcpTestCase
{
  public:
    /**
     * @param settings settings of the path managers
     */
    explicit MptcpLossTest(std::vector<std::pair<std::string, std::string>> settings)
        : MptcpTestCase(
              "loss on every path: " +
                  (settings.empty() ? "defaults" : settings[0].first + " " + settings[0].second),
              4)
    {
        m_settings = std::move(settings);
    }

  private:
    void DoRun() override
    {
        Simulator::Schedule(MilliSeconds(50), [this]() {
            for (uint32_t i = 0; i < m_links; ++i)
            {
                m_host[i]->SetAttribute("Loss", DoubleValue(0.02));
                m_target[i]->SetAttribute("Loss", DoubleValue(0.02));
            }
        });
        Transfer(8'000'000);
        Simulator::Stop(Seconds(120));
        Simulator::Run();
        ExpectAll();
    }
};

/**
 * A path dies in the middle of a transfer: without a sign, by a reset, or as its address is
 * removed.
 */
class MptcpFailureTest : public MptcpTestCase
{
  public:
    /// How it dies.
    enum class Death
    {
        SILENT,  //!< packets don't arrive any more
        RESET,   //!< the target resets the subflow
        REMOVED, //!< the target removes the address
    };

    /**
     * @param death how the path dies
     */
    explicit MptcpFailureTest(Death death)
        : MptcpTestCase("a path dies: " + std::string(death == Death::SILENT  ? "silently"
                                                      : death == Death::RESET ? "reset"
                                                                              : "removed"),
                        3),
          m_death(death)
    {
    }

  private:
    void DoRun() override
    {
        Transfer(20'000'000);
        Simulator::Schedule(MilliSeconds(400), &MptcpFailureTest::Kill, this);
        std::size_t left = 0;
        MptcpSocket::Statistics statistics;
        Simulator::Schedule(MilliSeconds(600),
                            [&]() { left = GetConnection()->GetSubflows().size(); });
        Simulator::Schedule(MilliSeconds(790),
                            [&]() { statistics = GetConnection()->GetStatistics(); });
        Simulator::Stop(Seconds(100));
        Simulator::Run();
        ExpectAll();
        NS_TEST_EXPECT_MSG_GT(statistics.bytesReinjected, 0, "what was on it was sent again");
        if (m_death != Death::SILENT)
        {
            NS_TEST_EXPECT_MSG_LT_OR_EQ(left, 2, "the subflow is gone");
        }
        // the other two carry what is left in 0.6 s; 4 time-outs and more with the silent one
        NS_TEST_EXPECT_MSG_LT(m_finished, Seconds(m_death == Death::SILENT ? 4 : 1.5), "in time");
    }

    /// Let the second path die.
    void Kill()
    {
        if (m_death == Death::SILENT)
        {
            m_host[1]->SetAttribute("Loss", DoubleValue(1));
            m_target[1]->SetAttribute("Loss", DoubleValue(1));
        }
        else if (m_death == Death::RESET)
        {
            DynamicCast<MptcpSocket>(m_accepted)->GetSubflows()[1]->Reset(4);
        }
        else
        {
            m_nodes.Get(1)->GetObject<MptcpPathManager>()->RemoveEndpoint(m_endpoints[1]);
        }
    }

    Death m_death; //!< how the path dies
};

/**
 * One side doesn't speak MPTCP: the connection is TCP.
 */
class MptcpFallbackTest : public MptcpTestCase
{
  public:
    /**
     * @param host what the host speaks
     * @param target what the target speaks
     * @param name what is tested
     */
    MptcpFallbackTest(const std::string& name, Protocol host, Protocol target)
        : MptcpTestCase("fallback: " + name, 2),
          m_hostProtocol(host),
          m_targetProtocol(target)
    {
    }

  private:
    void DoRun() override
    {
        m_nodes.Get(0)->GetObject<MptcpPathManager>()->SetAttribute(
            "Enabled",
            BooleanValue(m_targetProtocol == Protocol::TCP));
        Transfer(2'000'000, m_hostProtocol, m_targetProtocol);
        bool fallback = false;
        uint32_t mss = 0;
        Simulator::Schedule(MilliSeconds(150), [&]() {
            auto connection =
                DynamicCast<MptcpSocket>(m_hostProtocol == Protocol::MPTCP ? m_client : m_accepted);
            fallback = connection->HasFallenBack() && connection->GetSubflows().size() == 1;
            mss = connection->GetSubflows()[0]->GetMss();
        });
        Simulator::Stop(Seconds(30));
        Simulator::Run();
        NS_TEST_EXPECT_MSG_EQ(fallback, true, "TCP on one subflow");
        NS_TEST_EXPECT_MSG_EQ(mss, 1448, "segments leave no room for the DSS");
        ExpectAll();
    }

    Protocol m_hostProtocol;   //!< what the host speaks
    Protocol m_targetProtocol; //!< what the target speaks
};

/**
 * A backup isn't used before the other path is gone, and MP_PRIO makes one of any.
 */
class MptcpBackupTest : public MptcpTestCase
{
  public:
    MptcpBackupTest()
        : MptcpTestCase("backup: unused until needed, MP_PRIO", 2)
    {
    }

  private:
    void DoRun() override
    {
        auto pathManager = m_nodes.Get(1)->GetObject<MptcpPathManager>();
        pathManager->SetBackup(m_endpoints[1], true);
        Transfer(20'000'000);
        auto sent = [this](uint32_t i) {
            return GetConnection()->GetSubflows()[i]->GetBytesAcked();
        };
        std::vector<uint64_t> before;
        std::vector<uint64_t> swapped;
        std::vector<uint64_t> after;
        Simulator::Schedule(MilliSeconds(300), [&]() {
            before = {sent(0), sent(1)};
            // the host's side: the first is a backup now, the second none any more
            pathManager->SetBackup(m_endpoints[1], false);
            pathManager->SetBackup(m_endpoints[0], true);
        });
        Simulator::Schedule(MilliSeconds(500), [&]() { swapped = {sent(0), sent(1)}; });
        Simulator::Schedule(MilliSeconds(700), [&]() {
            after = {sent(0), sent(1)};
            m_host[1]->SetAttribute("Loss", DoubleValue(1));
        });
        Simulator::Stop(Seconds(100));
        Simulator::Run();
        NS_TEST_EXPECT_MSG_GT(before[0], 1'000'000, "the first is used");
        NS_TEST_EXPECT_MSG_EQ(before[1], 0, "the backup is not");
        NS_TEST_EXPECT_MSG_EQ(after[0], swapped[0], "the first became a backup");
        NS_TEST_EXPECT_MSG_GT(after[1], swapped[1] + 1'000'000, "the second is used");
        ExpectAll(); // over the first again
    }
};

/**
 * Shares of the paths under a scheduler.
 */
class MptcpSchedulerTest : public MptcpTestCase
{
  public:
    /// What to expect of the shares: path 1 has 100 Mbit/s, path 2 has 50.
    enum class Share
    {
        BY_RATE, //!< as the rates
        EQUAL,   //!< the same, as long as the slow one's buffer has room
        SAME,    //!< both send everything
        LESS,    //!< the slow one no more than by its rate
    };

    /**
     * @param scheduler name of the scheduler
     * @param share what to expect
     */
    MptcpSchedulerTest(const std::string& scheduler, Share share)
        : MptcpTestCase("scheduler " + scheduler, 2),
          m_share(share)
    {
        m_settings = {{"Scheduler", "ns3::MptcpScheduler" + scheduler}};
    }

  private:
    void DoRun() override
    {
        for (const auto& device : {m_host[1], m_target[1]})
        {
            device->SetAttribute("Rate", DataRateValue(DataRate("50Mbps")));
            device->SetAttribute("Delay", TimeValue(MilliSeconds(3)));
        }
        Transfer(30'000'000);
        double fast = 0;
        double slow = 0;
        double sent = 0;
        double copies = 0;
        Simulator::Schedule(MilliSeconds(1300), [&]() {
            sent = m_sent;
            copies = GetConnection()->GetStatistics().bytesReinjected;
            const auto given = [this](uint32_t index) {
                const Ptr<MptcpSubflow> subflow = GetConnection()->GetSubflows()[index];
                return subflow->GetBytesAcked() +
                       (m_share == Share::EQUAL ? subflow->GetBytesUnacknowledged() : 0);
            };
            fast = given(0);
            slow = given(1);
        });
        Simulator::Stop(Seconds(60));
        Simulator::Run();
        ExpectAll();
        NS_TEST_EXPECT_MSG_GT(slow, 0, "the slow path is used");
        switch (m_share)
        {
        case Share::BY_RATE:
            NS_TEST_EXPECT_MSG_EQ_TOL(fast / slow, 2, 0.3, "share of the fast path");
            NS_TEST_EXPECT_MSG_EQ(copies, 0, "nothing is sent twice");
            break;
        case Share::EQUAL:
            NS_TEST_EXPECT_MSG_EQ_TOL(fast / slow, 1, 0.25, "share of the fast path");
            break;
        case Share::SAME:
            NS_TEST_EXPECT_MSG_GT(copies, 0.3 * sent, "what has room gets everything");
            break;
        case Share::LESS:
            NS_TEST_EXPECT_MSG_GT(fast / slow, 1.8, "share of the fast path");
            break;
        }
    }

    Share m_share; //!< what to expect
};

/**
 * The target doesn't read: the host stops at the end of the window, and goes on when it does.
 */
class MptcpWindowTest : public MptcpTestCase
{
  public:
    MptcpWindowTest()
        : MptcpTestCase("the receive window is never exceeded", 3)
    {
    }

  private:
    void DoRun() override
    {
        m_reading = false;
        Transfer(5'000'000);
        uint32_t held = 0;
        bool exceeded = false;
        std::function<void()> watch = [&]() {
            Ptr<MptcpSocket> connection = GetConnection();
            exceeded |= MptcpBefore(connection->GetWindowEnd(), connection->GetSendNext());
            if (Simulator::Now() < Seconds(2))
            {
                Simulator::Schedule(MicroSeconds(700), watch);
            }
        };
        Simulator::Schedule(MilliSeconds(101), watch);
        Simulator::Schedule(Seconds(2), [&]() {
            held = m_accepted->GetRxAvailable();
            m_reading = true;
            OnData(m_accepted);
        });
        MptcpSocket::Statistics statistics;
        Simulator::Schedule(Seconds(2) + MilliSeconds(100), [&]() {
            statistics = DynamicCast<MptcpSocket>(m_accepted)->GetStatistics();
        });
        Simulator::Stop(Seconds(60));
        Simulator::Run();
        NS_TEST_EXPECT_MSG_GT(held, 20'000, "the window was used");
        NS_TEST_EXPECT_MSG_LT_OR_EQ(held, 131072, "and not exceeded");
        NS_TEST_EXPECT_MSG_EQ(exceeded, false, "the host kept to it");
        NS_TEST_EXPECT_MSG_EQ(statistics.bytesOutOfWindow, 0, "nothing came from beyond");
        ExpectAll();
    }
};

/**
 * What the target reads is acknowledged where it came, not on each subflow, although the window of
 * the connection has opened by more than half (mptcp_cleanup_rbuf()).
 */
class MptcpAckTest : public MptcpTestCase
{
  public:
    MptcpAckTest()
        : MptcpTestCase("only subflows that got data send ACKs", 4)
    {
    }

  private:
    void DoRun() override
    {
        uint32_t acks = 0;
        for (const Ptr<NetemNetDevice>& device : m_target)
        {
            device->TraceConnectWithoutContext(
                "Send",
                Callback<void, Ptr<const Packet>, uint32_t>([&acks](Ptr<const Packet>, uint32_t) {
                    acks += Simulator::Now() > MilliSeconds(100);
                }));
        }
        constexpr uint32_t writes = 100;
        constexpr uint32_t bytes = 1000;
        m_total = writes * bytes;
        // far more than the subflows' first windows
        Config::SetDefault("ns3::MptcpSocket::RcvBuf", UintegerValue(1 << 20));
        Connect();
        for (uint32_t i = 0; i < writes; ++i)
        {
            Simulator::Schedule(MilliSeconds(101 + 5 * i), [this]() {
                m_client->Send(MakePacket(m_sent, bytes));
                m_sent += bytes;
            });
        }
        Simulator::Stop(Seconds(2));
        Simulator::Run();
        Config::Reset();
        NS_TEST_EXPECT_MSG_EQ(m_received, m_total, "all of it came");
        NS_TEST_EXPECT_MSG_EQ(m_wrong, false, "unchanged");
        NS_TEST_EXPECT_MSG_GT(acks, writes / 4, "and was acknowledged");
        NS_TEST_EXPECT_MSG_LT_OR_EQ(acks, writes + 4, "at most once");
    }
};

/**
 * A subflow's data are acknowledged at once while the connection waits for those of another, and
 * its window shrinks: the subflow has handed on what it received (__tcp_ack_snd_check()).
 */
class MptcpAckAtOnceTest : public MptcpTestCase
{
  public:
    MptcpAckAtOnceTest()
        : MptcpTestCase("a subflow acknowledges at once what waits for another's", 2)
    {
        m_settings = {{"Scheduler", "ns3::MptcpSchedulerRoundRobin"}};
    }

  private:
    void DoRun() override
    {
        for (const Ptr<NetemNetDevice>& device : {m_host[1], m_target[1]})
        {
            device->SetAttribute("Delay", TimeValue(MilliSeconds(40)));
        }
        m_host[0]->SetAttribute("Rate", DataRateValue(DataRate("10Gbps"))); // without a queue
        m_total = WRITES * BYTES;
        // room for what waits
        Config::SetDefault("ns3::TcpLinuxSocket::Wmem", StringValue("4096 4194304 4194304"));
        Connect();
        for (uint32_t i = 0; i < WRITES; ++i)
        {
            Simulator::Schedule(MilliSeconds(100 + i), &MptcpAckAtOnceTest::Write, this);
        }
        Simulator::Schedule(Seconds(2), [this]() { m_client->Close(); });
        Simulator::Stop(Seconds(4));
        Simulator::Run();
        Config::Reset();
        ExpectAll();
        NS_TEST_EXPECT_MSG_LT(m_longest, MicroSeconds(2500), "nothing beside the path's 2 ms");
    }

    /// Send, and look at the path without delay.
    void Write()
    {
        m_client->Send(MakePacket(m_sent, BYTES));
        m_sent += BYTES;
        m_longest = Max(m_longest, GetConnection()->GetSubflows().front()->GetSrtt());
    }

    static constexpr uint32_t WRITES = 300;   //!< one each millisecond
    static constexpr uint32_t BYTES = 20'000; //!< in each

    Time m_longest; //!< smoothed round trip of the path without delay
};

/**
 * The default scheduler gives an idle slow subflow a short burst, forgets that it was slow, and
 * says how much is held back.
 */
class MptcpBurstTest : public MptcpTestCase
{
  public:
    MptcpBurstTest()
        : MptcpTestCase("a burst is as long as the subflow is fast", 2)
    {
    }

  private:
    /**
     * Choose for the connection.
     * @param attribute of the scheduler
     * @param value what it is set to
     * @return the choice
     */
    MptcpScheduler::Choice Choose(const std::string& attribute, const AttributeValue& value)
    {
        auto scheduler = CreateObject<MptcpSchedulerDefault>();
        scheduler->SetAttribute(attribute, value);
        return scheduler->ChooseSend(*GetConnection());
    }

    void DoRun() override
    {
        for (const auto& [path, rate] : {std::pair(0, "100Mbps"), std::pair(1, "1Gbps")})
        {
            m_host[path]->SetAttribute("Rate", DataRateValue(DataRate(rate)));
            m_target[path]->SetAttribute("Rate", DataRateValue(DataRate(rate)));
        }
        m_total = BATCHES * BATCH;
        // room for a batch while the last one is on its way
        Config::SetDefault("ns3::TcpLinuxSocket::Wmem", StringValue("4096 4194304 4194304"));
        Connect();
        for (uint32_t batch = 0; batch < BATCHES; ++batch)
        {
            Simulator::Schedule(MilliSeconds(100 + 10 * batch), [this]() {
                m_client->Send(MakePacket(m_sent, BATCH), 0);
                m_sent += BATCH;
            });
        }
        // 8 ms after the last batch: all is sent and acknowledged
        Simulator::Schedule(MilliSeconds(98 + 10 * BATCHES), &MptcpBurstTest::Compare, this);
        Simulator::Schedule(Seconds(3), &MptcpBurstTest::CompareOld, this);
        Simulator::Schedule(Seconds(4), [this]() { m_client->Close(); });
        Simulator::Stop(Seconds(6));
        Simulator::Run();
        Config::Reset();
        NS_TEST_EXPECT_MSG_EQ(m_received, m_total, "all of it came");
    }

    /// While what was measured is new.
    void Compare()
    {
        const auto whole = Choose("BurstByRate", BooleanValue(false));
        const auto byRate = Choose("BurstByRate", BooleanValue(true));
        NS_TEST_ASSERT_MSG_EQ(whole.subflows.size(), 1, "somebody sends");
        NS_TEST_ASSERT_MSG_EQ(byRate.subflows.size(), 1, "somebody sends");
        NS_TEST_EXPECT_MSG_EQ(whole.burst, MptcpScheduler::BURST_BYTES, "all are alike");
        NS_TEST_EXPECT_MSG_EQ((byRate.subflows == whole.subflows), true, "the slow one");
        m_burst = byRate.burst;
        NS_TEST_EXPECT_MSG_EQ_TOL(m_burst, 0.1 * whole.burst, 0.06 * whole.burst, "a tenth");
        const auto page = Choose("HoldTime", TimeValue(MicroSeconds(16))).hold;
        NS_TEST_EXPECT_MSG_EQ(page, 4144, "a page and what frames it at least, of a slow one");
        NS_TEST_EXPECT_MSG_EQ(Choose("HoldTime", TimeValue(Time(0))).hold, 0, "nothing waits");
        const auto held = Choose("HoldTime", TimeValue(Seconds(1))).hold;
        NS_TEST_EXPECT_MSG_EQ(held, MptcpScheduler::BURST_BYTES / 4, "at most");
    }

    /// Two seconds later.
    void CompareOld()
    {
        const auto later = Choose("BurstByRate", BooleanValue(true));
        NS_TEST_EXPECT_MSG_GT(later.burst, 2 * m_burst, "tried again with more");
    }

    static constexpr uint32_t BATCH = 600'000; //!< bytes
    static constexpr uint32_t BATCHES = 100;   //!< in a second

    uint32_t m_burst{0}; //!< burst while the measurement is new
};

/**
 * A subflow's send buffer grows when data wait for room, and its last rate sample counts. A TCP
 * connection keeps the highest sample while the application limits it.
 */
class MptcpRoomTest : public MptcpTestCase
{
  public:
    /**
     * @param protocol what both ends speak
     */
    explicit MptcpRoomTest(Protocol protocol)
        : MptcpTestCase("send buffers and rate samples with little to send, " + FactoryOf(protocol),
                        protocol == Protocol::MPTCP ? 2 : 1),
          m_protocol(protocol)
    {
    }

  private:
    /// @return the socket that sends
    Ptr<TcpLinuxSocket> GetSender() const
    {
        if (const auto connection = GetConnection())
        {
            return connection->GetSubflows().front();
        }
        return DynamicCast<TcpLinuxSocket>(m_client);
    }

    /**
     * Send something.
     * @param at when, in ms
     * @param bytes how much
     */
    void SendAt(uint32_t at, uint32_t bytes)
    {
        m_total += bytes;
        Simulator::Schedule(MilliSeconds(at), [this, bytes]() {
            m_client->Send(MakePacket(m_sent, bytes), 0);
            m_sent += bytes;
        });
    }

    /**
     * Look at the sender, while nobody waits for room.
     * @param buffer size of the send buffer
     * @param rate delivery rate
     */
    void Measure(uint64_t& buffer, double& rate)
    {
        buffer = GetSender()->GetSndBuf();
        rate = GetSender()->GetDeliveryRate();
        if (const auto connection = GetConnection())
        {
            NS_TEST_EXPECT_MSG_EQ(connection->WaitsForRoom(), false, "nobody waits");
        }
    }

    void DoRun() override
    {
        if (m_protocol == Protocol::MPTCP)
        {
            m_nodes.Get(1)->GetObject<MptcpPathManager>()->SetBackup(m_endpoints[1], true);
        }
        Connect(m_protocol, m_protocol);
        // twice the first window at a time, half of the first buffer
        for (uint32_t write = 0; write < 10; ++write)
        {
            SendAt(100 + 10 * write, 28'000);
        }
        uint64_t before = 0;
        double highest = 0;
        Simulator::Schedule(MilliSeconds(299), [&]() { Measure(before, highest); });
        if (m_protocol == Protocol::MPTCP)
        {
            SendAt(300, 100'000); // the subflow has no room for it, with the backup's there is some
        }
        SendAt(350, 100);
        uint64_t after = 0;
        double last = 0;
        double segment = 0;
        Simulator::Schedule(MilliSeconds(399), [&]() {
            Measure(after, last);
            // a lone packet counts as a segment, in the time of a round trip
            segment = GetSender()->GetCurrentMss() / 2.1e-3;
        });
        Simulator::Schedule(MilliSeconds(400), [this]() { m_client->Close(); });
        Simulator::Stop(Seconds(2));
        Simulator::Run();
        NS_TEST_EXPECT_MSG_EQ(m_received, m_total, "all of it came");
        NS_TEST_EXPECT_MSG_GT(highest, 3 * segment, "several packets went out at a time");
        if (m_protocol == Protocol::MPTCP)
        {
            NS_TEST_EXPECT_MSG_GT(after, 1.5 * before, "the buffer grew");
            NS_TEST_EXPECT_MSG_EQ_TOL(last, segment, 0.1 * segment, "the last sample");
        }
        else
        {
            NS_TEST_EXPECT_MSG_EQ(after, before, "the buffer stayed");
            NS_TEST_EXPECT_MSG_EQ(last, highest, "the highest sample");
        }
    }

    Protocol m_protocol; //!< what both ends speak
};

/**
 * What is sent with MSG_MORE waits for more at the connection's level.
 */
class MptcpHoldTest : public MptcpTestCase
{
  public:
    MptcpHoldTest()
        : MptcpTestCase("what is sent with MSG_MORE waits for more", 4)
    {
    }

  private:
    /**
     * Send a page.
     * @param more with MSG_MORE
     */
    void SendPage(bool more)
    {
        m_client->Send(MakePacket(m_sent, PAGE), more ? uint32_t{TcpLinuxSocket::SEND_MORE} : 0);
        m_sent += PAGE;
    }

    /**
     * Look at what has arrived.
     * @param at when, in ms
     * @param pages how many pages
     * @param why what it shows
     */
    void Expect(uint32_t at, uint32_t pages, const std::string& why)
    {
        Simulator::Schedule(MilliSeconds(at), [this, pages, why]() {
            NS_TEST_EXPECT_MSG_EQ(m_received, pages * PAGE, why);
        });
    }

    void DoRun() override
    {
        m_total = 12 * PAGE;
        // long enough for the most that is held back, a quarter of a burst
        Config::SetDefault("ns3::MptcpSchedulerDefault::HoldTime", TimeValue(Seconds(1)));
        Connect();
        // a choice has to be made, with a rate measured
        for (uint32_t at : {101, 121})
        {
            Simulator::Schedule(MilliSeconds(at), &MptcpHoldTest::SendPage, this, false);
        }
        Simulator::Schedule(MilliSeconds(151), [this]() {
            SendPage(true);
            SendPage(true);
        });
        Expect(340, 2, "two pages wait");
        Expect(450, 4, "but no longer than the retransmission timer takes");
        Simulator::Schedule(MilliSeconds(451), [this]() {
            SendPage(true);
            SendPage(false);
        });
        Expect(490, 6, "the end of a message doesn't wait");
        Simulator::Schedule(MilliSeconds(551), [this]() {
            for (uint32_t page = 0; page < 4; ++page)
            {
                SendPage(true);
            }
        });
        Expect(590, 10, "neither does a quarter of a burst");
        Simulator::Schedule(MilliSeconds(651), [this]() {
            SendPage(true);
            SendPage(true);
            m_client->Close();
        });
        Expect(690, 12, "nor what the connection ends with");
        Simulator::Stop(Seconds(2));
        Simulator::Run();
        Config::Reset();
        NS_TEST_EXPECT_MSG_EQ(m_wrong, false, "unchanged");
    }

    static constexpr uint32_t PAGE = 4096; //!< bytes
};

/**
 * The low half of the data sequence numbers wraps during the transfer, in the data and in 4-byte
 * data ACKs.
 */
class MptcpWrapTest : public MptcpTestCase
{
  public:
    MptcpWrapTest()
        : MptcpTestCase("data sequence numbers wrap their low 32 bits", 2)
    {
    }

  private:
    void DoRun() override
    {
        auto pathManager = m_nodes.Get(0)->GetObject<MptcpPathManager>();
        int64_t stream = 2000;
        uint32_t first = 0;
        do
        {
            pathManager->AssignStreams(++stream);
            first = static_cast<uint32_t>(MptcpIdsn(pathManager->DrawKey()));
        } while (first < UINT32_MAX - 2'000'000);
        pathManager->AssignStreams(stream);
        Transfer(4'000'000);
        uint64_t begin = 0;
        uint64_t end = 0;
        Simulator::Schedule(MilliSeconds(99),
                            [&]() { begin = GetConnection()->GetSendUnacknowledged(); });
        Simulator::Schedule(Seconds(2), [&]() { end = GetConnection()->GetSendUnacknowledged(); });
        Simulator::Stop(Seconds(20));
        Simulator::Run();
        NS_TEST_EXPECT_MSG_EQ((end >> 32) - (begin >> 32), 1, "they wrapped");
        NS_TEST_EXPECT_MSG_EQ(end, begin + m_total + 1, "all data and the DATA_FIN");
        ExpectAll();
    }
};

/**
 * The handshakes' bytes on the wire: keys, tokens, HMACs.
 */
class MptcpHandshakeTest : public MptcpTestCase
{
  public:
    MptcpHandshakeTest()
        : MptcpTestCase("handshakes carry keys, tokens and HMACs of RFC 8684", 2)
    {
    }

  private:
    void DoRun() override
    {
        for (uint32_t i = 0; i < m_links; ++i)
        {
            for (const auto& device : {m_host[i], m_target[i]})
            {
                device->TraceConnectWithoutContext("Send",
                                                   MakeCallback(&MptcpHandshakeTest::Watch, this));
            }
        }
        Transfer(100'000);
        Simulator::Stop(Seconds(5));
        Simulator::Run();
        ExpectAll();
        const auto* syn = Find<MptcpCapable>(0);
        const auto* synAck = Find<MptcpCapable>(1);
        const auto* ack = Find<MptcpCapable>(2);
        const auto* joinSyn = Find<MptcpJoinSyn>(0);
        const auto* joinSynAck = Find<MptcpJoinSynAck>(0);
        const auto* joinAck = Find<MptcpJoinAck>(0);
        const auto* announced = Find<MptcpAddAddr>(0);
        const auto* echo = Find<MptcpAddAddr>(1);
        const bool complete =
            syn && synAck && ack && joinSyn && joinSynAck && joinAck && announced && echo;
        NS_TEST_ASSERT_MSG_EQ(complete, true, "all of them were sent");
        NS_TEST_EXPECT_MSG_EQ(syn->senderKey.has_value(), false, "the SYN has no key");
        NS_TEST_EXPECT_MSG_EQ(*synAck->senderKey, *ack->receiverKey, "target's key");
        const uint64_t hostKey = *ack->senderKey;
        const uint64_t targetKey = *ack->receiverKey;
        NS_TEST_EXPECT_MSG_EQ(joinSyn->token, MptcpToken(targetKey), "token of the target");
        const auto targetHmac =
            MptcpJoinHmac(targetKey, hostKey, joinSynAck->nonce, joinSyn->nonce);
        const auto hostHmac = MptcpJoinHmac(hostKey, targetKey, joinSyn->nonce, joinSynAck->nonce);
        NS_TEST_EXPECT_MSG_EQ(
            std::equal(joinSynAck->hmac.begin(), joinSynAck->hmac.end(), targetHmac.begin()),
            true,
            "the target's HMAC");
        NS_TEST_EXPECT_MSG_EQ(
            std::equal(joinAck->hmac.begin(), joinAck->hmac.end(), hostHmac.begin()),
            true,
            "the host's HMAC");
        NS_TEST_EXPECT_MSG_EQ(joinSynAck->addressId, announced->addressId, "ID of the address");
        NS_TEST_EXPECT_MSG_EQ(echo->echo, true, "the host confirmed the address");
        const auto* dss = Find<MptcpDss>(0);
        // 4 bytes, as long as the host sent no data
        NS_TEST_EXPECT_MSG_EQ(*dss->dataAck,
                              static_cast<uint32_t>(MptcpIdsn(hostKey) + 1),
                              "first data ACK");
    }

    /**
     * Note options that a device sends.
     * @param packet the packet
     * @param bytes its bytes on the wire
     */
    void Watch(Ptr<const Packet> packet, uint32_t /* bytes */)
    {
        for (const auto& option : GetOptions(packet))
        {
            m_seen.push_back(option);
        }
    }

    /**
     * Find an option that was sent.
     * @tparam T its type
     * @param skip pass over so many of the type
     * @return the option, null if there were not so many
     */
    template <typename T>
    const T* Find(uint32_t skip) const
    {
        for (const auto& option : m_seen)
        {
            const T* found = std::get_if<T>(&option);
            if (found && skip-- == 0)
            {
                return found;
            }
        }
        return nullptr;
    }

    std::vector<MptcpOption> m_seen; //!< options sent
};

/**
 * A new subflow is an occasion to announce the next address, and on the side that accepts it the
 * first sample of its round-trip time is one of timestamps.
 */
class MptcpJoinTest : public MptcpTestCase
{
  public:
    MptcpJoinTest()
        : MptcpTestCase("joins: the next announcement, the first round-trip time", 3)
    {
    }

  private:
    void DoRun() override
    {
        // a join of 0.6 ms over the second link, while an echo takes 1 ms over the first
        m_host[1]->SetAttribute("Delay", TimeValue(MicroSeconds(100)));
        m_target[1]->SetAttribute("Delay", TimeValue(MicroSeconds(100)));
        m_target[0]->TraceConnectWithoutContext("Send", MakeCallback(&MptcpJoinTest::Watch, this));
        m_target[1]->TraceConnectWithoutContext("Send", MakeCallback(&MptcpJoinTest::Watch, this));
        Transfer(10'000);
        Simulator::Schedule(MilliSeconds(90), [this] {
            const auto subflows = DynamicCast<MptcpSocket>(m_accepted)->GetSubflows();
            NS_TEST_ASSERT_MSG_EQ(subflows.size(), 3, "all are open");
            NS_TEST_EXPECT_MSG_GT(subflows[0]->GetSrtt(), MilliSeconds(2), "measured");
            NS_TEST_EXPECT_MSG_EQ(subflows[1]->GetSrtt(), MilliSeconds(1), "not 0.2 ms");
        });
        Simulator::Stop(Seconds(5));
        Simulator::Run();
        ExpectAll();
        NS_TEST_ASSERT_MSG_EQ(m_announced.size(), 2, "each address once");
        NS_TEST_EXPECT_MSG_LT(m_announced[1] - m_announced[0],
                              MilliSeconds(2),
                              "the second one didn't wait for the echo of the first");
    }

    /**
     * Note when addresses are announced.
     * @param packet the packet
     * @param bytes its bytes on the wire
     */
    void Watch(Ptr<const Packet> packet, uint32_t /* bytes */)
    {
        for (const auto& option : GetOptions(packet))
        {
            if (std::holds_alternative<MptcpAddAddr>(option))
            {
                m_announced.push_back(Simulator::Now());
            }
        }
    }

    std::vector<Time> m_announced; //!< when
};

/**
 * The same over IPv6: announced addresses, subflows, and segments with room for a longer header.
 */
class MptcpIpv6Test : public MptcpTestCase
{
  public:
    /**
     * @param protocol what both ends speak
     */
    explicit MptcpIpv6Test(Protocol protocol)
        : MptcpTestCase(std::string("IPv6, lossy links: ") +
                            (protocol == Protocol::MPTCP ? "MPTCP" : "TCP"),
                        3,
                        true),
          m_protocol(protocol)
    {
    }

  private:
    void DoRun() override
    {
        for (uint32_t i = 0; i < m_links; ++i)
        {
            m_host[i]->SetAttribute("Loss", DoubleValue(0.005));
            m_host[i]->TraceConnectWithoutContext("Send",
                                                  MakeCallback(&MptcpIpv6Test::OnHostSends, this));
            m_target[i]->TraceConnectWithoutContext(
                "Send",
                MakeCallback(&MptcpIpv6Test::OnTargetSends, this));
        }
        const bool mptcp = m_protocol == Protocol::MPTCP;
        const std::size_t paths = mptcp ? m_links : 1;
        const uint32_t payload = mptcp ? 1400 : 1428;
        Transfer(5'000'000, m_protocol, m_protocol);
        std::size_t subflows = 0;
        Simulator::Schedule(MilliSeconds(99), [&]() {
            subflows = mptcp ? GetConnection()->GetSubflows().size() : 1;
        });
        Simulator::Stop(Seconds(100));
        Simulator::Run();
        ExpectAll();
        NS_TEST_EXPECT_MSG_EQ(subflows, paths, "subflows");
        const std::set<Address> others(m_addresses.begin() + 1, m_addresses.end());
        NS_TEST_EXPECT_MSG_EQ((m_announced == (mptcp ? others : std::set<Address>())),
                              true,
                              "the target announced its other addresses, as ADD_ADDR of IPv6");
        // of 1500 bytes: 40 IPv6, 20 TCP, 12 timestamps, 28 DSS
        NS_TEST_EXPECT_MSG_EQ(m_largest, payload, "of a full segment");
        NS_TEST_EXPECT_MSG_EQ(m_onlyIpv6, true, "IP version of all packets");
    }

    /**
     * @param packet what the host sends
     * @param bytes its bytes on the wire
     */
    void OnHostSends(Ptr<const Packet> packet, uint32_t /* bytes */)
    {
        CheckVersion(packet);
        GsoTag gso;
        if (packet->PeekPacketTag(gso) && gso.GetSegments() > 1)
        {
            m_largest = std::max<uint32_t>(m_largest, gso.GetSegmentPayload());
        }
    }

    /**
     * @param packet what the target sends
     * @param bytes its bytes on the wire
     */
    void OnTargetSends(Ptr<const Packet> packet, uint32_t /* bytes */)
    {
        CheckVersion(packet);
        for (const auto& option : GetOptions(packet))
        {
            if (const auto* announced = std::get_if<MptcpAddAddr>(&option))
            {
                m_announced.insert(std::get<Ipv6Address>(announced->address));
            }
        }
    }

    /**
     * @param packet an IP packet
     */
    void CheckVersion(Ptr<const Packet> packet)
    {
        uint8_t first = 0;
        packet->CopyData(&first, 1);
        m_onlyIpv6 = m_onlyIpv6 && first >> 4 == 6;
    }

    Protocol m_protocol;           //!< what both ends speak
    std::set<Address> m_announced; //!< the target's addresses that it announced
    uint32_t m_largest{0};         //!< most payload of a segment of the host's, in bytes
    bool m_onlyIpv6{true};         //!< no packet was IPv4
};

/**
 * The host aborts the connection, MP_FASTCLOSE tells the target.
 */
class MptcpFastCloseTest : public MptcpTestCase
{
  public:
    MptcpFastCloseTest()
        : MptcpTestCase("MP_FASTCLOSE ends the connection on all subflows", 3)
    {
    }

  private:
    void DoRun() override
    {
        Transfer(50'000'000);
        std::size_t subflows = 1;
        Simulator::Schedule(MilliSeconds(300), [this]() {
            m_sending = false;
            GetConnection()->Abort();
        });
        Simulator::Schedule(MilliSeconds(500), [&]() {
            subflows = DynamicCast<MptcpSocket>(m_accepted)->GetSubflows().size();
        });
        Simulator::Stop(Seconds(2));
        Simulator::Run();
        NS_TEST_EXPECT_MSG_EQ(m_errors, 1, "the target knows");
        NS_TEST_EXPECT_MSG_EQ(subflows, 0, "no subflow is left");
        NS_TEST_EXPECT_MSG_EQ(m_wrong, false, "what came is right");
    }
};

/// All tests of MPTCP.
class MptcpTestSuite : public TestSuite
{
  public:
    MptcpTestSuite()
        : TestSuite("nvme-mptcp-mptcp", Type::UNIT)
    {
        AddTestCase(new MptcpSequenceTest, TestCase::Duration::QUICK);
        for (uint64_t start : {uint64_t{1}, (uint64_t{1} << 32) - 9000, UINT64_MAX - 9000})
        {
            AddTestCase(new MptcpReceiveQueueTest(start), TestCase::Duration::QUICK);
        }
        AddTestCase(new MptcpSendQueueTest, TestCase::Duration::QUICK);
        AddTestCase(new MptcpMappingTest, TestCase::Duration::QUICK);
        using Settings = std::vector<std::pair<std::string, std::string>>;
        using Protocol = MptcpTestCase::Protocol;
        AddTestCase(new MptcpTransferTest, TestCase::Duration::QUICK);
        AddTestCase(new MptcpHandshakeTest, TestCase::Duration::QUICK);
        AddTestCase(new MptcpJoinTest, TestCase::Duration::QUICK);
        for (const Settings& settings : {Settings{},
                                         Settings{{"Checksum", "true"}},
                                         Settings{{"Scheduler", "ns3::MptcpSchedulerRoundRobin"}},
                                         Settings{{"Scheduler", "ns3::MptcpSchedulerRedundant"}},
                                         Settings{{"CongestionControl", "ns3::MptcpOlia"}}})
        {
            AddTestCase(new MptcpLossTest(settings), TestCase::Duration::QUICK);
        }
        for (auto death : {MptcpFailureTest::Death::SILENT,
                           MptcpFailureTest::Death::RESET,
                           MptcpFailureTest::Death::REMOVED})
        {
            AddTestCase(new MptcpFailureTest(death), TestCase::Duration::QUICK);
        }
        AddTestCase(new MptcpFallbackTest("target speaks TCP", Protocol::MPTCP, Protocol::TCP),
                    TestCase::Duration::QUICK);
        AddTestCase(new MptcpFallbackTest("host speaks TCP", Protocol::TCP, Protocol::MPTCP),
                    TestCase::Duration::QUICK);
        AddTestCase(new MptcpFallbackTest("MPTCP disabled", Protocol::MPTCP, Protocol::MPTCP),
                    TestCase::Duration::QUICK);
        AddTestCase(new MptcpBackupTest, TestCase::Duration::QUICK);
        using Share = MptcpSchedulerTest::Share;
        AddTestCase(new MptcpSchedulerTest("Default", Share::BY_RATE), TestCase::Duration::QUICK);
        AddTestCase(new MptcpSchedulerTest("RoundRobin", Share::EQUAL), TestCase::Duration::QUICK);
        AddTestCase(new MptcpSchedulerTest("Redundant", Share::SAME), TestCase::Duration::QUICK);
        AddTestCase(new MptcpSchedulerTest("Blest", Share::LESS), TestCase::Duration::QUICK);
        AddTestCase(new MptcpWindowTest, TestCase::Duration::QUICK);
        AddTestCase(new MptcpAckTest, TestCase::Duration::QUICK);
        AddTestCase(new MptcpAckAtOnceTest, TestCase::Duration::QUICK);
        AddTestCase(new MptcpBurstTest, TestCase::Duration::QUICK);
        AddTestCase(new MptcpHoldTest, TestCase::Duration::QUICK);
        AddTestCase(new MptcpRoomTest(Protocol::MPTCP), TestCase::Duration::QUICK);
        AddTestCase(new MptcpRoomTest(Protocol::TCP), TestCase::Duration::QUICK);
        AddTestCase(new MptcpWrapTest, TestCase::Duration::QUICK);
        AddTestCase(new MptcpFastCloseTest, TestCase::Duration::QUICK);
        AddTestCase(new MptcpIpv6Test(Protocol::MPTCP), TestCase::Duration::QUICK);
        AddTestCase(new MptcpIpv6Test(Protocol::TCP), TestCase::Duration::QUICK);
    }
};

const MptcpTestSuite g_mptcpTestSuite; //!< registers the suite

} // namespace
