/*
 * SPDX-License-Identifier: GPL-2.0-only
 */

#ifndef TCP_LINUX_SOCKET_H
#define TCP_LINUX_SOCKET_H

#include "tcp-flow-table.h"
#include "tcp-linux-receive-queue.h"
#include "tcp-linux-receive-window.h"
#include "tcp-linux-rtt.h"
#include "tcp-linux-send-queue.h"
#include "tcp-socket-type-id.h"

#include "ns3/tcp-rate-ops.h"
#include "ns3/tcp-socket-base.h"

#include <optional>
#include <string>

namespace ns3
{

class TcpLinuxCongestion;
class TcpOptionSack;

/**
 * @ingroup nvme-mptcp
 * A TCP socket that behaves on the wire as Linux's. It takes the handshake, the demultiplexing and
 * the congestion control's interface from TcpSocketBase; all that moves data is its own: GSO
 * packets sized by the pacing rate, loss detection by time (RACK), tail-loss probes, PRR, undo of
 * spurious recoveries, F-RTO, delayed and compressed ACKs, and buffers that tune themselves. The
 * base's m_txBuffer and m_rxBuffer stay empty. See doc/nvme-mptcp.rst for what follows Linux and
 * what not.
 *
 * The congestion window counts packets as Linux's does, small ones too: m_tcb->m_cWnd is that
 * number times the segment size.
 */
class TcpLinuxSocket : public TcpSocketTypeId<TcpLinuxSocket, TcpSocketBase>
{
  public:
    /**
     * Get the type ID.
     * @return the type ID
     */
    static TypeId GetTypeId();

    TcpLinuxSocket();

    /**
     * Copy, for the socket of an accepted connection.
     * @param sock the listening socket
     */
    TcpLinuxSocket(const TcpLinuxSocket& sock);
    ~TcpLinuxSocket() override;

    /// Flags of Send, with the values of Linux's MSG_EOR and MSG_MORE.
    enum SendFlags : uint32_t
    {
        SEND_EOR = 0x80,    //!< nothing may be added to the packet that ends here
        SEND_MORE = 0x8000, //!< more follows at once: a partial segment waits for it
    };

    /**
     * Take a packet of this connection, from a TcpFlowTable.
     * @param packet with its TCP header
     * @param header its IP header
     * @param port the peer's
     * @param interface that it came in at
     * @return whether it was taken; not if the connection has ended
     */
    bool Receive(Ptr<Packet> packet,
                 const Ipv4Header& header,
                 uint16_t port,
                 Ptr<Ipv4Interface> interface);

    int Send(Ptr<Packet> p, uint32_t flags) override;
    int SendTo(Ptr<Packet> p, uint32_t flags, const Address& toAddress) override;
    Ptr<Packet> Recv(uint32_t maxSize, uint32_t flags) override;
    int Close() override;
    int ShutdownSend() override;

    /**
     * @return bytes that Send takes now; what fits overshoots the buffer by up to one GSO packet,
     * as Linux's does
     */
    uint32_t GetTxAvailable() const override;
    uint32_t GetRxAvailable() const override;

    /**
     * @return smoothed round-trip time, 0 without samples
     */
    Time GetSrtt() const;

    /**
     * @return least round-trip time of the last minutes, Time::Max() without samples
     */
    Time GetMinRtt() const;

    /**
     * @return the pacing rate (sk_pacing_rate), in bytes per second
     */
    uint64_t GetPacingRateBytes() const;

    /**
     * @return the delivery rate last measured (tcpi_delivery_rate), in bytes per second, 0 without
     *         samples. Where the application limits it the highest counts.
     */
    double GetDeliveryRate() const;

    /**
     * @return when what was delivered latest of all was sent (rack.mstamp), negative without any
     */
    Time GetNewestDelivered() const;

    /**
     * @return bytes of the stream that the peer has acknowledged
     */
    uint64_t GetBytesAcked() const;

    /**
     * @return bytes of the stream that were sent and aren't acknowledged
     */
    uint64_t GetBytesUnacknowledged() const;

    /**
     * @return time since data was last sent (lsndtime), 0 if there was none
     */
    Time GetIdle() const;

    /**
     * @return bytes of the stream that were received in order
     */
    uint64_t GetBytesReceived() const;

    /**
     * @return congestion window in packets
     */
    uint32_t GetCwndPackets() const;

    /**
     * @return packets sent and not acknowledged
     */
    uint32_t GetPacketsOut() const;

    /**
     * @return packets in flight: sent, neither acknowledged nor taken for lost
     */
    uint32_t GetPacketsInFlight() const;

    /**
     * @return whether the window is below the slow start threshold
     */
    bool InSlowStart() const;

    /**
     * @return bytes written and not sent yet
     */
    uint64_t GetUnsent() const;

    /**
     * @return bytes written and not acknowledged yet
     */
    uint64_t GetQueued() const;

    /**
     * @return time-outs in a row (icsk_retransmits)
     */
    uint32_t GetRetransmits() const;

    /**
     * @return segments ever retransmitted
     */
    uint64_t GetTotalRetransmits() const;

    /**
     * @return bytes of the stream sent, those resent counted again
     */
    uint64_t GetBytesSent() const;

    /**
     * @return time-outs ever
     */
    uint64_t GetTimeouts() const;

    /**
     * @return the retransmission time-out, with its back-off
     */
    Time GetRto() const;

    /**
     * @return time until the retransmission timer does something, 0 if it is off
     */
    Time GetTimerLeft() const;

    /**
     * @return size of the send buffer (sk_sndbuf), in bytes of memory
     */
    uint64_t GetSndBuf() const;

    /**
     * @return memory that unacknowledged data takes (sk_wmem_queued), in bytes
     */
    uint64_t GetSndMemory() const;

    /**
     * @return whether there is room in the send buffer (sk_stream_memory_free)
     */
    bool HasSndMemory() const;

    /**
     * @return number of segments that a GSO packet should have now (tcp_tso_autosize)
     */
    uint32_t GetTsoSegments() const;

    /**
     * @return the wire's segment size with the options a data packet carries now, in bytes
     */
    uint32_t GetCurrentMss() const;

    /**
     * TracedCallback signature of transmissions.
     * @param seq offset of the first byte in the stream
     * @param size bytes
     * @param segments segments on the wire
     * @param resent whether it is a retransmission
     */
    typedef void (*TransmitTracedCallback)(uint64_t seq,
                                           uint32_t size,
                                           uint32_t segments,
                                           bool resent);

  protected:
    Ptr<TcpSocketBase> Fork() override;
    void SetSndBufSize(uint32_t size) override;
    uint32_t GetSndBufSize() const override;
    void SetRcvBufSize(uint32_t size) override;
    uint32_t GetRcvBufSize() const override;
    void DoForwardUp(Ptr<Packet> packet,
                     const Address& fromAddress,
                     const Address& toAddress) override;
    void ReceivedAck(Ptr<Packet> packet, const TcpHeader& tcpHeader) override;
    void EstimateRtt(const TcpHeader& tcpHeader) override;
    void SendEmptyPacket(uint8_t flags) override;
    uint16_t AdvertisedWindowSize(bool scale = true) const override;
    void ReTxTimeout() override;
    void DelAckTimeout() override;
    void PersistTimeout() override;

    /**
     * Where a packet has to end, for subclasses whose stream has borders. Asked for each new or
     * resent packet.
     * @param seq first byte
     * @param size bytes that would be sent
     * @return bytes that may be sent in one packet, at least 1
     */
    virtual uint32_t LimitSegment(SequenceNumber32 seq, uint32_t size) const;

    /**
     * Bytes of TCP options of a subclass, a multiple of 4.
     * @param data for a packet with data, else for a pure ACK
     * @return bytes
     */
    virtual uint32_t GetOptionBytes(bool data) const;

    /**
     * Room for received data, where a subclass has a buffer shared by several sockets.
     * @param free bytes that could be offered
     * @param full bytes that could be offered if no packets were held
     */
    virtual void AdjustReceiveSpace(int64_t& free, int64_t& full) const;

    /**
     * @param sent when the SYN or SYN-ACK was sent that is acknowledged now
     * @return the first sample of the round-trip time
     */
    virtual Time GetHandshakeRtt(Time sent) const;

    /// Called after each retransmission time-out.
    virtual void OnRto();

    /// Called when data is in order, before it is acknowledged. What is read here isn't taken for
    /// the application's reading.
    virtual void OnDataQueued();

    /// @return whether the receive buffer tunes itself by what is read from this socket
    virtual bool TunesReceiveBuffer() const;

    /// @return whether data wait for room in the send buffer (SOCK_NOSPACE), which may grow then
    virtual bool WaitsForRoom() const;

    /// Called after each packet that came in: tell who waits for room (tcp_check_space).
    virtual void NotifyRoom();

    /// Let the send buffer grow if it isn't the window that limits.
    void GrowSndBuf();

    /// The application has read, or might have: tune the buffer, and acknowledge if it is time.
    /// @param copied whether it has read
    void CleanReceived(bool copied);

    /**
     * @param empty whether the application has read all
     * @return whether reading makes it time to acknowledge what was received
     */
    bool OwesAck(bool empty) const;

    /// Let the send buffer grow with the congestion window.
    void ExpandSndBuf();

    mutable TcpLinuxReceiveWindow m_rcvWindow; //!< what is offered

    /**
     * Put data into the send queue without sending, as sendmsg() does before it pushes.
     * @param p the data
     * @param eor nothing may be added to the packet that ends here
     */
    void Append(Ptr<Packet> p, bool eor);

    /**
     * Send what the windows allow.
     * @param more more data follows at once: a partial segment waits for it
     */
    void Push(bool more = false);

  private:
    /// What an ACK brought; the flags of Linux's tcp_ack().
    struct AckFlags
    {
        bool advanced{false};      //!< it moved the left edge
        bool window{false};        //!< it updated the window
        bool data{false};          //!< the packet carries data
        bool acked{false};         //!< it acknowledged data in order
        bool sacked{false};        //!< it acknowledged data out of order
        bool ece{false};           //!< it echoes congestion marks
        bool dsack{false};         //!< it reports data received twice
        bool dsackTlp{false};      //!< that data is a tail-loss probe
        bool originalAcked{false}; //!< it acknowledged what was never resent
        bool setTimer{false};      //!< the retransmission timer must be set
        bool lostResent{false};    //!< a retransmission was found lost
        bool maybeDelayed{false};  //!< it may have been delayed by the receiver
    };

    /// What to send after an ACK.
    enum Resend
    {
        RESEND_NONE, //!< nothing for recovery
        RESEND_LOST, //!< what is lost
        RESEND_NEW,  //!< new data, to find out whether a time-out was spurious
    };

    /// What the retransmission timer is for.
    enum TimerKind
    {
        TIMER_NONE,    //!< it is off
        TIMER_RTO,     //!< retransmission time-out
        TIMER_PROBE,   //!< tail-loss probe
        TIMER_REORDER, //!< reordering window of RACK
    };

    // tcp-linux-socket.cc: handshake, closing, application
    void Configure();
    void InitTransfer();
    void SetSysctl(uint32_t (&triple)[3], const std::string& value, const char* name);
    void SetRmem(std::string value);
    std::string GetRmem() const;
    void SetWmem(std::string value);
    std::string GetWmem() const;
    void Input(Ptr<Packet> packet, const TcpHeader& header);

    void EnterFlowTable(); //!< have packets handed to this socket without a search
    void Reset();
    void FinAcked();
    void FinReceived();
    uint32_t GetSizeGoal() const;
    uint64_t FromWire(SequenceNumber32 seq, uint64_t near) const;
    static SequenceNumber32 ToWire(uint64_t seq);

    // tcp-linux-socket-output.cc: what is sent, and when
    void SendHandshake(uint8_t flags);
    void SendControl(uint8_t flags, uint64_t seq);
    bool SendSegment(Ptr<Packet> packet, TcpHeader& header, bool data);
    void AddSackBlocks(TcpHeader& header, bool data);
    bool Transmit(TcpLinuxSkb& skb, bool resent);
    bool WriteXmit(bool nagle, bool cork, int pushOne);
    bool ShouldDefer(const TcpLinuxSkb& skb, bool& cwndLimited, uint32_t maxSegments);
    bool HoldsBack(bool partial, bool nagle, bool cork) const;
    void ValidateCwnd(bool limited);
    bool IsCwndLimited() const;
    void CheckIdle();
    bool Retransmit(TcpLinuxSendQueue::RtxQueue::iterator it, uint32_t segments);
    bool RetransmitCounted(TcpLinuxSendQueue::RtxQueue::iterator it, uint32_t segments);
    void RetransmitLost();
    bool IsPaced();
    void Pace(uint32_t size);
    void ResumePaced();
    void SetTimer(TimerKind kind, Time delay);
    void TimerExpired();
    void RearmRto();
    bool ScheduleProbe(bool advancing);
    void SendProbe();
    void CheckWindowProbe();
    Time GetTimerExpiry(Time delay) const;
    Time GetRtoDelta() const;
    uint64_t GetWindowEnd() const;

    // tcp-linux-socket-ack.cc: what ACKs do
    void ProcessAck(Ptr<const Packet> packet, const TcpHeader& header);
    void ReadSack(const TcpHeader& header,
                  uint64_t priorUna,
                  AckFlags& flags,
                  TcpLinuxSendQueue::AckResult& result);
    bool ReadDsack(uint64_t start, uint64_t end, uint64_t priorUna, AckFlags& flags);
    void CleanQueue(uint64_t ack,
                    uint64_t priorUna,
                    uint64_t priorHighest,
                    AckFlags& flags,
                    TcpLinuxSendQueue::AckResult& acked,
                    const TcpLinuxSendQueue::AckResult& sacked);
    void UpdateRtt(const AckFlags& flags, Time smoothed, Time exact);
    bool UpdateWindow(const TcpHeader& header, uint64_t ack, uint64_t seq);
    void CheckReordering(uint64_t low);
    void AdvanceRack(const TcpLinuxSkb& skb);
    void AdvanceRackAcked(const TcpLinuxSkb& skb);
    void UpdateReorderWindow(uint64_t priorDelivered);
    Time GetReorderWindow() const;
    Time DetectLoss();
    void IdentifyLoss(AckFlags& flags);
    void ReorderTimeout();
    void ProbeAcked(uint64_t ack, const AckFlags& flags);
    void FastRetransmitAlert(uint64_t priorUna, AckFlags& flags, Resend& resend);
    void ProcessLossState(const AckFlags& flags, Resend& resend);
    void EnterRecovery(bool ece);
    void EnterLoss();
    void EnterCwr();
    void InitUndo();
    bool MayUndo() const;
    bool PacketDelayed() const;
    void UndoReduction(bool unmark);
    void TryUndoRecovery();
    bool TryUndoDsack();
    bool TryUndoLoss(bool frto);
    bool TryUndoPartial(uint64_t priorUna);
    void TryToOpen(const AckFlags& flags);
    void TryKeepOpen();
    void InitReduction();
    void ReduceCwnd(uint32_t delivered, uint32_t lost, bool advanced);
    void EndReduction();
    TcpRateOps::TcpRateSample SampleRate(const TcpLinuxSendQueue::AckResult& acked,
                                         const TcpLinuxSendQueue::AckResult& sacked);
    void ControlCongestion(const AckFlags& flags,
                           uint32_t delivered,
                           uint32_t lost,
                           const TcpLinuxSendQueue::AckResult& acked,
                           const TcpLinuxSendQueue::AckResult& sacked,
                           uint32_t priorInFlight);
    void UpdatePacing();
    void TakePacingRate();
    Ptr<TcpLinuxCongestion> ShowCongestion(bool ackDelayed);
    void CheckAppLimited();
    void MarkAppLimited();
    void SetCongState(TcpSocketState::TcpCongState_t state);
    bool InReduction() const;
    void SetCwnd(uint32_t packets);
    uint32_t GetThreshold() const;
    uint32_t GetCurrentThreshold() const;
    bool AnyResent();

    // tcp-linux-socket-receive.cc: what data does
    void QueueData(Ptr<Packet> packet, uint64_t seq);
    void EventDataReceived(uint32_t payload, uint32_t segment, uint32_t memory);
    void MeasureSegment(uint32_t payload, uint32_t segment, uint32_t memory);
    void MeasureRttByTimestamp(const TcpHeader& header, uint32_t payload);
    void EnterQuickAck();
    void RaiseQuickAcks();
    bool InQuickAck() const;
    void CheckAck();
    void CompressAck();
    void SendAck();
    void AckSent();
    void SendDelayedAck();
    void Deliver();
    uint32_t SelectWindow() const;

    // settings
    uint32_t m_rmem[3]{4096, 131072, 6291456}; //!< tcp_rmem
    uint32_t m_wmem[3]{4096, 16384, 4194304};  //!< tcp_wmem
    uint32_t m_rcvBufLock{0};                  //!< fixed size of the receive buffer; 0: tuned
    uint32_t m_sndBufLock{0};                  //!< fixed size of the send buffer; 0: tuned
    bool m_gso;                                //!< whether GSO packets are made
    uint32_t m_gsoMaxSize;                     //!< largest GSO packet in bytes
    uint32_t m_minTsoSegments;                 //!< least segments of a GSO packet
    uint32_t m_tsoRttLog;                      //!< tcp_tso_rtt_log
    uint32_t m_tsoWinDivisor;                  //!< tcp_tso_win_divisor
    uint32_t m_pacingShift;                    //!< sk_pacing_shift
    uint32_t m_pacingSsRatio;                  //!< tcp_pacing_ss_ratio
    uint32_t m_pacingCaRatio;                  //!< tcp_pacing_ca_ratio
    Time m_tick;                               //!< jiffy
    Time m_rtoMin;                             //!< tcp_rto_min
    Time m_rtoMax;                             //!< tcp_rto_max
    Time m_minRttWindow;                       //!< tcp_min_rtt_wlen
    Time m_synTimeout;                         //!< first time-out of a SYN
    uint32_t m_synLinear;                      //!< tcp_syn_linear_timeouts
    uint32_t m_retries;                        //!< tcp_retries2
    bool m_slowStartAfterIdle;                 //!< tcp_slow_start_after_idle
    bool m_frtoEnabled;                        //!< tcp_frto
    bool m_earlyRetransmit;                    //!< tcp_early_retrans: tail-loss probes
    uint32_t m_initialReordering;              //!< tcp_reordering
    uint32_t m_maxReordering;                  //!< tcp_max_reordering
    Time m_compSackDelay;                      //!< tcp_comp_sack_delay_ns
    uint32_t m_compSackPercent;                //!< tcp_comp_sack_rtt_percent
    uint32_t m_compSackCount;                  //!< tcp_comp_sack_nr
    uint32_t m_skbOverhead;                    //!< memory of an skb beside its data, in bytes
    uint32_t m_maxTcpHeader;                   //!< room for headers before a segment, in bytes
    uint32_t m_pingpongThreshold;              //!< tcp_pingpong_thresh

    // both directions
    bool m_configured{false};       //!< sizes are known
    bool m_ready{false};            //!< the handshake is over
    uint32_t m_advMss{0};           //!< MSS option sent
    uint32_t m_peerMss{UINT32_MAX}; //!< MSS option received; without one no limit
    Time m_synSent{-1};             //!< time of the only SYN or SYN-ACK sent, < 0: none or several
    uint64_t m_firstSeq{0};         //!< first byte sent
    uint64_t m_firstRx{0};          //!< first byte received
    uint32_t m_tsEcho{0};           //!< timestamp that the last packet echoed, 0: none

    bool m_flowTableAsked{false}; //!< whether EnterFlowTable() was called
    Ptr<TcpFlowTable> m_flows;    //!< table that has this connection, if any
    TcpFlowTable::Flow m_flow;    //!< under this key
    bool m_ecnEcho{false};        //!< congestion marks are to be echoed
    bool m_ecnReduced{false};     //!< the peer is to be told that the window was reduced

    // sending
    std::optional<TcpLinuxSendQueue> m_out; //!< what is to be sent and acknowledged
    TcpLinuxRtt m_rttLinux;                 //!< round-trip time
    uint64_t m_sndWnd{0};                   //!< window that the peer offered
    uint64_t m_wndSeq{0};                   //!< sequence number of the packet that offered it
    uint64_t m_maxWindow{0};                //!< largest window ever offered
    uint64_t m_sndBuf{16384};               //!< sk_sndbuf
    bool m_noSpace{false};                  //!< the application waits for room
    bool m_freed{false};                    //!< data was acknowledged since it was told of room
    bool m_finQueued{false};                //!< a FIN is in the send queue
    uint64_t m_smallEnd{0};                 //!< end of the last small packet (snd_sml)
    Time m_lastSend{-1};                    //!< time of the last data, < 0: none (lsndtime)
    uint64_t m_pacingBytes{0};              //!< sk_pacing_rate
    Time m_nextPaced;                       //!< when pacing lets the next packet go
    EventId m_pacedEvent;                   //!< sends what pacing holds back
    bool m_cwndLimited{false};              //!< the window was the limit in this round trip
    uint32_t m_maxPacketsOut{0};            //!< most packets out in it
    uint64_t m_cwndUsageEnd{0};             //!< its end
    uint32_t m_cwndUsed{0};                 //!< packets out while the window was no limit
    Time m_cwndStamp;                       //!< last time the window was used or set
    TimerKind m_timer{TIMER_NONE};          //!< what the timer is for
    Time m_timerExpiry;                     //!< when it expires
    Time m_timerEvent;                      //!< when the event happens, maybe earlier
    uint32_t m_backoff{0};                  //!< doublings of the time-out
    Time m_rtoNow;                          //!< time-out with its back-off
    uint32_t m_retransmits{0};              //!< time-outs in a row
    uint64_t m_totalRetransmits{0};         //!< segments ever resent
    uint64_t m_timeouts{0};                 //!< time-outs ever
    uint64_t m_bytesSent{0};                //!< bytes sent, those resent counted again

    // recovery
    uint64_t m_highSeq{0};        //!< end of the recovery
    uint32_t m_priorCwnd{0};      //!< window before the reduction, in packets
    uint32_t m_priorThreshold{0}; //!< threshold before it, 0: may not be restored
    uint32_t m_prrDelivered{0};   //!< packets delivered since (PRR)
    uint32_t m_prrOut{0};         //!< packets sent since
    uint64_t m_undoMarker{0};     //!< left edge at the start of a recovery that may be undone
    bool m_undoPossible{false};   //!< whether m_undoMarker is set
    int64_t m_undoRetrans{0};     //!< resent packets not known to be spurious, < 0: none yet
    std::optional<uint32_t> m_resentStamp; //!< timestamp of the first retransmission
    bool m_frto{false};                    //!< F-RTO is going on
    uint32_t m_reordering{3};              //!< packets of reordering seen
    bool m_reorderSeen{false};             //!< whether any was seen
    uint64_t m_dsackDups{0};               //!< segments that the peer received twice
    uint64_t m_resendHint{0};              //!< nothing before is to be resent
    bool m_probeOut{false};                //!< a tail-loss probe is in flight
    uint64_t m_probeEnd{0};                //!< what was sent at that time
    bool m_probeResent{false};             //!< the probe was a retransmission

    Time m_rackSent{-1};         //!< RACK: sending time of the latest delivered packet
    uint64_t m_rackEnd{0};       //!< its end
    Time m_rackRtt;              //!< its round-trip time
    bool m_rackAdvanced{false};  //!< these changed
    uint32_t m_rackSteps{1};     //!< reordering window in quarters of the least RTT
    uint32_t m_rackPersist{0};   //!< recoveries until the window shrinks again
    bool m_rackDsack{false};     //!< the window may be too small
    uint64_t m_rackDelivered{0}; //!< m_delivered when it was changed

    uint64_t m_delivered{0};  //!< packets delivered
    Time m_deliveredTime;     //!< time of the last delivery
    Time m_firstSent;         //!< start of the sampled flight
    double m_deliveryRate{0}; //!< bytes per second
    uint64_t m_appLimited{0}; //!< packets delivered until which samples are app-limited

    // receiving
    std::optional<TcpLinuxReceiveQueue> m_in; //!< what was received
    uint32_t m_rxSegment{0};                  //!< segment size of the packet being received
    uint32_t m_lastSegment{0};                //!< size of the last small segment
    bool m_ackScheduled{false};               //!< an ACK is due
    bool m_ackNow{false};                     //!< it may not wait
    bool m_ackPushed{false};                  //!< a small or pushed segment came
    bool m_ackPushed2{false};                 //!< a second one
    uint32_t m_quickAcks{0};                  //!< ACKs that are not delayed
    uint32_t m_pingpong{0};                   //!< answers that carried ACKs
    int64_t m_ato{0};                         //!< delay of ACKs, in ticks; 0: none yet
    int64_t m_lastReceived{0};                //!< tick of the last data
    uint32_t m_compressed{0};                 //!< ACKs held back
    uint32_t m_dupAcks{0};                    //!< ACKs sent with a gap
    uint64_t m_compressedNext{0};             //!< what they acknowledge
    EventId m_compressEvent;                  //!< sends what was held back
    Time m_delAckExpiry;                      //!< when the delayed ACK is due
    bool m_delivering{false};                 //!< the application is being notified
    bool m_readInDelivery{false};             //!< it read meanwhile
    uint32_t m_rcvTsEcho{0};                  //!< last timestamp used for a receiver's sample
    bool m_finSeen{false};                    //!< a FIN was received in order

    /// Fires for each packet with data that is sent.
    TracedCallback<uint64_t, uint32_t, uint32_t, bool> m_transmitTrace;
};

} // namespace ns3

#endif // TCP_LINUX_SOCKET_H
