/*
 * SPDX-License-Identifier: GPL-2.0-only
 */

#ifndef FIO_JOB_H
#define FIO_JOB_H

#include "fio-latency.h"
#include "nvme-cpu.h"
#include "nvme-multipath.h"

#include "ns3/random-variable-stream.h"

#include <deque>

namespace ns3
{

/**
 * @ingroup nvme-mptcp
 * A thread of fio with libaio and direct I/O on a block device, in fio's very order of events.
 *
 * It submits one I/O at a time and sleeps in io_submit() where a queue has no tag; once `IoDepth`
 * are under way it reaps one before each new one. With a rate it waits for all that it has under
 * way, and then sleeps for as long as was left until the next was due before it waited: what takes
 * long is followed by a later one. When the run time is over it reaps all that are left
 * at a time: those have latencies that count their waiting for the last one.
 */
class FioJob : public Object
{
  public:
    /// Pattern of directions
    enum Direction
    {
        READ,
        WRITE,
        MIXED,
    };

    /**
     * Get the type ID.
     * @return the type ID
     */
    static TypeId GetTypeId();

    FioJob();

    /**
     * @param disk what is read and written
     * @param cpu number of the CPU, for the choice of queues and paths
     * @param shared the CPU's time, if it isn't this job's alone
     */
    void Setup(Ptr<NvmeMultipath> disk, uint32_t cpu, Ptr<NvmeCpu> shared = nullptr);

    /**
     * Give a mix of block sizes (bssplit).
     * @param split sizes in bytes, each with its share in percent
     */
    void SetBlockSizes(const std::vector<std::pair<uint32_t, uint32_t>>& split);

    /**
     * Begin, now.
     */
    void Start();

    /**
     * @return whether it has ended, drain included
     */
    bool IsDone() const;

    /**
     * @return from its start to its end, drain included
     */
    Time GetRuntime() const;

    /**
     * @param write of writes, or of reads
     * @return completion latencies
     */
    const FioLatency& GetLatency(bool write) const;

    /**
     * @param write of writes, or of reads
     * @return bytes completed
     */
    uint64_t GetBytes(bool write) const;

    /**
     * @return I/Os that failed
     */
    uint64_t GetErrors() const;

    /**
     * @param stream first stream number of the random variables
     * @return how many streams were taken
     */
    int64_t AssignStreams(int64_t stream);

    /**
     * Signature of the trace source Completed.
     * @param latency completion latency
     * @param bytes size
     * @param write direction
     */
    typedef void (*CompletedCallback)(Time latency, uint32_t bytes, bool write);

  private:
    /// An I/O under way, or completed and not reaped yet
    struct Io : public SimpleRefCount<Io>
    {
        bool write{false};  ///< direction
        uint32_t length{0}; ///< bytes
        Time issued;        ///< when io_submit() returned
        bool ok{true};      ///< whether it succeeded
    };

    /// What the thread sleeps for
    enum Sleep
    {
        AWAKE,
        TAG,        ///< in io_submit()
        COMPUTING,  ///< nothing: it needs CPU time
        COMPLETION, ///< in io_getevents()
        RATE,       ///< until the next I/O is due
        DRAIN,      ///< for all that is under way, at the end
        ENDED,
    };

    void Wake();   ///< have Run() called, when the CPU is free
    void Run();    ///< go on until it sleeps
    bool Issue();  ///< one I/O; false: it sleeps in io_submit()
    void Issued(); ///< io_submit() has returned
    /**
     * Reap an I/O.
     * @return false: none is completed
     */
    bool Reap();

    /**
     * Count an I/O that was reaped.
     * @param io which
     */
    void Account(Ptr<Io> io);

    /**
     * An I/O was completed.
     * @param io which
     */
    void Completed(Ptr<Io> io);

    /**
     * @return when an I/O of this direction is due by the rate
     * @param write direction
     */
    Time GetDue(bool write) const;

    /**
     * Choose the direction of the next I/O.
     * @return whether it is a write
     */
    bool ChooseWrite();

    Direction m_direction;  ///< pattern
    uint32_t m_readPercent; ///< of MIXED
    uint32_t m_blockSize;   ///< bytes
    uint32_t m_ioDepth;     ///< I/Os under way
    Time m_submitTime;      ///< CPU time of an I/O
    Time m_runtime;         ///< how long to issue
    double m_rate;          ///< bytes/s of each direction; 0: none
    uint64_t m_size;        ///< of the device, bytes
    bool m_random;          ///< random offsets

    std::vector<std::pair<uint32_t, uint32_t>> m_split; ///< sizes and percent
    Ptr<NvmeMultipath> m_disk;                          ///< the block device
    uint32_t m_cpu{0};                                  ///< where the thread runs
    Ptr<NvmeCpu> m_shared;                              ///< that CPU's time
    Ptr<UniformRandomVariable> m_variable;              ///< offsets, sizes, directions
    Sleep m_sleep{AWAKE};                               ///< what it sleeps for
    bool m_wakePending{false};                          ///< whether it was woken
    bool m_computed{false};                  ///< whether it had its CPU time for the next I/O
    bool m_quiescing{false};                 ///< whether it waits before it sleeps for the rate
    Time m_wait;                             ///< how long it sleeps then
    Time m_start;                            ///< when it began
    Time m_end;                              ///< when it ended
    uint32_t m_depth{0};                     ///< I/Os issued and not reaped
    uint64_t m_offset{0};                    ///< next one, if not random
    bool m_nextWrite{false};                 ///< direction of the next I/O
    bool m_nextChosen{false};                ///< whether it is known
    Ptr<Io> m_issuing;                       ///< in io_submit()
    std::deque<Ptr<Io>> m_completed;         ///< not reaped
    std::array<uint64_t, 2> m_issuedBytes{}; ///< by direction
    std::array<uint64_t, 2> m_bytes{};       ///< completed, by direction
    std::array<FioLatency, 2> m_latency;     ///< by direction
    uint64_t m_errors{0};                    ///< failed I/Os
    TracedCallback<Time, uint32_t, bool> m_completedTrace; ///< I/Os that were reaped
};

} // namespace ns3

#endif // FIO_JOB_H
