/*
 * SPDX-License-Identifier: GPL-2.0-only
 */

#include "cell-settings.h"

#include "ns3/config.h"
#include "ns3/string.h"
#include "ns3/type-id.h"

#include <iomanip>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

namespace cell
{

namespace
{

using nlohmann::json;

/// A table of the input, which knows its name, and in the end which of its keys nobody asked for.
class Table
{
  public:
    Table(const json& value, std::string name)
        : m_value(value),
          m_name(std::move(name))
    {
        if (!value.is_object())
        {
            throw BadInput((m_name.empty() ? "the cell" : m_name) + ": must be a JSON object");
        }
    }

    std::string Key(const std::string& key) const
    {
        return m_name.empty() ? key : m_name + "." + key;
    }

    [[noreturn]] void Fail(const std::string& key, const std::string& why) const
    {
        throw BadInput(Key(key) + ": " + why);
    }

    /// The value of a key; nullptr where it is missing or null.
    const json* Find(const std::string& key)
    {
        m_known.insert(key);
        auto found = m_value.find(key);
        return found == m_value.end() || found->is_null() ? nullptr : &*found;
    }

    const json& Need(const std::string& key)
    {
        const json* found = Find(key);
        if (!found)
        {
            Fail(key, "is missing");
        }
        return *found;
    }

    double Number(const std::string& key, double otherwise, double low, double high)
    {
        const json* found = Find(key);
        if (!found)
        {
            return otherwise;
        }
        if (!found->is_number() || found->get<double>() < low || found->get<double>() > high)
        {
            std::ostringstream why;
            why << std::setprecision(15) << "must be a number from " << low << " to " << high
                << ", not " << *found;
            Fail(key, why.str());
        }
        return found->get<double>();
    }

    template <typename T>
    void Whole(const std::string& key, T& value, double low, double high)
    {
        const double number = Number(key, static_cast<double>(value), low, high);
        if (number != static_cast<double>(static_cast<T>(number)))
        {
            Fail(key, "must be a whole number");
        }
        value = static_cast<T>(number);
    }

    void Text(const std::string& key, std::string& value, const std::set<std::string>& choices = {})
    {
        const json* found = Find(key);
        if (!found)
        {
            return;
        }
        if (!found->is_string())
        {
            Fail(key, "must be a string, not " + found->dump());
        }
        value = found->get<std::string>();
        if (!choices.empty() && !choices.contains(value))
        {
            std::string known;
            for (const auto& choice : choices)
            {
                known += (known.empty() ? "" : ", ") + choice;
            }
            Fail(key, "must be one of " + known + ", not " + value);
        }
    }

    void Boolean(const std::string& key, bool& value)
    {
        const json* found = Find(key);
        if (found && !found->is_boolean())
        {
            Fail(key, "must be true or false, not " + found->dump());
        }
        value = found ? found->get<bool>() : value;
    }

    std::map<std::string, std::string> Texts(const std::string& key)
    {
        std::map<std::string, std::string> values;
        if (const json* found = Find(key))
        {
            Table inner(*found, Key(key));
            for (const auto& [name, value] : found->items())
            {
                values[name] = value.is_string() ? value.get<std::string>() : value.dump();
            }
        }
        return values;
    }

    const json& List(const std::string& key)
    {
        static const json nothing = json::array();
        const json* found = Find(key);
        if (found && !found->is_array())
        {
            Fail(key, "must be a list");
        }
        return found ? *found : nothing;
    }

    /// Every key must have been asked for.
    void End() const
    {
        for (const auto& [key, value] : m_value.items())
        {
            if (!m_known.contains(key))
            {
                Fail(key, "unknown key");
            }
        }
    }

  private:
    const json& m_value;
    std::string m_name;
    std::set<std::string> m_known;
};

// The lab's virtual clock moves by 256 ns each time when it is read, and by no other work of a CPU.
// Six readings at each end are calibrated, not counted: with them a single 4 KiB I/O over TCP takes
// as long as in the lab, and those of other depths follow. tcp_rmem is that of its guests:
// tcp_init() allows 1/128 of the memory, here of 2 GiB, up to 32 MiB.
const std::map<std::string, std::string> LAB_ATTRIBUTES = {
    {"ns3::FioJob::SubmitTime", "1536ns"},
    {"ns3::NvmeTcpTarget::CommandTime", "1536ns"},
    {"ns3::TcpLinuxSocket::Rmem", "4096 131072 16365056"},
    {"ns3::MptcpSocket::RcvBufMax", "16365056"},
};

// Attributes that other keys set.
const std::map<std::string, std::string> OTHER_KEYS = {
    {"ns3::FioJob::BlockSize", "fio.bs"},
    {"ns3::FioJob::Direction", "fio.rw"},
    {"ns3::FioJob::IoDepth", "fio.iodepth"},
    {"ns3::FioJob::Random", "fio.rw"},
    {"ns3::FioJob::Rate", "fio.rate_bytes_s"},
    {"ns3::FioJob::ReadPercent", "fio.rwmixread"},
    {"ns3::FioJob::Runtime", "fio.runtime"},
    {"ns3::MptcpPathManager::AddAddrAccepted", "mptcp.add_addr_accepted"},
    {"ns3::MptcpPathManager::Checksum", "mptcp.checksum"},
    {"ns3::MptcpPathManager::Scheduler", "mptcp.scheduler"},
    {"ns3::MptcpPathManager::Subflows", "mptcp.subflows"},
    {"ns3::NetemNetDevice::Delay", "delay_us of a path"},
    {"ns3::NetemNetDevice::EcnThreshold", "ecn_threshold of a path"},
    {"ns3::NetemNetDevice::Jitter", "jitter_us of a path"},
    {"ns3::NetemNetDevice::Limit", "limit of a path"},
    {"ns3::NetemNetDevice::Loss", "loss of a path"},
    {"ns3::NetemNetDevice::Mtu", "mtu"},
    {"ns3::NetemNetDevice::Rate", "rate_bps of a path"},
    {"ns3::NvmeMultipath::IoPolicy", "association.iopolicy"},
};

// What the classes that attributes name must be; ns-3 finds out when it makes an object.
const std::map<std::string, std::string> BASES = {
    {"ns3::MptcpPathManager::CongestionControl", "ns3::TcpCongestionOps"},
    {"ns3::TcpLinuxSocketFactory::CongestionControl", "ns3::TcpCongestionOps"},
    {"ns3::TcpLinuxSocketFactory::SocketType", "ns3::TcpLinuxSocket"},
};

constexpr double MANY = std::numeric_limits<uint32_t>::max();
constexpr double LONG_US = 1e9; // longest delay, us

Direction
ReadDirection(const json& value, const std::string& name)
{
    Table table(value, name);
    Direction direction;
    table.Whole("rate_bps", direction.rate, 1000, 1e13);
    direction.delay = table.Number("delay_us", 0, 0, LONG_US);
    direction.jitter = table.Number("jitter_us", 0, 0, LONG_US);
    direction.loss = table.Number("loss", 0, 0, 1);
    table.Whole("limit", direction.limit, 1, MANY);
    table.Whole("ecn_threshold", direction.ecnThreshold, 1, MANY);
    table.End();
    return direction;
}

Path
ReadPath(const json& value, const std::string& name)
{
    Table table(value, name);
    Path path{ReadDirection(table.Need("to_target"), table.Key("to_target")),
              ReadDirection(table.Need("to_host"), table.Key("to_host"))};
    table.Boolean("backup", path.backup);
    table.End();
    return path;
}

std::vector<Path>
ReadPaths(Table& table, const std::string& key)
{
    std::vector<Path> paths;
    for (const auto& path : table.List(key))
    {
        paths.push_back(ReadPath(path, table.Key(key) + "[" + std::to_string(paths.size()) + "]"));
    }
    return paths;
}

void
ReadMptcp(Table table, Settings& settings)
{
    auto& mptcp = settings.mptcp;
    table.Whole("subflows", mptcp.subflows, 0, 64);
    table.Whole("add_addr_accepted", mptcp.addAddrAccepted, 0, 64);
    table.Text("host_endpoints", mptcp.hostEndpoints, {"none", "subflow", "fullmesh"});
    table.Text("target_endpoints", mptcp.targetEndpoints, {"none", "signal"});
    table.Text("scheduler", mptcp.scheduler);
    table.Boolean("checksum", mptcp.checksum);
    table.End();
}

void
ReadAssociation(Table table, Settings& settings)
{
    auto& association = settings.association;
    std::string transport = "tcp";
    table.Text("transport", transport, {"tcp", "mptcp"});
    association.mptcp = transport == "mptcp";
    association.ports = static_cast<uint32_t>(settings.paths.size());
    table.Whole("ports", association.ports, 1, static_cast<double>(settings.paths.size()));
    table.Whole("controllers_per_path", association.controllersPerPath, 1, 4096);
    table.Text("iopolicy",
               association.ioPolicy,
               {"numa", "round-robin", "queue-depth", "adaptive"});
    table.Whole("hosts", association.hosts, 1, 100000);
    table.Whole("tcp_hosts", association.tcpHosts, 0, association.hosts);
    bool native = true; // a single controller's block device is the same with and without
    table.Boolean("native_multipath", native);
    if (!native && association.ports * association.controllersPerPath > 1)
    {
        table.Fail("native_multipath", "false needs a single controller");
    }
    bool separate = true; // the model's hosts and targets never share a CPU
    table.Boolean("separate_kernels", separate);
    std::string options;
    table.Text("connect_options", options);
    static const std::map<std::string, std::string> attributes = {
        {"keep_alive_tmo", "KeepAliveTimeout"},
        {"queue_size", "QueueSize"},
        {"nr_io_queues", "IoQueues"},
        {"reconnect_delay", "ReconnectDelay"},
        {"ctrl_loss_tmo", "ControllerLossTimeout"},
        {"hdr_digest", "HeaderDigest"},
        {"data_digest", "DataDigest"},
        {"disable_sqflow", "DisableSqFlow"},
    };
    std::istringstream words(options);
    for (std::string word; std::getline(words, word, ',');)
    {
        const auto equals = word.find('=');
        const std::string name = word.substr(0, equals);
        if (name.empty() || name == "duplicate_connect")
        {
            continue;
        }
        auto known = attributes.find(name);
        if (known == attributes.end())
        {
            table.Fail("connect_options", "the model has no option " + name);
        }
        std::string value = equals == std::string::npos ? "true" : word.substr(equals + 1);
        const bool seconds = name.ends_with("_tmo") || name.ends_with("_delay");
        ns3::TypeId::AttributeInformation information;
        ns3::TypeId::LookupByName("ns3::NvmeTcpController")
            .LookupAttributeByName(known->second, &information);
        if (value.empty() ||
            (equals != std::string::npos &&
             value.find_first_not_of("0123456789") != std::string::npos) ||
            !information.checker->CreateValidValue(ns3::StringValue(value + (seconds ? "s" : ""))))
        {
            table.Fail("connect_options", name + " can't be " + value);
        }
        association.connectOptions[known->second] = value + (seconds ? "s" : "");
    }
    table.End();
}

void
ReadFio(Table table, Settings& settings)
{
    auto& fio = settings.fio;
    table.Text("rw", fio.rw, {"read", "write", "randread", "randwrite", "rw", "randrw"});
    table.Whole("rwmixread", fio.readPercent, 0, 100);
    table.Whole("bs", fio.blockSize, 512, 1 << 30);
    uint32_t sum = 0;
    for (const auto& entry : table.List("bssplit"))
    {
        if (!entry.is_array() || entry.size() != 2 || !entry[0].is_number_unsigned() ||
            !entry[1].is_number_unsigned() || entry[0] < 512 || entry[0] > (1 << 30))
        {
            table.Fail("bssplit", "must be pairs of bytes, from 512 on, and percent");
        }
        fio.split.emplace_back(entry[0], entry[1]);
        sum += fio.split.back().second;
    }
    if (!fio.split.empty() && sum != 100)
    {
        table.Fail("bssplit", "the shares make " + std::to_string(sum) + " percent, not 100");
    }
    table.Whole("iodepth", fio.ioDepth, 1, 1 << 20);
    table.Whole("numjobs", fio.jobs, 1, 4096);
    fio.runtime = table.Number("runtime", fio.runtime, 1e-6, 86400);
    fio.rate = table.Number("rate_bytes_s", 0, 1, 1e15);
    table.Whole("timeline_ms", fio.timeline, 1, 60000);
    table.End();
}

Event
ReadEvent(const json& value, const std::string& name, const Settings& settings)
{
    Table table(value, name);
    Event event{};
    event.at = table.Number("at", 0, 0, 86400);
    table.Whole("path", event.path, 0, static_cast<double>(settings.paths.size() - 1));
    std::string link;
    table.Text("link", link, {"down", "up"});
    if (!link.empty())
    {
        event.up = link == "up";
    }
    if (const json* found = table.Find("to_target"))
    {
        event.toTarget = ReadDirection(*found, table.Key("to_target"));
    }
    if (const json* found = table.Find("to_host"))
    {
        event.toHost = ReadDirection(*found, table.Key("to_host"));
    }
    table.End();
    return event;
}

Device
ReadDevice(Table table)
{
    Device device;
    device.distribution = "constant";
    device.read = table.Number("read_us", 0, 0, LONG_US);
    device.write = table.Number("write_us", 0, 0, LONG_US);
    table.Text("distribution", device.distribution, {"constant", "exponential", "lognormal"});
    device.sigma = table.Number("sigma", 1, 0, 10);
    table.Whole("parallelism", device.parallelism, 1, MANY);
    table.End();
    return device;
}

Fabric
ReadFabric(Table table, const Settings& settings)
{
    Fabric fabric;
    table.Need("kind");
    table.Text("kind", fabric.kind, {"switch", "leaf-spine"});
    uint32_t hosts = settings.association.hosts;
    table.Whole("hosts", hosts, 1, 100000);
    if (hosts != settings.association.hosts)
    {
        table.Fail("hosts", "differs from association.hosts");
    }
    table.Whole("leaves", fabric.leaves, 2, 256);
    table.Whole("spines", fabric.spines, 1, 256);
    fabric.hostLinks = ReadPaths(table, "host_links");
    if (fabric.hostLinks.size() != settings.paths.size())
    {
        table.Fail("host_links", "there must be as many as paths");
    }
    if (const json* uplink = table.Find("uplink"))
    {
        fabric.uplink = ReadDirection(*uplink, table.Key("uplink"));
    }
    fabric.startWithin = table.Number("start_within_us", 0, 0, LONG_US);
    table.End();
    return fabric;
}

void
SetAttributes(const std::map<std::string, std::string>& attributes)
{
    for (const auto& [name, value] : attributes)
    {
        const auto colons = name.rfind("::");
        ns3::TypeId tid;
        ns3::TypeId::AttributeInformation information;
        if (colons == std::string::npos ||
            !ns3::TypeId::LookupByNameFailSafe(name.substr(0, colons), &tid) ||
            !tid.LookupAttributeByName(name.substr(colons + 2), &information, true))
        {
            throw BadInput("attributes." + name + ": there is no such attribute");
        }
        if (!information.checker->CreateValidValue(ns3::StringValue(value)) ||
            !ns3::Config::SetDefaultFailSafe(name, ns3::StringValue(value)))
        {
            throw BadInput("attributes." + name + ": can't be " + value + ", it is " +
                           information.checker->GetUnderlyingTypeInformation());
        }
        if (const auto base = BASES.find(name);
            base != BASES.end() && !IsClassOf(value, base->second))
        {
            throw BadInput("attributes." + name + ": " + value + " is no " + base->second);
        }
        if (name == "ns3::TcpLinuxSocket::Rmem" || name == "ns3::TcpLinuxSocket::Wmem")
        {
            ReadBufferSizes("attributes." + name, value);
        }
    }
}

} // namespace

BufferSizes
ReadBufferSizes(const std::string& key, const std::string& text)
{
    std::istringstream words(text);
    int64_t least = 0;
    int64_t first = 0;
    int64_t most = 0;
    if (!(words >> least >> first >> most) || !(words >> std::ws).eof() || least < 0 ||
        least > first || first > most || most > std::numeric_limits<int32_t>::max())
    {
        throw BadInput(key + ": must be three growing numbers, not " + text);
    }
    return {static_cast<uint32_t>(least),
            static_cast<uint32_t>(first),
            static_cast<uint32_t>(most)};
}

bool
IsClassOf(const std::string& type, const std::string& base)
{
    ns3::TypeId found;
    return ns3::TypeId::LookupByNameFailSafe(type, &found) && found.HasConstructor() &&
           found.IsChildOf(ns3::TypeId::LookupByName(base));
}

Settings
Read(const std::string& text)
{
    json document;
    try
    {
        document = json::parse(text);
    }
    catch (const json::parse_error& error)
    {
        const std::string where = " at byte " + std::to_string(error.byte);
        throw BadInput("the cell: not JSON: error" + where);
    }
    Table table(document, "");
    Settings settings;
    settings.paths = ReadPaths(table, "paths");
    if (settings.paths.empty() || settings.paths.size() > 250)
    {
        table.Fail("paths", "there must be from 1 to 250 of them");
    }
    std::string family = "ipv4";
    table.Text("family", family, {"ipv4", "ipv6"});
    settings.ipv6 = family == "ipv6";
    table.Whole("mtu", settings.mtu, 576, 65535);
    const json nothing = json::object();
    auto sub = [&](const std::string& key) {
        const json* found = table.Find(key);
        return Table(found ? *found : nothing, key);
    };
    ReadMptcp(sub("mptcp"), settings);
    settings.sysctl = table.Texts("sysctl");
    ReadAssociation(sub("association"), settings);
    Table devices = sub("devices");
    devices.Text("bonding", settings.bonding, {"none", "balance-rr", "802.3ad"});
    devices.Boolean("gso", settings.gso);
    devices.End();
    ReadFio(sub("fio"), settings);
    for (const auto& event : table.List("events"))
    {
        const std::string name = "events[" + std::to_string(settings.events.size()) + "]";
        settings.events.push_back(ReadEvent(event, name, settings));
    }
    table.Whole("seed", settings.seed, 1, MANY);
    settings.attributes = table.Texts("attributes");
    if (const json* device = table.Find("device"))
    {
        settings.device = ReadDevice(Table(*device, "device"));
    }
    if (const json* fabric = table.Find("fabric"))
    {
        settings.fabric = ReadFabric(Table(*fabric, "fabric"), settings);
        if (settings.ipv6)
        {
            table.Fail("family", "a fabric has ipv4 only");
        }
        if (settings.bonding != "none")
        {
            devices.Fail("bonding", "not together with a fabric");
        }
    }
    Table output = sub("output");
    output.Text("pcap", settings.pcap);
    output.Text("trace", settings.trace);
    output.End();
    table.End();
    for (const auto& [name, value] : settings.attributes)
    {
        if (const auto other = OTHER_KEYS.find(name); other != OTHER_KEYS.end())
        {
            throw BadInput("attributes." + name + ": has no effect here, set " + other->second);
        }
    }
    SetAttributes(LAB_ATTRIBUTES);
    SetAttributes(settings.attributes);
    return settings;
}

} // namespace cell
