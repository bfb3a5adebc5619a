/*
 * SPDX-License-Identifier: GPL-2.0-only
 */

#ifndef CELL_RUN_H
#define CELL_RUN_H

#include "cell-counters.h"
#include "cell-network.h"
#include "cell-output.h"

#include "ns3/nvme-tcp-helper.h"

#include <nlohmann/json.hpp>

namespace cell
{

/// The cell can't be measured; the text says why.
struct Failure : std::runtime_error
{
    using std::runtime_error::runtime_error;
};

/// A cell while it is simulated.
class Run
{
  public:
    /**
     * Build the network, the target and the hosts' connections.
     * @param settings of the cell; must stay
     */
    explicit Run(const Settings& settings);

    /**
     * Simulate until all fio jobs have ended.
     * @return figures, as `nvmptcp_lab.perf.run_cell` returns them
     * @throws Failure
     */
    nlohmann::json Measure();

  private:
    /// An fio completion
    struct Completion
    {
        int64_t at;     ///< ms since fio's start
        double latency; ///< ms
        uint32_t bytes; ///< size
    };

    void BuildTarget();              ///< target and subsystems
    void ConnectHosts();             ///< controllers and block devices
    void StartWhenLive();            ///< start fio, once all controllers are live
    void StartFio();                 ///< jobs and events
    void StopWhenDone();             ///< end the simulation, once all jobs have ended
    void Report();                   ///< progress
    bool AllLive() const;            ///< whether all controllers are
    nlohmann::json Figures() const;  ///< of fio
    nlohmann::json Timeline() const; ///< of fio's completions

    const Settings& m_settings;
    Network m_network;
    Output m_output;
    Counters m_counters;
    ns3::NvmeTcpHelper m_helper;
    ns3::Ptr<ns3::NvmeTcpTarget> m_target;
    std::vector<ns3::Ptr<ns3::NvmeMultipath>> m_disks;
    std::vector<std::vector<ns3::Ptr<ns3::FioJob>>> m_jobs; ///< of each disk
    ns3::Time m_start;
    std::vector<Completion> m_completions;
    std::string m_failure;
};

} // namespace cell

#endif // CELL_RUN_H
