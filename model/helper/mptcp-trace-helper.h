/*
 * SPDX-License-Identifier: GPL-2.0-only
 */

#ifndef MPTCP_TRACE_HELPER_H
#define MPTCP_TRACE_HELPER_H

#include "ns3/event-id.h"
#include "ns3/nstime.h"

#include <fstream>
#include <map>
#include <string>

namespace ns3
{

class TcpLinuxSocket;

/**
 * @ingroup nvme-mptcp
 * Writes what TCP connections and MPTCP subflows do over time as CSV files with the columns
 * `seconds,flow,value`; a flow is "address:port > address:port", from the socket to its peer.
 *
 * cwnd.csv has the congestion window, subflow_bytes.csv what the peer has acknowledged, and
 * reorder_queue.csv what an MPTCP connection holds back until data before it come (its flow is that
 * of its first subflow); all in bytes. All sockets of all nodes are looked at, at regular times; a
 * value that hasn't changed is not written again.
 */
class MptcpTraceHelper
{
  public:
    /**
     * Open the files. One that can't be written is a fatal error.
     * @param directory where to write; it has to exist
     * @param interval time between two looks
     */
    MptcpTraceHelper(const std::string& directory, Time interval);

    /// Stop, and close the files
    ~MptcpTraceHelper();

    MptcpTraceHelper(const MptcpTraceHelper&) = delete;
    MptcpTraceHelper& operator=(const MptcpTraceHelper&) = delete;

    /// Look at all sockets from now on. The simulation has to be stopped, it doesn't end by itself.
    void Start();

  private:
    /// A file, and what was written last
    struct Series
    {
        std::ofstream file;                   //!< the file
        std::map<std::string, uint64_t> last; //!< value by flow

        /**
         * Write a value, if it is new.
         * @param flow the flow
         * @param value the value
         */
        void Write(const std::string& flow, uint64_t value);
    };

    /**
     * Open a file.
     * @param series where to keep it
     * @param path its path
     */
    static void Open(Series& series, const std::string& path);

    /// Look at all sockets
    void Sample();

    /**
     * Look at a socket.
     * @param socket the socket
     */
    void Sample(const TcpLinuxSocket& socket);

    Time m_interval;       //!< time between two looks
    EventId m_next;        //!< the next look
    Series m_window;       //!< congestion windows
    Series m_acknowledged; //!< bytes acknowledged
    Series m_outOfOrder;   //!< bytes out of order
};

} // namespace ns3

#endif // MPTCP_TRACE_HELPER_H
