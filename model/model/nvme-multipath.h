/*
 * SPDX-License-Identifier: GPL-2.0-only
 */

#ifndef NVME_MULTIPATH_H
#define NVME_MULTIPATH_H

#include "nvme-tcp-controller.h"

#include <deque>
#include <map>

namespace ns3
{

/**
 * @ingroup nvme-mptcp
 * Native NVMe multipath: the block device of a namespace that several controllers lead to
 * (drivers/nvme/host/multipath.c). With one controller it is that controller's block device.
 */
class NvmeMultipath : public Object
{
  public:
    /// How to choose a path
    enum Policy
    {
        NUMA,        ///< the nearest one
        ROUND_ROBIN, ///< one after the other
        QUEUE_DEPTH, ///< the one with the fewest commands under way
        ADAPTIVE,    ///< by weights that follow from latency
    };

    /// Whose latency the weights of ADAPTIVE follow from
    enum Scope
    {
        PER_CPU,  ///< what each CPU sees
        PER_NODE, ///< what the CPUs of a NUMA node see
    };

    /**
     * Get the type ID.
     * @return the type ID
     */
    static TypeId GetTypeId();

    NvmeMultipath();

    /**
     * Add a path.
     * @param controller that leads to the namespace
     */
    void AddPath(Ptr<NvmeTcpController> controller);

    /**
     * Read or write, in pieces where MDTS says so.
     * @param bio what
     * @param resumed called when the submitter, who found a queue full, goes on
     * @return whether it was submitted at once; else the submitter sleeps until `resumed`
     */
    bool Submit(Ptr<NvmeBio> bio, std::function<void()> resumed);

    /**
     * @return the paths, in the order in which they were added
     */
    std::vector<Ptr<NvmeTcpController>> GetPaths() const;

    /**
     * @return reads and writes that wait for a path
     */
    uint32_t GetRequeued() const;

    /**
     * @param path its number
     * @param write of writes, or of reads
     * @param cpu of the submitter
     * @param length of the transfer in bytes
     * @return its weight under ADAPTIVE, from 0 (not known yet) to 64
     */
    uint32_t GetWeight(uint32_t path, bool write, uint32_t cpu, uint32_t length) const;

    /**
     * Signature of the trace source Selected.
     * @param path its number
     * @param bio what is sent over it
     */
    typedef void (*SelectedCallback)(uint32_t path, Ptr<NvmeBio> bio);

  protected:
    void DoDispose() override;

  private:
    /// What ADAPTIVE knows of a path, for a kind of transfer
    struct Statistics
    {
        Time batch;          ///< sum of latencies since the last update
        uint64_t count{0};   ///< how many
        Time smoothed;       ///< moving average
        Time updated;        ///< when the weight was computed last
        uint32_t weight{0};  ///< 1 to 64; 0: not known yet
        uint32_t credits{0}; ///< I/Os until it is the next one's turn
    };

    /// CPU or node, direction, bucket: what statistics are kept by
    typedef std::tuple<uint32_t, bool, uint32_t> Kind;

    /// A controller
    struct Path
    {
        Ptr<NvmeTcpController> controller;     ///< the controller
        std::map<Kind, Statistics> statistics; ///< for ADAPTIVE
    };

    /**
     * @param bio what
     * @return number of a path, -1 if none is usable
     */
    int32_t Select(const NvmeBio& bio);
    int32_t SelectNuma(uint32_t node);        ///< @param node of the CPU @return as Select()
    int32_t SelectRoundRobin(uint32_t node);  ///< @param node of the CPU @return as Select()
    int32_t SelectQueueDepth();               ///< @return as Select()
    int32_t SelectAdaptive(const Kind& kind); ///< @param kind of I/O @return as Select()

    /**
     * @param node of the CPU
     * @return the nearest path, optimized if there is one; -1: none
     */
    int32_t FindNearest(uint32_t node);

    /**
     * Submit what is no larger than MDTS.
     * @param bio what
     * @param resumed as in Submit()
     * @return as Submit()
     */
    bool SubmitWhole(Ptr<NvmeBio> bio, std::function<void()> resumed);

    /**
     * @param path its number
     * @return whether its controller is live and its ANA state allows I/O
     */
    bool IsUsable(uint32_t path) const;

    /**
     * @param path its number
     * @return whether it is usable and optimized
     */
    bool IsOptimized(uint32_t path) const;

    /**
     * A transfer failed on its path: try another one.
     * @param path its number
     * @param bio what
     */
    void FailOver(uint32_t path, Ptr<NvmeBio> bio);

    void ScanPartitions();  ///< read the first page, once
    void ScheduleRequeue(); ///< have Requeue() called
    void Requeue();         ///< submit what waits, one after the other

    /**
     * @param bio what
     * @return its kind
     */
    Kind GetKind(const NvmeBio& bio) const;

    /**
     * A latency was measured.
     * @param path its number
     * @param kind of I/O
     * @param latency from submission to completion
     */
    void AddSample(uint32_t path, const Kind& kind, Time latency);

    Policy m_policy;                                   ///< how to choose
    Scope m_scope;                                     ///< of weights
    uint32_t m_cpusPerNode;                            ///< CPUs of a NUMA node; 0: all
    uint32_t m_buckets;                                ///< I/O size buckets
    Time m_weightInterval;                             ///< between two updates of a weight
    uint32_t m_ewmaShift;                              ///< of the moving average
    bool m_partitionScan;                              ///< whether the first page is read
    bool m_scanned{false};                             ///< whether it was read
    std::vector<Path> m_paths;                         ///< in their order
    std::map<uint32_t, uint32_t> m_current;            ///< by node: the path that was chosen last
    std::map<Kind, uint32_t> m_currentAdaptive;        ///< the same for ADAPTIVE
    std::deque<Ptr<NvmeBio>> m_requeue;                ///< to be submitted again
    bool m_requeuePending{false};                      ///< whether Requeue() will be called
    bool m_requeueBlocked{false};                      ///< whether it sleeps for a tag
    TracedCallback<uint32_t, Ptr<NvmeBio>> m_selected; ///< paths that were chosen
};

} // namespace ns3

#endif // NVME_MULTIPATH_H
