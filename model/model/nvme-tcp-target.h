/*
 * SPDX-License-Identifier: GPL-2.0-only
 */

#ifndef NVME_TCP_TARGET_H
#define NVME_TCP_TARGET_H

#include "nvme-device.h"
#include "nvme-tcp-controller.h"

#include <map>
#include <memory>
#include <set>

namespace ns3
{

class NvmeTcpTargetQueue;

/**
 * @ingroup nvme-mptcp
 * An NVMe/TCP target: subsystems with a namespace each, and ports that listen, as Linux's nvmet.
 */
class NvmeTcpTarget : public Object
{
  public:
    /**
     * Get the type ID.
     * @return the type ID
     */
    static TypeId GetTypeId();

    /**
     * Offer a subsystem on all ports.
     * @param name NQN
     * @param device what its namespace 1 lies on
     */
    void AddSubsystem(const std::string& name, Ptr<NvmeDevice> device);

    /**
     * Listen.
     * @param node the target
     * @param socketFactory such as ns3::MptcpSocketFactory
     * @param address address and port
     * @return the port's number, for SetAnaState()
     */
    uint32_t AddPort(Ptr<Node> node, TypeId socketFactory, const Address& address);

    /**
     * Change the ANA state of all namespaces on a port, and tell the hosts that are connected.
     * @param port its number
     * @param state the new state
     */
    void SetAnaState(uint32_t port, NvmeAnaState state);

    /**
     * @return controllers that hosts are connected to
     */
    uint32_t GetControllerCount() const;

    /**
     * @return commands that were executed
     */
    uint64_t GetCommandCount() const;

    /**
     * Signature of the trace source InFlight.
     * @param cntlid controller
     * @param queue its identifier
     * @param commands that were received and not answered
     */
    typedef void (*InFlightCallback)(uint16_t cntlid, uint16_t queue, uint32_t commands);

  protected:
    void DoDispose() override;

  private:
    friend class NvmeTcpTargetQueue;

    /// A controller, made by a Connect command on an admin queue
    struct Controller
    {
        uint16_t cntlid;                      ///< its identifier
        uint32_t port;                        ///< where it was made
        Ptr<NvmeDevice> device;               ///< of the namespace
        Time keepAlive;                       ///< KATO
        bool commandSeen{false};              ///< since the keep alive timer was started
        EventId keepAliveTimer;               ///< keep alive
        std::set<NvmeTcpTargetQueue*> queues; ///< its queues
    };

    /// A listener
    struct Port
    {
        Ptr<Socket> listener;                      ///< the listening socket
        NvmeAnaState ana{NvmeAnaState::OPTIMIZED}; ///< of all namespaces there
    };

    /**
     * Make a controller, or find it, for a Connect command.
     * @param queue whose command it is
     * @param command the command
     * @param data its data
     * @param[out] status of the command
     * @return the controller; null: refused
     */
    std::shared_ptr<Controller> Connect(NvmeTcpTargetQueue* queue,
                                        const NvmeCommand& command,
                                        const std::vector<uint8_t>& data,
                                        uint16_t& status);

    /**
     * Start the keep alive timer.
     * @param controller of which
     */
    void ArmKeepAlive(const std::shared_ptr<Controller>& controller);

    /**
     * End a controller and all its queues.
     * @param controller which
     */
    void Remove(const std::shared_ptr<Controller>& controller);

    uint32_t m_inCapsule;  ///< bytes of data that a capsule may carry
    uint32_t m_maxH2cData; ///< bytes of an H2CData PDU
    Time m_commandTime;    ///< CPU time of a command
    uint8_t m_mdts;        ///< MDTS, as a power of two of pages; 0: no limit
    std::map<std::string, Ptr<NvmeDevice>> m_subsystems;           ///< by name
    std::vector<Port> m_ports;                                     ///< listeners
    std::map<uint16_t, std::shared_ptr<Controller>> m_controllers; ///< by identifier
    std::set<Ptr<NvmeTcpTargetQueue>> m_queues;                    ///< connections
    uint16_t m_nextCntlid{1};                                      ///< of the next controller
    uint64_t m_commands{0};                                        ///< executed
    TracedCallback<uint16_t, uint16_t, uint32_t> m_inFlightTrace;  ///< commands under way
};

} // namespace ns3

#endif // NVME_TCP_TARGET_H
