# SPDX-License-Identifier: GPL-2.0-or-later
# A target with one MPTCP port on 10.0.1.2. Its disk, a null_blk device, keeps its data.
set -e
mkdir /sys/kernel/config/nullb/nullb0 && cd /sys/kernel/config/nullb/nullb0
echo 256 >size; echo 1 >memory_backed; echo 1 >power

cd /sys/kernel/config/nvmet
subsystem=$PWD/subsystems/nqn.2026-11.org.example:disk1
mkdir "$subsystem" && cd "$subsystem"
echo 1 >attr_allow_any_host
mkdir namespaces/1 && cd namespaces/1
echo /dev/nullb0 >device_path; echo 1 >enable

mkdir ../../../../ports/1 && cd ../../../../ports/1
echo tcp >addr_trtype; echo ipv4 >addr_adrfam
echo 10.0.1.2 >addr_traddr; echo 4420 >addr_trsvcid
echo mptcp >addr_tcp_variant; echo adda >addr_mptcp_attrs; echo 8 >addr_mptcp_maxsf
# The listener belongs to the network namespace of the process that makes this link.
on target ln -s "$subsystem" "$PWD/subsystems/"
