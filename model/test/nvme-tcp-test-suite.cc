/*
 * SPDX-License-Identifier: GPL-2.0-only
 */

#include "nvme-tcp-pdu-vectors.h"

#include "ns3/boolean.h"
#include "ns3/double.h"
#include "ns3/internet-stack-helper.h"
#include "ns3/ipv4-address-helper.h"
#include "ns3/mptcp-helper.h"
#include "ns3/netem-device.h"
#include "ns3/nvme-tcp-helper.h"
#include "ns3/nvme-tcp-stream.h"
#include "ns3/pointer.h"
#include "ns3/rng-seed-manager.h"
#include "ns3/simulator.h"
#include "ns3/string.h"
#include "ns3/tcp-linux-socket-factory.h"
#include "ns3/tcp-linux-socket.h"
#include "ns3/test.h"
#include "ns3/uinteger.h"

#include <algorithm>
#include <limits>

using namespace ns3;

namespace
{

const std::string SUBSYSTEM = "nqn.2026-11.org.example:test";
constexpr uint32_t IN_CAPSULE = 16384; // bytes, nvmet's default

/// Host and target with some links, and all that NVMe/TCP needs on them.
struct Bench
{
    /**
     * @param paths number of links
     * @param factory of sockets
     */
    explicit Bench(uint32_t paths, const std::string& factory = "ns3::TcpLinuxSocketFactory")
        : helper(factory)
    {
        RngSeedManager::SetRun(1);
        nodes.Create(2);
        InternetStackHelper internet;
        internet.SetIpv6StackInstall(false);
        internet.Install(nodes);
        Ipv4AddressHelper helper4;
        for (uint32_t path = 1; path <= paths; path++)
        {
            auto [host, target] = NetemNetDevice::Connect(nodes.Get(0), nodes.Get(1));
            for (const auto& device : {host, target})
            {
                device->SetAttribute("Rate", StringValue("1Gbps"));
            }
            links.emplace_back(host, target);
            helper4.SetBase(Ipv4Address((10U << 24) | (path << 8)), "255.255.255.0");
            addresses.push_back(helper4
                                    .Assign(NetDeviceContainer(NetDeviceContainer(host),
                                                               NetDeviceContainer(target)))
                                    .GetAddress(1));
        }
        TcpLinuxSocketFactory::Install(nodes);
        if (factory == "ns3::MptcpSocketFactory")
        {
            MptcpHelper mptcp;
            mptcp.Set("Subflows", UintegerValue(8));
            mptcp.Set("AddAddrAccepted", UintegerValue(8));
            mptcp.Install(nodes);
            for (const auto& address : addresses)
            {
                MptcpHelper::AddEndpoint(nodes.Get(1), address, MptcpPathManager::SIGNAL);
            }
        }
    }

    ~Bench()
    {
        Simulator::Destroy();
    }

    /**
     * Make the target, and connect.
     * @param ports how many addresses to connect to; 0: all
     */
    void Connect(std::size_t ports = 0)
    {
        addresses.resize(ports ? ports : addresses.size());
        target = helper.InstallTarget(nodes.Get(1), addresses);
        device = helper.AddSubsystem(target, SUBSYSTEM);
        disk = helper.Connect(nodes.Get(0), addresses, SUBSYSTEM);
    }

    /**
     * Send a read or write, when all is connected.
     * @param at when
     * @param write direction
     * @param length bytes
     */
    void Submit(Time at, bool write, uint32_t length)
    {
        auto bio = Create<NvmeBio>();
        bio->write = write;
        bio->length = length;
        bio->done = [this](bool ok) {
            completed++;
            failed += !ok;
        };
        submitted++;
        Simulator::Schedule(at, [this, bio] { disk->Submit(bio, [] {}); });
    }

    NodeContainer nodes;                                                    ///< host, target
    std::vector<std::pair<Ptr<NetemNetDevice>, Ptr<NetemNetDevice>>> links; ///< host's, target's
    std::vector<Address> addresses;                                         ///< of ports
    NvmeTcpHelper helper;                                                   ///< makes the rest
    Ptr<NvmeTcpTarget> target;                                              ///< the target
    Ptr<NvmeDevice> device;                                                 ///< of its namespace
    Ptr<NvmeMultipath> disk; ///< the host's block device
    uint32_t submitted{0};   ///< reads and writes
    uint32_t completed{0};   ///< of them
    uint32_t failed{0};      ///< of them
};

/// PDUs have the bytes that the Scapy layers give them, and are read back.
class PduVectors : public TestCase
{
  public:
    PduVectors()
        : TestCase("PDUs are those of the Scapy layers")
    {
    }

  private:
    void DoRun() override
    {
        for (const auto& vector : vectors::PDUS)
        {
            NvmeTcpPdu pdu = vector.pdu;
            pdu.SetDataLength(vector.dataLength);
            auto output = NvmeTcpStream::Prepare(pdu);
            auto bytes = output.bytes;
            bytes.resize(bytes.size() + output.data);
            bytes.insert(bytes.end(), output.tail.begin(), output.tail.end());
            NS_TEST_EXPECT_MSG_EQ((bytes == vector.bytes), true, "PDU type " << +pdu.type);
            NvmeTcpPdu read;
            NS_TEST_EXPECT_MSG_EQ(NvmeTcpPdu::Decode(bytes.data(), bytes.size(), read),
                                  "",
                                  "PDU type " << +pdu.type);
            NS_TEST_EXPECT_MSG_EQ(read.GetDataLength(), vector.dataLength, "data");
            const auto again = NvmeTcpStream::Prepare(read);
            NS_TEST_EXPECT_MSG_EQ((again.bytes == output.bytes), true, "read and written again");
        }
    }
};

/// Headers that can't be are refused.
class BadPdus : public TestCase
{
  public:
    BadPdus()
        : TestCase("Broken PDU headers are refused")
    {
    }

  private:
    void DoRun() override
    {
        NvmeTcpPdu good;
        good.type = NvmeTcpPdu::R2T;
        good.length = 512;
        good.SetDataLength(0);
        const auto bytes = good.Encode();
        auto why = [&](uint32_t at, uint8_t value, uint32_t size) {
            auto broken = bytes;
            broken[at] = value;
            NvmeTcpPdu pdu;
            return NvmeTcpPdu::Decode(broken.data(), size, pdu);
        };
        const auto size = static_cast<uint32_t>(bytes.size());
        NS_TEST_EXPECT_MSG_EQ(why(0, NvmeTcpPdu::R2T, size), "", "this one is right");
        NS_TEST_EXPECT_MSG_NE(why(0, 0x08, size), "", "unknown type");
        NS_TEST_EXPECT_MSG_NE(why(2, 72, size), "", "wrong HLEN");
        NS_TEST_EXPECT_MSG_NE(why(3, 8, size), "", "PDO inside of the header");
        NS_TEST_EXPECT_MSG_NE(why(3, 255, size), "", "PDO behind the end");
        NS_TEST_EXPECT_MSG_NE(why(4, 20, size), "", "PLEN below HLEN");
        NS_TEST_EXPECT_MSG_NE(why(0, NvmeTcpPdu::R2T, 23), "", "cut short");
    }
};

/// Writes up to the in-capsule size need no R2T, larger ones need one; MDTS splits.
class Transfers : public TestCase
{
  public:
    /**
     * @param digests whether PDUs have digests
     */
    explicit Transfers(bool digests)
        : TestCase(digests ? "In-capsule data and R2T, with digests" : "In-capsule data and R2T"),
          m_digests(digests)
    {
    }

  private:
    void DoRun() override
    {
        const uint32_t sizes[] = {512, IN_CAPSULE, IN_CAPSULE + 512, 131072, 1 << 20};
        for (const uint32_t size : sizes)
        {
            for (const bool write : {false, true})
            {
                Check(write, size, 0, size > IN_CAPSULE ? 1 : 0, 1);
            }
        }
        // MDTS of 32 KiB; H2CData PDUs of 8 KiB
        Check(true, 131072, 3, 4, 4);
    }

    /**
     * One transfer.
     * @param write direction
     * @param size bytes
     * @param mdts of the target; with one, H2CData PDUs are of 8 KiB
     * @param r2ts that a write needs
     * @param commands that the target sees
     */
    void Check(bool write, uint32_t size, uint8_t mdts, uint32_t r2ts, uint32_t commands)
    {
        Bench bench(1);
        bench.helper.SetAttribute("Mdts", UintegerValue(mdts));
        bench.helper.SetAttribute("HeaderDigest", BooleanValue(m_digests));
        bench.helper.SetAttribute("DataDigest", BooleanValue(m_digests));
        const uint32_t h2c = mdts ? 8192 : 0x400000;
        bench.helper.SetAttribute("MaxH2cData", UintegerValue(h2c));
        bench.Connect();
        uint64_t fromHost = 0;
        uint64_t fromTarget = 0;
        uint64_t before = 0;
        auto count = [&] { // what has happened since the last time
            const auto socket =
                DynamicCast<TcpLinuxSocket>(bench.disk->GetPaths()[0]->GetSockets()[1]);
            fromHost = socket->GetBytesSent() - fromHost;
            fromTarget = socket->GetBytesReceived() - fromTarget;
            before = bench.target->GetCommandCount() - before;
        };
        Simulator::Schedule(MilliSeconds(500), [&] {
            count();
            bench.Submit(Time(0), write, size);
        });
        Simulator::Schedule(MilliSeconds(900), count);
        Simulator::Stop(Seconds(1));
        Simulator::Run();
        const uint32_t digest = m_digests ? 4 : 0;
        const uint32_t dataPdus =
            write ? (size > IN_CAPSULE ? r2ts * ((size / commands + h2c - 1) / h2c) : 0) : 1;
        uint64_t host = commands * (72 + digest);
        uint64_t target = commands * (24 + digest);
        if (write)
        {
            host += size + dataPdus * (24 + 2 * digest) + (dataPdus ? 0 : digest);
            target += r2ts * (24 + digest);
        }
        else
        {
            target += size + 24 + 2 * digest;
        }
        NS_TEST_EXPECT_MSG_EQ(bench.completed, 1, "completed once, " << size << " bytes");
        NS_TEST_EXPECT_MSG_EQ(bench.failed, 0, "without an error");
        NS_TEST_EXPECT_MSG_EQ(before, commands, "commands, " << size << " bytes");
        NS_TEST_EXPECT_MSG_EQ(fromHost, host, "bytes from the host, " << size << " " << write);
        NS_TEST_EXPECT_MSG_EQ(fromTarget,
                              target,
                              "bytes from the target, " << size << " " << write);
    }

    bool m_digests; ///< whether PDUs have digests
};

/// While a target works on a command it looks at no other one.
class CommandTimes : public TestCase
{
  public:
    CommandTimes()
        : TestCase("CPU time of commands")
    {
    }

  private:
    void DoRun() override
    {
        Bench bench(1);
        bench.helper.SetAttribute("CommandTime", TimeValue(MilliSeconds(10)));
        bench.Connect();
        uint64_t before = 0;
        auto received = [&] {
            return DynamicCast<TcpLinuxSocket>(bench.disk->GetPaths()[0]->GetSockets()[1])
                ->GetBytesReceived();
        };
        Simulator::Schedule(MilliSeconds(500), [&] {
            before = received();
            bench.Submit(Time(0), false, 512);
            bench.Submit(Time(0), false, 512);
            bench.Submit(Time(0), true, 131072);
        });
        Simulator::Schedule(MilliSeconds(515), [&] {
            NS_TEST_EXPECT_MSG_EQ(received() - before, 0, "no R2T before the reads are done");
        });
        Simulator::Schedule(MilliSeconds(525), [&] {
            NS_TEST_EXPECT_MSG_EQ(bench.completed, 2, "the reads, one after the other");
        });
        Simulator::Stop(MilliSeconds(600));
        Simulator::Run();
        NS_TEST_EXPECT_MSG_EQ(bench.completed, 3, "and the write");
        NS_TEST_EXPECT_MSG_EQ(bench.failed, 0, "without an error");
    }
};

/// After the first connection a queue's commands have all of its tags.
class FirstTags : public TestCase
{
  public:
    FirstTags()
        : TestCase("Tags after the first connection")
    {
    }

  private:
    void DoRun() override
    {
        Bench bench(1);
        bench.helper.SetAttribute("CommandTime", TimeValue(MilliSeconds(10)));
        bench.Connect();
        Simulator::Schedule(MilliSeconds(500), [&] {
            for (uint32_t i = 0; i < 200; i++)
            {
                bench.Submit(Time(0), false, 512);
            }
        });
        Simulator::Schedule(MilliSeconds(505), [&] {
            // a queue of 128 has 127 commands, and one of them is reserved for Connect
            NS_TEST_EXPECT_MSG_EQ(bench.disk->GetPaths()[0]->GetActive(), 126, "in flight");
        });
        Simulator::Stop(MilliSeconds(510));
        Simulator::Run();
    }
};

/// The first page is read once, by whatever path comes first, and not again after a reconnect.
class PartitionScans : public TestCase
{
  public:
    /// @param scan whether there is to be one
    explicit PartitionScans(bool scan)
        : TestCase(scan ? "Partition scan" : "No partition scan"),
          m_scan(scan)
    {
    }

  private:
    void DoRun() override
    {
        Bench bench(2);
        bench.helper.SetAttribute("PartitionScan", BooleanValue(m_scan));
        bench.helper.SetAttribute("KeepAliveTimeout", TimeValue(Seconds(1)));
        bench.Connect();
        std::vector<Ptr<NvmeBio>> sent;
        bench.disk->TraceConnectWithoutContext(
            "Selected",
            Callback<void, uint32_t, Ptr<NvmeBio>>(
                [&](uint32_t, Ptr<NvmeBio> bio) { sent.push_back(bio); }));
        Simulator::Schedule(Seconds(1), [&] { bench.links[0].second->SetUp(false); });
        Simulator::Schedule(Seconds(5), [&] { bench.links[0].second->SetUp(true); });
        Simulator::Stop(Seconds(30));
        Simulator::Run();
        for (const auto& path : bench.disk->GetPaths())
        {
            NS_TEST_EXPECT_MSG_EQ(path->GetState(), NvmeTcpController::LIVE, "a path is back");
        }
        NS_TEST_ASSERT_MSG_EQ(sent.size(), m_scan ? 1 : 0, "how often it was read");
        for (const auto& bio : sent)
        {
            NS_TEST_EXPECT_MSG_EQ(bio->write, false, "read");
            NS_TEST_EXPECT_MSG_EQ(bio->offset, 0, "from the beginning");
            NS_TEST_EXPECT_MSG_EQ(bio->length, 4096, "a page");
        }
    }

    bool m_scan; //!< whether there is to be one
};

/// Under loss and when a path fails, each command is completed once, and no queue overflows.
class EachOnce : public TestCase
{
  public:
    /**
     * @param factory of sockets
     * @param ports that the host connects to
     */
    EachOnce(const std::string& factory, std::size_t ports)
        : TestCase("Each command is completed once: loss and a failed path, " + factory),
          m_factory(factory),
          m_ports(ports)
    {
    }

  private:
    void DoRun() override
    {
        constexpr uint32_t QUEUE_SIZE = 16;
        constexpr uint32_t COUNT = 400;
        Bench bench(2, m_factory);
        bench.helper.SetAttribute("QueueSize", UintegerValue(QUEUE_SIZE));
        bench.helper.SetAttribute("KeepAliveTimeout", TimeValue(Seconds(1)));
        bench.helper.SetAttribute("IoPolicy", StringValue("round-robin"));
        for (const auto& [host, target] : bench.links)
        {
            host->SetAttribute("Loss", DoubleValue(0.01));
            target->SetAttribute("Loss", DoubleValue(0.01));
        }
        bench.Connect(m_ports);
        uint32_t deepest = 0;
        bench.target->TraceConnectWithoutContext(
            "InFlight",
            Callback<void, uint16_t, uint16_t, uint32_t>(
                [&](uint16_t, uint16_t queue, uint32_t commands) {
                    deepest = std::max(deepest, queue ? commands : 0);
                }));
        for (uint32_t i = 0; i < COUNT; i++)
        {
            bench.Submit(Seconds(3) + MilliSeconds(5 * i), i % 2, i % 3 ? 4096 : 131072);
        }
        Simulator::Schedule(Seconds(4), [&] { bench.links[1].second->SetUp(false); });
        Simulator::Schedule(Seconds(9), [&] { bench.links[1].second->SetUp(true); });
        Simulator::Stop(Seconds(120));
        Simulator::Run();
        NS_TEST_EXPECT_MSG_EQ(bench.completed, COUNT, "each once");
        NS_TEST_EXPECT_MSG_EQ(bench.failed, 0, "and none failed");
        NS_TEST_EXPECT_MSG_LT(deepest, QUEUE_SIZE, "a queue of N entries holds N - 1 commands");
        NS_TEST_EXPECT_MSG_GT(deepest, 1, "and it held some");
        for (const auto& controller : bench.disk->GetPaths())
        {
            NS_TEST_EXPECT_MSG_EQ(controller->GetState(), NvmeTcpController::LIVE, "in the end");
        }
    }

    std::string m_factory; ///< of sockets
    std::size_t m_ports;   ///< that the host connects to
};

/// How the policies share I/Os out.
class Policies : public TestCase
{
  public:
    Policies()
        : TestCase("Shares of the multipath policies")
    {
    }

  private:
    /**
     * Run a job over a fast and three slow paths.
     * @param policy the policy
     * @param buckets of adaptive
     * @return I/Os by path
     */
    std::vector<double> Run(const std::string& policy, uint32_t buckets = 1)
    {
        Bench bench(4);
        bench.links[3].second->SetAttribute("Rate", StringValue("250Mbps"));
        bench.helper.SetAttribute("IoPolicy", StringValue(policy));
        bench.helper.SetAttribute("AdaptiveBuckets", UintegerValue(buckets));
        bench.helper.SetAttribute("AdaptiveWeightInterval", TimeValue(MilliSeconds(20)));
        bench.helper.SetAttribute("AdaptiveEwmaShift", UintegerValue(1));
        bench.helper.SetAttribute("BlockSize", UintegerValue(65536));
        bench.helper.SetAttribute("IoDepth", UintegerValue(8));
        bench.helper.SetAttribute("Runtime", TimeValue(MilliSeconds(300)));
        bench.Connect();
        std::vector<double> shares(4);
        double all = 0;
        bench.disk->TraceConnectWithoutContext(
            "Selected",
            Callback<void, uint32_t, Ptr<NvmeBio>>([&](uint32_t path, Ptr<NvmeBio>) {
                if (Simulator::Now() > MilliSeconds(600)) // weights are known by then
                {
                    shares[path]++;
                    all++;
                }
            }));
        auto jobs = bench.helper.InstallJobs(bench.disk, 1, MilliSeconds(500));
        Simulator::Stop(Seconds(2));
        Simulator::Run();
        NS_TEST_EXPECT_MSG_EQ(jobs[0]->IsDone(), true, policy << " ends");
        NS_TEST_EXPECT_MSG_GT(all, 100, policy << " did something");
        for (auto& share : shares)
        {
            share /= all;
        }
        m_slow = bench.disk->GetWeight(3, false, 0, 65536);
        m_fast = bench.disk->GetWeight(0, false, 0, 65536);
        m_small = bench.disk->GetWeight(0, false, 0, 4096);
        return shares;
    }

    void DoRun() override
    {
        const auto numa = Run("numa");
        NS_TEST_EXPECT_MSG_EQ(numa[0], 1, "numa uses one path");
        for (const double share : Run("round-robin"))
        {
            NS_TEST_EXPECT_MSG_EQ_TOL(share, 0.25, 0.01, "round-robin treats all alike");
        }
        const auto depth = Run("queue-depth");
        NS_TEST_EXPECT_MSG_LT(depth[3], 0.2, "queue-depth spares the slow path");
        NS_TEST_EXPECT_MSG_GT(depth[3], 0.02, "but uses it");
        const auto adaptive = Run("adaptive");
        NS_TEST_EXPECT_MSG_GT(m_fast, m_slow, "weights follow latency");
        NS_TEST_EXPECT_MSG_EQ(m_small, m_fast, "without buckets, sizes share them");
        NS_TEST_EXPECT_MSG_LT(adaptive[3], 0.2, "adaptive spares the slow path");
        NS_TEST_EXPECT_MSG_GT(adaptive[3], 0.005, "but uses it");
        Run("adaptive", 3);
        NS_TEST_EXPECT_MSG_GT(m_fast, m_slow, "with buckets as well");
        NS_TEST_EXPECT_MSG_EQ(m_small, 0, "sizes that were not used have no weight");
    }

    uint32_t m_slow{0};  ///< weight of the slow path
    uint32_t m_fast{0};  ///< weight of a fast one
    uint32_t m_small{0}; ///< weight of a fast one for small transfers
};

/// A controller that can't be reached is found out at the very time that follows from KATO.
class KeepAlive : public TestCase
{
  public:
    KeepAlive()
        : TestCase("Keep alive expires at its time, and the controller reconnects")
    {
    }

  private:
    void DoRun() override
    {
        Bench bench(1);
        bench.helper.SetAttribute("KeepAliveTimeout", TimeValue(Seconds(4)));
        bench.helper.SetAttribute("TimerSlack", TimeValue(MilliSeconds(500)));
        bench.Connect();
        std::vector<std::pair<Time, NvmeTcpController::State>> states;
        bench.disk->GetPaths()[0]->TraceConnectWithoutContext(
            "State",
            Callback<void, NvmeTcpController::State, NvmeTcpController::State>(
                [&](auto, auto state) { states.emplace_back(Simulator::Now(), state); }));
        // Without other traffic, each second (KATO / 4) after Identify a Keep Alive command is
        // sent.
        Simulator::Schedule(Seconds(10.7), [&] { bench.links[0].second->SetUp(false); });
        Simulator::Schedule(Seconds(20), [&] { bench.links[0].second->SetUp(true); });
        Simulator::Stop(Seconds(40));
        Simulator::Run();
        auto when = [&](NvmeTcpController::State state, std::size_t nth) {
            for (const auto& [at, found] : states)
            {
                if (found == state && nth-- == 0)
                {
                    return at;
                }
            }
            return Time::Max();
        };
        const Time live = when(NvmeTcpController::LIVE, 0);
        NS_TEST_EXPECT_MSG_LT(live, MilliSeconds(5), "connected at once");
        // The command of 11 s is the first one without an answer. No timer is pending then: those
        // before have found nothing under way when they expired.
        const Time lost = when(NvmeTcpController::RESETTING, 0);
        const Time expected = Seconds(11 + 4) + MilliSeconds(500);
        NS_TEST_EXPECT_MSG_EQ_TOL(lost, expected, MilliSeconds(1), "keep alive has expired");
        // the link is up again when it tries to reconnect, 10 s later
        const Time again = when(NvmeTcpController::LIVE, 1);
        NS_TEST_EXPECT_MSG_EQ_TOL(again, lost + Seconds(10), MilliSeconds(5), "reconnected");
        NS_TEST_EXPECT_MSG_EQ(bench.target->GetControllerCount(), 1, "the old one is gone");
    }
};

/// What a subsystem's ANA states do to I/O.
class AnaStates : public TestCase
{
  public:
    AnaStates()
        : TestCase("ANA states")
    {
    }

  private:
    void DoRun() override
    {
        Bench bench(2);
        bench.helper.SetAttribute("PartitionScan", BooleanValue(false));
        bench.Connect();
        std::vector<uint32_t> paths;
        bench.disk->TraceConnectWithoutContext(
            "Selected",
            Callback<void, uint32_t, Ptr<NvmeBio>>(
                [&](uint32_t path, Ptr<NvmeBio>) { paths.push_back(path); }));
        auto set = [&](double at, uint32_t port, NvmeAnaState state) {
            Simulator::Schedule(Seconds(at),
                                [&bench, port, state] { bench.target->SetAnaState(port, state); });
        };
        bench.Submit(Seconds(1), false, 4096); // both are optimized
        set(2, 0, NvmeAnaState::NON_OPTIMIZED);
        bench.Submit(Seconds(3), false, 4096);
        set(4, 1, NvmeAnaState::INACCESSIBLE);
        bench.Submit(Seconds(5), false, 4096);
        // the command is under way when the state changes: it comes back, and goes elsewhere
        set(6, 1, NvmeAnaState::OPTIMIZED);
        set(7, 0, NvmeAnaState::INACCESSIBLE);
        bench.Submit(Seconds(8), false, 4096);
        Simulator::Schedule(Seconds(9), [&] {
            bench.Submit(Time(0), false, 4096);
            bench.target->SetAnaState(0, NvmeAnaState::OPTIMIZED);
            bench.target->SetAnaState(1, NvmeAnaState::INACCESSIBLE);
        });
        Simulator::Stop(Seconds(10));
        Simulator::Run();
        NS_TEST_EXPECT_MSG_EQ(bench.completed, 5, "all are completed");
        NS_TEST_EXPECT_MSG_EQ(bench.failed, 0, "none failed");
        const std::vector<uint32_t> expected = {0, 1, 0, 1, 1, 0};
        NS_TEST_EXPECT_MSG_EQ((paths == expected), true, "the paths that were chosen");
    }
};

/// Service times and channels of a device.
class Devices : public TestCase
{
  public:
    Devices()
        : TestCase("Service times")
    {
    }

  private:
    void DoRun() override
    {
        auto device = CreateObjectWithAttributes<NvmeDevice>(
            "ReadTime",
            PointerValue(
                CreateObjectWithAttributes<ConstantRandomVariable>("Constant", DoubleValue(1e-3))),
            "Channels",
            UintegerValue(2));
        std::vector<int64_t> done;
        uint32_t writes = 0;
        for (uint32_t i = 0; i < 5; i++)
        {
            device->Submit(false, 4096, [&] {
                done.push_back(Simulator::Now().GetMicroSeconds());
            });
        }
        device->Submit(true, 4096, [&] { writes++; });
        NS_TEST_EXPECT_MSG_EQ(writes, 1, "without a service time it is done at once");
        Simulator::Run();
        const std::vector<int64_t> expected = {1000, 1000, 2000, 2000, 3000};
        NS_TEST_EXPECT_MSG_EQ((done == expected), true, "two at a time");
        Simulator::Destroy();
    }
};

/// Tags are handed out and waited for as by Linux's sbitmap.
class Tags : public TestCase
{
  public:
    Tags()
        : TestCase("Tags")
    {
    }

  private:
    void DoRun() override
    {
        NvmeTags tags(126);
        tags.SetUsers(2);
        std::vector<int32_t> held;
        for (int32_t tag = tags.Get(); tag >= 0; tag = tags.Get())
        {
            held.push_back(tag);
        }
        NS_TEST_EXPECT_MSG_EQ(held.size(), 63, "two users share them");
        std::sort(held.begin(), held.end());
        NS_TEST_EXPECT_MSG_EQ((std::adjacent_find(held.begin(), held.end()) == held.end()),
                              true,
                              "no tag twice");
        uint32_t woken = 0;
        tags.Wait([&] { woken++; });
        tags.Wait([&] { woken++; });
        for (uint32_t i = 0; i < 6; i++)
        {
            tags.Put(held[i]);
        }
        Simulator::Run();
        NS_TEST_EXPECT_MSG_EQ(woken, 0, "nobody is woken for six");
        tags.Put(held[6]);
        Simulator::Run();
        NS_TEST_EXPECT_MSG_EQ(woken, 2, "a batch of seven wakes both");
        tags.SetUsers(1);
        uint32_t more = 0;
        while (tags.Get() >= 0)
        {
            more++;
        }
        NS_TEST_EXPECT_MSG_EQ(more, 126 - 63 + 7, "a single user has all of them");
        Simulator::Destroy();
    }
};

/// fio's statistics, rates and its end.
class FioJobs : public TestCase
{
  public:
    FioJobs()
        : TestCase("fio's rates, block sizes and percentiles")
    {
    }

  private:
    void DoRun() override
    {
        FioLatency latency;
        for (uint32_t i = 1; i <= 1000; i++)
        {
            latency.Add(MicroSeconds(i));
        }
        NS_TEST_EXPECT_MSG_EQ(latency.GetPercentile(50), 501760, "as fio rounds 500 us");
        NS_TEST_EXPECT_MSG_EQ(latency.GetPercentile(99), 987136, "as fio rounds 990 us");
        NS_TEST_EXPECT_MSG_EQ(latency.GetMax(), 1000000, "ns");
        NS_TEST_EXPECT_MSG_EQ_TOL(latency.GetMean(), 500500, 1e-6, "ns");

        Bench bench(1);
        bench.helper.SetAttribute("Direction", StringValue("rw"));
        bench.helper.SetAttribute("ReadPercent", UintegerValue(70));
        bench.helper.SetAttribute("IoDepth", UintegerValue(16));
        bench.helper.SetAttribute("Rate", DoubleValue(20e6));
        bench.helper.SetAttribute("Runtime", TimeValue(Seconds(2)));
        bench.Connect();
        auto job = bench.helper.InstallJobs(bench.disk, 1, Seconds(1))[0];
        job->SetBlockSizes({{4096, 50}, {65536, 50}});
        Simulator::Stop(Seconds(4));
        Simulator::Run();
        NS_TEST_EXPECT_MSG_EQ(job->IsDone(), true, "it ends");
        const double reads = static_cast<double>(job->GetBytes(false)) / 2;
        const double writes = static_cast<double>(job->GetBytes(true)) / 2;
        NS_TEST_EXPECT_MSG_EQ_TOL(reads, 14e6, 1e5, "bytes/s of reads");
        NS_TEST_EXPECT_MSG_EQ_TOL(writes, 6e6, 1e5, "bytes/s of writes");
        NS_TEST_EXPECT_MSG_GT(job->GetLatency(false).GetCount(), 300, "of both sizes");
        NS_TEST_EXPECT_MSG_EQ(job->GetErrors(), 0, "no errors");
        NS_TEST_EXPECT_MSG_LT(job->GetRuntime(), Seconds(2) + MilliSeconds(10), "with the drain");
    }
};

/// With a rate fio waits for what is under way first, and sleeps for what was left before.
class FioRate : public TestCase
{
  public:
    FioRate()
        : TestCase("what takes long makes the next one late")
    {
    }

  private:
    /**
     * Read a block each 10 ms, which takes 0.6 ms.
     * @param runtime how long
     * @return how many
     */
    static uint64_t Count(Time runtime)
    {
        Bench bench(1);
        bench.helper.SetAttribute("BlockSize", UintegerValue(65536));
        bench.helper.SetAttribute("IoDepth", UintegerValue(4));
        bench.helper.SetAttribute("Rate", DoubleValue(6553600));
        bench.helper.SetAttribute("Runtime", TimeValue(runtime));
        bench.Connect();
        auto job = bench.helper.InstallJobs(bench.disk, 1, Seconds(1))[0];
        Simulator::Stop(Seconds(2));
        Simulator::Run();
        return job->GetLatency(false).GetCount();
    }

    void DoRun() override
    {
        NS_TEST_EXPECT_MSG_EQ(Count(MilliSeconds(90) + MicroSeconds(300)), 9, "the last isn't due");
        NS_TEST_EXPECT_MSG_EQ(Count(MilliSeconds(91)), 10, "one each 10 ms");
    }
};

/// NVMe/TCP on a host, target and device models.
class NvmeTcpTestSuite : public TestSuite
{
  public:
    NvmeTcpTestSuite()
        : TestSuite("nvme-mptcp-nvme-tcp", Type::SYSTEM)
    {
        AddTestCase(new PduVectors, Duration::QUICK);
        AddTestCase(new BadPdus, Duration::QUICK);
        AddTestCase(new Transfers(false), Duration::QUICK);
        AddTestCase(new Transfers(true), Duration::QUICK);
        AddTestCase(new CommandTimes, Duration::QUICK);
        AddTestCase(new FirstTags, Duration::QUICK);
        AddTestCase(new PartitionScans(true), Duration::QUICK);
        AddTestCase(new PartitionScans(false), Duration::QUICK);
        AddTestCase(new EachOnce("ns3::TcpLinuxSocketFactory", 2), Duration::QUICK);
        AddTestCase(new EachOnce("ns3::MptcpSocketFactory", 1), Duration::QUICK);
        AddTestCase(new Policies, Duration::QUICK);
        AddTestCase(new KeepAlive, Duration::QUICK);
        AddTestCase(new AnaStates, Duration::QUICK);
        AddTestCase(new Devices, Duration::QUICK);
        AddTestCase(new Tags, Duration::QUICK);
        AddTestCase(new FioJobs, Duration::QUICK);
        AddTestCase(new FioRate, Duration::QUICK);
    }
};

NvmeTcpTestSuite g_nvmeTcpTestSuite; ///< registers itself

} // namespace
