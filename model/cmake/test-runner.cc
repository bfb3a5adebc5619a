/*
 * SPDX-License-Identifier: GPL-2.0-only
 */

// What ns-3's utils/test-runner.cc does, for a build outside an ns-3 tree.

#include "ns3/test.h"

int
main(int argc, char* argv[])
{
    return ns3::TestRunner::Run(argc, argv);
}
