// Package codec compresses as file systems do: each codec gives nearly the same
// number of bytes as the kernel's, so that the saving on a file system can be
// estimated without one.
//
// Deflate finds the matches of zlib, and btrfs' variant those of Linux' copy of it;
// a library encodes the blocks, so sizes are within DeflateError. LZO1X-1 gives the
// bytes of Linux. LZJB and ZLE are fully determined by their definition. LZ4 uses the
// match finder of OpenZFS, whose tables are smaller than those of other
// implementations. Zstandard is another implementation of the format, with four
// levels: see Zstd.
package codec

// Encoder compresses. It reuses its tables from call to call. Use it from one
// goroutine.
type Encoder interface {
	// Encode appends the compressed src to dst. It may give up as soon as
	// the result exceeds limit. It then returns what it has so far, with ok
	// false.
	Encode(dst, src []byte, limit int) (out []byte, ok bool)
}
