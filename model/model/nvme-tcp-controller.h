/*
 * SPDX-License-Identifier: GPL-2.0-only
 */

#ifndef NVME_TCP_CONTROLLER_H
#define NVME_TCP_CONTROLLER_H

#include "nvme-tags.h"
#include "nvme-tcp-queue.h"

#include "ns3/traced-callback.h"
#include "ns3/traced-value.h"

#include <memory>

namespace ns3
{

/**
 * @ingroup nvme-mptcp
 * A read or write of a block device.
 */
struct NvmeBio : public SimpleRefCount<NvmeBio>
{
    bool write{false};              ///< direction
    uint64_t offset{0};             ///< where, bytes
    uint32_t length{0};             ///< bytes
    uint32_t cpu{0};                ///< that it was submitted on
    std::function<void(bool)> done; ///< called with whether it succeeded, once
    /// Wakes the submitter's thread, which sleeps for a tag: calls what it is given when the thread
    /// has its CPU; none: at once
    std::function<void(std::function<void()>)> wake;
    std::function<void()> sleep; ///< the thread, woken before, sleeps again; none: nothing
};

/// ANA states of a namespace on a controller, as in the ANA log page
enum class NvmeAnaState : uint8_t
{
    OPTIMIZED = 0x01,
    NON_OPTIMIZED = 0x02,
    INACCESSIBLE = 0x03,
    PERSISTENT_LOSS = 0x04,
    CHANGE = 0x0f,
};

/**
 * @ingroup nvme-mptcp
 * A host's side of an association: an admin queue and I/O queues to one address of a target, keep
 * alive, error recovery and reconnecting, as Linux's nvme-tcp does it.
 */
class NvmeTcpController : public Object
{
  public:
    /// States of the controller (drivers/nvme/host/nvme.h)
    enum State
    {
        NEW,
        LIVE,
        RESETTING,
        CONNECTING,
        DELETED,
    };

    /**
     * Get the type ID.
     * @return the type ID
     */
    static TypeId GetTypeId();

    /**
     * @param node the host
     * @param socketFactory such as ns3::MptcpSocketFactory
     * @param target address and port
     * @param subsystem NQN
     * @param host NQN of the host
     */
    void Setup(Ptr<Node> node,
               TypeId socketFactory,
               const Address& target,
               const std::string& subsystem,
               const std::string& host);

    /**
     * Connect. The state becomes LIVE, or it tries again as after an error.
     */
    void Start();

    /**
     * End the association for good.
     */
    void Delete();

    /**
     * Read or write.
     * @param bio what
     * @param resumed called when the submitter, who found the queue full, goes on
     * @return whether it was submitted at once; else the submitter sleeps until `resumed`
     */
    bool Submit(Ptr<NvmeBio> bio, std::function<void()> resumed);

    /**
     * @param retry called with each read or write that failed for reasons of this path; nullptr:
     *        they fail
     * @param changed called when the state or the ANA state changed
     */
    void SetPathCallbacks(std::function<void(Ptr<NvmeBio>)> retry, std::function<void()> changed);

    /**
     * @return the state
     */
    State GetState() const;

    /**
     * @return the namespace's ANA state
     */
    NvmeAnaState GetAnaState() const;

    /**
     * @return reads and writes that were sent and aren't completed (`nr_active`)
     */
    uint32_t GetActive() const;

    /**
     * @return NUMA node of the network device
     */
    uint32_t GetNumaNode() const;

    /**
     * @return largest transfer in bytes; 0: no limit
     */
    uint32_t GetMaxTransfer() const;

    /**
     * @return connections, admin queue first
     */
    std::vector<Ptr<Socket>> GetSockets() const;

    /**
     * Signature of the trace source State.
     * @param before old state
     * @param after new state
     */
    typedef void (*StateCallback)(State before, State after);

    /**
     * Signature of the trace source InFlight.
     * @param queue its identifier
     * @param commands that it has under way
     */
    typedef void (*InFlightCallback)(uint16_t queue, uint32_t commands);

  protected:
    void DoDispose() override;

  private:
    /// An I/O queue and its tags, which outlive its connections
    struct IoQueue
    {
        std::unique_ptr<NvmeTags> tags; ///< of its commands
        Ptr<NvmeTcpQueue> queue;        ///< its connection
    };

    /// A request queue's timer (block/blk-timeout.c): late by design, and one for all requests
    struct RequestTimer
    {
        EventId event; ///< when it expires
    };

    void Connect(); ///< make the admin queue

    /**
     * Send the commands that initialize the controller, one after the other.
     * @param step the next one
     */
    void Initialize(uint32_t step);

    /**
     * Take over what the Identify command said.
     * @param request the command
     * @return whether it said enough
     */
    bool Identified(Ptr<NvmeTcpRequest> request);

    void ConnectIoQueue(); ///< make the next I/O queue
    void Live();           ///< all queues are there
    /**
     * Error recovery: end all connections, hand out what was under way, try again later.
     * @param reason for the log
     */
    void Recover(const std::string& reason);
    void Teardown();       ///< end all connections
    void ReconnectLater(); ///< or give up, after the controller loss timeout
    /**
     * @param state the new one
     */
    void SetState(State state);

    /**
     * Send a command on the admin queue.
     * @param opcode its opcode
     * @param nsid namespace, or fabrics type
     * @param dwords command dwords from 10 on
     * @param answer bytes of data that it reads
     * @param timeout when it has timed out
     * @param done what then
     */
    void SendAdmin(uint8_t opcode,
                   uint32_t nsid,
                   std::array<uint32_t, 6> dwords,
                   uint32_t answer,
                   Time timeout,
                   std::function<void(Ptr<NvmeTcpRequest>, uint16_t)> done);
    void SendAsyncEventRequest(); ///< ask to be told of ANA changes
    void ReadAnaLog();            ///< after such an event, or an ANA status
    void KeepAlive();             ///< each half or quarter of the keep alive timeout

    /**
     * @return time between two looks at whether a Keep Alive command is due
     */
    Time GetKeepAlivePeriod() const;

    /**
     * Have the submitter try again when there are tags.
     * @param bio what
     * @param resumed the submitter goes on
     */
    void Sleep(Ptr<NvmeBio> bio, std::function<void()> resumed);

    /**
     * Give a bio a tag and send it; sleeps without.
     * @param bio what
     * @param resumed the submitter goes on, nullptr: it didn't sleep yet
     * @return whether it was sent, or given back
     */
    bool TrySubmit(Ptr<NvmeBio> bio, std::function<void()> resumed);

    /**
     * A read or write is done.
     * @param bio what
     * @param io its queue
     * @param tag its tag
     * @param status its status
     */
    void Completed(Ptr<NvmeBio> bio, IoQueue& io, int32_t tag, uint16_t status);

    /**
     * Have a timer expire in time for a request.
     * @param timer of its request queue
     * @param deadline of the request
     * @param admin whether it is the admin queue's
     */
    void Arm(RequestTimer& timer, Time deadline, bool admin);

    /**
     * Look for requests that have timed out.
     * @param admin whether on the admin queue
     */
    void TimerExpired(bool admin);

    Ptr<Node> m_node;            ///< the host
    TypeId m_socketFactory;      ///< of all connections
    Address m_target;            ///< address and port
    std::string m_subsystem;     ///< NQN
    std::string m_host;          ///< NQN
    uint32_t m_queueSize{128};   ///< entries of an I/O queue
    uint32_t m_ioQueueCount{1};  ///< I/O queues
    Time m_keepAlive;            ///< KATO; 0: none
    Time m_reconnectDelay;       ///< between two attempts
    Time m_controllerLoss;       ///< how long to attempt it
    Time m_ioTimeout;            ///< of reads and writes
    Time m_timerSlack;           ///< that request timers expire late
    bool m_headerDigest{false};  ///< whether headers have digests
    bool m_dataDigest{false};    ///< whether data have digests
    bool m_disableSqFlow{false}; ///< whether to ask for no SQ flow control
    uint32_t m_numaNode{0};      ///< of the network device

    State m_state{NEW};                                 ///< the state
    NvmeAnaState m_ana{NvmeAnaState::OPTIMIZED};        ///< the namespace's
    bool m_anaPending{false};                           ///< whether the ANA log is being read
    bool m_trafficBased{false};                         ///< TBKAS
    bool m_completionSeen{false};                       ///< since the last look, for TBKAS
    uint32_t m_maxTransfer{0};                          ///< MDTS in bytes
    uint32_t m_inCapsule{0};                            ///< IOCCSZ less the command, bytes
    uint32_t m_active{0};                               ///< reads and writes under way
    uint32_t m_attempts{0};                             ///< to reconnect
    int32_t m_adminTag{0};                              ///< of the last admin command
    Ptr<NvmeTcpQueue> m_admin;                          ///< admin queue
    std::vector<IoQueue> m_io;                          ///< I/O queues
    uint32_t m_connected{0};                            ///< I/O queues that are connected
    RequestTimer m_adminTimer;                          ///< of the admin queue
    RequestTimer m_ioTimer;                             ///< of the I/O queues
    EventId m_keepAliveEvent;                           ///< next look
    EventId m_reconnectEvent;                           ///< next attempt
    EventId m_shareEvent;                               ///< when the Connect queue counts as idle
    bool m_hasNamespace{false};                         ///< whose queue shares the tags
    std::function<void(Ptr<NvmeBio>)> m_retry;          ///< multipath's fail-over
    std::function<void()> m_changed;                    ///< multipath's notification
    TracedCallback<State, State> m_stateTrace;          ///< states
    TracedCallback<uint16_t, uint32_t> m_inFlightTrace; ///< commands under way
};

} // namespace ns3

#endif // NVME_TCP_CONTROLLER_H
