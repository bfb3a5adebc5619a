/*
 * SPDX-License-Identifier: GPL-2.0-only
 */

#ifndef NVME_TCP_QUEUE_H
#define NVME_TCP_QUEUE_H

#include "nvme-tcp-stream.h"

#include "ns3/address.h"
#include "ns3/callback.h"
#include "ns3/node.h"
#include "ns3/nstime.h"
#include "ns3/object.h"

#include <deque>
#include <functional>
#include <map>

namespace ns3
{

/**
 * @ingroup nvme-mptcp
 * A command that a host has sent or is about to send.
 */
struct NvmeTcpRequest : public SimpleRefCount<NvmeTcpRequest>
{
    NvmeCommand command;          ///< the command; its data length is that of the transfer
    bool write{false};            ///< whether data go to the target
    std::vector<uint8_t> content; ///< in-capsule data of it that aren't zero
    int32_t tag{-1};              ///< its tag, -1: none
    Time start;                   ///< when it was given to the queue
    Time deadline;                ///< when it has timed out
    uint32_t received{0};         ///< bytes of data that came back
    uint64_t result{0};           ///< of the completion
    std::vector<uint8_t> answer;  ///< data that came back, of a command of the admin queue
    std::function<void(Ptr<NvmeTcpRequest>, uint16_t)> done; ///< called with the status, once

    NvmeTcpStream::Output output; ///< what is being sent of it
    uint32_t r2tLeft{0};          ///< bytes of an R2T that no H2CData was made for
    uint32_t r2tOffset{0};        ///< where they are
    uint16_t ttag{0};             ///< of the R2T
};

/**
 * @ingroup nvme-mptcp
 * A queue pair of a host: one connection, and what is done with it (drivers/nvme/host/tcp.c).
 *
 * Requests are sent in their order, straight away when the socket has room. Nothing here costs
 * time, but what the connection does.
 */
class NvmeTcpQueue : public SimpleRefCount<NvmeTcpQueue>
{
  public:
    /// Status that the host itself gives: Host Path Error
    static constexpr uint16_t HOST_PATH_ERROR = 0x370;

    /// What a queue needs to know of its controller.
    struct Settings
    {
        Ptr<Node> node;            ///< the host
        TypeId socketFactory;      ///< of the connection
        Address target;            ///< address and port
        uint16_t id{0};            ///< 0: admin queue
        uint32_t size{128};        ///< entries
        uint32_t inCapsuleSize{0}; ///< bytes of data that a write's capsule may carry
        bool headerDigest{false};  ///< whether headers have digests
        bool dataDigest{false};    ///< whether data have digests
        bool disableSqFlow{false}; ///< ask for SQ flow control to be off
        uint32_t keepAliveMs{0};   ///< KATO (admin queue)
        uint16_t cntlid{0xffff};   ///< of the controller; 0xffff asks for any
        std::string subsystem;     ///< NQN
        std::string host;          ///< NQN
        Time icRespTimeout;        ///< to wait for the connection and the ICResp
    };

    /**
     * @param settings what to connect to, and how
     */
    explicit NvmeTcpQueue(Settings settings);

    /**
     * Connect, exchange ICReq and ICResp, send the Connect command.
     * @param ready called with true when the queue can be used and GetCntlid() is known, or with
     *        false when it can't
     * @param failed called when the connection broke later
     */
    void Connect(std::function<void(bool)> ready, std::function<void(const std::string&)> failed);

    /**
     * Send a command, when those before it are sent.
     * @param request the command; `done` is called when it is completed
     */
    void Submit(Ptr<NvmeTcpRequest> request);

    /**
     * End the connection at once, whatever it has under way.
     * @param close false: the node is gone, so only forget the socket
     * @return the requests that aren't completed, in the order of their command identifiers
     */
    std::vector<Ptr<NvmeTcpRequest>> Stop(bool close = true);

    /**
     * @return controller ID that the Connect command gave
     */
    uint16_t GetCntlid() const;

    /**
     * @return commands that are neither completed nor given up
     */
    uint32_t GetInFlight() const;

    /**
     * @return the connection, null after Stop()
     */
    Ptr<Socket> GetSocket() const;

    /**
     * @return earliest deadline of those commands, or Time::Max()
     */
    Time GetEarliestDeadline() const;

  private:
    void Connected();                     ///< the connection is there
    void ConnectionFailed();              ///< it isn't, or no longer
    void SendConnectCommand();            ///< after the ICResp
    void Fail(const std::string& reason); ///< give up
    void ScheduleWork();                  ///< have Work() called after what is going on
    void Work();                          ///< send and receive as much as goes
    /**
     * Send what the first request has to send, as far as the socket takes it.
     * @return whether a PDU was sent
     */
    bool TrySend();
    bool TryReceive(); ///< take in what has arrived; whether there was anything

    /**
     * A PDU has come, with its data.
     */
    void Received();

    /**
     * Make the next H2CData PDU of a request that got an R2T.
     * @param request the request
     */
    void PrepareData(Ptr<NvmeTcpRequest> request);

    /**
     * Find the command that a PDU is about; fails the queue if there is none.
     * @param cid its identifier
     * @return the request or null
     */
    Ptr<NvmeTcpRequest> Find(uint16_t cid);

    /**
     * End a command.
     * @param cid its identifier
     * @param status its status
     */
    void Complete(uint16_t cid, uint16_t status);

    Settings m_settings;                                ///< as given
    Ptr<Socket> m_socket;                               ///< the connection
    Ptr<NvmeTcpStream> m_stream;                        ///< its bytes
    std::function<void(bool)> m_ready;                  ///< to be told
    std::function<void(const std::string&)> m_failed;   ///< to be told
    EventId m_timer;                                    ///< for the ICResp
    uint16_t m_cntlid{0xffff};                          ///< of the controller
    uint32_t m_maxH2cData{0};                           ///< bytes, of one H2CData PDU
    bool m_initialized{false};                          ///< whether the ICResp has come
    bool m_workPending{false};                          ///< whether Work() will be called
    bool m_sending{false};                              ///< whether somebody is sending
    std::deque<Ptr<NvmeTcpRequest>> m_sendList;         ///< requests with something to send
    std::map<uint16_t, Ptr<NvmeTcpRequest>> m_inFlight; ///< by command identifier
    NvmeTcpPdu m_pdu;                                   ///< being received
    bool m_inData{false};                               ///< whether data of m_pdu are to come
    std::vector<uint16_t> m_generations;                ///< how often each tag was used
};

} // namespace ns3

#endif // NVME_TCP_QUEUE_H
