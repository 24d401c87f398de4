// SPDX-License-Identifier: Apache-2.0
// What the fuzzer calls: one function per kind of foreign bytes, in the order of targets.txt. The tests call the same
// on the seeds.
#pragma once

#include <cstdlib>
#include <string_view>

namespace lockstep::fuzz {

/// Ends the program, a finding, where what a reader promises does not hold.
inline void require(bool holds) {
  if (!holds) std::abort();
}

// data_targets.cpp

/// The sum of all bytes that were read: so that no compiler leaves the reading out.
extern unsigned bytes_read;

void images(std::string_view bytes);  ///< PNG and JPEG: size, whole, and a part
/// Pixels of a PNG that is right but for them: without it no change would get past the checksums. The first 8 bytes
/// choose size, color type, depth and interlacing; the others are the rows before compression.
void png_rows(std::string_view bytes);
void tar(std::string_view bytes);  ///< a shard, and what lies in its samples
void idx(std::string_view bytes);
void voc(std::string_view bytes);
void coco(std::string_view bytes);    ///< with masks drawn
void lists(std::string_view bytes);   ///< CSV and JSON
void packed(std::string_view bytes);  ///< as if its hashes were right

// checkpoint_targets.cpp: the files of checkpoints and weights

void zip(std::string_view bytes);          ///< its members, as if their checksums were right
void pickle(std::string_view bytes);       ///< what torch.save's pickle holds
void safetensors(std::string_view bytes);  ///< a header and its tensors' places
void manifest(std::string_view bytes);     ///< manifest.json without its seal, which is added

// captioning_targets.cpp: what the captioning recipe reads

void npz(std::string_view bytes);  ///< features: the zip file, the array's header, its values
/// An array under the shape that it claims, in a zip file that is right but for that: without it no change would get
/// past the checksum. The first byte chooses stored or deflated; the others are the .npy.
void npy(std::string_view bytes);
void caption_text(std::string_view bytes);  ///< FILE#NUMBER<TAB>CAPTION a line
void caption_json(std::string_view bytes);  ///< COCO's and Karpathy's
void caption_ids(std::string_view bytes);   ///< one a line, or with paths
void vocabulary(std::string_view bytes);    ///< a word a line

// config_targets.cpp: settings, which come inside checkpoints too

void yaml(std::string_view bytes);  ///< settings, bound to fields of every type, and written again
/// Any JSON: within the limits or refused, by the text's reader and by CBOR's.
void json_text(std::string_view bytes);

// json_targets.cpp: records that programs of a job hand to each other, and leave in a run folder

void json_records(std::string_view bytes);  ///< messages between nodes, lines of log.jsonl, figures of ranks

// net_targets.cpp: what comes over the wire, from a rendezvous file, and what a person is shown of it

void store_frame(std::string_view bytes);   ///< a request's body, as the store's server reads it
void address_file(std::string_view bytes);  ///< of --dist_url file://
void shown_words(std::string_view bytes);   ///< escape characters and URLs; what is left must steer nothing

// flight_targets.cpp: a flight ring, which lies in a run folder that somebody else may have made

void ring(std::string_view bytes);  ///< numbers at places of a ring that is right but for them, and what is said of it

// page_targets.cpp: what a stranger sends to the live page and to /metrics

/// Bytes on a connection to a real server on loopback: request lines, headers, queries. libmicrohttpd itself is not
/// instrumented; what is made of its words is.
void http_request(std::string_view bytes);
/// Lines in turn as Host, Origin, Authorization and path, as the page reads them.
void page_words(std::string_view bytes);

// wire_targets.cpp: what comes over a connection between two ranks, from an end that does not know the key

void wire_hello(std::string_view bytes);  ///< the first words, as they are and as changes of right ones
/// Both ends of an opening, fed with such bytes in pieces, and with each other's words changed: neither opens.
void wire_opening(std::string_view bytes);
/// The first byte chooses plain or TLS; the others come in the place of messages or of the handshake. Nothing is
/// written but into the room of the message that is awaited.
void wire_frames(std::string_view bytes);

}  // namespace lockstep::fuzz
