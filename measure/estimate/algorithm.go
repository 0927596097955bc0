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

	"bakeoff/base/fault"
	"bakeoff/measure/codec"
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
	Match string `json:"match"`
	// encoder makes one for a worker, whose batch is nil unless level is set:
	// then it is the program zstd that compresses.
	encoder func(b *batch) codec.Encoder
	level   int
	// header is what the file system puts before the data, in bytes.
	header int
	// careful are asked first whether there is enough to save.
	careful []func(b *batch) codec.Encoder
}

// How near an algorithm comes.
const (
	Same    = "same"    // held against the file system's own: within 2 %
	Untried = "untried" // written from its definition, not held against a file system
	Other   = "other"   // another implementation of the format: held against it, within 5 %
)

// The levels of zstd: of ZFS, of btrfs.
const (
	zfsZstd   = 19
	btrfsZstd = 15
)

// Algorithms lists what can be estimated, in order of the file system and of
// how hard it tries. With the program zstd there is every level of zstd, and
// the sizes are the reference's; it may be nil.
func Algorithms(p *Program) []Algorithm {
	all := []Algorithm{
		{FileSystem: ZFS, Name: "off", Match: Same},
		{FileSystem: ZFS, Name: "zle", Match: Same, encoder: own(codec.ZLE{})},
		{FileSystem: ZFS, Name: "lzjb", Match: Same, encoder: func(*batch) codec.Encoder { return &codec.LZJB{} }},
		{FileSystem: ZFS, Name: "lz4", Match: Untried, header: 4, encoder: lz4},
	}
	for level := 1; level <= 9; level++ {
		all = append(all, Algorithm{FileSystem: ZFS, Name: fmt.Sprintf("gzip-%d", level), Match: Same,
			encoder: func(*batch) codec.Encoder { return codec.NewDeflate(level) }})
	}
	for _, level := range levels(p, zfsZstd) {
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
			encoder: func(*batch) codec.Encoder { return codec.NewPagedDeflate(level) }})
	}
	for _, level := range levels(p, btrfsZstd) {
		a := reference(p, level, false)
		a.FileSystem, a.Name, a.Match = Btrfs, fmt.Sprintf("zstd:%d", level), Same
		if p == nil {
			a.Match = Other
		}
		all = append(all, a)
	}
	return all
}

func own(e codec.Encoder) func(*batch) codec.Encoder { return func(*batch) codec.Encoder { return e } }

func lz4(*batch) codec.Encoder { return &codec.LZ4{} }

func levels(p *Program, most int) []int {
	if p == nil {
		return codec.ZstdLevels
	}
	var all []int
	for level := 1; level <= most; level++ {
		all = append(all, level)
	}
	return all
}

// reference compresses by the program, or by what stands in for it.
func reference(p *Program, level int, stripped bool) Algorithm {
	if p != nil {
		return Algorithm{level: level, encoder: func(b *batch) codec.Encoder { return outside{b, level, stripped} }}
	}
	return Algorithm{encoder: func(*batch) codec.Encoder {
		z, _ := codec.NewZstd(level) // of ZstdLevels: there is one
		if stripped {
			return bare{z}
		}
		return z
	}}
}

// Find returns the algorithms with these names, of any file system. A name
// that is not known is an error of kind fault.Invalid; that of a level which
// cannot be estimated says so. p as for Algorithms.
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
			return nil, fault.WithFix(fault.New(fault.Unsupported, "%s: without the program zstd it cannot be told what this level gives", n),
				fmt.Sprintf("apt-get install zstd, or one of the levels %v", codec.ZstdLevels))
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
