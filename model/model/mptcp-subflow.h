/*
 * SPDX-License-Identifier: GPL-2.0-only
 */

#ifndef MPTCP_SUBFLOW_H
#define MPTCP_SUBFLOW_H

#include "mptcp-crypto.h"
#include "mptcp-mapping.h"
#include "mptcp-option-tag.h"
#include "mptcp-option.h"
#include "tcp-linux-socket.h"

#include <deque>
#include <optional>
#include <vector>

namespace ns3
{

class MptcpSocket;
class MptcpPathManager;

/**
 * @ingroup nvme-mptcp
 * One TCP connection of an MPTCP connection (RFC 8684). It does the handshakes, carries mappings
 * and data ACKs in MptcpOptionTag, and leaves everything else to its MptcpSocket.
 *
 * Also a listener: then it accepts new connections for its MptcpSocket, or, without one, joins
 * only.
 */
class MptcpSubflow : public TcpSocketTypeId<MptcpSubflow, TcpLinuxSocket>
{
  public:
    /// Reason codes of MP_TCPRST (RFC 8684 §3.6).
    enum ResetReason : uint8_t
    {
        RESET_MPTCP = 1,       //!< MPTCP-specific error
        RESET_PROHIBITED = 3,  //!< policy
        RESET_PERFORMANCE = 5, //!< unacceptable performance
        RESET_MIDDLEBOX = 6,   //!< middlebox interference
    };

    /**
     * Get the type ID.
     * @return the type ID
     */
    static TypeId GetTypeId();

    MptcpSubflow();

    /**
     * Copy, for the subflow of an accepted connection.
     * @param subflow the listener
     */
    MptcpSubflow(const MptcpSubflow& subflow);
    ~MptcpSubflow() override;

    /**
     * Make this subflow a connection's.
     * @param connection the connection; null to take it away
     */
    void SetConnection(MptcpSocket* connection);

    /// @return the connection, null if it has none
    MptcpSocket* GetConnection() const;

    /// Have the first SYN offer MPTCP (MP_CAPABLE).
    void SetInitial();

    /**
     * Have the SYN join the connection (MP_JOIN).
     * @param localId address ID of the local address
     * @param remoteId address ID of the remote address
     * @param backup ask the peer to use it as a backup
     */
    void SetJoin(uint8_t localId, uint8_t remoteId, bool backup);

    /// @return whether it was opened, or accepted, with MP_JOIN
    bool IsJoin() const;

    /// @return whether data may be sent on it: the handshakes are done and nothing closed it
    bool IsUsable() const;

    /// @return whether it takes part in scheduling: usable and not stale
    bool IsActive();

    /// @return whether it is only for when no other subflow works
    bool IsBackup() const;

    /**
     * Set the priority and tell the peer (MP_PRIO).
     * @param backup whether it is only for when no other subflow works
     */
    void SetBackup(bool backup);

    /// @return a number that no other subflow of the connection has; the first has 0
    uint32_t GetId() const;

    /**
     * @param id a number that no other subflow of the connection has
     */
    void SetId(uint32_t id);

    /// @return ID of the local address
    uint8_t GetLocalId() const;

    /// @return ID of the remote address
    uint8_t GetRemoteId() const;

    /**
     * Queue data to be sent. Push() sends it.
     * @param dsn data sequence number of its first byte
     * @param data the data
     * @param endOfRecord what is queued next goes into a segment of its own
     */
    void Queue(uint64_t dsn, Ptr<Packet> data, bool endOfRecord);

    /// Send what is queued, as far as the windows allow.
    void PushQueued();

    /**
     * The connection's receive buffer grew: this one's is to follow (tcp_rcvbuf_grow).
     * @param bytes what the application read in a round trip
     */
    void GrowReceiveBuffer(uint32_t bytes);

    /**
     * The application has read from the connection: acknowledge if it is time.
     * @param update the window has opened by half
     * @param empty all was read
     */
    void OnRead(bool update, bool empty);

    /// @return round-trip time as the receiver estimates it, 0 if there is no new measurement since
    ///         the last call
    Time TakeReceiveRtt();

    /// @return share of the receive buffer's memory that is data
    double GetDataShare() const;

    /// @return whether TCP has all that was queued acknowledged
    bool IsIdle() const;

    /// @return the congestion control
    Ptr<TcpCongestionOps> GetCongestionOps() const;

    /// @return congestion window in bytes
    uint32_t GetCongestionWindow() const;

    /// @return bytes in flight
    uint32_t GetInFlight() const;

    /// @return most bytes in a segment
    uint32_t GetMss() const;

    /// @return window that the peer offered last, in bytes
    uint32_t GetPeerWindow() const;

    /**
     * @param pathManager the node's path manager
     */
    void SetPathManager(Ptr<MptcpPathManager> pathManager);

    /// @return the node's path manager
    Ptr<MptcpPathManager> GetPathManager() const;

    /// @return the key that this side drew, of an initial subflow
    uint64_t GetLocalKey() const;

    /// @return the peer's key, of an initial subflow
    uint64_t GetRemoteKey() const;

    /// @return whether either side of an initial subflow asked for DSS checksums
    bool WantsChecksum() const;

    /// @return token that a join which was accepted named
    uint32_t GetToken() const;

    /// @return whether it is TCP, since the peer doesn't speak MPTCP
    bool IsPlain() const;

    /// Have it be TCP.
    void SetPlain();

    /// @return whether the peer sent a FIN that was not answered yet
    bool HasPeerClosed() const;

    /**
     * How fast the queue empties: measured if it can be, else the pacing rate. The measure is that
     * of the patched kernel: what was acknowledged while there was always something in flight.
     * @return bytes per second
     */
    uint64_t GetDrainRate() const;

    /// Send an ACK now, with what options wait to be signalled.
    void SendAck();

    /**
     * Send an option with the next ACK, in place of the DSS if there is no room for both.
     * @param option the option's bytes
     */
    void Signal(std::vector<uint8_t> option);

    /**
     * Abort, telling why (MP_TCPRST).
     * @param reason reason code of RFC 8684 §3.6
     */
    void Reset(uint8_t reason);

    /**
     * Abort the connection with this subflow (MP_FASTCLOSE).
     */
    void FastClose();

    /// State of failure detection: what Linux keeps in mptcp_subflow_context.
    struct Stale
    {
        uint32_t count{0};   //!< periods with data outstanding and nothing received
        Time lastReceived;   //!< when something had been received, when counting began
        bool isStale{false}; //!< it is left out of scheduling
    };

    /// @return state of failure detection
    Stale& GetStale();

    /// @return when an ACK was received last
    Time GetLastReceived() const;

  protected:
    Ptr<TcpSocketBase> Fork() override;
    void DoForwardUp(Ptr<Packet> packet,
                     const Address& fromAddress,
                     const Address& toAddress) override;
    uint32_t LimitSegment(SequenceNumber32 seq, uint32_t size) const override;
    uint32_t GetOptionBytes(bool data) const override;
    void AdjustReceiveSpace(int64_t& free, int64_t& full) const override;
    Time GetHandshakeRtt(Time sent) const override;
    uint16_t AdvertisedWindowSize(bool scale = true) const override;
    void OnDataQueued() override;
    bool TunesReceiveBuffer() const override;
    bool WaitsForRoom() const override;
    void NotifyRoom() override;
    void DoDispose() override;

  private:
    /// What a subflow is in its connection.
    enum class Role
    {
        LISTENER, //!< accepts
        INITIAL,  //!< the first, with MP_CAPABLE
        JOIN,     //!< another, with MP_JOIN
        PLAIN,    //!< TCP: the connection fell back
    };

    /**
     * Add the options of a segment that is about to be sent; sink of the trace Tx.
     * @param packet the segment without header
     * @param header its header
     * @param socket the subflow
     */
    static void AddOptionsTag(Ptr<const Packet> packet,
                              const TcpHeader& header,
                              Ptr<const TcpSocketBase> socket);

    /**
     * Compose the options of a segment.
     * @param size bytes of data in it
     * @param header its header
     * @return the options
     */
    MptcpOptionTag ComposeOptions(uint32_t size, const TcpHeader& header);

    /**
     * Compose the options of a SYN or SYN/ACK.
     * @param ack whether it is a SYN/ACK
     * @param tag where to
     */
    void ComposeSyn(bool ack, MptcpOptionTag& tag) const;

    /**
     * Compose the options of a reset.
     * @param tag where to
     */
    void ComposeReset(MptcpOptionTag& tag) const;

    /**
     * Compose the option of the third packet of a handshake, or of the first data.
     * @param mapping the data's mapping, null if there is none
     * @param tag where to
     */
    void ComposeHandshakeAck(const MptcpMapping* mapping, MptcpOptionTag& tag);

    /**
     * Compose a DSS.
     * @param mapping mapping of the segment's data, null if there is none
     * @return the option
     */
    MptcpDss ComposeDss(const MptcpMapping* mapping) const;

    /**
     * Accept or refuse a SYN, as a listener.
     * @param options its MPTCP options
     * @param toAddress its destination
     * @return whether to go on with it
     */
    bool AcceptSyn(const std::vector<MptcpOption>& options, const Address& toAddress);

    /**
     * Read the options of a SYN/ACK.
     * @param options its MPTCP options
     * @return whether to go on with it
     */
    bool ReadSynAck(const std::vector<MptcpOption>& options);

    /**
     * Read the options of any other segment, before TCP sees it.
     * @param options its MPTCP options
     * @param header its header
     * @param size bytes of data in it
     * @return whether to go on with it
     */
    bool ReadHandshake(const std::vector<MptcpOption>& options,
                       const TcpHeader& header,
                       uint32_t size);

    /**
     * Remember the mapping of a segment.
     * @param dss its DSS
     * @return whether it was acceptable
     */
    bool ReadMapping(const MptcpDss& dss);

    /**
     * Read signals from the peer's path manager and resets.
     * @param options the segment's MPTCP options
     */
    void ReadSignals(const std::vector<MptcpOption>& options);

    /**
     * Take data that TCP has in order, as far as one mapping goes.
     * @param mapping the mapping of the first byte
     * @return the data; null if a checksum needs more
     */
    Ptr<Packet> TakeMapped(const MptcpMapping& mapping);

    /**
     * Tell the application of data, sink of Socket's receive callback.
     * @param socket this subflow
     */
    void NotifyData(Ptr<Socket> socket);

    /**
     * Check the data of a mapping.
     * @param mapping the mapping
     * @param data all its data
     * @return whether the checksum is right
     */
    static bool Verify(const MptcpMapping& mapping, Ptr<const Packet> data);

    /// Accept what the connection's window allows, as other subflows offered it.
    void UpdateOwnWindow();

    /// Measure how fast the path takes data.
    void UpdateDrainRate();

    /// Note that the peer knows both keys, or accepted the join.
    void SetFullyEstablished();

    /// Send the third packet of a join again, since its confirmation doesn't come.
    void ResendJoinAck();

    /**
     * Answer a segment with a reset, without a connection.
     * @param header the segment's header
     * @param from its sender
     * @param to its destination
     */
    void Refuse(const TcpHeader& header, const Address& from, const Address& to);

    /**
     * @param sequence a sequence number of what this side sends
     * @return the subflow sequence number, relative to the first
     */
    uint32_t ToSsn(SequenceNumber32 sequence) const;

    /// @return bytes that option space takes of each segment's data
    static uint32_t Padded(uint32_t bytes);

    MptcpSocket* m_connection{nullptr};   //!< the connection; it owns this subflow
    Ptr<MptcpPathManager> m_pathManager;  //!< the node's
    Role m_role{Role::LISTENER};          //!< what it is
    uint32_t m_id{0};                     //!< its number
    uint8_t m_localId{0};                 //!< ID of the local address
    uint8_t m_remoteId{0};                //!< ID of the remote address
    bool m_backup{false};                 //!< the peer asked for a backup
    bool m_requestBackup{false};          //!< this side asked for one
    bool m_passive{false};                //!< it was accepted
    bool m_optionsReserved{false};        //!< segments leave room for the DSS
    bool m_fullyEstablished{false};       //!< all handshakes are done
    bool m_failed{false};                 //!< it was reset, or its handshake was wrong
    bool m_fastClose{false};              //!< the reset is to carry MP_FASTCLOSE
    std::optional<uint8_t> m_resetReason; //!< reason that the reset is to carry

    uint64_t m_localKey{0};       //!< this side's key, of an initial subflow
    uint64_t m_remoteKey{0};      //!< the peer's key, of an initial subflow
    bool m_remoteChecksum{false}; //!< the peer asked for checksums
    uint32_t m_localNonce{0};     //!< this side's nonce, of a join
    uint32_t m_remoteNonce{0};    //!< the peer's
    uint32_t m_token{0};          //!< token in the SYN of a join that was accepted

    SequenceNumber32 m_localIsn{0};             //!< initial sequence number of this side
    SequenceNumber32 m_remoteIsn{0};            //!< and of the peer
    uint32_t m_writeSsn{1};                     //!< subflow sequence number of what is queued next
    uint32_t m_readSsn{1};                      //!< and of what is delivered next
    MptcpMappingList m_sendMappings;            //!< mappings of what is queued
    MptcpMappingList m_readMappings;            //!< mappings received
    std::deque<std::vector<uint8_t>> m_signals; //!< options that wait for an ACK
    EventId m_joinAckEvent;                     //!< when to send the third packet of a join again

    Stale m_stale;               //!< state of failure detection
    Time m_lastReceived;         //!< when something was received last
    uint64_t m_receiveRttEnd{0}; //!< which measurement was taken last
    Time m_drainStamp;           //!< beginning of the current sample, 0 if there is none
    Time m_drainSent;            //!< when what was delivered latest by then was sent
    uint64_t m_drainAcked{0};    //!< bytes acknowledged at that time
    uint64_t m_drainRate{0};     //!< bytes per second, 0 if not known yet
};

} // namespace ns3

#endif // MPTCP_SUBFLOW_H
