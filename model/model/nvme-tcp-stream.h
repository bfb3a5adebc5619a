/*
 * SPDX-License-Identifier: GPL-2.0-only
 */

#ifndef NVME_TCP_STREAM_H
#define NVME_TCP_STREAM_H

#include "nvme-tcp-pdu.h"

#include "ns3/packet.h"
#include "ns3/ptr.h"
#include "ns3/simple-ref-count.h"
#include "ns3/socket.h"

#include <deque>
#include <string>

namespace ns3
{

/**
 * @ingroup nvme-mptcp
 * The byte stream of a queue pair, over any stream socket: sends headers and data as Linux's
 * drivers call sendmsg(), and reads PDUs off what arrives.
 */
class NvmeTcpStream : public SimpleRefCount<NvmeTcpStream>
{
  public:
    /// Linux sends data page by page; bytes
    static constexpr uint32_t PAGE_SIZE = 4096;

    /**
     * What is being sent: a header (or a data digest), then data.
     */
    struct Output
    {
        std::vector<uint8_t> bytes; ///< header, or what else isn't zero
        uint32_t sentBytes{0};      ///< of `bytes`
        uint32_t data{0};           ///< zero bytes that follow
        uint32_t sentData{0};       ///< of `data`
        std::vector<uint8_t> tail;  ///< data digest
        uint32_t sentTail{0};       ///< of `tail`

        /**
         * @return whether all of it was taken by the socket
         */
        bool IsDone() const;
    };

    /**
     * @param socket a stream socket; it stays the caller's to close
     */
    explicit NvmeTcpStream(Ptr<Socket> socket);

    /**
     * Make what is to be sent of a PDU.
     * @param pdu the PDU; SetDataLength() was called
     * @param content its data; empty: zeros
     * @return header with its digest, data, data digest
     */
    static Output Prepare(const NvmeTcpPdu& pdu, const std::vector<uint8_t>& content = {});

    /**
     * Send as much as the socket takes.
     * @param output what is left of it; changed
     * @param more whether more PDUs follow at once: the last piece has MSG_MORE, else MSG_EOR
     * @return whether all of it was taken
     */
    bool Send(Output& output, bool more);

    /**
     * Read the next PDU's header.
     * @param[out] pdu the PDU, if there was a whole header
     * @return false: more bytes have to come, or GetError() has something to say
     */
    bool ReadHeader(NvmeTcpPdu& pdu);

    /**
     * Read data and digest of the PDU whose header was read.
     * @return true: nothing is left of it
     */
    bool ReadData();

    /**
     * Keep the data of PDUs: without, they count as zeros and are thrown away.
     * @param keep whether to
     */
    void KeepData(bool keep);

    /**
     * @return data of the last PDU, if they were kept
     */
    const std::vector<uint8_t>& GetData() const;

    /**
     * Expect digests from now on.
     * @param header of headers
     * @param data of data
     */
    void SetDigests(bool header, bool data);

    /**
     * @return what is wrong with the stream; empty if nothing
     */
    const std::string& GetError() const;

  private:
    /**
     * Hand bytes to the socket.
     * @param packet the bytes
     * @param more whether more follow
     * @return bytes taken
     */
    uint32_t SendPiece(Ptr<Packet> packet, bool more);

    /**
     * Take bytes that have arrived.
     * @param[out] to where they go; nullptr: nowhere
     * @param size at most so many
     * @return how many
     */
    uint32_t Take(uint8_t* to, uint32_t size);

    /**
     * Check a digest that was read.
     * @param expected what it must be
     * @param bytes its four bytes
     * @param what of header or data
     */
    void CheckDigest(uint32_t expected, const uint8_t* bytes, const std::string& what);

    Ptr<Socket> m_socket;              ///< the connection
    bool m_hasFlags;                   ///< whether Send() knows Linux's message flags
    std::deque<Ptr<Packet>> m_arrived; ///< not parsed yet
    std::array<uint8_t, NvmeTcpPdu::MAX_HEADER_SIZE + NvmeTcpPdu::DIGEST_SIZE>
        m_header{};                                          ///< being read
    uint32_t m_headerSize{0};                                ///< bytes of it
    uint32_t m_dataLeft{0};                                  ///< bytes of data to come
    uint32_t m_dataSize{0};                                  ///< of the PDU whose data come
    bool m_keepData{true};                                   ///< whether data go to m_data
    std::vector<uint8_t> m_data;                             ///< of the last PDU
    std::array<uint8_t, NvmeTcpPdu::DIGEST_SIZE> m_digest{}; ///< being read
    uint32_t m_digestLeft{0};                                ///< bytes of a data digest to come
    bool m_headerDigest{false};                              ///< whether headers have digests
    bool m_dataDigest{false};                                ///< whether data have digests
    std::string m_error;                                     ///< what is wrong
};

} // namespace ns3

#endif // NVME_TCP_STREAM_H
