// Package codec compresses as file systems do: each codec gives the bytes, or
// nearly the number of bytes, that the kernel's own would give, so that what a
// file system would save can be told without one.
//
// Deflate follows zlib decision by decision (match finder, lazy evaluation,
// block boundaries, code lengths), and btrfs in how it calls Linux' own copy of
// it, so its streams are theirs, to the byte; LZO1X-1 follows Linux as closely.
// LZJB and ZLE are fully determined by their definition. LZ4 uses the match finder
// that its definition describes. Zstandard is another implementation of the
// format, with four levels: see Zstd.
package codec

// Encoder compresses. It keeps its tables from call to call, and serves one
// goroutine.
type Encoder interface {
	// Encode appends src, compressed, to dst. It may give up as soon as the
	// result is longer than limit, and then returns more than limit bytes
	// (or as many as it had) with ok false.
	Encode(dst, src []byte, limit int) (out []byte, ok bool)
}
