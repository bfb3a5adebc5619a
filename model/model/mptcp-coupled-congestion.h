/*
 * SPDX-License-Identifier: GPL-2.0-only
 */

#ifndef MPTCP_COUPLED_CONGESTION_H
#define MPTCP_COUPLED_CONGESTION_H

#include "ns3/simple-ref-count.h"
#include "ns3/tcp-linux-reno.h"

#include <vector>

namespace ns3
{

class MptcpCoupledCongestion;

/**
 * @ingroup nvme-mptcp
 * The subflows of one connection, for congestion control that couples them.
 */
class MptcpCoupledGroup : public SimpleRefCount<MptcpCoupledGroup>
{
  public:
    ~MptcpCoupledGroup();

    /**
     * Add a subflow.
     * @param congestion its congestion control; one that isn't coupled is left alone
     */
    void Add(Ptr<TcpCongestionOps> congestion);

    /**
     * Remove a subflow. One that is destroyed removes itself.
     * @param congestion its congestion control
     */
    void Remove(Ptr<TcpCongestionOps> congestion);

    /**
     * Get the subflows that have sent and measured a round-trip time.
     * @return their congestion controls
     */
    std::vector<const MptcpCoupledCongestion*> GetActive() const;

  private:
    friend class MptcpCoupledCongestion;

    /**
     * Remove a subflow.
     * @param congestion its congestion control
     */
    void Remove(const MptcpCoupledCongestion* congestion);

    std::vector<MptcpCoupledCongestion*> m_members; //!< the subflows
};

/**
 * @ingroup nvme-mptcp
 * What coupled congestion controls have in common: slow start and the answer to loss are Reno's,
 * and in congestion avoidance a subflow's window grows by what all subflows of the connection
 * determine. A subflow that is in no group is one of a connection that has no other.
 */
class MptcpCoupledCongestion : public TcpLinuxReno
{
  public:
    /**
     * Get the type ID.
     * @return the type ID
     */
    static TypeId GetTypeId();

    MptcpCoupledCongestion();

    /**
     * Copy, for the socket of an accepted connection. The copy is in no group.
     * @param other what to copy
     */
    MptcpCoupledCongestion(const MptcpCoupledCongestion& other);
    ~MptcpCoupledCongestion() override;

    void IncreaseWindow(Ptr<TcpSocketState> tcb, uint32_t segmentsAcked) override;
    void PktsAcked(Ptr<TcpSocketState> tcb, uint32_t segmentsAcked, const Time& rtt) override;
    void CongestionStateSet(Ptr<TcpSocketState> tcb,
                            const TcpSocketState::TcpCongState_t newState) override;

    /**
     * @return the congestion window in segments; while losses are mended, what it will be then
     */
    double GetWindow() const;

    /**
     * @return the smoothed round-trip time in seconds
     */
    double GetRtt() const;

    /**
     * How good a path is: segments between losses, over the square of the round-trip time.
     * @return the measure
     */
    double GetQuality() const;

  protected:
    void CongestionAvoidance(Ptr<TcpSocketState> tcb, uint32_t segmentsAcked) override;

    /**
     * By how much the window grows with each segment that is acknowledged.
     * @param active this subflow and the others that count
     * @return segments; negative if the window shrinks
     */
    virtual double GetIncrease(const std::vector<const MptcpCoupledCongestion*>& active) const = 0;

  private:
    friend class MptcpCoupledGroup;

    MptcpCoupledGroup* m_group{nullptr}; //!< the connection's subflows; they may outlive it
    Ptr<TcpSocketState> m_tcb;           //!< this subflow's state, once it has sent
    double m_fraction{0};                //!< growth that doesn't make a segment yet
    uint64_t m_sinceLoss{0};             //!< segments acknowledged since the last loss
    uint64_t m_betweenLosses{0};         //!< segments acknowledged between the last two
};

/**
 * @ingroup nvme-mptcp
 * The Linked Increases Algorithm (RFC 6356).
 */
class MptcpLia : public MptcpCoupledCongestion
{
  public:
    /**
     * Get the type ID.
     * @return the type ID
     */
    static TypeId GetTypeId();

    std::string GetName() const override;
    Ptr<TcpCongestionOps> Fork() override;

    /**
     * How aggressive the connection is (RFC 6356 §3).
     * @param active its subflows
     * @return alpha, for windows in segments
     */
    static double GetAlpha(const std::vector<const MptcpCoupledCongestion*>& active);

  protected:
    double GetIncrease(const std::vector<const MptcpCoupledCongestion*>& active) const override;
};

/**
 * @ingroup nvme-mptcp
 * The Opportunistic Linked Increases Algorithm (draft-khalili-mptcp-congestion-control-05).
 */
class MptcpOlia : public MptcpCoupledCongestion
{
  public:
    /**
     * Get the type ID.
     * @return the type ID
     */
    static TypeId GetTypeId();

    std::string GetName() const override;
    Ptr<TcpCongestionOps> Fork() override;

    /**
     * Which way traffic is moved: to good paths with small windows, from those with the largest.
     * @param active the connection's subflows, this one among them
     * @return alpha of this subflow
     */
    double GetAlpha(const std::vector<const MptcpCoupledCongestion*>& active) const;

  protected:
    double GetIncrease(const std::vector<const MptcpCoupledCongestion*>& active) const override;
};

} // namespace ns3

#endif // MPTCP_COUPLED_CONGESTION_H
