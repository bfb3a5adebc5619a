/*
 * SPDX-License-Identifier: GPL-2.0-only
 */

#ifndef CELL_SETTINGS_H
#define CELL_SETTINGS_H

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace cell
{

/// Something is wrong with the input; the text names the key.
struct BadInput : std::runtime_error
{
    using std::runtime_error::runtime_error;
};

/// Least, first and greatest size of a buffer, in bytes
using BufferSizes = std::array<uint32_t, 3>;

/**
 * Read net.ipv4.tcp_rmem or tcp_wmem, or ns-3's attribute of that.
 * @param key what the error names
 * @param text three growing numbers
 * @return the numbers
 * @throws BadInput if it isn't such
 */
BufferSizes ReadBufferSizes(const std::string& key, const std::string& text);

/**
 * @param type name of a class
 * @param base name of another
 * @return whether it is one of those, of which objects can be made
 */
bool IsClassOf(const std::string& type, const std::string& base);

/// What one end of a link does to the packets it sends, as tc-netem(8)
struct Direction
{
    uint64_t rate{0};         ///< bit/s; 0: no limit
    double delay{0};          ///< us
    double jitter{0};         ///< us
    double loss{0};           ///< probability
    uint32_t limit{1000};     ///< packets
    uint32_t ecnThreshold{0}; ///< packets; 0: none
};

/// A link between host and target
struct Path
{
    Direction toTarget; ///< what the host's end sends
    Direction toHost;   ///< what the target's end sends
    bool backup{false}; ///< flag of the endpoints at both ends
};

/// Something that happens to a path
struct Event
{
    double at;                         ///< s since the start of fio
    uint32_t path;                     ///< from 0
    std::optional<bool> up;            ///< the target's end is set up, or down
    std::optional<Direction> toTarget; ///< new settings
    std::optional<Direction> toHost;   ///< new settings
};

/// What lies between hosts and target in place of plain links
struct Fabric
{
    std::string kind;            ///< "switch" or "leaf-spine"
    uint32_t leaves{2};          ///< of leaf-spine
    uint32_t spines{2};          ///< of leaf-spine
    std::vector<Path> hostLinks; ///< of each path; all hosts have the same
    Direction uplink;            ///< both ways
    double startWithin{0};       ///< us: hosts start their jobs at random times within it
};

/// Service times of the target's devices
struct Device
{
    double read{0};           ///< us
    double write{0};          ///< us
    std::string distribution; ///< "constant", "exponential" or "lognormal"
    double sigma{1};          ///< of lognormal
    uint32_t parallelism{0};  ///< commands at a time; 0: any number
};

/// One measurement
struct Settings
{
    std::vector<Path> paths;
    uint32_t mtu{1500};
    bool ipv6{false}; ///< the links' addresses

    struct
    {
        uint32_t subflows{8};
        uint32_t addAddrAccepted{8};
        std::string hostEndpoints{"none"};
        std::string targetEndpoints{"signal"};
        std::string scheduler{"default"};
        bool checksum{false};
    } mptcp;

    std::map<std::string, std::string> sysctl;

    struct
    {
        bool mptcp{false};
        uint32_t ports{1};
        uint32_t controllersPerPath{1};
        std::string ioPolicy{"numa"};
        uint32_t hosts{1};
        uint32_t tcpHosts{0};
        std::map<std::string, std::string> connectOptions;
    } association;

    std::string bonding{"none"};
    bool gso{true};

    struct
    {
        std::string rw{"randread"};
        uint32_t readPercent{50};
        uint32_t blockSize{4096};
        std::vector<std::pair<uint32_t, uint32_t>> split;
        uint32_t ioDepth{1};
        uint32_t jobs{1};
        double runtime{10};
        double rate{0};       ///< bytes/s of all jobs of all hosts; 0: none
        uint32_t timeline{0}; ///< ms; 0: none
    } fio;

    std::vector<Event> events;
    uint32_t seed{1};
    std::map<std::string, std::string> attributes;
    std::optional<Device> device;
    std::optional<Fabric> fabric;
    std::string pcap;  ///< prefix of files; empty: none
    std::string trace; ///< directory; empty: none
};

/**
 * Read a cell.
 * @param text JSON, of the form that `--help` shows
 * @return the settings; attributes have been set as defaults
 * @throws BadInput if it isn't such
 */
Settings Read(const std::string& text);

} // namespace cell

#endif // CELL_SETTINGS_H
