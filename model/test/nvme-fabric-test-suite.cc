/*
 * SPDX-License-Identifier: GPL-2.0-only
 */

#include "ns3/double.h"
#include "ns3/inet-socket-address.h"
#include "ns3/nvme-fabric-helper.h"
#include "ns3/packet.h"
#include "ns3/simulator.h"
#include "ns3/socket.h"
#include "ns3/test.h"
#include "ns3/udp-socket-factory.h"

#include <map>
#include <set>

using namespace ns3;

namespace
{

constexpr uint16_t PORT = 4420;

/**
 * @ingroup nvme-mptcp
 * @ingroup tests
 * UDP from each host to each of the target's addresses, and answers, over a fabric.
 */
class FabricTest : public TestCase
{
  public:
    /**
     * @param spines number of spines; 0: switches
     * @param name what is tested
     */
    FabricTest(uint32_t spines, const std::string& name)
        : TestCase(name),
          m_spines(spines)
    {
    }

  private:
    static constexpr uint32_t HOSTS = 6;
    static constexpr uint32_t PATHS = 2;
    static constexpr uint32_t PORTS = 24; // source ports of each host, for each path
    static constexpr uint32_t ROUNDS = 3;

    void DoRun() override
    {
        NvmeFabricHelper fabric(HOSTS, PATHS);
        uint32_t targetLinks = 0;
        fabric.SetTargetLink([&targetLinks](uint32_t path, auto, auto) { targetLinks += path; });
        uint32_t hostLinks = 0;
        fabric.SetHostLink([&hostLinks](uint32_t path, auto, auto) { hostLinks += path; });
        if (m_spines)
        {
            fabric.InstallLeafSpine(4, m_spines);
        }
        else
        {
            fabric.InstallSwitches();
        }
        fabric.AssignStreams(1);
        NS_TEST_EXPECT_MSG_EQ(targetLinks, 1 + 2, "settings of the target's links");
        NS_TEST_EXPECT_MSG_EQ(hostLinks, HOSTS * (1 + 2), "settings of the hosts' links");
        for (const auto& device : fabric.GetDevices())
        {
            device->TraceConnectWithoutContext(
                "Send",
                Callback<void, Ptr<const Packet>, uint32_t>(
                    [this, device = PeekPointer(device)](Ptr<const Packet>, uint32_t) {
                        m_sent[device]++;
                    }));
        }

        auto server = Listen(fabric.GetTarget());
        std::vector<Ptr<Socket>> clients;
        for (uint32_t host = 0; host < HOSTS; host++)
        {
            for (uint32_t path = 1; path <= PATHS; path++)
            {
                for (uint32_t number = 0; number < PORTS; number++)
                {
                    auto client = Socket::CreateSocket(fabric.GetHosts().Get(host),
                                                       UdpSocketFactory::GetTypeId());
                    client->Bind();
                    client->Connect(
                        InetSocketAddress(NvmeFabricHelper::GetTargetAddress(path), PORT));
                    client->SetRecvCallback(MakeCallback(&FabricTest::Answer, this));
                    for (uint32_t round = 0; round < ROUNDS; round++)
                    {
                        Simulator::Schedule(MicroSeconds(10 * round),
                                            [client]() { client->Send(Create<Packet>(100)); });
                    }
                    clients.push_back(client);
                }
            }
        }
        Simulator::Run();

        const uint32_t total = HOSTS * PATHS * PORTS * ROUNDS;
        NS_TEST_EXPECT_MSG_EQ(m_asked, total, "packets at the target");
        NS_TEST_EXPECT_MSG_EQ(m_answered, total, "answers at the hosts");
        for (uint32_t path = 1; path <= PATHS; path++)
        {
            NS_TEST_EXPECT_MSG_EQ(m_askedBy[path].size(), HOSTS, "hosts seen on path " << path);
        }
        // those of hosts and target are known by their node
        std::map<uint32_t, std::set<uint32_t>> byNode;
        for (const auto& [device, count] : m_sent)
        {
            byNode[device->GetNode()->GetId()].insert(count);
        }
        for (uint32_t host = 0; host < HOSTS; host++)
        {
            NS_TEST_EXPECT_MSG_EQ((byNode[fabric.GetHosts().Get(host)->GetId()] ==
                                   std::set<uint32_t>{PORTS * ROUNDS}),
                                  true,
                                  "each path of host " << host << " carries its share");
        }
        if (m_spines)
        {
            CheckSpines(fabric);
        }
        Simulator::Destroy();
    }

    /**
     * All uplinks of a leaf are used, and a flow keeps to one of them.
     * @param fabric the fabric
     */
    void CheckSpines(const NvmeFabricHelper& fabric)
    {
        const uint32_t leaves = fabric.GetSwitches().GetN() - m_spines;
        for (uint32_t leaf = 0; leaf < leaves; leaf++)
        {
            uint32_t used = 0;
            for (const auto& [device, count] : m_sent)
            {
                const auto peer = device->GetChannel()->GetDevice(0) == device ? 1 : 0;
                const auto node = device->GetChannel()->GetDevice(peer)->GetNode();
                bool up = false;
                for (uint32_t spine = 0; spine < m_spines; spine++)
                {
                    up |= node == fabric.GetSwitches().Get(leaves + spine);
                }
                if (up && device->GetNode() == fabric.GetSwitches().Get(leaf))
                {
                    used++;
                    // ROUNDS packets of a flow took the same way
                    NS_TEST_EXPECT_MSG_EQ(count % ROUNDS, 0, "a flow keeps to its way");
                }
            }
            NS_TEST_EXPECT_MSG_EQ(used, m_spines, "uplinks of leaf " << leaf << " that are used");
        }
    }

    /**
     * @param node the target
     * @return a socket that answers
     */
    Ptr<Socket> Listen(Ptr<Node> node)
    {
        auto socket = Socket::CreateSocket(node, UdpSocketFactory::GetTypeId());
        socket->Bind(InetSocketAddress(Ipv4Address::GetAny(), PORT));
        socket->SetRecvCallback(Callback<void, Ptr<Socket>>([this](Ptr<Socket> from) {
            Address address;
            while (auto packet = from->RecvFrom(address))
            {
                const auto peer = InetSocketAddress::ConvertFrom(address).GetIpv4().Get();
                m_asked++;
                m_askedBy[(peer >> 8) & 0xff].insert(peer);
                from->SendTo(packet, 0, address);
            }
        }));
        return socket;
    }

    /**
     * Count what a host receives.
     * @param socket its socket
     */
    void Answer(Ptr<Socket> socket)
    {
        while (socket->Recv())
        {
            m_answered++;
        }
    }

    uint32_t m_spines;                                //!< number of spines
    uint32_t m_asked{0};                              //!< packets at the target
    uint32_t m_answered{0};                           //!< packets at the hosts
    std::map<uint32_t, std::set<uint32_t>> m_askedBy; //!< hosts' addresses, by path
    std::map<NetemNetDevice*, uint32_t> m_sent;       //!< packets sent by each device
};

/**
 * @ingroup nvme-mptcp
 * @ingroup tests
 * Addresses of hosts and target are all different.
 */
class FabricAddressTest : public TestCase
{
  public:
    FabricAddressTest()
        : TestCase("addresses of hosts and target are all different")
    {
    }

  private:
    void DoRun() override
    {
        std::set<Ipv4Address> seen;
        for (uint32_t path = 1; path <= 4; path++)
        {
            seen.insert(NvmeFabricHelper::GetTargetAddress(path));
            for (uint32_t host = 0; host < 10000; host++)
            {
                seen.insert(NvmeFabricHelper::GetHostAddress(host, path));
            }
        }
        NS_TEST_EXPECT_MSG_EQ(seen.size(), 4 * 10001, "addresses");
    }
};

/**
 * @ingroup nvme-mptcp
 * @ingroup tests
 * Fabrics: switches, leaves and spines.
 */
class NvmeFabricTestSuite : public TestSuite
{
  public:
    NvmeFabricTestSuite()
        : TestSuite("nvme-fabric", Type::UNIT)
    {
        AddTestCase(new FabricAddressTest, Duration::QUICK);
        AddTestCase(new FabricTest(0, "switches"), Duration::QUICK);
        AddTestCase(new FabricTest(1, "leaves and one spine"), Duration::QUICK);
        AddTestCase(new FabricTest(3, "leaves and three spines, shared by flow"), Duration::QUICK);
    }
};

NvmeFabricTestSuite g_nvmeFabricTestSuite; //!< registers the suite

} // namespace
