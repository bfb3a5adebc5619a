/*
 * SPDX-License-Identifier: GPL-2.0-only
 */

#ifndef CELL_OUTPUT_H
#define CELL_OUTPUT_H

#include "cell-network.h"

#include "ns3/mptcp-trace-helper.h"

#include <memory>

namespace cell
{

/// What a cell writes to files while it runs.
class Output
{
  public:
    /**
     * Open the files.
     * @param settings of the cell
     * @param network the cell's
     * @throws BadInput if they can't be written
     */
    Output(const Settings& settings, const Network& network);

  private:
    std::unique_ptr<ns3::MptcpTraceHelper> m_trace; ///< time series, if they are wanted
};

} // namespace cell

#endif // CELL_OUTPUT_H
