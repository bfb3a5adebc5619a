/*
 * SPDX-License-Identifier: GPL-2.0-only
 */

#ifndef MPTCP_SOCKET_H
#define MPTCP_SOCKET_H

#include "mptcp-path-manager.h"
#include "mptcp-receive-queue.h"
#include "mptcp-send-queue.h"

#include "ns3/event-id.h"
#include "ns3/socket.h"
#include "ns3/tcp-socket.h"
#include "ns3/traced-callback.h"
#include "ns3/traced-value.h"

#include <array>
#include <functional>
#include <optional>
#include <vector>

namespace ns3
{

class MptcpCoupledGroup;
class MptcpScheduler;
class MptcpSubflow;

/**
 * @ingroup nvme-mptcp
 * A connection of Multipath TCP (RFC 8684), as Linux does it: a stream socket whose data goes over
 * any number of subflows. Applications use it as they use a TCP socket.
 *
 * A peer that doesn't speak MPTCP gets TCP. Create it with
 * `Socket::CreateSocket(node, TypeId::LookupByName("ns3::MptcpSocketFactory"))`.
 */
class MptcpSocket : public Socket
{
  public:
    /**
     * Get the type ID.
     * @return the type ID
     */
    static TypeId GetTypeId();

    MptcpSocket();

    /**
     * Copy settings and callbacks, for an accepted connection.
     * @param socket the listening socket
     */
    MptcpSocket(const MptcpSocket& socket);
    ~MptcpSocket() override;

    /**
     * Set the node, which must have a path manager.
     * @param node the node
     */
    void SetNode(Ptr<Node> node);

    // the socket's API
    SocketErrno GetErrno() const override;
    SocketType GetSocketType() const override;
    Ptr<Node> GetNode() const override;
    int Bind() override;
    int Bind6() override;
    int Bind(const Address& address) override;
    int Connect(const Address& address) override;
    int Listen() override;
    int Close() override;
    int ShutdownSend() override;
    int ShutdownRecv() override;

    /**
     * Send data.
     * @param packet the data
     * @param flags Linux's MSG_EOR (0x80): what is sent next goes into a segment of its own;
     *        MSG_MORE (0x8000): more follows at once, see MptcpSchedulerDefault::HoldTime
     * @return bytes sent: all, or -1
     */
    int Send(Ptr<Packet> packet, uint32_t flags) override;
    int SendTo(Ptr<Packet> packet, uint32_t flags, const Address& address) override;
    Ptr<Packet> Recv(uint32_t maxSize, uint32_t flags) override;
    Ptr<Packet> RecvFrom(uint32_t maxSize, uint32_t flags, Address& from) override;
    uint32_t GetTxAvailable() const override;
    uint32_t GetRxAvailable() const override;
    int GetSockName(Address& address) const override;
    int GetPeerName(Address& address) const override;
    bool SetAllowBroadcast(bool allowBroadcast) override;
    bool GetAllowBroadcast() const override;

    /// Abort the connection (MP_FASTCLOSE, or a reset if it fell back to TCP).
    void Abort();

    // what schedulers, tests and programs want to know

    /// @return state of the connection, in TCP's terms
    TcpSocket::TcpStates_t GetState() const;

    /// @return subflows in the order in which they were opened
    const std::vector<Ptr<MptcpSubflow>>& GetSubflows() const;

    /// @return whether the connection is TCP, since the peer doesn't speak MPTCP
    bool HasFallenBack() const;

    /// @return data sequence number behind the last byte given to a subflow
    uint64_t GetSendNext() const;

    /// @return the peer's last data ACK
    uint64_t GetSendUnacknowledged() const;

    /// @return data sequence number behind the last byte that the peer's window allows
    uint64_t GetWindowEnd() const;

    /// @return bytes that wait for others before them
    uint32_t GetOutOfOrderBytes() const;

    /// @return this side's token
    uint32_t GetLocalToken() const;

    /// @return the path manager of the node
    Ptr<MptcpPathManager> GetPathManager() const;

    /// What happened on the connection.
    struct Statistics
    {
        uint64_t bytesReinjected{0};     //!< bytes given to a subflow that one had before
        uint64_t retransmittedChunks{0}; //!< pieces sent again by the timer (MPTCPRetrans)
        uint64_t bytesOutOfWindow{0};    //!< bytes received beyond the window, and dropped
        uint64_t bytesDuplicate{0};      //!< bytes received that were there already
        uint32_t retransmitTimeouts{0};  //!< how often the connection's timer expired
        uint32_t staleSubflows{0};       //!< how often a subflow became stale
    };

    /// @return counters
    const Statistics& GetStatistics() const;

    /**
     * TracedCallback signature of data that a subflow gets or delivers.
     * @param connection the connection
     * @param subflow the subflow
     * @param dsn data sequence number of the first byte
     * @param bytes how many bytes
     */
    typedef void (*DataTracedCallback)(Ptr<const MptcpSocket> connection,
                                       Ptr<const MptcpSubflow> subflow,
                                       uint64_t dsn,
                                       uint32_t bytes);

    /**
     * TracedCallback signature of changes of a subflow.
     * @param connection the connection
     * @param subflow the subflow
     */
    typedef void (*SubflowTracedCallback)(Ptr<const MptcpSocket> connection,
                                          Ptr<const MptcpSubflow> subflow);

    // for subflows and the path manager

    /// @return this side's key
    uint64_t GetLocalKey() const;

    /// @return the peer's key
    uint64_t GetRemoteKey() const;

    /**
     * Set what the peer's MP_CAPABLE said.
     * @param key its key
     * @param checksum whether it wants DSS checksums
     */
    void SetRemote(uint64_t key, bool checksum);

    /// @return whether mappings have checksums
    bool HasChecksum() const;

    /// @return whether data ACKs have 8 bytes: the peer's data sequence numbers have
    bool Uses8ByteAck() const;

    /// @return data sequence number of the DATA_FIN, if it is time for it
    std::optional<uint64_t> GetFin() const;

    /// @return the data ACK to send
    uint64_t GetDataAck() const;

    /**
     * Offer a window in a segment.
     * @param window what the subflow would offer, counted from GetDataAck()
     * @return the connection's window, which never shrinks from the right
     */
    uint32_t OfferWindow(uint32_t window);

    /// @return what is left of the window that was offered, counted from GetDataAck()
    uint64_t GetOfferedWindow() const;

    /// @return window for what is free in the receive buffer, in bytes
    uint32_t GetFreeWindow() const;

    /// @return window for the whole receive buffer, in bytes
    uint32_t GetFullWindow() const;

    /**
     * Restore a data sequence number of the peer.
     * @param dsn as it was sent
     * @param whole whether all 8 bytes were sent
     * @return all of it
     */
    uint64_t ExpandDsn(uint64_t dsn, bool whole);

    /// @return whether joins are accepted
    bool MayBeJoined() const;

    /// @return what the path manager remembers
    MptcpPathState& GetPathState();

    /// @return what the path manager remembers
    const MptcpPathState& GetPathState() const;

    /**
     * Open a subflow.
     * @param local local address with port 0, or an invalid one for what routing chooses
     * @param localId its ID
     * @param remote remote address with port
     * @param remoteId its ID
     * @param backup whether it is only for when no other works
     */
    void OpenSubflow(const Address& local,
                     uint8_t localId,
                     const Address& remote,
                     uint8_t remoteId,
                     bool backup);

    /**
     * Close some subflows; what was on them is sent on others.
     * @param which says which
     */
    void CloseSubflows(const std::function<bool(const MptcpSubflow&)>& which);

    /**
     * @param remote an address with port
     * @return whether a subflow goes there
     */
    bool HasSubflowTo(const Address& remote) const;

    /**
     * @param local an Ipv4Address or Ipv6Address
     * @return whether a subflow begins there
     */
    bool HasSubflowFrom(const Address& local) const;

    /**
     * Send an option on one subflow.
     * @param option the option's bytes
     */
    void SignalAny(const std::vector<uint8_t>& option);

    /**
     * Send an option on each subflow.
     * @param option the option's bytes
     */
    void SignalAll(const std::vector<uint8_t>& option);

    /// @return the longest retransmission time-out of all subflows
    Time GetLongestRto() const;

    /**
     * Take in a subflow that a listener accepted.
     * @param socket the subflow
     * @param from the peer's address
     */
    static void AcceptSubflow(Ptr<Socket> socket, const Address& from);

    /**
     * A subflow's handshakes are done.
     * @param subflow the subflow
     */
    void OnSubflowEstablished(MptcpSubflow* subflow);

    /**
     * The peer doesn't speak MPTCP.
     * @param subflow the only subflow
     */
    void Fallback(MptcpSubflow* subflow);

    /**
     * A segment carried a data ACK.
     * @param ack the data ACK as it was sent
     * @param whole whether it had 8 bytes
     * @param window the window in the same segment, in bytes
     */
    void OnDataAck(uint64_t ack, bool whole, uint32_t window);

    /// TCP acknowledged something, and the connection fell back to it.
    void OnPlainAck();

    /// @return whether the application, or data for a subflow, wait for room. Subflows share
    /// SOCK_NOSPACE in Linux: of whichever a packet comes in next, the buffer may grow.
    bool WaitsForRoom() const;

    /// Tell the application of room in the send buffer, as Linux does: a third of it.
    void NotifyRoom();

    /**
     * A DATA_FIN came.
     * @param dsn its data sequence number
     */
    void OnFin(uint64_t dsn);

    /// The peer aborted the connection.
    void OnFastClose();

    /**
     * Tell whether what was just queued waits for more: nothing is bound to a subflow that what
     * follows may not go to.
     * @param flags those of Send()
     * @return true: the next Send(), an ACK or the retransmission timer sends it
     */
    bool HoldsBack(uint32_t flags) const;

    /**
     * A subflow has data.
     * @param subflow the subflow
     * @param dsn data sequence number of the first byte
     * @param data the data
     */
    void Receive(const MptcpSubflow& subflow, uint64_t dsn, Ptr<const Packet> data);

    /**
     * Note the round-trip time of a subflow that has received data, once a receive window.
     * @param subflow the subflow
     */
    void UpdateReceiveRtt(MptcpSubflow& subflow);

    /// Tell the application of data received, and act on a DATA_FIN.
    void DataReady();

    /// Give to subflows what the scheduler allows.
    void PushPending();

  protected:
    void DoDispose() override;

  private:
    static const Time RTO_MIN; //!< shortest retransmission timeout, Linux's TCP_RTO_MIN

    /**
     * Make a subflow.
     * @return the subflow
     */
    Ptr<MptcpSubflow> CreateSubflow();

    /**
     * Make a subflow this connection's.
     * @param subflow the subflow
     */
    void Adopt(Ptr<MptcpSubflow> subflow);

    /**
     * Get the first subflow, which holds the address before there is a connection.
     * @return the subflow; made if there was none
     */
    MptcpSubflow& GetFirst();

    /**
     * Set this side's key, and with it the first data sequence number.
     * @param key the key
     */
    void SetLocal(uint64_t key);

    /**
     * The first subflow is connected, sink of its callback.
     * @param socket the subflow
     */
    void OnConnected(Ptr<Socket> socket);

    /**
     * A subflow could not connect, sink of its callback.
     * @param socket the subflow
     */
    void OnConnectFailed(Ptr<Socket> socket);

    /**
     * A subflow was closed, or the peer closed it, sink of its callbacks.
     * @param socket the subflow
     */
    void OnSubflowClosed(Ptr<Socket> socket);

    /**
     * The listener got a SYN, sink of its callback.
     * @param socket the listener
     * @param from the peer's address
     * @return whether the application wants the connection
     */
    bool OnRequest(Ptr<Socket> socket, const Address& from);

    /**
     * The listener has a new connection or a join, sink of its callback.
     * @param socket the new subflow
     * @param from the peer's address
     */
    void OnAccept(Ptr<Socket> socket, const Address& from);

    /**
     * Take a subflow away.
     * @param subflow the subflow
     */
    void Remove(Ptr<MptcpSubflow> subflow);

    /// @return whether a subflow that could send has no room in its send buffer
    bool HasFullSubflow() const;

    /**
     * Give subflows a burst of data that is to be sent, all of them the same.
     * @param subflows the subflows
     * @param burst bytes after which it ends
     * @param isStrict not even to finish the chunk at hand
     * @return bytes given
     */
    uint32_t PushBurst(const std::vector<Ptr<MptcpSubflow>>& subflows,
                       uint32_t burst,
                       bool isStrict);

    /**
     * Give a subflow data that was sent before.
     * @param subflow the subflow
     * @param dsn where it begins
     * @return bytes given
     */
    uint32_t PushAgain(MptcpSubflow& subflow, uint64_t dsn);

    /**
     * Queue a piece of data at a subflow.
     * @param subflow the subflow
     * @param chunk the chunk that has it
     * @param offset where it begins in the chunk
     * @param bytes how much
     */
    void Queue(MptcpSubflow& subflow,
               const MptcpSendQueue::Chunk& chunk,
               uint32_t offset,
               uint32_t bytes);

    /**
     * Have the peer tell its window: send a byte that it has.
     * @param subflow the subflow
     */
    void ProbeWindow(MptcpSubflow& subflow);

    /// Send a DATA_FIN if it is time for it.
    void CheckSendFin();

    /// Act on the peer's DATA_FIN, if all before it is there.
    void CheckReceivedFin();

    /// Act on the acknowledgement of this side's DATA_FIN.
    void CheckFinAcknowledged();

    /// End: nothing more will come or go.
    void Finish();

    /// The connection could not be closed, or found no new subflow, in time.
    void OnCloseTimeout();

    /// The retransmission timer expired, or would have if it had not been started again.
    void OnRetransmitTimer();

    /// The peer's data ACK doesn't come.
    void Retransmit();

    /// Note which subflows make no progress, and leave out those that are stale.
    void CheckStale();

    /**
     * Leave a subflow out if it made no progress for too long and another one does.
     * @param stuck the subflow
     */
    void MarkStale(MptcpSubflow& stuck);

    /// Have everything sent again that the peer didn't acknowledge.
    void Reinject();

    /// Choose when the retransmission timer is to expire.
    void UpdateTimeout();

    /// Start the retransmission timer, again if it is running.
    void ResetTimer();

    /// Let the receive buffer grow with what the application reads.
    void AdjustReceiveBuffer();

    /// The application has read: tell the peer of room, acknowledge what waits for it.
    void OnRead();

    Ptr<Node> m_node;                            //!< the node
    Ptr<MptcpPathManager> m_pathManager;         //!< its path manager
    Ptr<MptcpScheduler> m_scheduler;             //!< the scheduler
    Ptr<MptcpCoupledGroup> m_group;              //!< the subflows' congestion controls, if coupled
    mutable SocketErrno m_errno{ERROR_NOTERROR}; //!< last error
    TcpSocket::TcpStates_t m_state{TcpSocket::CLOSED}; //!< state
    bool m_fallback{false};                            //!< it is TCP
    bool m_shutdownSend{false};                        //!< the application sends no more
    bool m_shutdownReceive{false};                     //!< the application reads no more
    bool m_closeNotified{false}; //!< the application knows that the peer is done
    bool m_pushing{false};       //!< PushPending() is at work
    bool m_waitsForRoom{false};  //!< it, or data for a subflow, wait for room (SOCK_NOSPACE)
    bool m_checksum{false};      //!< mappings have checksums
    bool m_established{false};   //!< both sides know that the other speaks MPTCP

    uint64_t m_localKey{0};                    //!< this side's key
    uint64_t m_remoteKey{0};                   //!< the peer's key
    uint32_t m_nextSubflowId{0};               //!< number of the next subflow
    std::vector<Ptr<MptcpSubflow>> m_subflows; //!< the subflows
    Ptr<MptcpSubflow> m_listener;              //!< the listener
    MptcpPathState m_pathState;                //!< what the path manager remembers
    Address m_localName;                       //!< local address of the first subflow
    Address m_peerName;                        //!< remote address of the first subflow

    MptcpSendQueue m_sendQueue; //!< data to be sent, and sent but not acknowledged
    TracedValue<uint64_t> m_sendUnacknowledged{0}; //!< the peer's data ACK
    uint64_t m_sendNext{0};                        //!< data sequence number behind what was sent
    uint64_t m_windowEnd{0};                       //!< end of the peer's window
    bool m_finSent{false};                         //!< the DATA_FIN is part of what was sent
    EventId m_retransmitEvent;                     //!< retransmission timer
    Time m_retransmitAt;                           //!< when it expires; its event may come earlier
    Time m_retransmitTimeout;                      //!< how long it runs
    uint32_t m_finRetries{0};                      //!< how often the DATA_FIN was sent again
    EventId m_closeEvent;                          //!< when to give up closing

    MptcpReceiveQueue m_receiveQueue;    //!< data received
    bool m_8ByteAck{false};              //!< the peer's data sequence numbers have 8 bytes
    std::optional<uint64_t> m_remoteFin; //!< data sequence number of the peer's DATA_FIN
    uint64_t m_windowSent{0};            //!< end of the window that was offered
    uint32_t m_lastWindow{0};            //!< window in the last segment sent
    uint32_t m_receiveBuffer{0};         //!< receive buffer, with overhead (sk_rcvbuf)
    uint32_t m_receiveBufferInitial;     //!< its first size (tcp_rmem)
    uint32_t m_receiveBufferMost;        //!< its largest size (tcp_rmem)
    uint32_t m_skbOverhead{0};           //!< memory of a packet held beside its data, in bytes
    uint32_t m_hold{0};                  //!< bytes of MSG_MORE data that wait for more
    double m_windowRatio{0.5};           //!< share of the receive buffer that the window may use
    uint32_t m_readSpace{0};             //!< most read in one round trip
    uint32_t m_readBytes{0};             //!< read in this one
    Time m_readSince;                    //!< when this one began
    /// latest round-trip times of subflows that receive
    std::array<Time, 5> m_receiveRtt{Time::Max(),
                                     Time::Max(),
                                     Time::Max(),
                                     Time::Max(),
                                     Time::Max()};
    uint32_t m_nextReceiveRtt{0}; //!< how many there were
    EventId m_readEvent;          //!< acts on what the application read

    Statistics m_statistics;                    //!< counters
    TracedValue<uint32_t> m_outOfOrderBytes{0}; //!< bytes that wait for others before them
    /// data given to a subflow
    TracedCallback<Ptr<const MptcpSocket>, Ptr<const MptcpSubflow>, uint64_t, uint32_t> m_sendTrace;
    /// data given to a subflow that another one had before
    TracedCallback<Ptr<const MptcpSocket>, Ptr<const MptcpSubflow>, uint64_t, uint32_t>
        m_reinjectTrace;
    /// data that a subflow delivered
    TracedCallback<Ptr<const MptcpSocket>, Ptr<const MptcpSubflow>, uint64_t, uint32_t>
        m_receiveTrace;
    TracedCallback<Ptr<const MptcpSocket>, Ptr<const MptcpSubflow>> m_subflowOpened; //!< joined
    TracedCallback<Ptr<const MptcpSocket>, Ptr<const MptcpSubflow>> m_subflowClosed; //!< gone
    TracedCallback<Ptr<const MptcpSocket>, Ptr<const MptcpSubflow>> m_subflowStale;  //!< left out
};

} // namespace ns3

#endif // MPTCP_SOCKET_H
