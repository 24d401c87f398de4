// SPDX-License-Identifier: Apache-2.0
// The fuzzer's entry points: one function per kind of untrusted bytes, in the order of targets.txt. The tests call the
// same functions on the seeds.
#pragma once

#include <cstdlib>
#include <string_view>

namespace lockstep::fuzz {

/// Ends the program, which counts as a finding, if a reader breaks its contract.
inline void require(bool holds) {
  if (!holds) std::abort();
}

// data_targets.cpp

/// The sum of all bytes read, which keeps the compiler from removing the reads.
extern unsigned bytes_read;

void images(std::string_view bytes);  ///< PNG and JPEG: the size, the whole image, and a part of it
/// Pixels of an otherwise valid PNG: a change elsewhere would not get past the checksums. The first 8 bytes choose
/// size, color type, depth and interlacing; the others are the uncompressed rows.
void png_rows(std::string_view bytes);
void tar(std::string_view bytes);  ///< a shard, and the files of its samples
void idx(std::string_view bytes);
void voc(std::string_view bytes);
void coco(std::string_view bytes);    ///< with masks drawn
void lists(std::string_view bytes);   ///< CSV and JSON
void packed(std::string_view bytes);  ///< a packed file; its hashes are not checked

// checkpoint_targets.cpp: the files of checkpoints and weights

void zip(std::string_view bytes);          ///< a zip file; its members are read even if their checksums are wrong
void pickle(std::string_view bytes);       ///< the values in torch.save's pickle
void safetensors(std::string_view bytes);  ///< a header and its tensors' positions
void manifest(std::string_view bytes);     ///< manifest.json without its seal, which the target adds

// captioning_targets.cpp: the inputs of the captioning recipe

void npz(std::string_view bytes);  ///< features: the zip file, the array's header, its values
/// An array with a claimed shape in an otherwise valid zip file: a change elsewhere would not get past the checksum.
/// The first byte chooses stored or deflated; the others are the .npy.
void npy(std::string_view bytes);
void caption_text(std::string_view bytes);  ///< FILE#NUMBER<TAB>CAPTION per line
void caption_json(std::string_view bytes);  ///< COCO's and Karpathy's
void caption_ids(std::string_view bytes);   ///< one per line, or with paths
void vocabulary(std::string_view bytes);    ///< a word per line

// config_targets.cpp: settings, which are in checkpoints too

void yaml(std::string_view bytes);  ///< settings, bound to fields of every type and written again
/// Any JSON: the text reader and the CBOR reader must reject it if it exceeds the limits.
void json_text(std::string_view bytes);

// json_targets.cpp: records that a job's programs exchange and leave in a run folder

void json_records(std::string_view bytes);  ///< messages between nodes, lines of log.jsonl, rank metrics

// net_targets.cpp: bytes from the wire and from a rendezvous file, and text shown to a person

void store_frame(std::string_view bytes);   ///< a request's body, as the store's server reads it
void address_file(std::string_view bytes);  ///< of --dist_url file://
void shown_words(std::string_view bytes);   ///< text with escapes and URLs; its printed form must contain no terminal
                                            ///< control sequences

// flight_targets.cpp: a flight ring in a run folder, which may come from a stranger

void ring(std::string_view bytes);  ///< changes numbers in an otherwise valid ring, and diagnoses it

// page_targets.cpp: a stranger's requests to the live page and to /metrics

/// Bytes on a connection to a real server on loopback: request lines, headers, queries. libmicrohttpd itself is not
/// instrumented; its callers are.
void http_request(std::string_view bytes);
/// Lines, used in turn as Host, Origin, Authorization and path, the way the page reads them.
void page_words(std::string_view bytes);

// wire_targets.cpp: bytes on a connection between two ranks, from a peer that does not know the key

void wire_hello(std::string_view bytes);  ///< the first bytes of a connection, and mutations of valid ones
/// Feeds such bytes in pieces to both ends of a handshake, and feeds each end a mutated copy of the other's bytes:
/// neither end may accept them.
void wire_opening(std::string_view bytes);
/// The first byte chooses plain or TLS; the others replace messages or the handshake. The reader must write only into
/// the memory of the message that it is waiting for.
void wire_frames(std::string_view bytes);

}  // namespace lockstep::fuzz
