# SPDX-License-Identifier: GPL-2.0-or-later
# Connect to 10.0.1.2:4420, and show the queues. $1: the variant to ask for, tcp or mptcp.
on host sh -c "printf %s 'transport=tcp,traddr=10.0.1.2,trsvcid=4420,\
nqn=nqn.2026-11.org.example:disk1,\
hostnqn=nqn.2014-08.org.nvmexpress:uuid:6e766d70-7463-4000-8000-000000000001,\
hostid=6e766d70-7463-4000-8000-000000000001,tcp_variant=$1' >/dev/nvme-fabrics"
sleep 1   # the further subflows join on their own
cat /sys/class/nvme/nvme0/tcp_variant /sys/class/nvme/nvme0/tcp_queues
