/*
 * SPDX-License-Identifier: GPL-2.0-only
 */

#ifndef NVME_TCP_TARGET_QUEUE_H
#define NVME_TCP_TARGET_QUEUE_H

#include "nvme-tcp-target.h"

#include <deque>

namespace ns3
{

/**
 * @ingroup nvme-mptcp
 * A queue of a target: one connection, and what is done with it (drivers/nvme/target/tcp.c).
 *
 * It takes turns: up to eight PDUs are received, then up to eight sent. Nothing here costs time.
 */
class NvmeTcpTargetQueue : public SimpleRefCount<NvmeTcpTargetQueue>
{
  public:
    /**
     * @param target whose queue it is
     * @param port number of the port where the connection came in
     * @param socket the connection
     */
    NvmeTcpTargetQueue(NvmeTcpTarget* target, uint32_t port, Ptr<Socket> socket);

    /**
     * Begin to listen to the socket.
     */
    void Start();

    /**
     * End the connection at once.
     * @param close false: the node is gone, so only forget the socket
     */
    void Stop(bool close = true);

    /**
     * Complete the Asynchronous Event Request that waits, if there is one: ANA change.
     */
    void NotifyAnaChange();

    /**
     * @return number of the port
     */
    uint32_t GetPort() const;

  private:
    /// A command from its capsule to its response
    struct Command : public SimpleRefCount<Command>
    {
        NvmeCommand command;          ///< as received
        NvmeCompletion completion;    ///< to be sent
        std::vector<uint8_t> content; ///< data for the host that aren't zeros
        uint32_t received{0};         ///< bytes of data
        uint16_t ttag{0};             ///< of its R2T
        bool dataSent{false};         ///< whether all data for the host were sent
        bool executed{false};         ///< whether the completion is known
        NvmeTcpStream::Output output; ///< what is being sent

        /**
         * @return whether data come from the host
         */
        bool IsWrite() const;
    };

    void ScheduleWork(); ///< have Work() called after what is going on
    void Work();         ///< receive and send as much as goes
    bool TryReceive();   ///< one PDU, or a part of one; whether to go on
    bool TrySend();      ///< one command's; whether to go on
    void Received();     ///< a PDU has come, with its data

    /**
     * A capsule has come.
     */
    void ReceivedCommand();

    /**
     * Do what the command says.
     * @param command the command
     */
    void Execute(Ptr<Command> command);

    /**
     * A command of the admin queue, or a fabrics command.
     * @param command the command
     * @return whether it is done; else it is answered some time later
     */
    bool ExecuteAdmin(Ptr<Command> command);

    /**
     * @param command is done, or needs an R2T
     */
    void QueueResponse(Ptr<Command> command);

    /**
     * Make the PDU that is to be sent for a command.
     * @param command the command
     */
    void PrepareNext(Ptr<Command> command);

    /**
     * Make a response capsule to be sent.
     * @param command whose
     */
    void PrepareResponse(Ptr<Command> command);

    /**
     * End the controller, or a queue that has none.
     * @param reason for the log
     */
    void Fail(const std::string& reason);

    /**
     * @return flags that a PDU has because of digests
     * @param data whether it has data
     */
    uint8_t DigestFlags(bool data) const;

    NvmeTcpTarget* m_target;                                 ///< whose queue it is
    uint32_t m_port;                                         ///< where it came in
    Ptr<Socket> m_socket;                                    ///< the connection; null after Stop()
    Ptr<NvmeTcpStream> m_stream;                             ///< its bytes
    std::shared_ptr<NvmeTcpTarget::Controller> m_controller; ///< since the Connect command
    uint16_t m_id{0};                                        ///< queue identifier
    uint16_t m_size{32};                                     ///< entries
    uint16_t m_sqhd{0};                                      ///< submission queue head
    bool m_sqFlowDisabled{false};                 ///< no responses after successful reads
    bool m_initialized{false};                    ///< whether the ICReq has come
    bool m_headerDigest{false};                   ///< whether headers have digests
    bool m_dataDigest{false};                     ///< whether data have digests
    bool m_workPending{false};                    ///< whether Work() will be called
    bool m_computing{false};                      ///< whether a command takes its CPU time
    uint32_t m_received{0};                       ///< PDUs received in this turn
    NvmeTcpPdu m_pdu;                             ///< being received
    bool m_inData{false};                         ///< whether data of m_pdu are to come
    uint16_t m_nextTtag{0};                       ///< of the next R2T
    uint32_t m_inFlight{0};                       ///< commands not answered yet
    std::map<uint16_t, Ptr<Command>> m_transfers; ///< with an R2T, by transfer tag
    std::deque<Ptr<Command>> m_responses;         ///< queued (resp_list)
    std::deque<Ptr<Command>> m_sendList;          ///< taken over to be sent (resp_send_list)
    Ptr<Command> m_sending;                       ///< what is being sent (snd_cmd)
    bool m_lastInBatch{false};                    ///< whether the turn ends with it
    Ptr<Command> m_asyncEvent;                    ///< Asynchronous Event Request that waits
};

} // namespace ns3

#endif // NVME_TCP_TARGET_QUEUE_H
