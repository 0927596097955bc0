// Package estimate estimates the size of a folder on a compressing file system,
// without one. It compresses every record as the file system would and applies
// its rules: the rounding to sectors, the minimum saving, the storage of small
// files.
//
// It counts only file data, not other metadata of a file system (names, inodes,
// block pointers).
package estimate

import (
	"fmt"
	"strings"

	"bakeoff/base/fault"
	"bakeoff/base/lists"
	"bakeoff/measure/codec"
)

// The file systems.
const (
	ZFS   = "zfs"
	Btrfs = "btrfs"
)

// Algorithm is a compression algorithm of one file system.
type Algorithm struct {
	FileSystem string `json:"filesystem"`
	Name       string `json:"algorithm"` // as the file system spells it
	// Match says how close the result is to the file system's.
	Match string `json:"match"`
	// CodecError bounds by what share the compressed bytes differ from those of the file
	// system's own compressor; 0 if they are the same or if nothing was measured.
	CodecError float64 `json:"codec_error,omitempty"`
	// encoder makes an encoder for a worker. Its batch is nil unless level
	// is set; then the program zstd compresses.
	encoder func(b *batch) codec.Encoder
	level   int
	// header is the size of the file system's header before the data, in
	// bytes.
	header int
	// careful are quick encoders that decide first whether compression is
	// worthwhile.
	careful []func(b *batch) codec.Encoder
}

// Values of Algorithm.Match.
const (
	Same    = "same"    // compared with the file system: within 2 %
	Untried = "untried" // written from its definition, not compared with a file system
	Other   = "other"   // another implementation of the format, compared: within 5 %
)

// The highest levels of zstd on ZFS and on btrfs.
const (
	zfsZstd   = 19
	btrfsZstd = 15
)

// Algorithms lists the supported algorithms, ordered by file system and effort.
// With the program zstd, every level of zstd is supported, with the sizes of
// the reference implementation; p may be nil.
func Algorithms(p *Program) []Algorithm {
	all := []Algorithm{
		{FileSystem: ZFS, Name: "off", Match: Same},
		{FileSystem: ZFS, Name: "zle", Match: Same, encoder: sameEncoder(codec.ZLE{})},
		{FileSystem: ZFS, Name: "lzjb", Match: Same, encoder: func(*batch) codec.Encoder { return &codec.LZJB{} }},
		{FileSystem: ZFS, Name: "lz4", Match: Untried, header: 4, encoder: lz4},
	}
	for level := 1; level <= 9; level++ {
		all = append(all, Algorithm{FileSystem: ZFS, Name: fmt.Sprintf("gzip-%d", level), Match: Same,
			CodecError: codec.DeflateError, encoder: func(*batch) codec.Encoder { return codec.NewDeflate(level) }})
	}
	for _, level := range zstdLevels(p, zfsZstd) {
		a := reference(p, level, true)
		a.FileSystem, a.Name, a.Match, a.header = ZFS, fmt.Sprintf("zstd-%d", level), Untried, 8
		if level >= 3 {
			a.careful = []func(*batch) codec.Encoder{lz4, reference(p, 1, true).encoder}
		}
		all = append(all, a)
	}
	all = append(all, Algorithm{FileSystem: Btrfs, Name: "off", Match: Same},
		Algorithm{FileSystem: Btrfs, Name: "lzo", Match: Same, encoder: func(*batch) codec.Encoder { return &lzoSegments{} }})
	for level := 1; level <= 9; level++ {
		all = append(all, Algorithm{FileSystem: Btrfs, Name: fmt.Sprintf("zlib:%d", level), Match: Same,
			CodecError: codec.DeflateError, encoder: func(*batch) codec.Encoder { return codec.NewPagedDeflate(level) }})
	}
	for _, level := range zstdLevels(p, btrfsZstd) {
		a := reference(p, level, false)
		a.FileSystem, a.Name, a.Match = Btrfs, fmt.Sprintf("zstd:%d", level), Same
		if p == nil {
			a.Match = Other
		}
		all = append(all, a)
	}
	return all
}

func sameEncoder(e codec.Encoder) func(*batch) codec.Encoder {
	return func(*batch) codec.Encoder { return e }
}

func lz4(*batch) codec.Encoder { return &codec.LZ4{} }

func zstdLevels(p *Program, most int) []int {
	if p == nil {
		return codec.ZstdLevels
	}
	var all []int
	for level := 1; level <= most; level++ {
		all = append(all, level)
	}
	return all
}

// reference compresses with the program, or with a substitute for it.
func reference(p *Program, level int, stripped bool) Algorithm {
	if p != nil {
		return Algorithm{level: level, encoder: func(b *batch) codec.Encoder { return outside{b, level, stripped} }}
	}
	return Algorithm{encoder: func(*batch) codec.Encoder {
		z, _ := codec.NewZstd(level) // one of ZstdLevels
		if stripped {
			return bare{z}
		}
		return z
	}}
}

// Find returns the algorithms with these names, of any file system. An unknown
// name is an error of kind fault.Invalid, and an unsupported level one of kind
// fault.Unsupported. p is as for Algorithms.
func Find(names []string, p *Program) ([]Algorithm, error) {
	all := Algorithms(p)
	var out []Algorithm
	for _, n := range names {
		before := len(out)
		for _, a := range all {
			if a.Name == n || a.FileSystem+" "+a.Name == n || a.FileSystem == n {
				out = append(out, a)
			}
		}
		if len(out) > before {
			continue
		}
		if strings.HasPrefix(n, "zstd") && p == nil {
			return nil, fault.WithFix(fault.New(fault.Unsupported, "%s: this level requires the program zstd", n),
				fmt.Sprintf("apt-get install zstd, or one of the levels %v", codec.ZstdLevels))
		}
		have := lists.AddNew(nil, lists.Map(all, func(a Algorithm) string { return a.Name })...)
		return nil, fault.WithFix(fault.New(fault.Invalid, "unknown algorithm %q", n), "choose from "+
			strings.Join(have, ", "))
	}
	return out, nil
}
