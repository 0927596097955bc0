// Package estimate tells what a folder would take on a file system that
// compresses, without one: every record is compressed as the file system
// would, and its rules are applied – the rounding to sectors, the saving below
// which it keeps a record as it is, the place of small files.
//
// Only the data of files are counted. What a file system needs besides (names,
// inodes, block pointers) is not.
package estimate

import (
	"fmt"
	"slices"
	"strings"

	"bakeoff/codec"
	"bakeoff/fault"
)

// The file systems.
const (
	ZFS   = "zfs"
	Btrfs = "btrfs"
)

// Algorithm is a compression of one file system.
type Algorithm struct {
	FileSystem string `json:"filesystem"`
	Name       string `json:"algorithm"` // as the file system spells it
	// Match says how near it comes to the file system's own.
	Match   string `json:"match"`
	encoder func() codec.Encoder
	// header is what the file system puts before the data, in bytes.
	header int
	// careful asks whether lz4 and zstd-1 would save enough before it tries.
	careful bool
}

// How near an algorithm comes.
const (
	Same    = "same"    // held against the file system's own: within 2 %
	Untried = "untried" // written from its definition, not held against a file system
	Other   = "other"   // another implementation of the format: held against it, within 5 %
)

// Algorithms lists what can be estimated, in order of the file system and of
// how hard it tries.
func Algorithms() []Algorithm {
	all := []Algorithm{
		{FileSystem: ZFS, Name: "off", Match: Same},
		{FileSystem: ZFS, Name: "zle", Match: Same, encoder: func() codec.Encoder { return codec.ZLE{} }},
		{FileSystem: ZFS, Name: "lzjb", Match: Same, encoder: func() codec.Encoder { return &codec.LZJB{} }},
		{FileSystem: ZFS, Name: "lz4", Match: Untried, header: 4, encoder: func() codec.Encoder { return &codec.LZ4{} }},
	}
	for level := 1; level <= 9; level++ {
		all = append(all, Algorithm{FileSystem: ZFS, Name: fmt.Sprintf("gzip-%d", level), Match: Same, encoder: deflate(level)})
	}
	for _, level := range codec.ZstdLevels {
		all = append(all, Algorithm{FileSystem: ZFS, Name: fmt.Sprintf("zstd-%d", level), Match: Untried, header: 8, careful: level >= 3, encoder: zstd(level)})
	}
	all = append(all, Algorithm{FileSystem: Btrfs, Name: "off", Match: Same},
		Algorithm{FileSystem: Btrfs, Name: "lzo", Match: Same, encoder: func() codec.Encoder { return &lzoSegments{} }})
	for level := 1; level <= 9; level++ {
		all = append(all, Algorithm{FileSystem: Btrfs, Name: fmt.Sprintf("zlib:%d", level), Match: Same,
			encoder: func() codec.Encoder { return codec.NewPagedDeflate(level) }})
	}
	for _, level := range codec.ZstdLevels {
		all = append(all, Algorithm{FileSystem: Btrfs, Name: fmt.Sprintf("zstd:%d", level), Match: Other, encoder: zstd(level)})
	}
	return all
}

func deflate(level int) func() codec.Encoder {
	return func() codec.Encoder { return codec.NewDeflate(level) }
}

func zstd(level int) func() codec.Encoder {
	return func() codec.Encoder {
		z, _ := codec.NewZstd(level) // of ZstdLevels: there is one
		return z
	}
}

// Find returns the algorithms with these names, of any file system. A name
// that is not known is an error of kind fault.Invalid; that of a level which
// cannot be estimated says so.
func Find(names []string) ([]Algorithm, error) {
	all := Algorithms()
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
		if strings.HasPrefix(n, "zstd") {
			return nil, fault.WithFix(fault.New(fault.Unsupported, "%s: what this level gives cannot be told here", n),
				fmt.Sprintf("the levels %v can", codec.ZstdLevels))
		}
		var have []string
		for _, a := range all {
			if !slices.Contains(have, a.Name) {
				have = append(have, a.Name)
			}
		}
		return nil, fault.WithFix(fault.New(fault.Invalid, "there is no algorithm %q", n), "there are "+strings.Join(have, ", "))
	}
	return out, nil
}
