// Package codec compresses as file systems do: each codec gives the same bytes
// as the kernel's, or nearly the same number of bytes, so that the saving on a
// file system can be estimated without one.
//
// Deflate follows zlib decision by decision (match finder, lazy evaluation,
// block boundaries, code lengths), and btrfs in how it calls Linux' copy of it,
// so its streams are identical to theirs. LZO1X-1 follows Linux as closely.
// LZJB and ZLE are fully determined by their definition. LZ4 uses the match
// finder that its definition describes. Zstandard is another implementation of
// the format, with four levels: see Zstd.
package codec

// Encoder compresses. It reuses its tables from call to call. Use it from one
// goroutine.
type Encoder interface {
	// Encode appends the compressed src to dst. It may give up as soon as
	// the result exceeds limit. It then returns what it has so far, with ok
	// false.
	Encode(dst, src []byte, limit int) (out []byte, ok bool)
}
